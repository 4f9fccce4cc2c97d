"""Registers and the loops that run on them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim.isa.registers import virtual as virtual_register
from tiles import hbm, sbuf

from ..harness_cores import no_hang, no_thread_left, report_of  # noqa: F401


def run(kernel, *arrays, **options):
    return nkisim.simulate(kernel, strictness="strict", **options)(*arrays)


def one(value, dtype=np.int32):
    return np.array([[value]], dtype)


@given(st.integers(-(2**31), 2**31 - 1))
def test_load_and_store_keep_every_32_bit_integer(value):
    def kernel(x):
        register = nisa.register_alloc()
        nisa.register_load(register, nl.load(x))
        out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
        nisa.register_store(out, register)
        return out

    assert run(kernel, one(value)).item() == value


def test_values_wrap_to_32_bits():
    def kernel(x):
        register = nisa.register_alloc(2**32 + 5)
        out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
        nisa.register_store(out, register)
        return out

    assert run(kernel, one(0)).item() == 5


def test_a_register_is_loaded_from_hbm_from_a_tile_and_from_another_register():
    def kernel(x):
        from_hbm, moved = nisa.register_alloc(), nisa.register_alloc()
        nisa.register_load(from_hbm, x)
        from_tile = nisa.register_alloc(nl.load(x))
        nisa.register_move(moved, from_tile)
        out = nl.ndarray((1, 3), dtype=nl.int32, buffer=nl.shared_hbm)
        for i, register in enumerate((from_hbm, from_tile, moved)):
            nisa.register_store(out[0:1, i : i + 1], register)
        return out

    np.testing.assert_array_equal(run(kernel, one(-7)), [[-7, -7, -7]])


def doubled(x, start, stop, step):
    tile = nl.load(x)
    for _ in nl.dynamic_range(start, stop, step):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@each_case("bounds", [(0, 4, 1), (1, 6, 2), (3, 3, 1), (5, 2, 1), (-2, 2, 3)])
@each_case("in_registers", ["none", "stop", "both"])
def test_dynamic_range_runs_as_often_as_a_range(bounds, in_registers):
    def kernel(x):
        start, stop, step = bounds
        if in_registers != "none":
            stop = nisa.register_alloc(stop)
        if in_registers == "both":
            start = nisa.register_alloc(start)
        return doubled(x, start, stop, step)

    trips = len(range(*bounds))
    assert run(kernel, one(1.0, np.float32)).item() == 2.0**trips


def test_the_loop_variable_slices_tensors():
    def kernel(x, count):
        tiles = nisa.register_alloc()
        nisa.register_load(tiles, count)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.dynamic_range(tiles):
            tile = nl.load(x[i * 32 : (i + 1) * 32, 0:8])
            nl.store(out[i * 32 : (i + 1) * 32, 0:8], nl.multiply(tile, 2.0))
        return out

    x = np.arange(96 * 8, dtype=np.float32).reshape(96, 8)
    np.testing.assert_array_equal(run(kernel, x, one(3)), 2 * x)


def test_while_runs_until_the_register_is_zero():
    def kernel(x):
        left = nl.load(x)
        register, trips = nisa.register_alloc(1), nl.zeros((1, 1), dtype=nl.int32)
        while register:
            nisa.tensor_scalar(dst=trips, data=trips, op0=nl.add, operand0=1.0)
            nisa.tensor_scalar(dst=left, data=left, op0=nl.subtract, operand0=1.0)
            nisa.register_load(register, left)
        out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=trips)
        return out

    assert run(kernel, one(6)).item() == 6


def test_a_register_indexes_and_offsets_tensors():
    def kernel(x):
        row = nisa.register_alloc(2)
        by_index = nl.load(x[nl.ds(row, 1), 0:4])
        by_offset = nl.ndarray((1, 4), dtype=x.dtype, buffer=nl.sbuf)
        view = x.ap(pattern=[[4, 1], [1, 4]], scalar_offset=row, indirect_dim=0)
        nisa.dma_copy(dst=by_offset, src=view)
        out = nl.ndarray((2, 4), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out[0:1], by_index)
        nl.store(out[1:2], by_offset)
        return out

    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    np.testing.assert_array_equal(run(kernel, x), [x[2], x[2]])


@each_case(
    ("call", "rule"),
    [
        (lambda r, t: nisa.register_move(r, imm=3), "A010"),
        (lambda r, t: nisa.register_move(r, 1.5), "A025"),
        (lambda r, t: nisa.register_move(3, r), "A025"),
        (lambda r, t: nisa.register_store(t[0:1, 0:1], 3), "A025"),
        (lambda r, t: nisa.register_load(r, 3), "S059"),
        (lambda r, t: nisa.register_load(r, t[0:1, 0:2]), "S059"),
    ],
)
def test_misuse_names_the_rule(call, rule):
    def kernel(x):
        call(nisa.register_alloc(0), nl.load(x))
        return x

    with pytest.raises(nkisim.NkiValidationError) as caught:
        run(kernel, np.ones((1, 4), np.int32))
    assert caught.value.rule_id == rule


def test_outside_a_kernel_there_are_no_registers():
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nisa.register_alloc(0)
    assert caught.value.rule_id == "L063"


# -- loops that do not end -------------------------------------------------------------------------


@pytest.fixture
def short_limit(monkeypatch):
    monkeypatch.setattr(virtual_register, "WHILE_LIMIT", 200)


def reloads(x):
    """Load the register from a tile that nobody changes."""
    register, tile = nisa.register_alloc(1), nl.load(x)
    while register:
        nisa.register_load(register, tile)
    return x


def moves(x):
    register, again = nisa.register_alloc(1), nisa.register_alloc(7)
    while register:
        nisa.register_move(register, again)
    return x


def alternates(x):
    register, turn = nisa.register_alloc(1), 0
    while register:
        turn = 1 - turn
        nisa.register_move(register, nisa.register_alloc(3 + turn))
    return x


def runs_away(x):
    register, tile = nisa.register_alloc(1), nl.load(x)
    while register:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.register_load(register, tile)
    return x


ENDLESS = [reloads, moves, alternates, runs_away]


@pytest.mark.usefixtures("short_limit")
@pytest.mark.parametrize("kernel", ENDLESS, ids=lambda kernel: kernel.__name__)
def test_a_loop_that_comes_no_nearer_to_zero_is_stopped(kernel):
    for strictness in ("simulate", "strict"):
        with pytest.raises(nkisim.NkiValidationError) as caught:
            nkisim.simulate(kernel, strictness=strictness)(one(2))
        assert caught.value.rule_id == "R015"
    (finding,) = nkisim.check(kernel)(one(2)).findings
    assert finding.rule.id == "R015"
    assert finding.file == __file__


@pytest.mark.usefixtures("short_limit")
def test_a_loop_may_test_as_often_as_the_limit_says():
    """The first test is the one that the others come no nearer than."""
    turns = 0

    def kernel(x):
        nonlocal turns
        register = nisa.register_alloc(1)
        while register:
            turns += 1
        return x

    with pytest.raises(nkisim.NkiValidationError, match="tested a register 201 times"):
        nkisim.simulate(kernel)(one(2))
    assert turns == 1 + 200


@pytest.mark.usefixtures("short_limit")
@each_case("kernel", ENDLESS, ids=lambda kernel: kernel.__name__)
@each_case("seed", [None, 0, 1])
def test_both_cores_in_an_endless_loop_are_stopped(kernel, seed):
    assert report_of(kernel, one(2), schedule_seed=seed).codes == {"R015"}


@pytest.mark.usefixtures("short_limit")
@pytest.mark.parametrize("kernel", ENDLESS, ids=lambda kernel: kernel.__name__)
def test_a_core_that_spins_beside_one_that_waits_is_stopped(kernel):
    def lonely(x):
        if nl.program_id(0) == 0:
            nisa.core_barrier(data=x, cores=(0, 1))
            return x
        return kernel(x)

    assert report_of(lonely, one(2)).codes == {"R015"}


@pytest.mark.usefixtures("short_limit")
def test_a_loop_may_take_longer_than_the_limit_when_it_comes_nearer():
    def kernel(x):
        tile = nl.load(x)
        register = nisa.register_alloc(1)
        nisa.register_load(register, tile)
        while register:
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=1.0)
            nisa.register_load(register, tile)
        out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    assert run(kernel, one(900)).item() == 0


@pytest.mark.usefixtures("short_limit")
def test_many_short_loops_on_one_register_are_no_endless_one():
    def kernel(x):
        register = nisa.register_alloc(0)
        for _ in range(150):
            nisa.register_move(register, nisa.register_alloc(1))
            for left in (2, 2, 0):
                assert register
                nisa.register_move(register, nisa.register_alloc(left))
            assert not register
        return x

    assert run(kernel, one(2)).item() == 2


def test_tests_and_moves_of_registers_are_instructions():
    def clocks(x, *, loop):
        register = nisa.register_alloc(3)
        left = nisa.register_alloc(0)
        tile = nl.load(x)
        if loop:
            while register:
                nisa.register_move(register, left)
        nisa.tensor_copy(dst=tile, src=tile)
        return x

    numbers = []
    for loop in (False, True):
        seen = []
        nkisim.simulate(lambda x, loop=loop: clocks(x, loop=loop), watchers=(seen.append,))(one(2))
        numbers.append(seen[-1].number)
    assert numbers[1] - numbers[0] == 3  # two tests and a move


@each_case("seed", [None, *range(10)])
@each_case("delay", [0, 60])
def test_a_core_that_spins_on_shared_memory_sees_what_the_other_writes(seed, delay):
    def kernel(flag):
        out = hbm((2, 1), nl.int32)
        register, tile = nisa.register_alloc(1), sbuf((1, 1), nl.int32)
        if nl.program_id(0) == 1:
            while register:
                nisa.register_load(register, flag)
        else:
            for _ in range(delay):
                nisa.memset(dst=tile, value=3)
            nisa.memset(dst=tile, value=0)
            nisa.dma_copy(dst=flag, src=tile)
        nisa.memset(dst=tile, value=nl.program_id(0) + 5)
        nisa.dma_copy(dst=out[nl.program_id(0) : nl.program_id(0) + 1], src=tile)
        return out

    report = report_of(kernel, one(1), schedule_seed=seed)
    np.testing.assert_array_equal(report.outputs, [[5], [6]])
    # Nothing tells the device that the loop waits for the other core.
    assert report.codes & {"C007", "C012"}


def test_a_spin_loop_waits_as_many_instructions_as_the_other_core_needs():
    """At equal pace a loop of two instructions turns half as often as the other core has steps."""
    turns = []

    def kernel(flag):
        tile = sbuf((1, 1), nl.int32)
        nisa.memset(dst=tile, value=0)
        if nl.program_id(0) == 1:
            register = nisa.register_alloc(1)
            while register:
                turns.append(1)
                nisa.register_load(register, flag)
        else:
            for _ in range(100):
                nisa.memset(dst=tile, value=0)
            nisa.dma_copy(dst=flag, src=tile)
        return flag

    report_of(kernel, one(1))
    assert abs(len(turns) - 50) <= 1


def test_a_tile_is_in_use_until_a_register_is_loaded_from_it():
    def kernel(x, load_last):
        index = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf, address=(0, 64))
        other = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf, address=(0, 64))
        nisa.dma_copy(dst=index, src=x)
        register = nisa.register_alloc(0)
        if not load_last:
            nisa.register_load(register, index)
        nisa.memset(dst=other, value=3)
        if load_last:
            nisa.register_load(register, index)
        return x

    assert nkisim.check(kernel)(one(2), load_last=True).codes == {"M013"}
    assert nkisim.check(kernel)(one(2), load_last=False).codes == set()


@each_case(
    ("value", "held"),
    [
        (2**31 - 1, 2**31 - 1),
        (2**31, -(2**31)),
        (2**32 - 1, -1),
        (2**32, 0),
        (3 * 2**31, -(2**31)),
        (-(2**31), -(2**31)),
        (-(2**31) - 1, 2**31 - 1),
        (-(2**33) - 5, -5),
    ],
)
def test_a_register_holds_a_signed_word(value, held):
    register = nisa.VirtualRegister(value)
    assert register.read() == held
    assert repr(register) == f"VirtualRegister({held})"
