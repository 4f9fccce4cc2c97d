"""Laws of schedules over random kernels, each with a schedule that breaks it."""

import itertools
from dataclasses import replace

import drawn
from nkisim.isa import engine as Engine
from nkisim.profiling.model.schedule import schedule
from nkisim.profiling.model.spills import SPILL

from ...each_case import each_case
from .generated_programs import KINDS, TARGETS, generated
from .schedule_laws import (
    dma_engines,
    kept_copies,
    memory_of,
    over_capacity,
    overlapping,
    reordered,
    shorter_than_chains,
    shorter_than_engines,
    spans_of,
    spilled_too_much,
    too_early,
    unexplained,
)

SEEDS = round(2 * drawn.SHARE)
CASES = [
    (kind, seed, target)
    for kind in KINDS
    for seed in range(SEEDS)
    for target in TARGETS
    if target != "trn1" or "cores" not in kind
]


def over_cases(test):
    return each_case("kind, seed, target", CASES)(test)


def schedules(found):
    return found.prediction.times, schedule(found.program, "one by one")


def dependences(found):
    return found.dependences + kept_copies(found.program)


def tampered(times, number, **moved):
    """Return a schedule with other times of one operation."""
    lists = {}
    for name, value in moved.items():
        lists[name] = list(getattr(times, name))
        lists[name][number] = value
    return replace(times, **lists)


def sample():
    """Return one kernel of each kind on each generation, with its tight schedule."""
    for kind, seed, target in CASES:
        if not seed:
            found = generated(kind, seed, target)
            yield found, found.prediction.times


# -- length ----------------------------------------------------------------------------------------


@over_cases
def test_no_schedule_is_shorter_than_its_dependences_and_its_engines(kind, seed, target):
    found = generated(kind, seed, target)
    for times in schedules(found):
        assert not shorter_than_chains(found.program, times, dependences(found))
        assert not shorter_than_engines(found.program, times)
        assert times.total == max(times.ready)
    profile = found.profile
    for busy in profile.per_core:
        assert max(busy.values()) <= profile.latency_us
    assert profile.bound_us <= profile.latency_us - profile.fixed_us
    assert all(0 <= share <= 1 for share in profile.utilization.values())


def test_a_schedule_that_is_too_short_is_noticed():
    for found, times in sample():
        program = found.program
        assert shorter_than_engines(program, replace(times, total=1000.0))
        assert shorter_than_engines(program, replace(times, dma_busy={0: 2 * times.total}))
        assert shorter_than_engines(program, replace(times, dma_busy={0: 0.0}))
        last = max(program.operations, key=lambda o: times.ready[o.number]).number
        early = tampered(times, last, ready=1.0)
        assert shorter_than_chains(program, early, dependences(found))
        half = replace(times, ready=[t / 2 for t in times.ready], total=times.total / 2)
        assert shorter_than_chains(program, half, dependences(found))


# -- one operation at a time -----------------------------------------------------------------------


@over_cases
def test_engines_ports_banks_and_generators_serve_one_operation_at_a_time(kind, seed, target):
    found = generated(kind, seed, target)
    for times in schedules(found):
        assert not overlapping(found.program, times, found.regions)


def test_operations_that_overlap_are_noticed():
    noticed = set()
    for found, times in sample():
        seen = set()
        for hold, used in spans_of(found.program, times, found.regions).items():
            for (start, end, _), (_, _, other) in itertools.pairwise(used):
                if hold[0] not in seen and end - start > 2:
                    early = tampered(times, other, start=end - 1.0)
                    assert overlapping(found.program, early, found.regions), hold
                    seen.add(hold[0])
        noticed |= seen
        by_engine = {}
        for operation in found.program.operations:
            for engine, _ in dma_engines(operation):
                by_engine.setdefault((operation.core, engine), []).append(operation.number)
        one, other = next(numbers for numbers in by_engine.values() if len(numbers) > 1)[:2]
        both = tampered(times, other, moved=times.moved[one], end=times.end[one])
        assert overlapping(found.program, both, found.regions)
    assert noticed == {"engine", "part", "generator", "SBUF", "PSUM", "shared port", "bank"}


# -- room ------------------------------------------------------------------------------------------


@over_cases
def test_tiles_never_take_more_room_than_there_is(kind, seed, target):
    found = generated(kind, seed, target)
    assert not over_capacity(found.profile.memory, found.profile.capacity)
    for times in schedules(found):
        assert not over_capacity(memory_of(found.program, times), found.profile.capacity)


