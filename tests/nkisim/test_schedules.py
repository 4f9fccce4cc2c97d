"""What does not race gives one result in every schedule, and what races is found in every one."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from drawn import examples
from each_case import each_case
from kernels import TWINS, copies
from kernels import cores as _cores  # noqa: F401, declares its twins
from kernels import ranks as _ranks  # noqa: F401, declares its twins
from tiles import hbm, sbuf

from .harness_cores import (  # the fixtures guard every test here
    no_hang,  # noqa: F401
    no_thread_left,  # noqa: F401
    report_of,
)

RACES = {"C007", "C008", "C012"}
SAME_BYTES = {"C034"}
ROWS = 6


def assert_equal(got, wanted):
    if isinstance(wanted, (list, tuple)):
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            assert_equal(one, other)
    elif isinstance(wanted, np.ndarray):
        np.testing.assert_array_equal(got, wanted)
    else:
        assert got is wanted


# -- kernels of the catalogue ----------------------------------------------------------------------

TWO_CORES = [
    pytest.param(twin, kind, id=f"{kind}-{twin.name}")
    for twin in TWINS
    if twin.cores == 2
    for kind in ("good", "bad")
]


def test_there_are_kernels_for_two_cores():
    assert len(TWO_CORES) > 30


@each_case(("twin", "kind"), TWO_CORES)
def test_a_kernel_without_a_race_has_one_result(twin, kind):
    kernel, inputs = (twin.good, twin.fixed) if kind == "good" else (twin.bad, twin.inputs)

    def run(seed):
        checked = nkisim.check(twin.launched(kernel), ranks=twin.ranks, schedule_seed=seed)
        return checked(*twin.arguments(copies(inputs)))

    in_turn = run(None)
    for seed in range(2):
        other = run(seed)
        assert bool(other.codes & RACES) == bool(in_turn.codes & RACES)
        if not in_turn.codes & RACES:
            assert other.codes == in_turn.codes
            assert_equal(other.outputs, in_turn.outputs)


# -- random programs -------------------------------------------------------------------------------

rows = st.integers(0, ROWS - 1).flatmap(
    lambda first: st.tuples(st.just(first), st.integers(first + 1, ROWS))
)
accesses = st.one_of(
    st.tuples(st.just("write"), rows, st.integers(0, 2)),
    st.tuples(st.just("read"), rows, st.just(0)),
    st.tuples(st.just("work"), rows, st.just(0)),
)
phases = st.lists(st.tuples(*[st.lists(accesses, max_size=4)] * 2), min_size=1, max_size=4)


def follow(x, program, meet):
    """Run a program of phases; both cores meet after each."""
    core, shared = nl.program_id(0), hbm((ROWS, 2))
    seen, tile = sbuf((ROWS, 2)), sbuf((ROWS, 2))
    nisa.memset(dst=seen, value=0.0)
    nisa.memset(dst=tile, value=0.0)
    if core == 0:
        nisa.dma_copy(dst=shared, src=x)
    nisa.core_barrier(shared, (0, 1))
    for number, phase in enumerate(program):
        for what, (first, last), value in phase[core]:
            if what == "write":
                nisa.memset(dst=tile[0 : last - first], value=float(value))
                nisa.dma_copy(dst=shared[first:last], src=tile[0 : last - first])
            elif what == "read":
                nisa.dma_copy(dst=tile[0 : last - first], src=shared[first:last])
                nisa.tensor_scalar(dst=seen, data=seen, op0=nl.multiply, operand0=3.0)
                part = seen[0 : last - first]
                nisa.tensor_tensor(dst=part, data1=part, data2=tile[0 : last - first], op=nl.add)
            else:
                nisa.tensor_scalar(dst=seen, data=seen, op0=nl.multiply, operand0=1.0)
        if meet[number % len(meet)]:
            nisa.core_barrier(shared, (0, 1))
        else:
            nisa.sendrecv(tile[0:1], tile[0:1], 1 - core, 1 - core, pipe_id=0)
    out = hbm((2, ROWS, 2))
    nisa.dma_copy(dst=out[core], src=seen)
    return shared, out


def conflict(program):
    """Tell whether the cores come to one row in one phase, and one of them writes it."""
    for phase in program:
        for what, (first, last), _ in phase[0]:
            for other, (begin, end), _ in phase[1]:
                if "work" in (what, other) or "write" not in (what, other):
                    continue
                if first < end and begin < last:
                    return True
    return False


# A core's own read came after the other's; a write met a like one in a row, a read in the next.
OWN_READ = [([("read", (0, 1), 0)], [("read", (0, 1), 0), ("write", (0, 1), 0)])]
TWO_MEETINGS = [
    ([("write", (0, 1), 2), ("read", (0, 2), 0)], [("read", (1, 2), 0), ("write", (0, 2), 2)])
]


@example(OWN_READ, [True])
@example(TWO_MEETINGS, [False])
@examples(25)
@given(phases, st.lists(st.booleans(), min_size=1, max_size=3))
def test_random_programs(program, meet):
    x = np.arange(2 * ROWS, dtype=np.float32).reshape(ROWS, 2)
    kernel = lambda x: follow(x, program, meet)  # noqa: E731
    in_turn = report_of(kernel, x)
    assert in_turn.codes <= RACES | SAME_BYTES
    for seed in range(2):
        other = report_of(kernel, x, schedule_seed=seed)
        if not conflict(program):
            assert not (in_turn.codes | other.codes) & (RACES | SAME_BYTES)
        if in_turn.ok:
            assert_equal(other.outputs, in_turn.outputs)
    # A write of what is there already races with nobody, but without values all writes differ.
    blind = report_of(kernel, x, values=False)
    assert bool(blind.codes & RACES) == conflict(program)
