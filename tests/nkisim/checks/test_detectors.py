"""What the detectors must not say: legal kernels near the patterns that they look for."""

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from kernels import bf16, f32
from tiles import stored


def codes(kernel, *arguments, **options):
    """The rules that a check finds."""
    return nkisim.check(kernel, source=False, **options)(*arguments).codes


# -- lost work -------------------------------------------------------------------------------------


def test_the_last_turn_of_a_loop_may_prepare_one_that_does_not_come():
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        slot = nl.load(a[0])
        for i in range(4):
            nl.store(out[i], slot)
            nisa.dma_copy(dst=slot, src=a[min(i + 1, 3)])
        return out

    assert codes(kernel, f32(4, 8, 16)) == set()


def _carry(dst, src):
    nisa.tensor_copy(dst=dst, src=src)


@pytest.mark.parametrize(("columns", "rows"), [(8, 4), (16, 4), (8, 8)])
def test_a_loop_with_one_turn_may_carry_its_state_on(columns, rows):
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
        for r in range(0, rows, 4):
            state = nl.zeros((4, 1), nl.float32, nl.sbuf)
            for c in range(0, columns, 8):
                tile = nl.load(a[r : r + 4, c : c + 8])
                nisa.tensor_scalar(tile, tile, nl.add, state)
                nl.store(out[r : r + 4, c : c + 8], tile)
                _carry(state, tile[:, 7:8])
        return out

    assert codes(kernel, f32(rows, columns)) == set()


def test_a_result_beside_one_that_is_read_is_not_lost():
    def kernel(a):
        tile = nl.load(a)
        unread, total = (nl.ndarray((8, n), nl.float32, nl.sbuf) for n in (16, 1))
        nisa.tensor_scalar_reduce(unread, tile, nl.multiply, 2.0, nl.add, total)
        return stored(total)

    assert codes(kernel, f32(8, 16)) == set()


def test_a_step_of_an_accumulation_on_the_engine_is_not_lost():
    def kernel(a):
        tile = nl.load(a)
        sink, total = (nl.ndarray((8, n), nl.float32, nl.sbuf) for n in (8, 1))
        add, command = nl.add, nisa.reduce_cmd
        nisa.activation(sink, nl.exp, tile[:, 0:8], None, 1.0, add, None, command.reset_reduce)
        nisa.activation(sink, nl.exp, tile[:, 8:16], None, 1.0, add, total, command.reduce)
        return stored(total)

    assert codes(kernel, f32(8, 16)) == set()


def test_a_tile_whose_row_is_used_as_an_offset_is_read():
    def kernel(a, rows):
        index = nl.load(rows)
        tile = nl.ndarray((4, 16), nl.float32, nl.sbuf)
        nisa.dma_copy(dst=tile, src=a.ap([[16, 4], [1, 16]], vector_offset=index))
        return stored(tile)

    rows = np.array([[3], [0], [2], [1]], np.uint32)
    assert codes(kernel, f32(8, 16), rows) == set()
    assert codes(kernel, f32(8, 16), rows, values=False) == set()


def test_what_a_register_loads_is_read():
    def kernel(a, row):
        tile = nl.load(row)
        register = nisa.register_alloc(0)
        nisa.register_load(register, tile)
        out = nl.ndarray((1, 16), nl.float32, nl.shared_hbm)
        nisa.dma_copy(dst=out, src=a.ap([[16, 1], [1, 16]], scalar_offset=register, indirect_dim=0))
        return out

    assert codes(kernel, f32(8, 16), np.array([[2]], np.int32)) == set()


def test_what_is_printed_is_read(capsys):
    def kernel(a):
        tile, square = nl.load(a), nl.ndarray((8, 16), nl.float32, nl.sbuf)
        nisa.tensor_tensor(square, tile, tile, nl.multiply)
        nl.device_print("square", square)
        return stored(tile)

    assert codes(kernel, f32(8, 16)) == set()
    assert "square" in capsys.readouterr().out


def test_a_copy_may_be_patched():
    def kernel(a, row):
        out = nl.ndarray(a.shape, nl.float32, nl.shared_hbm)
        nisa.dma_copy(dst=out, src=a)
        nisa.dma_copy(dst=out[2:3], src=row)
        return out

    assert codes(kernel, f32(8, 16), 2 * f32(1, 16)) == set()


def test_the_same_bytes_may_be_written_twice():
    def kernel(a):
        out = nl.ndarray((8, 24), nl.float32, nl.shared_hbm)
        nl.store(out[:, 0:16], nl.load(a[:, 0:16]))
        nl.store(out[:, 8:24], nl.load(a[:, 8:24]))
        return out

    assert codes(kernel, f32(8, 24)) == set()


