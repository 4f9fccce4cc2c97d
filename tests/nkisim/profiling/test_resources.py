"""Room for tiles, turns of lines and parts of allocations, by hand."""

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.arch import GEN2, GEN3, resolve_target
from nkisim.isa import engine as Engine
from nkisim.language import MemoryRegion
from nkisim.profiling.model import footprints
from nkisim.profiling.model.costs import Work
from nkisim.profiling.model.program import Capture
from nkisim.profiling.model.schedule import schedule

from ...each_case import each_case
from .schedule_laws import memory_of, over_capacity
from .test_schedule import Builder

PSUM = MemoryRegion.psum
CAPACITY = {"sbuf": GEN3.sbuf_usable_bytes, "psum": 16384}


def captured(kernel, *arguments, target="trn2"):
    capture = Capture(resolve_target(target))
    nkisim.simulate(kernel, target=target, values=False, watchers=(capture,))(*arguments)
    return capture.program


# -- PSUM ------------------------------------------------------------------------------------------


def evicted(row_bytes, count):
    """Return a program that fills PSUM tiles and copies each out, and its times."""
    build = Builder()
    for i in range(count):
        tile = build.tile(PSUM, row_bytes=row_bytes, site=i)
        product = build.on(Engine.tensor, 10, tiles=(tile,))
        build.on(Engine.vector, 10_000, needs=(product,), tiles=(tile,))
    return build.times()


@each_case("row_bytes, at_once", [(512, 8), (2048, 8), (2049, 4), (4096, 4), (16384, 1)])
def test_a_psum_tile_takes_whole_banks(row_bytes, at_once):
    times = evicted(row_bytes, at_once + 2)
    first_copied = times.ready[1]
    assert times.start[2 * at_once - 2] < first_copied
    assert times.start[2 * at_once] == first_copied
    assert times.start[2 * at_once + 2] == times.ready[3]


def test_psum_tiles_share_banks_where_the_program_has_more_of_them():
    build = Builder()
    tiles = [build.tile(PSUM, row_bytes=512, site=i) for i in range(10)]
    for tile in (*tiles, *tiles):
        build.on(Engine.vector, 100, tiles=(tile,))
    times = build.times()
    assert times.total == 2000
    assert not over_capacity(memory_of(build.program, times), CAPACITY)


def test_parts_of_a_psum_tile_are_one_tile():
    def kernel(x):
        out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        for c in (0, 256):
            part = slice(c, c + 256)
            nisa.nc_matmul(dst=total[:, part], stationary=tile[:, 0:128], moving=tile[:, part])
        nisa.tensor_copy(dst=tile, src=total)
        nisa.dma_copy(dst=out, src=tile)
        return out

    program = captured(kernel, np.zeros((128, 512), np.float32))
    (total,) = (tile for tile in program.tiles if tile.region is PSUM)
    assert total.row_bytes == total.allocated_bytes == 2048
    assert total.uses == [1, 2, 3]


# -- SBUF ------------------------------------------------------------------------------------------


def test_tiles_with_an_address_leave_less_room_for_the_others():
    build = Builder()
    fixed = build.tile(row_bytes=100_000, placed=True, site="fixed")
    build.on(Engine.scalar, 1, tiles=(fixed,))
    for i in range(3):
        tile = build.tile(row_bytes=50_000, site=i)
        load = build.load(mode="prebuilt", tiles=(tile,), line=i)
        build.on(Engine.vector, 10_000, needs=(load,), tiles=(tile,))
    build.on(Engine.scalar, 1, tiles=(fixed,), needs=(len(build.program.operations) - 1,))
    times = build.times()
    assert times.start[3] < times.ready[2]  # two of them fit beside it
    assert times.start[5] == times.ready[2]  # a third does not
    assert not over_capacity(memory_of(build.program, times), CAPACITY)


def test_tiles_take_room_in_program_order():
    build = Builder()
    sizes = (100_000, 100_000, 100_000, 1000)
    for i, size in enumerate(sizes):
        tile = build.tile(row_bytes=size, site=i)
        load = build.load(nbytes=16, mode="prebuilt", tiles=(tile,), line=i)
        build.on(Engine.vector, 10_000, needs=(load,), tiles=(tile,))
    times = build.times()
    # The last one fits at once, but must not take what the third waits for; both are triggered by
    # Sync, one after the other.
    assert sorted([times.start[4], times.start[6]]) == [times.ready[1], times.ready[1] + 10]


