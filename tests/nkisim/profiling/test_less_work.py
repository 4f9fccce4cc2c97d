"""Less work: times of programs from which one instruction is taken, or one dependence."""

import itertools
import random
from contextlib import contextmanager
from dataclasses import replace

import pytest

import drawn
from nkisim.arch.timing import TIMINGS, Constant
from nkisim.profiling.analysis import Prediction
from nkisim.profiling.model.schedule import schedule

from ...each_case import each_case
from .generated_programs import KINDS, TARGETS, generated
from .schedule_laws import NS, changed, slower, without

SEEDS = round(2 * drawn.SHARE)
CASES = [
    (kind, seed, target)
    for kind in KINDS
    for seed in range(SEEDS)
    for target in TARGETS
    if target != "trn1" or "cores" not in kind
]
STREAMS = 500
"""Kernels that load, compute and store, from each of which one instruction is taken."""

SLOWER = 36
"""Those of them that take longer then."""

MOST_SLOWER = 0.05
"""Largest increase of the time: 4.9 %, of a kernel of 24 instructions."""

MOST_TURNS = 3.1
"""Largest increase in turns, each the longest time that an instruction holds an engine or the
descriptors of a transfer hold their generator: 3.02."""


@contextmanager
def without_ramp():
    """Set the Tensor engine to its full rate from the start."""
    with pytest.MonkeyPatch.context() as patch:
        for number, timing in list(TIMINGS.items()):
            still = timing._replace(tensor_ramp=Constant(0, "off", "assumed"))
            patch.setitem(TIMINGS, number, still)
        yield


ORDERED = [case for case in CASES if case[0] in ("ordered", "large and ordered", "cores")]


def easier(program, rng):
    """Return programs with less work or fewer dependences."""
    for _ in range(4):
        operation = rng.choice(program.operations)
        number, work = operation.number, operation.work
        # Without what opens a tile, the others would take their room in another order.
        opens = any(len(tile.uses) > 1 for tile in operation.opens)
        if operation.joins < 0 and not opens:
            yield f"without {number}", without(program, number)
        shorter = work._replace(busy=work.busy / 2, tail=work.tail / 2)
        yield f"shorter {number}", changed(program, number, work=shorter)
        if operation.needs:
            dropped = rng.choice(operation.needs)
            needs = tuple(n for n in operation.needs if n != dropped)
            yield f"{number} not after {dropped}", changed(program, number, needs=needs)


@each_case("kind, seed, target", ORDERED)
def test_less_work_never_takes_longer_in_program_order(kind, seed, target):
    program = generated(kind, seed, target).program
    assert all(operation.ordered for operation in program.operations)
    rng = random.Random(seed)
    with without_ramp():
        for name, simpler in easier(program, rng):
            assert not slower(program, simpler), name


@each_case("kind, seed, target", [case for case in CASES if case[0] != "streams"])
def test_less_work_takes_at_most_a_little_longer_in_any_order(kind, seed, target):
    found = generated(kind, seed, target)
    if found.profile.spill_bytes:  # other tiles would be spilled
        return
    program, rng = found.program, random.Random(seed)
    before = found.prediction.latency_us
    # Filling gaps, an operation may take the place of a later one: by less than 2 % of the time, or
    # of one table load.
    most = before + max(0.02 * before, TIMINGS[program.generation.number].table_load / 1e3)
    for name, simpler in itertools.islice(easier(program, rng), 6):
        assert Prediction(simpler).latency_us <= most, name


def test_less_work_that_takes_longer_is_noticed():
    def faulty(program):
        """A scheduler that takes longer for fewer operations."""
        times = schedule(program)
        return replace(times, total=times.total + 1e9 / len(program.operations))

    program = generated("ordered", 0, "trn2").program
    last = len(program.operations) - 1
    assert slower(program, without(program, last), faulty)
    work = program.operations[last].work
    longer = changed(program, last, work=work._replace(busy=work.busy + 1e6))
    assert slower(program, longer)


def removable(program):
    """Return the operations that other cores do not wait for, and that open no tile of others.

    Without what opens a tile, the others would take their space in another order.
    """
    return [
        o
        for o in program.operations
        if o.joins < 0 and not any(len(tile.uses) > 1 for tile in o.opens)
    ]


def streams():
    """Yield programs, each with the same program without one instruction."""
    for seed in range(round(STREAMS * drawn.SHARE**3)):
        program = generated("streams", seed, "trn2").program
        removed = random.Random(seed).choice(removable(program))
        yield program, without(program, removed.number)


def test_streams_without_an_instruction_never_take_longer_in_program_order():
    def in_order(program):
        kept = [replace(o, ordered=True, runs_ahead=False) for o in program.operations]
        return replace(program, operations=kept)

    for program, easier in streams():
        assert not slower(in_order(program), in_order(easier))


def test_streams_without_an_instruction_take_a_few_turns_longer_at_most():
    """An instruction that is ready earlier may take a turn that another one had.

    The other one waits for the next turn, and what depends on it waits too. The order of the
    schedule with the instruction is still possible, so the increase is due to the order alone: no
    engine has more to do.
    """
    slower_by = 0
    for program, easier in streams():
        before, after = Prediction(program).latency_us, Prediction(easier).latency_us
        if after > before + NS:
            slower_by += 1
            assert after - before <= MOST_SLOWER * before
            turn = max(o.work.issue or o.work.busy for o in program.operations) / 1e3
            assert after - before <= MOST_TURNS * turn
    assert slower_by <= SLOWER
