"""Kernels on the two cores of a logical core: what they share and how they meet."""

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from tiles import hbm, sbuf

from .harness_cores import (  # the fixtures guard every test here
    SEEDS,
    both,
    no_hang,  # noqa: F401
    no_thread_left,  # noqa: F401
    numbers,
    on_two_cores,
    report_of,
    swapped,
)

GEN3_UP = ["gen3", "gen4"]


# -- the grid --------------------------------------------------------------------------------------


def grid(a):
    """The dimensions and size of the grid, and the position in it."""
    tile = sbuf((1, 3))
    for i, value in enumerate((nl.program_ndim(), nl.num_programs(), nl.program_id())):
        nisa.memset(dst=tile[0:1, i : i + 1], value=float(value))
    out = hbm((2, 3))
    first = nl.program_id(0)
    last = first + 3 - nl.num_programs(0)  # a core that is alone fills both rows
    for row in range(first, last):
        nisa.dma_copy(dst=out[row : row + 1], src=tile)
    return out


@pytest.mark.parametrize("target", GEN3_UP)
def test_each_core_knows_its_place_in_the_grid(target):
    kernel, a = nkisim.jit(grid), numbers(4, 4)
    for launched, rows in [
        (kernel, [[0, 1, 0], [0, 1, 0]]),
        (kernel[1], [[1, 1, 0], [1, 1, 0]]),
        (kernel[2], [[1, 2, 0], [1, 2, 1]]),
    ]:
        report = nkisim.check(launched, target=target)(a)
        assert not report.findings, str(report)
        assert report.outputs.tolist() == rows


def test_a_launch_grid_is_one_or_two():
    kernel = nkisim.jit(grid)
    for wrong in (0, 3, -1, True, 2.0, "2", (1,), None):
        with pytest.raises(nkisim.NkiValidationError) as caught:
            kernel[wrong]
        assert caught.value.rule_id == "C001"


def test_a_launched_kernel_can_be_called():
    np.testing.assert_array_equal(nkisim.jit(grid)[2](numbers(4, 4)), [[1, 2, 0], [1, 2, 1]])


# -- memories --------------------------------------------------------------------------------------


@each_case("seed", [None, *SEEDS])
def test_shared_tensors_are_matched_by_order(seed):
    def kernel(a):
        core = nl.program_id(0)
        first, second = hbm((2, 8, 4)), hbm((2, 8, 4))
        nl.store(first[core], nl.load(a))
        nl.store(second[core], nl.multiply(nl.load(a), 2.0 + core))
        nisa.core_barrier(data=first, cores=(0, 1))
        nisa.core_barrier(data=second, cores=(0, 1))
        out = hbm((2, 8, 4))
        nl.store(out[core], nl.add(nl.load(first[1 - core]), nl.load(second[1 - core])))
        return out

    a = numbers(8, 4)
    got = on_two_cores(kernel, a, schedule_seed=seed)
    np.testing.assert_array_equal(got, np.stack([4 * a, 3 * a]))


@each_case("buffer", [nl.sbuf, nl.psum, nl.private_hbm], ids=str)
@each_case("seed", [None, *SEEDS])
def test_other_memories_are_each_cores_own(buffer, seed):
    def kernel(a):
        core = nl.program_id(0)
        own, tile = nl.ndarray((8, 4), dtype=nl.float32, buffer=buffer), nl.load(a)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=float(core))
        copy = nisa.dma_copy if buffer is nl.private_hbm else nisa.tensor_copy
        copy(dst=own, src=tile)
        # After this both cores have written; had they one tensor, one value would be lost.
        nisa.core_barrier(data=hbm((8, 4)), cores=(0, 1))
        back = sbuf((8, 4))
        copy(dst=back, src=own)
        return both(back)

    a = numbers(8, 4)
    got = on_two_cores(kernel, a, schedule_seed=seed)
    np.testing.assert_array_equal(got, np.stack([a, a + 1]))


