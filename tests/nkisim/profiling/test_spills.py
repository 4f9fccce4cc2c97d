"""Spills of a program whose tiles are half of SBUF each, by hand."""

from dataclasses import replace

import pytest

from nkisim.arch import GEN3
from nkisim.isa import engine as Engine
from nkisim.language import MemoryRegion
from nkisim.profiling.model.spills import DoesNotFitError, with_spills

from .test_schedule import Builder

HALF = GEN3.sbuf_usable_bytes // 2
NBYTES = 128 * HALF
RATE = 368 * 0.89


def used_in_turn(rounds, **fields):
    """Return a program that uses the tiles A, B and C in turn, with other fields of operations."""
    build = Builder()
    tiles = [build.tile(row_bytes=HALF, site=name) for name in "ABC"]
    for tile, name in zip(tiles, "ABC", strict=True):
        tile.name = name
    for _ in range(rounds):
        for tile in tiles:
            build.on(Engine.vector, 100, tail=10, tiles=(tile,))
    program = build.program
    program.operations = [replace(o, **fields) for o in program.operations]
    return program


def steps_of(program):
    """Return what happens in order: uses, saves and reloads of tiles."""
    found = []
    for operation in program.operations:
        name = operation.tiles[0].name
        moved = operation.work.transfer
        found.append(name if moved is None else f"{'save' if moved.stores else 'load'} {name}")
    return found


def test_the_tile_whose_next_use_is_furthest_away_leaves_and_is_saved_once():
    spilled = with_spills(used_in_turn(4))
    expected = ["A", "B", "save B", "C", "A", "save A", "load B", "B", "C", "save C", "load A", "A"]
    expected += ["B", "load C", "C", "A", "load B", "B", "C"]
    assert steps_of(spilled.program) == expected
    assert spilled.nbytes == 7 * NBYTES


def test_a_tile_is_saved_after_its_last_use_and_used_after_it_is_back():
    program = with_spills(used_in_turn(4)).program
    steps = steps_of(program)
    operations = program.operations
    saved_b, saved_a, loaded_b, loaded_a = (
        steps.index(step) for step in ("save B", "save A", "load B", "load A")
    )
    assert operations[saved_b].needs == (1,)  # B was used by operation 1
    assert operations[saved_a].needs == (4,)  # A by 0 and 4
    assert operations[loaded_b].needs == (saved_b,)
    assert operations[loaded_a].needs == (saved_a,)
    assert loaded_b in operations[loaded_b + 1].needs
    assert loaded_a in operations[loaded_a + 1].needs
    assert [operation.number for operation in operations] == list(range(len(operations)))
    again = [n for n, step in enumerate(steps) if step == "load B"][1]
    assert operations[again].needs == (saved_b,)


def test_each_stay_of_a_tile_takes_room_of_its_own():
    program = with_spills(used_in_turn(4)).program
    stays = [(tile.name, tile.uses) for tile in program.tiles if tile.uses]
    steps = steps_of(program)
    for name, uses in stays:
        assert {steps[n].split()[-1] for n in uses} == {name}
        assert all("load" not in steps[n] for n in uses[1:])
        assert all("save" not in steps[n] for n in uses[:-1])
        first = program.operations[uses[0]]
        assert [tile.uses for tile in first.opens] == [uses]
    assert sorted(n for _, uses in stays for n in uses) == list(range(len(steps)))


def test_a_spill_moves_whole_tiles_at_the_rate_of_the_core():
    program = with_spills(used_in_turn(2)).program
    moves = [o for o in program.operations if o.work.transfer is not None]
    assert [o.work.transfer.stores for o in moves] == [True, False]
    for move, notification in zip(moves, (355, 315), strict=True):
        moved = move.work.transfer
        assert moved.nbytes == moved.hbm_bytes == NBYTES
        assert (moved.descriptors, moved.run_bytes, len(moved.shares)) == (128, HALF, 16)
        assert (moved.mode, moved.trigger) == ("prebuilt", Engine.sync)
        assert move.work.busy == pytest.approx(20 + NBYTES / RATE)
        assert move.work.tail == notification
        assert move.sbuf_bytes == NBYTES
        assert not move.touches_psum


def test_spills_saturate_at_the_bytes_of_all_operands():
    spilled = with_spills(used_in_turn(4, sbuf_bytes=7 * NBYTES // 24))
    most = 12 * (7 * NBYTES // 24)  # half of what would be moved
    assert spilled.nbytes == pytest.approx(most, abs=1)
    moves = [o.work for o in spilled.program.operations if o.work.transfer is not None]
    assert len(moves) == 7
    for work in moves:
        assert work.transfer.nbytes == pytest.approx(NBYTES / 2, abs=1)
        assert work.transfer.hbm_bytes == work.transfer.nbytes
        assert work.busy == pytest.approx((20 + NBYTES / RATE) / 2, rel=1e-6)


def test_tiles_with_an_address_and_those_in_psum_are_not_spilled():
    build = Builder()
    fixed = build.tile(row_bytes=HALF, placed=True, site="fixed")
    banks = build.tile(MemoryRegion.psum, site="banks")
    free = [build.tile(row_bytes=HALF, site=name) for name in "AB"]
    for tile in (fixed, banks, *free, fixed, banks, *free):
        build.on(Engine.vector, 100, tiles=(tile,))
    spilled = with_spills(build.program)
    moved = {o.tiles[0].site for o in spilled.program.operations if o.work.transfer is not None}
    assert moved <= {"A", "B"}


def test_each_core_has_its_own_room():
    build = Builder()
    for core, names in enumerate(("AB", "ABC")):
        tiles = [build.tile(row_bytes=HALF, site=name, core=core) for name in names]
        for tile in (*tiles, *tiles):
            build.on(Engine.vector, 100, tiles=(tile,), core=core)
    spilled = with_spills(build.program)
    moved = [o.core for o in spilled.program.operations if o.work.transfer is not None]
    assert moved == [1, 1]


@pytest.mark.parametrize(("share", "fits"), [(3, True), (2, False)])
def test_operands_of_one_instruction_that_do_not_fit_are_refused(share, fits):
    build = Builder()
    tiles = [build.tile(row_bytes=GEN3.sbuf_usable_bytes // share, site=i) for i in range(3)]
    other = build.tile(row_bytes=1000, site="other")
    build.on(Engine.vector, 100, tiles=(other,))
    build.on(Engine.vector, 100, tiles=tuple(tiles))
    build.on(Engine.vector, 100, tiles=(other,))
    if fits:
        assert with_spills(build.program).nbytes == 2 * 128 * 1000  # out of the way and back
    else:
        with pytest.raises(DoesNotFitError, match="319,476 bytes per partition"):
            with_spills(build.program)
