"""The scheduler on programs whose times can be computed by hand."""

from dataclasses import replace

import numpy as np
import pytest

from nkisim.arch import GEN2, GEN3
from nkisim.arch.timing import timing_of
from nkisim.diagnostics import Place
from nkisim.isa import engine as Engine
from nkisim.language import MemoryRegion
from nkisim.profiling.analysis import Prediction
from nkisim.profiling.model.assumptions import defaults
from nkisim.profiling.model.costs import Work
from nkisim.profiling.model.footprints import Accesses
from nkisim.profiling.model.program import Operation, Program
from nkisim.profiling.model.resources import Timeline
from nkisim.profiling.model.schedule import schedule
from nkisim.profiling.model.spills import with_spills
from nkisim.profiling.model.tiles import Tile
from nkisim.profiling.model.transfers import Transfer

T3 = timing_of(GEN3)
ISSUE = {
    "software": float(T3.dma_software_fixed),
    "hardware": float(T3.dma_hardware_issue),
    "prebuilt": float(T3.dma_prebuilt_issue),
}


class Builder:
    """Programs from a few words per operation."""

    def __init__(self, generation=GEN3, ordered=False):
        self.program = Program(generation)
        self.ordered = ordered

    def tile(self, region=MemoryRegion.sbuf, row_bytes=2048, site="site", placed=False, core=0):
        made = Tile("t", ("kernel.py", 1), region, row_bytes, placed, core, site)
        made.bank = made
        self.program.tiles.append(made)
        return made

    def add(self, work, needs=(), tiles=(), line=1, core=0, joins=-1, ring=None, scope=()):
        number = len(self.program.operations)
        opens = tuple(tile for tile in tiles if not tile.uses)
        for tile in tiles:
            tile.uses.append(number)
        psum = any(tile.region is MemoryRegion.psum for tile in tiles)
        sbuf = sum(128 * t.row_bytes for t in tiles if t.region is MemoryRegion.sbuf)
        self.program.operations.append(
            Operation(
                number,
                "op",
                work,
                core,
                Place("kernel.py", line),
                tuple(needs),
                tuple(tiles),
                opens,
                self.ordered,
                psum,
                sbuf,
                joins,
                runs_ahead=work.transfer is not None and not needs and not self.ordered,
                ring=ring,
                scope=scope,
            )
        )
        self.program.cores = max(self.program.cores, core + 1)
        return number

    def on(self, engine, busy, tail=0.0, **rest):
        return self.add(Work(engine, float(busy), float(tail)), **rest)

    def load(self, nbytes=65536, mode="hardware", trigger=Engine.sync, stores=False, **rest):
        moved = Transfer(nbytes, nbytes, 128, nbytes // 128, (1.0,) * 16, trigger, mode, stores)
        notify = T3.dma_notify_store if stores else T3.dma_notify_load
        busy, issue = T3.dma_overhead + nbytes / T3.dma_core_rate, ISSUE[mode]
        return self.add(Work(Engine.dma, busy, float(notify), transfer=moved, issue=issue), **rest)

    def times(self):
        return schedule(self.program)


def test_independent_engines_overlap():
    build = Builder()
    build.on(Engine.vector, 1000)
    build.on(Engine.scalar, 700)
    times = build.times()
    assert times.start == [0.0, 0.0]
    assert times.total == 1000


def test_an_engine_runs_one_operation_at_a_time_and_a_result_is_ready_after_its_tail():
    build = Builder()
    first = build.on(Engine.vector, 100, tail=50)
    build.on(Engine.vector, 100, tail=50)
    build.on(Engine.scalar, 10, needs=(first,))
    times = build.times()
    assert times.start[1] == 100
    assert times.start[2] == 150 + T3.handoff
    assert times.total == 250


def test_a_chain_over_engines_pays_every_handoff():
    build = Builder()
    last = build.on(Engine.vector, 100, tail=20)
    for engine in (Engine.scalar, Engine.vector, Engine.gpsimd):
        last = build.on(engine, 100, tail=20, needs=(last,))
    assert build.times().total == pytest.approx(4 * 120 + 3 * T3.handoff)


def test_a_ready_operation_passes_one_that_waits_except_in_no_reorder():
    totals = {}
    for ordered in (False, True):
        build = Builder(ordered=ordered)
        slow = build.on(Engine.scalar, 1000)
        build.on(Engine.vector, 100, needs=(slow,))
        build.on(Engine.vector, 100)
        times = build.times()
        totals[ordered] = times.start[2]
    assert totals == {False: 0.0, True: 1000 + T3.handoff + 100}


def test_nothing_passes_the_branch_of_a_loop_on_its_engine():
    """An engine that is not in the loop has no branch; a loop is over for what comes after it."""
    build = Builder()
    build.program.assumptions = defaults() | {"device_loops": "overlap"}
    branch = 1e3 * build.program.assumptions["loop_iteration_us"]
    slow = build.on(Engine.scalar, 1000)
    waits = build.on(Engine.vector, 100, needs=(slow,), scope=((1, 0),))
    build.on(Engine.vector, 100, scope=((1, 0),))
    build.on(Engine.vector, 100, scope=((1, 1),))
    load = build.load(scope=((1, 1),))
    build.on(Engine.gpsimd, 100)
    after = build.on(Engine.vector, 100)
    times = build.times()
    late = branch
    assert times.start[waits] == late
    assert times.start[waits + 1 : load + 1] == [late + 100, late + 200 + branch, branch]
    assert times.start[load + 1] == 0.0
    assert times.start[after] == late + 300 + branch


def test_iterations_of_a_loop_on_the_device_are_in_turn():
    """Each begins a branch after everything before has ended on its core."""
    build = Builder()
    branch = 1e3 * build.program.assumptions["loop_iteration_us"]
    build.on(Engine.scalar, 1000, tail=50)
    for i in range(2):
        build.on(Engine.vector, 100, scope=((1, i),))
        build.load(mode="prebuilt", scope=((1, i),))
    build.on(Engine.gpsimd, 100)
    build.on(Engine.gpsimd, 100, core=1)
    times = build.times()
    first = 1050 + branch
    second = times.ready[2] + branch
    assert times.start[:6] == [0.0, first, first, second, second, times.ready[4]]
    assert times.start[6] == 0.0


def test_a_copy_through_sbuf_takes_issue_dispatch_payload_and_notification():
    build = Builder()
    tile = build.tile()
    load = build.load(tiles=(tile,), line=1)
    build.load(stores=True, needs=(load,), tiles=(tile,), line=2)
    payload = T3.dma_overhead + 65536 / T3.dma_core_rate
    loaded = T3.dma_dispatch_load + payload + T3.dma_notify_load
    stored = max(T3.dma_dispatch_store, T3.dma_hardware_issue) + payload + T3.dma_notify_store
    assert build.times().total == pytest.approx(loaded + stored)


def test_many_transfers_are_bound_by_bytes():
    build = Builder()
    for line in range(8):
        build.load(nbytes=1 << 22, line=line, mode="prebuilt")
    first = T3.dma_prebuilt_issue + T3.dma_dispatch_load
    each = T3.dma_overhead + (1 << 22) / T3.dma_core_rate
    assert build.times().total == pytest.approx(first + 8 * each + T3.dma_notify_load)


def test_descriptors_made_in_software_occupy_gpsimd():
    build = Builder()
    build.load(mode="software", trigger=Engine.gpsimd)
    build.on(Engine.gpsimd, 100)
    assert build.times().start[1] == ISSUE["software"]


def test_transfers_of_one_ring_are_limited_in_flight():
    for in_flight in (1, 2, 4):
        build = Builder()
        build.program.assumptions = defaults() | {"transfers_in_flight": in_flight}
        for _ in range(6):
            build.load(nbytes=16, mode="prebuilt", ring="one")
        build.load(nbytes=16, mode="prebuilt", ring="another")
        times = build.times()
        for later in range(in_flight, 6):
            assert times.start[later] >= times.ready[later - in_flight]
        assert times.start[6] < times.ready[0]


def test_gen2_serialises_vector_and_gpsimd_in_sbuf():
    starts = {}
    for generation in (GEN2, GEN3):
        build = Builder(generation)
        build.on(Engine.vector, 1000, tiles=(build.tile(site=1),))
        build.on(Engine.gpsimd, 1000, tiles=(build.tile(site=2),))
        starts[generation.number] = max(build.times().start)
    assert starts == {2: 1000.0, 3: 0.0}


def test_vector_and_scalar_wait_for_each_other_in_one_psum_bank():
    starts = {}
    for same in (True, False):
        build = Builder()
        one = build.tile(MemoryRegion.psum, site=1)
        other = one if same else build.tile(MemoryRegion.psum, site=2)
        build.on(Engine.vector, 500, tiles=(one,))
        build.on(Engine.scalar, 500, tiles=(other,))
        starts[same] = max(build.times().start)
    assert starts == {True: 500.0, False: 0.0}


def test_a_ninth_psum_tile_waits_for_a_bank():
    build = Builder()
    for _ in range(9):
        tile = build.tile(MemoryRegion.psum)
        product = build.on(Engine.tensor, 10, tiles=(tile,))
        build.on(Engine.vector, 10_000, needs=(product,), tiles=(tile,))
    times = build.times()
    first_copied = times.ready[1]
    assert times.start[14] < first_copied  # the eighth product
    assert times.start[16] == first_copied  # the ninth


def test_the_tensor_engine_starts_at_half_its_rate_and_slows_down_after_a_pause():
    build = Builder()
    cold = T3.tensor_ramp * T3.tensor_start_rate
    for _ in range(4):
        build.on(Engine.tensor, cold / 2)
    times = build.times()
    lengths = [end - start for start, end in zip(times.start, times.end, strict=True)]
    assert lengths == [cold, cold, cold / 2, cold / 2]
    pause = build.on(Engine.vector, 10 * T3.tensor_ramp)  # longer than the window of 3 us
    build.on(Engine.tensor, cold / 2, needs=(pause,))
    times = build.times()
    assert times.end[5] - times.start[5] == cold


def test_changing_the_activation_table_costs_a_load_except_the_first():
    build = Builder()
    for table in ("exp", "exp", "sigmoid", "exp"):
        build.add(Work(Engine.scalar, 100.0, 0.0, table=table))
    times = build.times()
    lengths = [end - start for start, end in zip(times.start, times.end, strict=True)]
    assert lengths == [100, 100, 100 + T3.table_load, 100 + T3.table_load]


def test_no_activation_of_another_table_passes_one_and_none_its_table():
    """Scalar is free for 3,000 ns between the first function and the one that waits."""
    build = Builder()
    build.add(Work(Engine.scalar, 100.0, 0.0, table="exp"))
    slow = build.on(Engine.vector, 3100)
    build.add(Work(Engine.scalar, 100.0, 0.0, table="sigmoid"), needs=(slow,))
    build.add(Work(Engine.scalar, 100.0, 0.0, table="exp"))
    build.add(Work(Engine.scalar, 100.0, 0.0, table="exp"))
    build.on(Engine.scalar, 50)
    times = build.times()
    assert times.start[2] == 3100 + T3.handoff
    assert times.start[3] == times.end[2] == times.start[2] + 100 + T3.table_load
    assert times.start[4] == times.end[3]
    assert times.start[5] == 100  # it needs no table

    build = Builder()
    build.add(Work(Engine.scalar, 100.0, 0.0, table="exp"))
    slow = build.on(Engine.vector, 3100)
    build.add(Work(Engine.scalar, 100.0, 0.0, table="exp"), needs=(slow,))
    build.add(Work(Engine.scalar, 100.0, 0.0, table="exp"))
    assert build.times().start[3] == 100


def test_what_a_program_has_many_of_has_no_dictionary():
    """A kernel may have a million operations."""
    build = Builder()
    build.on(Engine.vector, 10, tiles=(build.tile(),))
    (operation,), (tile,) = build.program.operations, build.program.tiles
    for thing in (operation, operation.work, tile, Accesses(1), Timeline()):
        assert not hasattr(thing, "__dict__"), thing


@pytest.mark.parametrize(
    ("count", "oldest"), [(128, 0), (129, 63), (192, 63), (193, 127), (300, 191)]
)
def test_a_timeline_of_many_intervals_forgets_its_64_oldest_gaps(count, oldest):
    line, begins = Timeline(), 10.0 * oldest + 5.0
    for number in range(count):
        line.reserve(10.0 * number, 5.0, number)
    assert line.earliest(0.0, 4.0) == (begins, oldest)
    assert line.earliest(begins + 1, 4.0) == (begins + 1, -1)
    assert line.earliest(begins + 2, 4.0) == (begins + 10, oldest + 1)
    assert line.earliest(begins, 6.0) == (10.0 * count - 5, count - 1)
    assert line.fill(0.0, 6.0, count) == (begins, begins + 11, oldest + 1)
    assert line.busy == 5.0 * count + 6


def test_tiles_beyond_sbuf_are_spilled_and_reloaded():
    build = Builder()
    big = GEN3.sbuf_usable_bytes // 2
    tiles = [build.tile(row_bytes=big, site=i) for i in range(3)]
    for _ in range(2):
        for tile in tiles:
            build.on(Engine.vector, 100, tiles=(tile,))
    spilled = with_spills(build.program)
    # Two of three fit: the third and then one per use leave, furthest next use first.
    names = [operation.name for operation in spilled.program.operations]
    assert names.count("spill") == spilled.nbytes // (big * 128)
    assert spilled.nbytes >= 2 * big * 128
    assert Prediction(build.program).latency_us > (schedule(build.program).total + 9400) / 1e3


def test_tiles_that_fit_are_not_spilled():
    build = Builder()
    for i in range(2):
        build.on(Engine.vector, 100, tiles=(build.tile(row_bytes=1024, site=i),))
    spilled = with_spills(build.program)
    assert spilled.program is build.program
    assert spilled.nbytes == 0


def test_two_cores_run_in_parallel_and_meet_at_a_barrier():
    build = Builder()
    early = build.on(Engine.vector, 100, core=0)
    late = build.on(Engine.vector, 900, core=1)
    build.on(Engine.gpsimd, 600, needs=(early,), core=0, joins=0)
    build.on(Engine.gpsimd, 600, needs=(late,), core=1, joins=0)
    times = build.times()
    assert times.start[0] == times.start[1] == 0
    assert times.start[2] == pytest.approx(900, abs=T3.handoff)
    assert times.start[3] == 900 + T3.handoff


def _random_program(rng, ordered):
    build = Builder(ordered=ordered)
    for _ in range(int(rng.integers(2, 60))):
        count = len(build.program.operations)
        needs = {int(n) for n in rng.integers(0, count, 2)} if count else set()
        if rng.random() < 0.4:
            build.load(nbytes=int(rng.integers(1, 1 << 18)), needs=needs, line=int(rng.integers(3)))
        else:
            engines = (Engine.vector, Engine.scalar, Engine.tensor, Engine.gpsimd)
            engine = engines[int(rng.integers(4))]
            build.on(engine, int(rng.integers(50, 3000)), tail=100, needs=needs)
    return build.program


@pytest.mark.parametrize("seed", range(20))
def test_removing_the_last_instruction_of_an_ordered_kernel_never_makes_it_slower(seed):
    program = _random_program(np.random.default_rng(seed), ordered=True)
    shorter = replace(program, operations=program.operations[:-1])
    assert schedule(shorter).total <= schedule(program).total


@pytest.mark.parametrize("ordered", [False, True])
def test_schedules_respect_every_dependency_and_are_the_same_each_time(ordered):
    for seed in range(20):
        program = _random_program(np.random.default_rng(seed), ordered)
        times = schedule(program)
        for operation in program.operations:
            for need in operation.needs:
                engines = {operation.work.engine, program.operations[need].work.engine}
                known = times.end if engines == {Engine.tensor} else times.ready
                assert times.start[operation.number] >= known[need]
        assert schedule(program) == times