def test_a_predicated_copy_may_change_parts_of_what_nobody_read():
    def kernel(a, b, mask):
        tile, other, chosen = nl.load(a), nl.load(b), nl.load(mask)
        nisa.tensor_copy_predicated(dst=tile, src=other, predicate=chosen)
        return stored(tile)

    mask = (f32(8, 16) > 0).astype(np.uint8)
    assert codes(kernel, f32(8, 16), 2 * f32(8, 16), mask) == set()


SECONDS = {
    "memset": lambda dst, tile: nisa.memset(dst=dst, value=7.0),
    "copy": lambda dst, tile: nisa.tensor_copy(dst=dst, src=tile),
    "activation": lambda dst, tile: nisa.activation(dst=dst, op=nl.tanh, data=tile),
}


def _written_twice(second, buffer, reads):
    def kernel(a):
        tile = nl.load(a)
        result = nl.ndarray(a.shape, dtype=nl.float32, buffer=buffer)
        nisa.activation(dst=result, op=nl.exp, data=tile)
        if reads:
            nisa.tensor_tensor(dst=tile, data1=tile, data2=result, op=nl.add)
        second(result, tile)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=result, op=nl.add)
        return stored(tile)

    return kernel


@each_case("second", list(SECONDS.values()), ids=list(SECONDS))
@each_case("buffer", [nl.sbuf, nl.psum])
@each_case("value", [None, 0.0, 1.0])
def test_a_result_is_lost_if_it_is_overwritten_unread(value, buffer, second):
    """Whatever the inputs hold: a result that is the same everywhere is a result."""
    a = f32(8, 16) if value is None else np.full((8, 16), value, np.float32)
    assert codes(_written_twice(second, buffer, reads=False), a) == {"W002"}
    assert codes(_written_twice(second, buffer, reads=True), a) == set()


@each_case("value", [None, 0.0, 1.0])
@each_case("buffer", [nl.sbuf, nl.psum])
def test_a_beginning_may_be_overwritten(buffer, value):
    """Fills, copies of fills, zeros that are computed, and what is overwritten in part."""

    def kernel(a):
        tile = nl.load(a)
        fill = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=fill, value=3.0)
        total = nl.zeros(a.shape, dtype=nl.float32, buffer=nl.sbuf)
        for begin in range(4):
            result = nl.ndarray(a.shape, dtype=nl.float32, buffer=buffer)
            if begin == 0:
                nisa.memset(dst=result, value=1.0)
            if begin == 1:
                nisa.tensor_copy(dst=result, src=fill)
            if begin == 2:
                nisa.tensor_scalar(dst=result, data=tile, op0=nl.multiply, operand0=0.0)
            if begin == 3:
                nisa.activation(dst=result, op=nl.exp, data=tile)
                nisa.memset(dst=result[:, 0:8], value=0.0)
            else:
                nisa.activation(dst=result, op=nl.exp, data=tile)
            nisa.tensor_tensor(dst=total, data1=total, data2=result, op=nl.add)
        return stored(total)

    a = f32(8, 16) if value is None else np.full((8, 16), value, np.float32)
    assert codes(kernel, a) == set()


def test_sums_of_products_go_on():
    def kernel(a, b):
        acc = nl.ndarray((16, 16), dtype=nl.float32, buffer=nl.psum)
        total = nl.zeros((16, 16), dtype=nl.float32, buffer=nl.sbuf)
        for _ in range(3):
            nisa.memset(dst=acc, value=0.0)
            for k in range(2):
                nisa.nc_matmul(acc, nl.load(a[k]), nl.load(b[k]), accumulate=(k > 0))
            nisa.tensor_tensor(dst=total, data1=total, data2=acc, op=nl.add)
        return stored(total)

    for values in (f32(2, 8, 16), np.ones((2, 8, 16), np.float32)):
        assert codes(kernel, values, values) == set()


def test_one_core_may_read_what_the_other_wrote():
    @nkisim.jit
    def kernel(a):
        core = nl.program_id(0)
        half = nl.ndarray((2, 8, 16), nl.float32, nl.shared_hbm)
        out = nl.ndarray((2, 8, 16), nl.float32, nl.shared_hbm)
        nl.store(half[core], nl.load(a[core]))
        nisa.core_barrier(data=half, cores=(0, 1))
        nl.store(out[core], nl.load(half[1 - core]))
        return out

    assert codes(kernel[2], f32(2, 8, 16), target="gen3") == set()


def test_outputs_of_every_rank_are_returned():
    def kernel(a):
        return stored(nl.load(a))

    assert codes(kernel, [[f32(8, 16)], [f32(8, 16)]], ranks=2) == set()