@each_case("parts, tiles", [(2, 2), (4, 4), (31, 31), (32, 32), (40, 32)])
def test_a_tile_has_parts_with_lives_of_their_own(parts, tiles):
    def kernel(x):
        tile = nl.ndarray((128, 16 * parts), dtype=nl.float32, buffer=nl.sbuf)
        for i in range(parts):
            nisa.memset(dst=tile[:, 16 * i : 16 * (i + 1)], value=0.0)
        for i in range(parts):
            nisa.memset(dst=tile[:, 16 * i : 16 * (i + 1)], value=1.0)

    program = captured(kernel, np.zeros((1, 1), np.float32))
    assert len(program.tiles) == tiles
    assert sum(tile.row_bytes for tile in program.tiles) == 64 * parts
    assert [tile.part for tile in program.tiles] == list(range(tiles))
    assert {tile.allocated_bytes for tile in program.tiles} == {64 * parts}
    # Both instructions of a piece use its part; those beyond the others share the last one.
    for i, tile in enumerate(program.tiles[: tiles - 1]):
        assert tile.uses == [i, parts + i]
    shared = [i for i in range(2 * parts) if i % parts >= tiles - 1]
    assert program.tiles[-1].uses == shared


def test_an_access_of_several_parts_uses_all_of_them_and_adds_what_is_new():
    def kernel(x):
        tile = nl.ndarray((128, 100), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=tile[:, 10:20], value=0.0)
        nisa.memset(dst=tile[:, 40:60], value=0.0)
        nisa.memset(dst=tile[:, 15:50], value=0.0)  # 20:40 are new
        nisa.memset(dst=tile[:, 20:40], value=0.0)
        nisa.memset(dst=tile[:, 1:100], value=0.0)  # 1:10 and 60:100
        nisa.memset(dst=tile[:, 9:10], value=0.0)

    program = captured(kernel, np.zeros((1, 1), np.float32))
    assert [tile.row_bytes for tile in program.tiles] == [40, 80, 80, 196]
    assert [tile.uses for tile in program.tiles] == [[0, 2, 4], [1, 2, 4], [2, 3, 4], [4, 5]]


# -- turns -----------------------------------------------------------------------------------------


@each_case("generation, expected", [(GEN2, 1000.0), (GEN3, 0.0)])
def test_gen2_serialises_vector_and_scalar_in_psum(generation, expected):
    build = Builder(generation)
    build.on(Engine.vector, 1000, tiles=(build.tile(PSUM, site=1),))
    build.on(Engine.scalar, 1000, tiles=(build.tile(PSUM, site=2),))
    assert build.times().start[1] == expected


@each_case("fast, expected", [(True, 1000.0), (False, 0.0)])
def test_fast_modes_of_vector_take_turns_with_gpsimd(fast, expected):
    build = Builder()
    build.add(Work(Engine.vector, 1000.0, 0.0, fast_vector=fast))
    build.on(Engine.gpsimd, 1000)
    assert build.times().start[1] == expected


@each_case("second, expected", [(2, 1000.0), (1, 0.0), (0, 1000.0)])
def test_a_product_of_the_whole_array_waits_for_every_part_of_it(second, expected):
    build = Builder(GEN2)  # without the slow start of later generations
    build.add(Work(Engine.tensor, 1000.0, 0.0, array=2))
    build.add(Work(Engine.tensor, 1000.0, 0.0, array=second))
    build.add(Work(Engine.tensor, 1000.0, 0.0, array=0))
    times = build.times()
    assert times.start[1] == expected
    assert times.start[2] == max(times.end[0:2])


def test_both_generators_in_hardware_work_at_the_same_time():
    build = Builder()
    for line, trigger in enumerate((Engine.sync, Engine.scalar, Engine.sync)):
        build.load(mode="hardware", trigger=trigger, line=line)
    build.on(Engine.scalar, 100)
    times = build.times()
    assert times.start == [0.0, 0.0, 600.0, 0.0]


def test_a_tile_with_an_address_names_its_bank():
    def kernel(x):
        tiles = [
            nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum, address=(0, 2048 * bank))
            for bank in (0, 3)
        ]
        for tile in tiles:
            nisa.memset(dst=tile, value=0.0)

    first, second = captured(kernel, np.zeros((1, 1), np.float32)).tiles
    assert (first.bank, second.bank) == ((0, 0), (0, 3))
    assert first.placed


@each_case("by_columns", [False, True])
def test_a_tensor_stored_block_by_block_is_captured_in_linear_time(by_columns, monkeypatch):
    """Footprints that are compared grow with the blocks, not with their square."""

    def kernel(x, blocks):
        out = nl.ndarray((128, 16 * blocks), dtype=nl.float32, buffer=nl.shared_hbm)
        if not by_columns:
            out = nl.ndarray((128 * blocks, 16), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=0.0)
        for i in range(blocks):
            block = out[:, 16 * i : 16 * (i + 1)] if by_columns else out[128 * i : 128 * (i + 1)]
            nisa.dma_copy(dst=block, src=tile)
        return out

    original, compared = footprints._Footprint.overlaps, []

    def overlaps(self, other):
        compared.append(other)
        return original(self, other)

    monkeypatch.setattr(footprints._Footprint, "overlaps", overlaps)
    counted = []
    for blocks in (100, 200, 400):
        compared.clear()
        captured(kernel, np.zeros((1, 1), np.float32), blocks)
        counted.append(len(compared))
    assert counted[2] - counted[1] <= 2.2 * (counted[1] - counted[0])


def test_a_program_without_operations_takes_no_time():
    assert schedule(Builder().program).total == pytest.approx(0.0)