def test_tiles_that_take_too_much_room_are_noticed():
    for found, times in sample():
        capacity = found.profile.capacity
        first = found.profile.memory[0]
        large = first._replace(row_bytes=capacity[first.region] + 1)
        assert over_capacity([large], capacity)
        if found.profile.spill_bytes:
            ahead = replace(times, start=[0.0] * len(times.start))
            assert over_capacity(memory_of(found.program, ahead), capacity)


# -- order -----------------------------------------------------------------------------------------


@over_cases
def test_reads_follow_the_writes_that_they_see_and_writes_what_they_replace(kind, seed, target):
    found = generated(kind, seed, target)
    for times in schedules(found):
        assert not too_early(found.program, times, found.dependences)


@over_cases
def test_operations_name_what_they_wait_for_and_why(kind, seed, target):
    found = generated(kind, seed, target)
    read = {(earlier, later) for earlier, later, kind in found.dependences if kind == "read"}
    for operation in found.program.operations:
        assert len(set(operation.needs)) == len(operation.needs)
        assert set(operation.reuses) <= set(operation.needs)
        assert not read & {(number, operation.number) for number in operation.reuses}


@over_cases
def test_every_use_of_a_spilled_tile_waits_until_it_is_back(kind, seed, target):
    found = generated(kind, seed, target)
    for times in schedules(found):
        assert not too_early(found.program, times, kept_copies(found.program))


def test_operations_that_start_too_early_are_noticed():
    noticed = set()
    for found, times in sample():
        program = found.program
        alone = replace(program, operations=[replace(o, needs=()) for o in program.operations])
        complaints = too_early(program, schedule(alone), found.dependences)
        noticed |= {kind for *_, kind in found.dependences if f"({kind})" in " ".join(complaints)}
        for earlier, later, kind in found.dependences:
            begins = times.end[earlier]
            if kind == "read" and program.operations[later].work.engine is not Engine.tensor:
                begins = times.ready[earlier]
            early = tampered(times, later, start=begins - 1.0)
            assert too_early(program, early, [(earlier, later, kind)])
    assert noticed == {"read", "rewrite", "replace", "barrier"}


@over_cases
def test_nothing_passes_an_instruction_in_no_reorder_or_a_barrier(kind, seed, target):
    found = generated(kind, seed, target)
    for times in schedules(found):
        assert not reordered(found.program, times)


def test_an_instruction_that_passes_one_in_no_reorder_is_noticed():
    for found, times in sample():
        on_vector = [o for o in found.program.operations if o.work.engine is Engine.vector]
        ordered = [o for o in on_vector[1:] if o.ordered and o.core == on_vector[0].core]
        if ordered:
            early = tampered(times, ordered[-1].number, start=-1.0)
            assert reordered(found.program, early)
    free = generated("free", 0, "trn2")
    claimed = [replace(operation, ordered=True) for operation in free.program.operations]
    assert reordered(replace(free.program, operations=claimed), free.prediction.times)


# -- spills ----------------------------------------------------------------------------------------


def moved_by_spills(found):
    return [o.work.transfer.nbytes for o in found.program.operations if o.name == SPILL]


@over_cases
def test_spills_move_no_more_than_the_operands(kind, seed, target):
    found = generated(kind, seed, target)
    spilled = found.profile.spill_bytes
    assert not spilled_too_much(spilled, moved_by_spills(found), found.operand_bytes)
    assert not spilled or "large" in kind
    used = sum(o.sbuf_bytes for o in found.program.operations if o.name != SPILL)
    assert used == found.operand_bytes


def test_some_programs_spill():
    spilled = [bool(found.profile.spill_bytes) for found, _ in sample()]
    assert 0 < sum(spilled) < len(spilled)


def test_spills_that_move_too_much_are_noticed():
    for found, _ in sample():
        spilled = found.profile.spill_bytes
        most, moved = found.operand_bytes, moved_by_spills(found)
        assert spilled_too_much(most + 1, [most + 1], most)
        assert spilled_too_much(spilled + 4096, moved, most + 4096)


# -- the critical path -----------------------------------------------------------------------------


@over_cases
def test_the_critical_path_explains_the_whole_schedule(kind, seed, target):
    found = generated(kind, seed, target)
    assert not unexplained(found.profile.lines, found.prediction.times)


def test_a_critical_path_with_a_gap_is_noticed():
    for found, times in sample():
        first, *rest = found.profile.lines
        assert first.critical_us > 0
        assert unexplained(rest, times)
        assert unexplained([first, first, *rest], times)
        assert unexplained([first._replace(critical_us=-1.0)], times)
