"""Loops of the device: the index by version, body functions, and the uses that are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from drawn import examples
from each_case import each_case
from nkisim.isa.registers import virtual as virtual_register
from releases import VERSIONS

WITH_BODIES = ("0.6.0", "0.7.0")
WITHOUT = tuple(v for v in VERSIONS if v not in WITH_BODIES)
REGISTER_INDEX = VERSIONS[1:4]
ROW = [[8, 1], [1, 8]]


def run(kernel, *arrays, nki="0.6.0", **options):
    return nkisim.simulate(kernel, strictness="strict", nki=nki, **options)(*arrays)


def codes(kernel, *arrays, nki="0.6.0", **options):
    """Rules that a run breaks, without those that only the source shows."""
    return nkisim.check(kernel, source=False, nki=nki, lnc=1, **options)(*arrays).codes


def one(value):
    return np.array([[value]], np.int32)


def rows(n):
    return np.arange(8 * n, dtype=np.float32).reshape(n, 8)


def zeroed(like):
    """A result in HBM that holds zeros."""
    out = nl.ndarray(like.shape, dtype=like.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=nl.zeros(like.shape, dtype=like.dtype, buffer=nl.sbuf))
    return out


def loaded(source):
    register = nisa.register_alloc()
    nisa.register_load(register, source)
    return register


def copied_rows(data, lower, upper, by):
    """Copies the rows of a loop from ``lower`` to ``upper``, both loaded, into zeros."""
    out = zeroed(data)
    row = nl.ndarray((1, 8), dtype=data.dtype, buffer=nl.sbuf)

    def body(i):
        nisa.dma_copy(dst=row, src=data.ap(ROW, scalar_offset=i, indirect_dim=0))
        nisa.dma_copy(dst=out.ap(ROW, scalar_offset=i, indirect_dim=0), src=row)

    nl.fori_loop(loaded(lower), loaded(upper), body, step=by)
    return out


# -- fori_loop -------------------------------------------------------------------------------------


@examples(30)
@given(lower=st.integers(-3, 9), upper=st.integers(-3, 9), step=st.integers(1, 4))
def test_fori_loop_has_the_indices_of_range(lower, upper, step):
    met = []

    def kernel(x):
        nl.fori_loop(lower, upper, lambda i: met.append(i.read()), step)
        return x

    run(kernel, one(0))
    assert met == list(range(lower, upper, step))


@each_case("lower, upper, step", [(0, 5, 1), (1, 5, 2), (2, 2, 1), (4, 1, 1), (0, 0, 3)])
def test_rows_are_copied_by_the_index_as_offset(lower, upper, step):
    x = rows(5)
    wanted = np.zeros_like(x)
    for i in range(lower, upper, step):
        wanted[i] = x[i]
    np.testing.assert_array_equal(run(copied_rows, x, one(lower), one(upper), step), wanted)


def test_loops_with_bodies_nest():
    def kernel(x):
        total = nl.zeros((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        tile = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)

        def outer(i):
            def inner(j):
                nisa.register_store(tile, j)
                nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)

            nl.fori_loop(0, i, inner)

        nl.fori_loop(0, 5, outer)
        out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=total)
        return out

    assert run(kernel, one(0)).item() == sum(j for i in range(5) for j in range(i))


@each_case("nki", WITHOUT)
def test_versions_before_have_no_body_functions(nki):
    def kernel(x):
        nl.fori_loop(0, 1, lambda i: None)
        return x

    report = nkisim.check(kernel, source=False, nki=nki)(one(0))
    assert report.codes == {"A025"}
    assert "0.6.0" in report.findings[0].fix


REFUSED = {
    "a step of 0": ("L034", lambda: nl.fori_loop(0, 4, nothing, 0)),
    "a negative step": ("L034", lambda: nl.fori_loop(4, 0, nothing, -1)),
    "a register as step": ("L034", lambda: nl.fori_loop(0, 4, nothing, nisa.register_alloc(1))),
    "a float as bound": ("A025", lambda: nl.fori_loop(0, 2.0, nothing)),
    "no function": ("A025", lambda: nl.fori_loop(0, 2, None)),
    "a body that returns": ("L070", lambda: nl.fori_loop(0, 2, lambda i: i)),
    "a body that returns 0": ("L070", lambda: nl.fori_loop(0, 2, lambda i: 0)),
    "an integer as condition": ("A025", lambda: nl.while_loop(3, lambda r: r)),
    "a body without a condition": ("L070", lambda: nl.while_loop(nisa.register_alloc(1), nothing)),
    "a written index": ("L035", lambda: nl.fori_loop(0, 2, lambda i: nisa.register_move(i, 0))),
    "an index in a branch": ("L031", lambda: nl.fori_loop(0, 2, lambda i: 1 if i else 2)),
    "an index in arithmetic": ("L033", lambda: nl.fori_loop(0, 2, lambda i: none(8 * i))),
    "a register in arithmetic": ("L033", lambda: nisa.register_alloc(2) - 1),
    "a compared register": ("L031", lambda: nisa.register_alloc(2) == 2),
    "an unequal register": ("L031", lambda: nisa.register_alloc(2) != 2),
    "an index as step": ("L034", lambda: [nl.fori_loop(0, 2, nothing, i) for i in two_indices()]),
    "a register as integer": ("L031", lambda: int(nisa.register_alloc(2))),
    "a register in range": ("L031", lambda: list(range(nisa.register_alloc(2)))),
    "a register and a condition": ("L031", lambda: nisa.register_alloc(2) and True),
}


def two_indices():
    return nl.dynamic_range(1, 3)


def none(_):
    """Nothing, whatever is passed."""


def nothing(i):
    """The body of a loop that does nothing."""


@each_case("rule, call", REFUSED.values(), ids=list(REFUSED))
def test_what_the_loops_refuse(rule, call):
    def kernel(x):
        call()
        return x

    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(kernel, nki="0.6.0")(one(0))
    assert caught.value.rule_id == rule
    assert caught.value.finding.fix
    if rule in ("A025", "L031", "L033", "L070"):
        assert isinstance(caught.value, TypeError)


@each_case("loop", ["fori_loop", "while_loop"])
def test_loops_are_refused_in_a_region_and_may_have_one(loop):
    def kernel(x, around):
        def body(register):
            with nl.no_reorder():
                nisa.register_move(register if loop == "while_loop" else nisa.register_alloc(), 0)
            return register if loop == "while_loop" else None

        def call():
            if loop == "while_loop":
                nl.while_loop(nisa.register_alloc(1), body)
            else:
                nl.fori_loop(0, 2, body)

        if around:
            with nl.no_reorder():
                call()
        else:
            call()
        return x

    assert codes(kernel, one(0), True) == {"L036"}
    assert codes(kernel, one(0), False) == set()


# -- while_loop ------------------------------------------------------------------------------------


def sum_while(value, count):
    """Adds ``value`` to itself ``count`` times, counting down in a tile."""
    acc = nl.zeros((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    left = nl.load(count)

    def body(r):
        nisa.tensor_tensor(dst=acc, data1=acc, data2=nl.load(value), op=nl.add)
        nisa.tensor_scalar(dst=left, data=left, op0=nl.subtract, operand0=1)
        nisa.register_load(r, left)
        return r

    nl.while_loop(loaded(left), body)
    out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=acc)
    return out


@each_case("count", [0, 1, 7])
def test_while_loop_runs_until_its_body_returns_0(count):
    assert run(sum_while, one(3), one(count)).item() == 3 * count


def test_the_condition_is_passed_by_value():
    """What a body writes to its register is the condition only if it returns that register."""
    met = []

    def kernel(x):
        first, last = nisa.register_alloc(2), nisa.register_alloc(0)

        def body(r):
            met.append(r.read())
            nisa.register_move(r, 7)
            return last

        nl.while_loop(first, body)
        met.append(first.read())
        return x

    run(kernel, one(0))
    assert met == [2, 2]


def test_a_while_loop_that_comes_no_nearer_to_0_is_endless(monkeypatch):
    monkeypatch.setattr(virtual_register, "WHILE_LIMIT", 50)

    def kernel(x):
        nl.while_loop(loaded(x), lambda r: r)
        return x

    assert codes(kernel, one(3)) == {"R015"}
    assert codes(kernel, one(0)) == set()


@each_case("loop", ["fori_loop", "while_loop"])
def test_a_run_without_values_has_the_stated_iterations(loop):
    met = []

    def kernel(count):
        def body(register):
            met.append(register)
            nisa.register_load(nisa.register_alloc(), count)
            return register if loop == "while_loop" else None

        if loop == "while_loop":
            nl.while_loop(loaded(count), body)
        else:
            nl.fori_loop(0, loaded(count), body)
        return count

    options = {"nki": "0.6.0", "values": False, "trip_count": 4, "source": False}
    assert nkisim.check(kernel, detect=("size",), lnc=1, **options)(one(9)).codes == set()
    assert len(met) == 4


# -- tensors of a body -----------------------------------------------------------------------------


def escaping(x, outside, across):
    """Uses a tile of a loop's body after the loop, or in the next iteration."""
    kept = [nl.load(x)]

    def body(i):
        tile = nl.load(x)
        if across:
            nisa.tensor_copy(dst=tile, src=kept[-1])
        kept.append(tile)
        nisa.tensor_copy(dst=kept[0], src=tile)

    nl.fori_loop(0, 2, body)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=kept[-1 if outside else 0])
    return out