@each_case("seed", [None, *SEEDS])
def test_equal_addresses_on_two_cores_are_different_memory(seed):
    def kernel(a):
        own = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.sbuf, address=(0, 64))
        nisa.dma_copy(dst=own, src=a)
        nisa.tensor_scalar(dst=own, data=own, op0=nl.multiply, operand0=float(1 + nl.program_id(0)))
        return both(own)

    a = numbers(8, 4)
    got = on_two_cores(kernel, a, schedule_seed=seed)
    np.testing.assert_array_equal(got, np.stack([a, 2 * a]))


def test_a_private_tensor_is_unwritten_on_the_other_core():
    def kernel(a):
        own = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.private_hbm)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=own, src=a)
        tile = sbuf((8, 4))
        nisa.dma_copy(dst=tile, src=own)
        return both(tile)

    report = report_of(kernel, numbers(8, 4))
    (finding,) = [f for f in report if f.rule.id == "M005"]
    assert finding.count == 1


def test_inputs_are_shared_and_updated_when_both_cores_have_ended():
    def kernel(a, b):
        rows = slice(4 * nl.program_id(0), 4 * nl.program_id(0) + 4)
        assert a.buffer == nl.shared_hbm
        nisa.core_barrier(data=a, cores=(0, 1))
        nl.store(b[rows], nl.multiply(nl.load(a[rows]), 3.0))
        return b

    a, b = numbers(8, 4), numbers(8, 4)
    before = a.copy()
    got = on_two_cores(kernel, a, b)
    np.testing.assert_array_equal(got, 3 * before)
    np.testing.assert_array_equal(b, 3 * before)
    np.testing.assert_array_equal(a, before)


def test_results_hold_what_the_other_core_wrote_last():
    def kernel(a):
        out = hbm((8, 4))
        nl.store(out[4 * nl.program_id(0) : 4 * nl.program_id(0) + 4], nl.load(a[0:4]))
        if nl.program_id(0) == 0:
            return out  # core 0 ends long before core 1
        for _ in range(50):
            tile = nl.load(out[4:8])
            nl.store(out[4:8], nl.add(tile, 1.0))
        return out

    a = numbers(8, 4)
    got = on_two_cores(kernel, a)
    np.testing.assert_array_equal(got, np.concatenate([a[0:4], a[0:4] + 50]))


def test_an_output_that_one_core_leaves_open_is_reported():
    def kernel(a):
        out = hbm((8, 4))
        if nl.program_id(0) == 0:
            nl.store(out[0:4], nl.load(a[0:4]))
        return out

    report = report_of(kernel, numbers(8, 4))
    assert report.codes == {"M006"}
    assert "4:8" in report.findings[0].seen


# -- order between cores ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [None, *SEEDS])
def test_barriers_order_many_rounds(seed):
    rounds = 6

    def kernel(a):
        core, out = nl.program_id(0), hbm((2, 8, 4))
        nl.store(out[core], nl.load(a))
        for _ in range(rounds):
            nisa.core_barrier(data=out, cores=(0, 1))
            theirs = nl.load(out[1 - core])
            nisa.core_barrier(data=out, cores=(0, 1))
            nl.store(out[core], nl.add(theirs, float(1 + core)))
        return out

    a = numbers(8, 4)
    expected = [a, a]
    for _ in range(rounds):
        expected = [expected[1] + 1, expected[0] + 2]
    got = on_two_cores(kernel, a, schedule_seed=seed)
    np.testing.assert_array_equal(got, np.stack(expected))


@pytest.mark.parametrize("engine", ["gpsimd", "vector", "scalar", "tensor", "sync"])
def test_every_engine_can_wait_at_a_barrier(engine):
    def kernel(a):
        out = hbm((2, 8, 4))
        nl.store(out[nl.program_id(0)], nl.load(a))
        nisa.core_barrier(data=out, cores=(0, 1), engine=getattr(nisa.engine, engine))
        return out

    a = numbers(8, 4)
    np.testing.assert_array_equal(on_two_cores(kernel, a), np.stack([a, a]))


@each_case("cores", [2, None, (1, 0), (0,), (0, 2), "01"])
def test_a_barrier_of_other_cores_is_refused(cores):
    def kernel(a):
        nisa.core_barrier(a, cores)
        return a

    assert report_of(kernel, numbers(8, 4)).codes == {"C009"}


