"""Kernels whose predicted times hardware cannot have, or did once: each law on a small kernel."""

import functools
import itertools

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.arch import GEN3, resolve_target
from nkisim.arch.timing import timing_of
from nkisim.profiling.model import footprints
from nkisim.profiling.model.program import Capture
from nkisim.profiling.model.resources import peak, row_bytes
from nkisim.profiling.model.schedule import schedule

T3 = timing_of(GEN3)
BF16 = ml_dtypes.bfloat16


def zeros(*shape, dtype=np.float32):
    return np.broadcast_to(np.zeros((), dtype), shape)


def times_of(kernel, *arguments, target="trn2"):
    """Return the operations of a kernel and their optimistic schedule."""
    capture = Capture(resolve_target(target))
    nkisim.simulate(kernel, target=target, values=False, watchers=(capture,))(*arguments)
    return capture.program.operations, schedule(capture.program)


def stored(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def chained_products(a, b, columns):
    """Accumulate 64 products of 128 x 128 and 128 x 512 in pieces of so many columns."""
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    left = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    for k in range(64):
        for c in range(0, 512, columns):
            piece = slice(c, c + columns)
            nisa.nc_matmul(
                dst=total[:, piece], stationary=left, moving=right[:, piece], accumulate=k > 0
            )
    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    return stored(result)


@pytest.mark.parametrize("dtype", [np.float32, BF16])
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_accumulating_products_follow_each_other_at_the_issue_interval(target, dtype):
    a, b = zeros(128, 128, dtype=dtype), zeros(128, 512, dtype=dtype)
    wide, narrow = (
        nkisim.profile(chained_products, target, advice=False)(a, b, columns)
        for columns in (512, 128)
    )
    # Fewer columns mean more products, each with its issue cost: never faster.
    assert wide.latency_us <= narrow.latency_us
    operations, times = times_of(chained_products, a, b, 512, target=target)
    products = [o.number for o in operations if o.work.flops]
    for first, second in itertools.pairwise(products):
        assert times.start[second] == times.end[first]


def streamed(x, tiles):
    """Load many tiles that wait for one slow instruction before they are used."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    slow = nl.ndarray((128, 16384), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=slow, value=1.0)
    for _ in range(8):
        nisa.reciprocal(dst=slow, data=slow)
    for i in range(tiles):
        tile = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=slow[:, 0:8192], op=nl.add)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)
    return out


def most_used(uses):
    """Return the largest sum of bytes over time."""
    changes = [(use.start_us, use.row_bytes) for use in uses]
    changes += [(use.end_us, -use.row_bytes) for use in uses]
    return max(itertools.accumulate(change for _, change in sorted(changes)))


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_loads_run_ahead_only_as_far_as_sbuf_has_room(target):
    found = nkisim.profile(streamed, target, advice=False)(zeros(32 * 128, 8192), 32)
    assert not found.spill_bytes
    used = most_used([use for use in found.memory if use.region == "sbuf"])
    assert used <= found.capacity["sbuf"]
    # More than what the program itself has alive in any instant: loads do run ahead.
    assert used > 64 * 1024 + 2 * 8192 * 4


def test_descriptors_of_the_scalar_queue_do_not_occupy_scalar():
    def many_loads(x):
        out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in range(64):
            tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(
                dst=tile,
                src=x[i * 128 : (i + 1) * 128],
                dge_mode=nisa.dge_mode.hwdge,
                engine=nisa.engine.scalar,
            )
            for _ in range(8):
                nisa.activation(dst=tile, op=nl.exp, data=tile)
            nisa.dma_copy(dst=out, src=tile)
        return out

    found = nkisim.profile(many_loads, advice=False)(zeros(64 * 128, 64))
    activations = 64 * 8 * (100 + 64) / T3.scalar_ghz / 1e3
    assert found.engine_busy_us["scalar"] == pytest.approx(activations)
    # The busiest generator is that of the stores, which is GpSimd.
    assert found.engine_busy_us["dge"] == pytest.approx(64 * T3.dma_software_fixed / 1e3)
    assert found.bound_us <= found.latency_us
    assert all(share <= 1 for share in found.utilization.values())
    generated = [s for s in found.timeline if s.name == "descriptors by scalar"]
    assert {span.engine for span in generated} == {"dge"}
    for first, second in itertools.pairwise(generated):
        assert second.start_us >= first.end_us - 1e-9


def tiled_products(a, b, positions):
    """Multiply tiles of 32 x 32 in parts of the systolic array."""
    totals = [nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum) for _ in range(4)]
    left = nl.ndarray((128, 32), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    for i in range(256):
        row, column = positions[i % len(positions)]
        nisa.nc_matmul(
            dst=totals[row // 32][column : column + 32],
            stationary=left[row : row + 32],
            moving=right[row : row + 32],
            tile_position=(row, column),
            tile_size=(32, 32),
            accumulate=i >= len(positions),
        )
    result = nl.ndarray((32, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=totals[0][0:32])
    return stored(result)


@pytest.mark.parametrize(
    ("positions", "at_once"),
    [
        (((0, 0),), 1),
        (((0, 0), (32, 0)), 2),
        (((0, 0), (0, 32), (0, 64), (0, 96)), 4),
        (tuple((32 * r, 32 * c) for r in range(4) for c in range(4)), 16),
    ],
)
def test_tiles_of_the_array_compute_at_the_same_time_only_in_different_places(positions, at_once):
    a, b = zeros(128, 32, dtype=BF16), zeros(128, 512, dtype=BF16)
    operations, times = times_of(tiled_products, a, b, positions)
    products = [o.number for o in operations if o.work.flops]
    each = (512 + T3.matmul_issue_cycles) / T3.tensor_ghz
    took = max(times.end[n] for n in products) - times.start[products[0]]
    # The array starts at half of its rate, for the time of the ramp.
    assert 256 / at_once * each <= took <= 256 / at_once * each + 2 * T3.tensor_ramp


@nkisim.jit
def exchanged(x, barriers):
    """Each core doubles half of the rows; then each reads the half of the other one."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    shared = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    half = x.shape[0] // 2
    mine, other = nl.program_id(0) * half, (1 - nl.program_id(0)) * half
    tile = nl.ndarray((half, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[mine : mine + half])
    nisa.dma_copy(dst=shared[mine : mine + half], src=tile)
    for _ in range(barriers):
        nisa.core_barrier(data=shared, cores=(0, 1))
    again = nl.ndarray((half, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=again, src=shared[other : other + half])
    nisa.dma_copy(dst=out[mine : mine + half], src=again)
    return out


def test_accesses_of_shared_data_wait_for_the_barrier_and_it_for_both_cores():
    operations, times = times_of(exchanged[2], zeros(128, 64), 1)
    barriers = [o for o in operations if o.name == "core_barrier"]
    assert {o.core for o in barriers} == {0, 1}
    start = {times.start[o.number] for o in barriers}
    assert len(start) == 1
    stores = [o for o in operations if o.number < barriers[0].number and o.work.transfer.stores]
    assert len(stores) == 2
    assert min(start) >= max(times.ready[o.number] for o in stores)
    end = max(times.ready[o.number] for o in barriers)
    later = [o for o in operations if o.number > barriers[-1].number]
    assert later
    assert all(times.start[o.number] >= end for o in later)


def test_every_barrier_takes_time():
    found = [
        nkisim.profile(exchanged[2], advice=False)(zeros(128, 64), n).latency_us for n in (1, 2, 3)
    ]
    each = pytest.approx(T3.barrier / 1e3)
    assert [found[1] - found[0], found[2] - found[1]] == [each, each]


def test_the_engine_of_a_barrier_waits():
    def two_cores(x):
        shared = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=1.0)
        if nl.program_id(0) == 0:
            for _ in range(20):
                nisa.reciprocal(dst=tile, data=tile)
            nisa.dma_copy(dst=shared, src=tile)
        nisa.core_barrier(data=shared, cores=(0, 1), engine=nisa.engine.gpsimd)
        index = nl.ndarray((128, 64), dtype=nl.int32, buffer=nl.sbuf)
        nisa.iota(dst=index, pattern=[[1, 64]], offset=0)
        return shared

    operations, times = times_of(nkisim.jit(two_cores)[2], zeros(128, 2048))
    barrier = max(times.end[o.number] for o in operations if o.name == "core_barrier")
    assert barrier > 20 * 6 * 2048 / T3.vector_ghz
    iotas = [o for o in operations if o.name == "iota"]
    assert len(iotas) == 2
    assert all(times.start[o.number] >= barrier for o in iotas)


def test_a_store_waits_for_the_loads_of_what_it_replaces():
    def replaced(x):
        scratch = nl.ndarray((256, 512), dtype=x.dtype, buffer=nl.private_hbm)
        out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = [nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf) for _ in range(3)]
        nisa.memset(dst=tiles[0], value=1.0)
        nisa.dma_copy(dst=scratch[0:128], src=tiles[0])
        nisa.dma_copy(dst=scratch[128:256], src=tiles[0])
        nisa.dma_copy(dst=tiles[1], src=scratch[0:128])  # operation 3
        nisa.dma_copy(dst=tiles[2], src=scratch[128:256])  # operation 4
        nisa.dma_copy(dst=scratch[0:128], src=tiles[0])
        nisa.tensor_tensor(dst=tiles[1], data1=tiles[1], data2=tiles[2], op=nl.add)
        nisa.dma_copy(dst=out, src=tiles[1])
        return out

    operations, times = times_of(replaced, zeros(1, 1))
    store = operations[5]
    assert 3 in store.needs
    assert 4 not in store.needs
    assert times.start[5] >= times.ready[3]


@pytest.mark.parametrize("count", [10, 64, 65, 200])
def test_a_load_from_hbm_waits_for_the_store_of_its_rows(count):
    def pieces(x):
        scratch = nl.ndarray((count * 8, 512), dtype=x.dtype, buffer=nl.private_hbm)
        out = nl.ndarray((8, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        first = nl.ndarray((8, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(dst=first, value=1.0)
        for i in range(count):
            nisa.dma_copy(dst=scratch[i * 8 : (i + 1) * 8], src=first)
        loaded = nl.ndarray((8, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=loaded, src=scratch[36:44])  # parts of pieces 4 and 5
        nisa.dma_copy(dst=out, src=loaded)
        return out

    operations, _ = times_of(pieces, zeros(1, 1))
    assert operations[count + 1].needs == (1 + 4, 1 + 5)


def test_strided_stores_between_each_other_do_not_wait():
    def heads(x):
        out = nl.ndarray((128, 4, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=1.0)
        for head in range(4):
            nisa.dma_copy(dst=out[:, head, :], src=tile)
        nisa.dma_copy(dst=out[0:64, 1, :], src=tile[0:64])
        return out

    operations, _ = times_of(heads, zeros(1, 1))
    assert [o.needs for o in operations[1:5]] == [(0,)] * 4
    assert operations[5].needs == (0, 2)


def loaded_in_pieces(x, partitions):
    """Load 16 tiles, each in pieces of so many partitions."""
    out = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(16):
        tile = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
        for p in range(0, 128, partitions):
            nisa.dma_copy(
                dst=tile[p : p + partitions], src=x[i * 128 + p : i * 128 + p + partitions]
            )
        if i == 15:
            nisa.dma_copy(dst=out, src=tile)
    return out


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_pieces_of_few_partitions_use_all_dma_engines(target):
    x = zeros(16 * 128, 2048)
    whole, pieces = (
        nkisim.profile(
            loaded_in_pieces,
            target,
            advice=False,
            descriptors="prebuilt",
        )(x, partitions)
        for partitions in (128, 8)
    )
    timing = timing_of(resolve_target(target))
    # The same bytes over the same engines, and one overhead per piece on its engine.
    assert pieces.latency_us < 1.2 * whole.latency_us
    rate = timing.dma_core_rate * timing.dma_reached
    busy = 17 * (timing.dma_overhead + 128 * 2048 * 4 / rate) / 1e3
    assert whole.engine_busy_us["dma"] == pytest.approx(busy)
    assert pieces.engine_busy_us["dma"] == pytest.approx(busy)


def test_the_origin_of_descriptors_is_stated_and_prebuilt_ones_have_no_issue_cost():
    x = zeros(16 * 128, 2048)
    kernel = functools.partial(loaded_in_pieces, partitions=8)
    software = nkisim.profile(kernel, advice=False)(x)
    prebuilt = nkisim.profile(kernel, advice=False, descriptors="prebuilt")(x)
    assert software.descriptors == {"software": 257}
    assert prebuilt.descriptors == {"prebuilt": 257}
    assert "made by GpSimd 257; assumed by GpSimd where the kernel" in str(software)
    assert "made before the run 257; assumed before the run" in str(prebuilt)
    issue = 256 * (T3.dma_software_issue + 8 * T3.dma_software_few) + T3.dma_software_fixed
    assert software.engine_busy_us["gpsimd"] == pytest.approx(issue / 1e3)
    assert prebuilt.engine_busy_us["gpsimd"] == 0
    assert prebuilt.latency_us < software.latency_us
    with pytest.raises(ValueError, match="descriptors: got 'none'"):
        nkisim.profile(kernel, descriptors="none")


def rescanned(x, blocks, rounds):
    """Read every block in each round, more of them than SBUF holds."""
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = []
    for _ in range(blocks):
        tile = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        tiles.append(tile)
    small = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=small, value=0.0)
    for _ in range(rounds):
        for tile in tiles:
            nisa.tensor_tensor(dst=small, data1=small, data2=tile[:, 0:512], op=nl.add)
    nisa.dma_copy(dst=out, src=small)
    return out


@pytest.mark.parametrize("blocks", [8, 32, 64])
def test_spills_move_at_most_the_operands_of_all_instructions(blocks):
    x = zeros(128, 8192)
    found = nkisim.profile(rescanned, advice=False)(x, blocks, 4)
    operands = blocks * x.nbytes + 4 * blocks * 3 * 128 * 512 * 4 + 2 * 128 * 512 * 4
    assert 0 < found.spill_bytes <= operands
    used = most_used([use for use in found.memory if use.region == "sbuf"])
    assert used <= found.capacity["sbuf"]


def test_waiting_for_descriptors_belongs_to_the_transfers():
    def waiting(x):
        out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        mask = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(dst=mask, value=1.0)
        nisa.affine_select(
            dst=mask,
            pattern=[[1, 64]],
            channel_multiplier=-1,
            on_true_tile=mask,
            on_false_value=0.0,
            cmp_op=nl.greater_equal,
        )
        tiles = [nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf) for _ in range(100)]
        for i, tile in enumerate(tiles):
            nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        for tile in tiles:
            nisa.tensor_tensor(dst=mask, data1=mask, data2=tile, op=nl.add)
        nisa.affine_select(
            dst=mask,
            pattern=[[1, 64]],
            channel_multiplier=-1,
            on_true_tile=mask,
            on_false_value=0.0,
            cmp_op=nl.greater_equal,
        )
        nisa.dma_copy(dst=out, src=mask)
        return out

    found = nkisim.profile(waiting, advice=False)(zeros(100 * 128, 64))
    critical = {}
    for line in found.lines:
        name = line.text.split("(")[0]
        critical[name] = critical.get(name, 0.0) + line.critical_us
    selects = sum(line.busy_us for line in found.lines if "affine_select" in line.text)
    assert critical["nisa.affine_select"] <= 2 * selects
    assert critical["nisa.dma_copy"] > 90 * T3.dma_software_issue / 1e3
    whole = max(span.ready_us for span in found.timeline)
    assert sum(critical.values()) == pytest.approx(whole)


def test_findings_about_the_source_alone_are_shown_above_the_prediction():
    def comprehended(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = [nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf) for _ in range(1)]
        nisa.dma_copy(dst=tiles[0], src=x)
        nisa.dma_copy(dst=out, src=tiles[0])
        return out

    found = nkisim.profile(comprehended, source=True)(zeros(128, 64))
    assert found.transfers == 2
    assert "L006" in {finding.rule.id for finding in found.findings}
    text = str(found)
    assert text.index("L006") < text.index("latency")


@pytest.mark.parametrize("by_columns", [False, True])
def test_a_tile_written_piece_by_piece_is_captured_in_linear_time(by_columns, monkeypatch):
    """Footprints that are compared grow with the pieces, not with their square."""

    def written(x, pieces):
        tile = nl.ndarray((128, 4 * pieces), dtype=x.dtype, buffer=nl.sbuf)
        for i in range(pieces):
            rows, columns = (128, 1) if by_columns else (1, 4)
            nisa.memset(dst=tile[0:rows, i * columns : (i + 1) * columns], value=0.0)

    original = footprints._Footprint.overlaps
    compared = []

    def overlaps(self, other):
        compared.append(other)
        return original(self, other)

    monkeypatch.setattr(footprints._Footprint, "overlaps", overlaps)
    counted = []
    for pieces in (200, 400):
        compared.clear()
        times_of(written, zeros(1, 1), pieces)
        counted.append(len(compared))
    assert counted[1] < 3 * counted[0]


def test_peak_of_program_order_is_the_most_that_is_alive_at_once():
    class Row:
        def __init__(self, row_bytes, *uses):
            self.row_bytes, self.uses = row_bytes, uses

    rows = [Row(4, 0, 5), Row(2, 1, 2), Row(3, 3, 4), Row(1, 5, 9)]
    assert peak(rows, row_bytes) == 7