@each_case(
    "outside, across, wanted",
    [(False, False, set()), (True, False, {"L037"}), (False, True, {"L037"})],
)
def test_tensors_that_a_body_makes_are_not_used_outside_of_it(outside, across, wanted):
    found = codes(escaping, one(1), outside, across)
    assert {code for code in found if code[0] in "LM"} == wanted, found


def test_a_tensor_that_a_body_makes_is_not_returned():
    def kernel(x):
        made = []

        def body(i):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out, src=x)
            made.append(out)

        nl.fori_loop(0, 1, body)
        return made[0]

    assert "L037" in codes(kernel, one(1))


# -- dynamic_range ---------------------------------------------------------------------------------


def scaled_rows(data, count):
    """Copies rows at the index of ``nl.dynamic_range``, as offset and in arithmetic."""
    out = zeroed(data)
    for i in nl.dynamic_range(loaded(count)):
        row = nl.ndarray((1, 8), dtype=data.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=row, src=data.ap(ROW, scalar_offset=i, indirect_dim=0))
        nisa.dma_copy(dst=out[i + 1 : i + 2], src=row)
    return out


@each_case("nki", REGISTER_INDEX)
def test_the_index_is_an_offset_and_a_number(nki):
    x = rows(4)
    wanted = np.zeros_like(x)
    wanted[1:4] = x[0:3]
    np.testing.assert_array_equal(run(scaled_rows, x, one(3), nki=nki), wanted)