def test_a_private_tensor_that_nobody_reads_is_lost():
    def kernel(a):
        tile = nl.load(a)
        spill = nl.ndarray((8, 16), nl.float32, nl.private_hbm)
        nl.store(spill, tile)
        return stored(tile)

    assert codes(kernel, f32(8, 16)) == {"W004"}


def test_a_sum_that_nobody_reads_is_lost():
    def kernel(a, b):
        acc = nl.ndarray((16, 32), nl.float32, nl.psum)
        left, right = nl.load(a), nl.load(b)
        nisa.nc_matmul(acc, left, right)
        return stored(right)

    assert codes(kernel, bf16(8, 16), bf16(8, 32)) == {"W004"}


def test_both_matmuls_of_a_lost_sum_are_named_with_their_turns():
    def kernel(a, b):
        acc = nl.ndarray((16, 32), nl.float32, nl.psum)
        for k in range(2):
            nisa.nc_matmul(acc, nl.load(a[k]), nl.load(b[k]), accumulate=False)
        return stored(acc)

    report = nkisim.check(kernel)(bf16(2, 8, 16), bf16(2, 8, 32))
    (finding,) = report.findings
    assert finding.rule.id == "W001"
    assert dict(finding.place.loops) == {"k": 1}
    assert any("(k=0)" in note for note in finding.notes)


def test_a_sum_may_be_begun_again_after_it_was_read():
    def kernel(a, b):
        acc = nl.ndarray((16, 32), nl.float32, nl.psum)
        out = nl.ndarray((2, 16, 32), nl.float32, nl.shared_hbm)
        for i in range(2):
            nisa.nc_matmul(acc, nl.load(a[i]), nl.load(b[i]), accumulate=False)
            tile = nl.ndarray((16, 32), nl.float32, nl.sbuf)
            nisa.tensor_copy(tile, acc)
            nl.store(out[i], tile)
        return out

    assert codes(kernel, bf16(2, 8, 16), bf16(2, 8, 32)) == set()


# -- inputs ----------------------------------------------------------------------------------------


def test_an_input_for_another_path_is_no_finding():
    def kernel(a, c, beta):
        tile = nl.load(a)
        if beta != 0:
            nisa.tensor_tensor(tile, tile, nl.load(c), nl.add)
        return stored(tile)

    assert codes(kernel, f32(8, 16), f32(8, 16), 0) == set()


@pytest.mark.parametrize("columns", [32, 40, 48])
def test_the_head_of_an_input_in_one_piece_is_no_tail_left_out(columns):
    def kernel(a):
        return stored(nl.load(a[:, 0:32]))

    assert codes(kernel, f32(8, columns)) == set()


def test_steps_that_the_kernel_chooses_may_stop_before_the_end():
    def kernel(a, chosen):
        out = nl.ndarray((8, 8), a.dtype, nl.shared_hbm)
        total = nl.zeros((8, 8), nl.float32, nl.sbuf)
        for step in chosen:
            nisa.tensor_tensor(total, total, nl.load(a[:, 8 * step : 8 * step + 8]), nl.add)
        nl.store(out, total)
        return out

    assert codes(kernel, f32(8, 30), (0, 1, 2)) == set()
    assert codes(kernel, f32(8, 32), (0, 1, 2)) == set()


def test_a_triangle_of_an_input_is_no_tail_left_out():
    def kernel(a):
        out = nl.zeros((32, 32), nl.float32, nl.shared_hbm)
        for i in range(0, 32, 8):
            nl.store(out[i : i + 8, 0 : i + 8], nl.load(a[i : i + 8, 0 : i + 8]))
        return out

    assert codes(kernel, f32(32, 32)) == set()


def test_an_input_that_is_written_and_returned_may_stay_unread():
    def kernel(a, cache):
        nl.store(cache, nl.load(a))
        return cache

    assert codes(kernel, f32(8, 16), f32(8, 16)) == set()


# -- races -----------------------------------------------------------------------------------------


def test_sums_in_psum_may_go_over_an_affine_range():
    def kernel(a, b):
        acc = nl.ndarray((16, 32), nl.float32, nl.psum)
        for k in nl.affine_range(4):
            nisa.nc_matmul(acc, nl.load(a[k]), nl.load(b[k]), accumulate=(k > 0))
        return stored(acc)

    assert codes(kernel, bf16(4, 8, 16), bf16(4, 8, 32)) == set()


def test_iterations_may_share_what_was_written_before_the_loop():
    def kernel(a):
        out = nl.ndarray((4, 8, 16), nl.float32, nl.shared_hbm)
        tile = nl.load(a)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        columns = nl.load(a)
        for i in nl.affine_range(4):
            part = columns[:, 4 * i : 4 * i + 4]
            nisa.tensor_tensor(part, part, tile[:, 4 * i : 4 * i + 4], nl.add)
            nl.store(out[i], tile)
        return out, stored(columns)

    assert codes(kernel, f32(8, 16)) == set()


