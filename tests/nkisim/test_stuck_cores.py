"""Cores that get stuck or fail: reported at once, with every core's place, and nothing is left."""

import threading
from concurrent.futures import ThreadPoolExecutor

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

# -- stuck -----------------------------------------------------------------------------------------


def lone_barrier(a):
    out = both(nl.load(a))
    if nl.program_id(0) == 1:
        nisa.core_barrier(data=out, cores=(0, 1))  # core 1
    return out


def one_barrier_more(a):
    out = both(nl.load(a))
    for _ in range(3 + nl.program_id(0)):
        nisa.core_barrier(data=out, cores=(0, 1))  # core 1
    return out


def lone_sendrecv(a):
    tile = nl.load(a)
    if nl.program_id(0) == 0:
        nisa.sendrecv(tile, tile, 1, 1, pipe_id=0)  # core 0
    return both(tile)


def crossed(a):
    tile, out = nl.load(a), hbm((8, 4))
    if nl.program_id(0) == 0:
        nisa.core_barrier(data=out, cores=(0, 1))  # core 0
        nisa.sendrecv(tile, tile, 1, 1, pipe_id=0)
    else:
        nisa.sendrecv(tile, tile, 0, 0, pipe_id=0)  # core 1
        nisa.core_barrier(data=out, cores=(0, 1))
    return both(tile)


def crossed_pipes(a):
    tile, core = nl.load(a), nl.program_id(0)
    nisa.sendrecv(tile, tile, 1 - core, 1 - core, pipe_id=core)  # core 0  # core 1
    nisa.sendrecv(tile, tile, 1 - core, 1 - core, pipe_id=1 - core)
    return both(tile)


STUCK = [
    (lone_barrier, "C009", {1}),
    (one_barrier_more, "C009", {1}),
    (lone_sendrecv, "C013", {0}),
    (crossed, "C009", {0, 1}),
    (crossed_pipes, "C013", {0, 1}),
]
each_stuck = each_case(
    ("kernel", "rule", "waiting"), STUCK, ids=[kernel.__name__ for kernel, _, _ in STUCK]
)


def marked_line(kernel, core):
    """Number of the line of a kernel that is marked for a core."""
    code = kernel.__code__
    with open(code.co_filename) as source:
        lines = source.read().splitlines()
    found = [
        number
        for number in range(code.co_firstlineno, max(n for *_, n in code.co_lines() if n) + 1)
        if f"# core {core}" in lines[number - 1]
    ]
    assert len(found) == 1
    return found[0]


@each_stuck
@each_case("seed", [None, *SEEDS])
def test_stuck_cores_are_reported_with_their_places(kernel, rule, waiting, seed):
    report = report_of(kernel, numbers(8, 4), schedule_seed=seed)
    assert report.codes == {rule}
    assert report.outputs is None
    (finding,) = report.findings
    assert (finding.file, finding.line) == (__file__, marked_line(kernel, min(waiting)))
    for core in range(2):
        (note,) = [note for note in finding.notes if note.startswith(f"core {core} ")]
        if core in waiting:
            assert f"{__file__}:{marked_line(kernel, core)}" in note
        else:
            assert note == f"core {core} has ended"
        assert note in str(finding)


@each_stuck
@each_case("strictness", ["simulate", "strict"])
def test_stuck_cores_raise(kernel, rule, waiting, strictness):
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(nkisim.jit(kernel)[2], strictness=strictness)(numbers(8, 4))
    assert caught.value.rule_id == rule


# -- errors and threads ----------------------------------------------------------------------------


@each_case("guilty", [0, 1])
@each_case("seed", [None, *SEEDS])
def test_an_error_of_one_core_wins_over_the_others_barrier(guilty, seed):
    text = "[NCC_INKI016] Kernel validation exception: rows must be even"

    def kernel(a):
        out = both(nl.load(a))
        assert nl.program_id(0) != guilty, text
        nisa.core_barrier(data=out, cores=(0, 1))
        return out

    for call in (nkisim.simulate, nkisim.check):
        with pytest.raises(AssertionError) as caught:
            call(nkisim.jit(kernel)[2], schedule_seed=seed)(numbers(8, 4))
        assert type(caught.value) is AssertionError
        assert str(caught.value).splitlines()[0] == text


def test_a_run_after_a_failed_one_is_clean():
    a = numbers(8, 4)
    for _ in range(3):
        assert report_of(crossed, a).codes == {"C009"}
        np.testing.assert_array_equal(
            on_two_cores(lambda a: both(swapped(nl.load(a))), a), np.stack([a, a])
        )


def test_findings_of_both_cores_fold():
    def kernel(a):
        tile = sbuf((8, 4))
        return both(tile)

    report = report_of(kernel, numbers(8, 4))
    (finding,) = report.findings
    assert (finding.rule.id, finding.count) == ("M001", 2)


def test_two_simulations_of_two_cores_run_at_once():
    # The cores of one run wait for the other run's on the host, so both are under way together.
    host = threading.Barrier(2)

    def kernel(a):
        tile = nl.load(a)
        if nl.program_id(0) == 0:
            host.wait(timeout=30)
        got = swapped(tile)
        if nl.program_id(0) == 1:
            host.wait(timeout=30)
        out = hbm((2, 8, 4))
        nl.store(out[nl.program_id(0)], nl.add(got, float(nl.program_id(0))))
        nisa.core_barrier(data=out, cores=(0, 1))
        return out

    inputs = [numbers(8, 4), 1000 + numbers(8, 4)]
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda a: on_two_cores(kernel, a), inputs))
    for got, a in zip(results, inputs, strict=True):
        np.testing.assert_array_equal(got, np.stack([a, a + 1]))


def test_deadlocks_in_two_host_threads_stay_apart():
    kernels = [crossed, lone_sendrecv] * 8
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda k: report_of(k, numbers(8, 4)), kernels))
    assert [report.codes for report in reports] == [{"C009"}, {"C013"}] * 8


def test_a_jitted_function_called_by_both_cores_runs_inline():
    @nkisim.jit
    def doubled(tile):
        return nl.add(tile, tile)

    a = numbers(8, 4)
    got = on_two_cores(lambda a: both(swapped(doubled(nl.load(a)))), a)
    np.testing.assert_array_equal(got, np.stack([2 * a, 2 * a]))