def writes_index(x, load):
    for i in nl.dynamic_range(2):
        if load:
            nisa.register_load(i, x)
        else:
            nisa.register_move(i, 5)
    return x


@each_case("nki, load", [(nki, load) for nki in REGISTER_INDEX for load in (True, False)])
def test_the_index_cannot_be_written(nki, load):
    """An AssertionError, as NKI raises."""
    with pytest.raises(AssertionError, match="writes to the index of a loop") as caught:
        nkisim.simulate(writes_index, nki=nki)(one(0), load)
    assert caught.value.rule_id == "L035"


def test_the_index_of_the_oldest_version_is_an_integer():
    met = []

    def kernel(x):
        for i in nl.dynamic_range(nisa.register_alloc(2)):
            met.append(type(i))
        return x

    run(kernel, one(0), nki="0.3.0")
    assert met == [int, int]


# -- registers in Python ---------------------------------------------------------------------------


def counts_down(x):
    register = loaded(x)
    tile = nl.load(x)
    while register:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=1)
        nisa.register_load(register, tile)
    out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def branches(x):
    register = loaded(x)
    tile = nl.load(x)
    if register:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=int(register))
    out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@each_case("nki", VERSIONS[:4])
def test_while_on_a_register_runs_before_0_7(nki):
    assert run(counts_down, one(4), nki=nki).item() == 0


@each_case("nki", WITHOUT)
def test_a_branch_on_a_register_runs_where_nothing_traces_it(nki):
    assert run(branches, one(4), nki=nki).item() == 8


def test_a_branch_on_a_register_raises_where_the_kernel_is_traced():
    with pytest.raises(TypeError, match="decides a branch"):
        nkisim.simulate(branches, nki="0.6.0")(one(4))


def test_registers_have_a_state_and_may_be_frozen():
    register = nisa.VirtualRegister(2**32 + 5, frozen=True)
    assert (register.state, register.frozen) == (5, True)
    empty = nisa.VirtualRegister()
    assert (empty.state, empty.frozen) == (None, False)


# -- loops of no iteration -------------------------------------------------------------------------


def filled_by(loop, data, count, before):
    """A result that only the body of a loop writes, or zeros before it."""
    out = zeroed(data) if before else nl.ndarray(data.shape, dtype=data.dtype, buffer=nl.shared_hbm)
    number = loaded(count)

    def body(register):
        nisa.dma_copy(dst=out, src=data)
        if loop == "while_loop":
            nisa.register_move(register, 0)
        return register if loop == "while_loop" else None

    if loop == "while_loop":
        nl.while_loop(number, body)
    else:
        nl.fori_loop(0, number, body)
    return out


@each_case("loop", ["fori_loop", "while_loop"])
def test_a_count_from_memory_may_be_0(loop):
    options = {"nki": "0.6.0", "source": False, "lnc": 1}
    report = nkisim.check(filled_by, **options)(loop, rows(2), one(1), False)
    assert report.codes == {"R017"}
    assert report.findings[0].instruction == f"nl.{loop}"
    assert "R017" not in codes(filled_by, loop, rows(2), one(1), True)


@each_case("loop", ["fori_loop", "while_loop"])
def test_the_body_of_a_loop_counts_once(loop):
    """Iterations of a device loop are no instructions of the program."""

    def kernel(x):
        tile = nl.load(x)

        def body(register):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=1)
            nisa.register_load(register if loop == "while_loop" else nisa.register_alloc(), tile)
            return register if loop == "while_loop" else None

        if loop == "while_loop":
            nl.while_loop(loaded(x), body)
        else:
            nl.fori_loop(0, 40, body)
        out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    def unrolled(x):
        tile = nl.load(x)
        for _ in range(40):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=1)
        out = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    assert "L039" not in codes(kernel, one(40), most_instructions=20)
    assert "L039" in codes(unrolled, one(40), most_instructions=20)