def test_a_loop_that_breaks_off_is_left():
    def kernel(a):
        total = nl.load(a)
        for i in nl.affine_range(4):
            nisa.activation(dst=total, op=nl.exp, data=total)
            if i == 0:
                break
        for _ in nl.affine_range(1):
            nisa.activation(dst=total, op=nl.exp, data=total)
        return stored(total)

    assert codes(kernel, f32(8, 16)) == set()


def test_an_iteration_may_read_its_own_writes_in_a_loop_inside():
    def kernel(a):
        out = nl.ndarray((4, 8, 16), nl.float32, nl.shared_hbm)
        for i in nl.affine_range(4):
            tile = nl.load(a)
            for _ in range(2):
                nisa.tensor_scalar(tile, tile, nl.multiply, 2.0 + i)
            nl.store(out[i], tile)
        return out

    assert codes(kernel, f32(8, 16)) == set()


def test_affine_range_counts_as_a_range():
    def kernel(a):
        steps = nl.affine_range(1, 7, 2)
        assert (len(steps), steps[1], list(steps)) == (3, 3, [1, 3, 5])
        return stored(nl.load(a))

    assert codes(kernel, f32(8, 16)) == set()


def test_a_slot_may_be_used_by_one_tensor_after_the_other():
    def kernel(a):
        out = nl.ndarray((2, 8, 16), nl.float32, nl.shared_hbm)
        for i in range(2):
            slot = nl.ndarray((8, 16), nl.float32, nl.sbuf, address=(0, 0))
            nisa.dma_copy(dst=slot, src=a[i])
            nisa.dma_copy(dst=out[i], src=slot)
        return out

    assert codes(kernel, f32(2, 8, 16)) == set()


# -- size ------------------------------------------------------------------------------------------


def _repeated(a):
    tile = nl.load(a)
    for _ in range(30):
        nisa.tensor_scalar(tile, tile, nl.multiply, 1.5)
    return stored(tile)


@pytest.mark.parametrize(("most", "severities"), [(30, []), (29, ["warning"]), (1, ["error"])])
def test_instructions_are_counted_by_engine(most, severities):
    report = nkisim.check(_repeated, most_instructions=most)(f32(8, 16))
    assert [f.severity for f in report] == severities


def test_a_device_loop_counts_once_and_its_remainder_does_not_count():
    def kernel(a):
        tile = nl.load(a)
        for _ in nl.dynamic_range(30):
            nisa.tensor_scalar(tile, tile, nl.multiply, 1.5)
        nisa.tensor_scalar(tile, tile, nl.multiply, 1.5)
        return stored(tile)

    assert codes(kernel, f32(8, 16), most_instructions=2) == set()
    assert codes(kernel, f32(8, 16), most_instructions=1) == {"L039"}


def test_the_loop_around_the_call_of_a_helper_is_named():
    report = nkisim.check(_in_helper, most_instructions=100)(f32(8, 16))
    (finding,) = report.findings
    assert finding.place.text.startswith("for step in range(200)")
    assert "nl.dynamic_range" in finding.fix


def _scaled(tile):
    nisa.tensor_scalar(tile, tile, nl.multiply, 1.001)


def _in_helper(a):
    tile = nl.load(a)
    for step in range(200):
        assert step >= 0
        _scaled(tile)
    return stored(tile)


# -- options ---------------------------------------------------------------------------------------


def test_detectors_are_chosen_by_name():
    def kernel(a):
        tile = nl.load(a)
        for _ in nl.affine_range(2):
            nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.activation(dst=tile, op=nl.square, data=tile)
        return stored(nl.load(a))

    assert codes(kernel, f32(8, 16)) == {"R003", "W004"}
    assert codes(kernel, f32(8, 16), detect=("races",)) == {"R003"}
    assert codes(kernel, f32(8, 16), detect=("lostwork",)) == {"W004"}
    assert codes(kernel, f32(8, 16), detect=()) == set()
    simulation = nkisim.simulate(kernel)
    simulation(f32(8, 16))
    assert not simulation.report.findings
    with pytest.raises(ValueError, match="detect: got 'race', accepted: arguments, lostwork"):
        nkisim.check(kernel, detect=("race",))


def test_results_are_the_same_with_and_without_detectors():
    def kernel(a):
        tile = nl.load(a)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        return stored(tile)

    a = f32(128, 512)
    assert np.array_equal(nkisim.check(kernel)(a).outputs, nkisim.simulate(kernel)(a))