@each_case("buffer", [nl.sbuf, nl.psum, nl.private_hbm], ids=str)
@each_case("seed", [None, *SEEDS])
def test_cores_meet_at_a_barrier_on_data_of_their_own(buffer, seed):
    def kernel(a):
        core, shared = nl.program_id(0), hbm((2, 8, 4))
        nl.store(shared[core], nl.add(nl.load(a), float(core)))
        own = nl.ndarray((8, 4), dtype=nl.float32, buffer=buffer)
        nisa.core_barrier(own, (0, 1), engine=nisa.engine.vector)  # one that reaches PSUM
        return shared, both(nl.load(shared[1 - core]))

    a = numbers(8, 4)
    report = report_of(kernel, a, schedule_seed=seed)
    np.testing.assert_array_equal(report.outputs[1], np.stack([a + 1, a]))
    (finding,) = report.findings
    assert (finding.rule.id, finding.severity, finding.count) == ("C035", "note", 2)


@pytest.mark.parametrize("target", GEN3_UP)
@pytest.mark.parametrize("strictness", ["simulate", "strict"])
def test_a_core_on_its_own_passes_a_barrier(target, strictness):
    def kernel(a):
        out = hbm((8, 4))
        nl.store(out, nl.load(a))
        for data in (out, a):
            nisa.core_barrier(data, (0, 1))
        return out

    a = numbers(8, 4)
    for launched in (kernel, nkisim.jit(kernel), nkisim.jit(kernel)[1]):
        simulation = nkisim.simulate(launched, target=target, strictness=strictness)
        np.testing.assert_array_equal(simulation(a), a)
        assert simulation.report.codes == {"C035"}


def unordered_read(a):
    out, shared = hbm((2, 8, 4)), hbm((8, 4))
    nl.store(shared[4 * nl.program_id(0) : 4 * nl.program_id(0) + 4], nl.load(a[0:4]))
    nl.store(out[nl.program_id(0)], nl.load(shared))
    return out


@each_case("seed", [None, *SEEDS])
def test_a_read_without_a_barrier_is_found_in_every_schedule(seed):
    # Who comes first reads what is not written yet; who comes second reads what nothing orders.
    report = report_of(unordered_read, numbers(8, 4), schedule_seed=seed)
    assert "C007" in report.codes or "M005" in report.codes
    assert not report.ok


@each_case("seed", [None, *SEEDS])
def test_a_barrier_before_the_write_does_not_order_it(seed):
    def kernel(a):
        out, shared = hbm((2, 8, 4)), hbm((8, 4))
        nisa.core_barrier(data=shared, cores=(0, 1))
        if nl.program_id(0) == 1:
            nl.store(shared, nl.load(a))  # write
        tile = nl.load(shared)  # read
        nl.store(out[nl.program_id(0)], tile)
        return out

    # Whether the read comes too early or late enough by chance, it is found at its line.
    report = report_of(kernel, numbers(8, 4), schedule_seed=seed)
    (finding,) = [f for f in report if f.rule.id == "C007"]
    assert finding.operand
    assert "core 0 reads" in finding.message
    assert "core_barrier" in finding.fix
    first = kernel.__code__.co_firstlineno
    assert finding.line == first + 5
    assert finding.notes == (f"core 1 writes it at {__file__}:{first + 4}",)


def test_a_sendrecv_orders_like_a_barrier():
    def kernel(a):
        shared, tile = hbm((8, 4)), nl.load(a)
        rows = slice(4 * nl.program_id(0), 4 * nl.program_id(0) + 4)
        nl.store(shared[rows], nl.load(a[rows]))
        swapped(tile)
        return both(nl.load(shared))

    a = numbers(8, 4)
    np.testing.assert_array_equal(on_two_cores(kernel, a), np.stack([a, a]))


def test_neighbouring_columns_are_no_clash():
    def kernel(a):
        out = hbm((8, 4))
        columns = slice(nl.program_id(0), 4, 2)
        nisa.dma_copy(dst=out[:, columns], src=a[:, columns])
        return out

    a = numbers(8, 4)
    np.testing.assert_array_equal(on_two_cores(kernel, a), a)


def test_one_shared_column_is_a_clash():
    def kernel(a):
        out = hbm((8, 4))
        first = nl.program_id(0)
        nisa.dma_copy(dst=out[:, first : first + 3], src=a[:, 0:3])
        return out

    assert report_of(kernel, numbers(8, 4)).codes == {"C008"}


@pytest.mark.parametrize("rule", ["C007", "C008", "C012"])
def test_unordered_accesses_to_an_argument_are_found(rule):
    def writes(a):
        tile = sbuf(a.shape)
        nisa.memset(dst=tile, value=float(nl.program_id(0)))
        nisa.dma_copy(dst=a, src=tile)
        return a

    def reads(a):
        tile = sbuf(a.shape)
        nisa.memset(dst=tile, value=0.0)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=a, src=tile)
        else:
            nisa.memset(dst=tile, value=1.0)
        return a, both(nl.load(a))

    def overwrites(a):
        tile = nl.load(a)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=a, src=nl.zeros(a.shape, dtype=a.dtype, buffer=nl.sbuf))
        return a, both(tile)

    kernel = {"C007": reads, "C008": writes, "C012": overwrites}[rule]
    assert rule in report_of(kernel, numbers(8, 4)).codes


@each_case("seed", [None, *SEEDS])
def test_the_same_bytes_written_twice_are_a_note(seed):
    def kernel(a):
        table = hbm((8, 4))
        nl.store(table, nl.square(nl.load(a)))
        return table, both(nl.load(table))

    a = numbers(8, 4)
    report = report_of(kernel, a, schedule_seed=seed)
    # Whoever wrote these bytes may also read them, in every order.
    assert report.codes == {"C034"}
    assert report.ok
    np.testing.assert_array_equal(report.outputs[1], np.stack([a * a, a * a]))


@each_case("seed", [None, *SEEDS])
def test_one_byte_that_differs_is_an_error(seed):
    def kernel(a):
        table, tile = hbm((8, 4)), nl.load(a)
        if nl.program_id(0) == 1:
            nisa.memset(dst=tile[0:1, 2:3], value=1000.0)
        nl.store(table, tile)
        return table

    assert report_of(kernel, numbers(8, 4), schedule_seed=seed).codes == {"C008"}


def test_without_values_two_writes_are_a_warning():
    """The bytes may be equal; a core that reads what only the other wrote is an error."""

    def kernel(a):
        table, mine = hbm((8, 4)), hbm((8, 4))
        nl.store(table, nl.load(a))
        if nl.program_id(0) == 0:
            nl.store(mine, nl.load(table))
        return table, mine

    def reads_the_others(a):
        table, mine = hbm((8, 4)), hbm((8, 4))
        if nl.program_id(0) == 0:
            nl.store(table, nl.load(a))
        else:
            nl.store(mine, nl.load(table))
        return table, mine

    found = report_of(kernel, numbers(8, 4), values=False).findings
    assert [(f.rule.id, f.severity) for f in found] == [("C008", "warning")]
    found = report_of(reads_the_others, numbers(8, 4), values=False).findings
    assert ("C007", "error") in [(f.rule.id, f.severity) for f in found]


def test_bytes_that_only_one_core_wrote_are_not_the_others_to_read():
    def kernel(a):
        table, tile = hbm((8, 4)), nl.load(a)
        if nl.program_id(0) == 0:
            nl.store(table, tile)
        else:
            nl.store(table[0:7], tile[0:7])
        return table, both(nl.load(table))

    # Row 7 is core 0's alone; what core 1 reads of it is a race, whatever happened to the others.
    assert {"C034", "C007"} <= report_of(kernel, numbers(8, 4)).codes


@each_case("seed", [None, *SEEDS])
def test_a_write_of_what_is_there_disturbs_no_reader(seed):
    def kernel(a):
        out, table, tile = hbm((8, 4)), hbm((8, 4)), nl.load(a)
        if nl.program_id(0) == 0:
            nl.store(table, tile)
        nisa.core_barrier(data=table, cores=(0, 1))
        if nl.program_id(0) == 0:
            nl.store(out, nl.load(table))
        else:
            nl.store(table, tile)
        return table, out

    report = report_of(kernel, numbers(8, 4), schedule_seed=seed)
    assert report.ok, str(report)


@each_case("seed", [None, *SEEDS])
@each_case("core", [0, 1])
def test_views_of_another_type_clash_by_their_bytes(core, seed):
    def kernel(a):
        out = hbm((8, 4))
        if nl.program_id(0) == core:
            nisa.dma_copy(dst=out[:, 0:2], src=a[:, 0:2])
        else:
            halves = out.view(nl.bfloat16)
            tile = sbuf((8, 5), nl.bfloat16)
            nisa.memset(dst=tile, value=1.0)
            nisa.dma_copy(dst=halves[:, 3:8], src=tile)
        return out

    # The third of eight 2-byte columns belongs to the second of four 4-byte columns.
    assert report_of(kernel, numbers(8, 4), schedule_seed=seed).codes == {"C008"}


@pytest.mark.parametrize("core", [0, 1])
def test_a_view_may_run_backwards_in_steps_smaller_than_an_element(core):
    def kernel(a):
        out = hbm((8, 4))
        halves = out.view(nl.bfloat16)
        if nl.program_id(0) == core:
            nisa.dma_copy(dst=out[:, 0:2], src=a[:, 0:2])
        else:
            source = a.view(nl.bfloat16).ap([[8, 8], [-1, 4]], offset=7)
            nisa.dma_copy(dst=halves.ap([[8, 8], [-1, 4]], offset=7), src=source)
        return out

    a = numbers(8, 4)
    np.testing.assert_array_equal(on_two_cores(kernel, a), a)


# -- equal pace ------------------------------------------------------------------------------------


def fill_then_halves(a):
    """Both cores clear the whole output, then write their halves; nothing orders the two."""
    out = hbm(a.shape)
    half = a.shape[0] // 2
    rows = slice(half * nl.program_id(0), half * nl.program_id(0) + half)
    nl.store(out, nl.zeros(a.shape, dtype=a.dtype, buffer=nl.sbuf))
    nl.store(out[rows], nl.load(a[rows]))
    return out


def test_cores_advance_at_equal_pace():
    a = numbers(8, 4)
    report = report_of(fill_then_halves, a)
    np.testing.assert_array_equal(report.outputs, a)
    assert not report.ok
    assert "C008" in report.codes  # that it went well is no merit of the kernel


def test_another_order_of_the_same_cores_loses_a_half():
    a = 1 + np.abs(numbers(8, 4))
    outputs = [report_of(fill_then_halves, a, schedule_seed=seed).outputs for seed in SEEDS]
    lost = [(out == 0).all(axis=1).sum() for out in outputs]
    assert set(lost) == {0, 4}


@each_case("seed", range(10))
def test_the_last_write_is_that_of_the_later_instruction(seed):
    # Each core writes one place in some of its instructions, and does other things between.
    rng = np.random.default_rng(seed)
    steps = [sorted(rng.choice(np.arange(4, 24, 2), 3, replace=False).tolist()) for _ in range(2)]

    def kernel(a):
        core, out = nl.program_id(0), hbm((1, 2))
        tile, other = sbuf((1, 2)), sbuf((1, 2))
        nisa.memset(dst=tile[0:1, 1:2], value=float(core))  # the first instruction
        for step in range(2, 24):
            if step in steps[core]:
                nisa.dma_copy(dst=out, src=tile)
            elif step + 1 in steps[core]:
                nisa.memset(dst=tile[0:1, 0:1], value=float(step + 1))
            else:
                nisa.memset(dst=other, value=0.0)
        return out

    last = max((step, core) for core in range(2) for step in steps[core])
    assert tuple(report_of(kernel, numbers(1, 2)).outputs[0]) == last


def test_a_core_that_waited_goes_on_beside_the_one_it_waited_for():
    def kernel(a):
        core, out, tile = nl.program_id(0), hbm((8, 4)), nl.load(a)
        for _ in range(40 * core):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0)
        nisa.core_barrier(data=out, cores=(0, 1))
        # Core 0 has done 40 instructions less, but time went on while it waited.
        for _ in range(10 * (1 - core)):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0)
        nisa.memset(dst=tile, value=float(core))
        nl.store(out, tile)
        return out

    np.testing.assert_array_equal(report_of(kernel, numbers(8, 4)).outputs, np.zeros((8, 4)))


# -- sendrecv --------------------------------------------------------------------------------------

TILES = [
    ((128, 512), np.float32),
    ((1, 1), np.float32),
    ((16, 3, 5), ml_dtypes.bfloat16),
    ((33, 7), np.int32),
    ((64, 9), np.uint8),
    ((8, 16), ml_dtypes.float8_e5m2),
]


@each_case("target", GEN3_UP)
@each_case(("shape", "dtype"), TILES, ids=str)
def test_sendrecv_exchanges_tiles_bit_by_bit(shape, dtype, target):
    def kernel(a):
        tile = sbuf(shape, a.dtype)
        nisa.dma_copy(dst=tile, src=a[nl.program_id(0)])
        return both(swapped(tile))

    a = numbers(2, *shape, dtype=np.float32).astype(dtype)
    got = on_two_cores(kernel, a, target=target)
    np.testing.assert_array_equal(got.view(np.uint8), a[::-1].copy().view(np.uint8))


@pytest.mark.parametrize(
    ("columns", "dtype"), [(256, np.float32), (256, ml_dtypes.bfloat16), (256, np.uint8)], ids=str
)
def test_gpsimd_carries_as_much_as_its_dma_can(columns, dtype):
    def kernel(a):
        return both(swapped(nl.load(a), dma_engine=nisa.dma_engine.gpsimd_dma))

    a = numbers(48, columns, dtype=dtype)
    np.testing.assert_array_equal(on_two_cores(kernel, a), np.stack([a, a]))
    wider = numbers(48, columns + 1, dtype=dtype)
    assert report_of(kernel, wider).codes == {"C015"}
    assert report_of(kernel, a[0:40]).codes == {"C015"}


@each_case("seed", [None, *SEEDS])
def test_exchanges_on_one_pipe_arrive_in_order(seed):
    def kernel(a):
        out = hbm((2, 5, 8, 4))
        for number in range(5):
            tile = nl.add(nl.load(a), float(10 * number + nl.program_id(0)))
            nl.store(out[nl.program_id(0), number], swapped(tile, pipe_id=number % 2))
        return out

    a = numbers(8, 4)
    got = on_two_cores(kernel, a, schedule_seed=seed)
    expected = [[a + 10 * number + 1 - core for number in range(5)] for core in range(2)]
    np.testing.assert_array_equal(got, np.array(expected))


@each_case("seed", [None, *SEEDS])
def test_a_tile_may_change_as_soon_as_it_is_sent(seed):
    def kernel(a):
        tile = nl.add(nl.load(a), float(nl.program_id(0)))
        got = swapped(tile)
        nisa.memset(dst=tile, value=-1.0)
        return both(got)

    a = numbers(8, 4)
    got = on_two_cores(kernel, a, schedule_seed=seed)
    np.testing.assert_array_equal(got, np.stack([a + 1, a]))


def test_a_tile_may_be_exchanged_in_place():
    def kernel(a):
        tile, other = nl.add(nl.load(a), float(nl.program_id(0))), 1 - nl.program_id(0)
        nisa.sendrecv(tile, tile, other, other, pipe_id=3)
        return both(tile)

    a = numbers(8, 4)
    np.testing.assert_array_equal(on_two_cores(kernel, a), np.stack([a + 1, a]))


def test_tiles_of_equal_size_and_different_shape_are_refused():
    def kernel(a):
        tile = nl.load(a if nl.program_id(0) == 0 else a.reshape((4, 8)))
        swapped(tile)
        return both(nl.load(a))

    assert report_of(kernel, numbers(8, 4)).codes == {"C014"}


def test_tiles_of_different_types_are_refused():
    def kernel(a, b):
        swapped(nl.load(a if nl.program_id(0) == 0 else b))
        return both(nl.load(a))

    report = report_of(kernel, numbers(8, 4), numbers(8, 4, dtype=np.int32))
    assert report.codes == {"C014"}
