"""The figures of a profile from its schedule: times, rates, bounds, lines and memory, by hand."""

import functools

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.arch import GEN2, GEN3, resolve_target
from nkisim.isa import engine as Engine
from nkisim.profiling.analysis import Prediction, profile_of
from nkisim.profiling.model.costs import Work
from nkisim.profiling.model.program import Capture
from nkisim.profiling.model.schedule import schedule

from .test_schedule import Builder

MIB = 1 << 20


def zeros(*shape, dtype=np.float32):
    return np.broadcast_to(np.zeros((), dtype), shape)


def profile_by_hand(build):
    return profile_of(Prediction(build.program), "made", [], "0.3.0")


def found(kernel, *arguments, target="trn2"):
    return nkisim.profile(kernel, target, advice=False)(*arguments)


def program_of(kernel, *arguments, target="trn2"):
    capture = Capture(resolve_target(target))
    nkisim.simulate(kernel, target=target, values=False, watchers=(capture,))(*arguments)
    return capture.program


# -- times -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_the_latency_is_that_of_the_schedule_or_of_waiting_with_the_fixed_cost(target):
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in range(8):
            tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
            nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128], src=tile)
        return out

    x = zeros(8 * 128, 512)
    program = program_of(kernel, x, target=target)
    ahead, serial, free = (
        schedule(program, how).total / 1e3 for how in ("ahead", "one by one", "free")
    )
    assert free < ahead < serial
    profile = found(kernel, x, target=target)
    # 9.4 us on the device outside the data flow, 54 us on the host.
    assert profile.fixed_us == pytest.approx(9.4)
    assert profile.host_us == pytest.approx(54.0)
    waiting = free + min(0.25 * (serial - free), free)
    assert profile.latency_us == pytest.approx(9.4 + max(ahead, waiting))
    low, high = profile.interval_us
    assert low <= 0.97 * profile.latency_us
    assert high >= 1.03 * profile.latency_us


def test_the_time_of_a_kernel_without_transfers_depends_on_the_fixed_cost_alone():
    build = Builder()
    build.on(Engine.vector, 1000)
    prediction = Prediction(build.program)
    assert prediction.times.total == 1000
    assert prediction.latency_us == pytest.approx(9.4 + 1.0)
    assert [(doubt.name, doubt.alternatives) for doubt in prediction.doubts] == [
        ("fixed_us", {11.2: pytest.approx(12.2)})
    ]


# -- busy times ------------------------------------------------------------------------------------


def test_busy_times_are_sums_by_engine_and_the_busiest_core_is_shown():
    build = Builder()
    build.on(Engine.vector, 1000)
    build.on(Engine.vector, 500)
    build.on(Engine.scalar, 3000)
    build.on(Engine.vector, 20_000, core=1)
    profile = profile_by_hand(build)
    first, second = profile.per_core
    assert (first["vector"], first["scalar"], first["gpsimd"]) == pytest.approx((1.5, 3.0, 0.0))
    assert (second["vector"], second["scalar"]) == pytest.approx((20.0, 0.0))
    assert profile.engine_busy_us == second
    assert profile.utilization["vector"] == pytest.approx(20.0 / profile.latency_us)
    assert profile.latency_us == pytest.approx(29.4)


def test_parts_of_the_array_that_compute_at_the_same_time_count_once():
    build = Builder(GEN2)  # without the slow start of later generations
    build.add(Work(Engine.tensor, 40_000.0, 0.0, array=1))
    for _ in range(5):
        build.add(Work(Engine.tensor, 7000.0, 0.0, array=2))
    build.add(Work(Engine.tensor, 1000.0, 0.0, array=1))
    assert profile_by_hand(build).engine_busy_us["tensor"] == pytest.approx(41.0)


def test_descriptors_count_for_what_makes_them():
    build = Builder()
    for _ in range(3):
        build.load(nbytes=16, mode="hardware", trigger=Engine.sync)
    for _ in range(2):
        build.load(nbytes=16, mode="hardware", trigger=Engine.scalar, line=2)
    build.load(nbytes=16, mode="software", trigger=Engine.gpsimd, line=3)
    for _ in range(100):
        build.load(nbytes=16, mode="prebuilt", trigger=Engine.sync, line=4)
    profile = profile_by_hand(build)
    busy = profile.engine_busy_us
    assert busy["dge"] == pytest.approx(3 * 0.6)  # the busiest generator, without prebuilt ones
    assert busy["scalar"] == 0
    assert busy["gpsimd"] == pytest.approx(0.67)
    assert busy["sync"] == pytest.approx(100 * 0.01)
    assert profile.descriptors == {"hardware": 5, "software": 1, "prebuilt": 100}
    made = [span for span in profile.timeline if span.engine == "dge"]
    assert len(made) == 6
    lengths = sorted(round(span.end_us - span.start_us, 6) for span in made)
    assert lengths == [0.6] * 5 + [0.67]
    assert all(span.ready_us == span.end_us for span in made)


def test_the_spans_of_transfers_are_when_their_bytes_move():
    build = Builder()
    build.load(nbytes=368_000, mode="software", trigger=Engine.gpsimd)
    (moved,) = (span for span in profile_by_hand(build).timeline if span.engine == "dma")
    begins = 0.67 + 0.751
    assert moved.start_us == pytest.approx(begins)
    assert moved.end_us == pytest.approx(begins + 0.02 + 1.0)
    assert moved.ready_us == pytest.approx(begins + 0.02 + 1.0 + 0.315)
    assert moved.nbytes == 368_000
    assert moved.queue == "loads (gpsimd, software)"


# -- rates -----------------------------------------------------------------------------------------


def copied(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out


@pytest.mark.parametrize(
    ("target", "rate", "reached", "overhead"),
    [("trn1", 272, 1.0, 0.230), ("trn2", 368, 0.89, 0.020), ("trn3", 528, 0.89, 0.020)],
)
def test_the_efficiency_of_transfers_is_their_rate_while_engines_are_busy(
    target, rate, reached, overhead
):
    profile = found(copied, zeros(128, 8192), target=target)
    nbytes = 2 * 4 * MIB
    busy = 2 * (overhead + 4 * MIB / (rate * reached) / 1e3)
    assert profile.engine_busy_us["dma"] == pytest.approx(busy)
    assert profile.dma_efficiency == pytest.approx(nbytes / (busy * 1e3) / rate)
    assert 0.85 < profile.dma_efficiency < 1
    assert profile.hbm_gbps == rate
    assert profile.hbm_bytes == nbytes


def multiplied(a, b, repeats=1):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    for k in range(repeats):
        nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=k > 0)
    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    nisa.dma_copy(dst=out, src=result)
    return out


@pytest.mark.parametrize(
    ("dtype", "cycles"), [(ml_dtypes.bfloat16, 512 + 8), (np.float32, 4 * 512 + 16)]
)
def test_the_roofline_is_that_of_the_types_and_of_the_bytes(dtype, cycles):
    a, b = zeros(128, 128, dtype=dtype), zeros(128, 512, dtype=dtype)
    few, many = (found(functools.partial(multiplied, repeats=n), a, b) for n in (1, 400))
    flops, nbytes = 2 * 128 * 128 * 512, a.nbytes + b.nbytes + 128 * 512 * 4
    assert few.flops == flops
    assert few.intensity == pytest.approx(flops / nbytes)
    # 512 of the cycles of a product use the array, one pass of four for float32.
    peak = 2.4e9 * 2 * 128 * 128 / 1e12 * 512 / cycles
    assert few.peak_tflops == pytest.approx(peak)
    assert few.roofline_tflops == pytest.approx(min(peak, flops / nbytes * 368e9 / 1e12))
    assert many.roofline_tflops == pytest.approx(peak)
    assert few.achieved_tflops == pytest.approx(flops / few.latency_us / 1e6)


def test_a_kernel_without_products_has_the_peak_of_bfloat16_of_all_cores():
    assert found(copied, zeros(128, 64)).peak_tflops == pytest.approx(78.6432)
    assert found(copied, zeros(128, 64), target="trn1").peak_tflops == pytest.approx(91.7504)

    def on_both(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        rows = slice(64 * nl.program_id(0), 64 * nl.program_id(0) + 64)
        tile = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        nisa.dma_copy(dst=out[rows], src=tile)
        return out

    two = found(nkisim.jit(on_both)[2], zeros(128, 64))
    assert two.peak_tflops == pytest.approx(2 * 78.6432)
    assert two.hbm_gbps == 2 * 368


# -- what binds ------------------------------------------------------------------------------------


def bound_of(vector, waits=0.0):
    """What binds a kernel with so much work, and so much time in which nothing is busy, in us."""
    build = Builder()
    build.on(Engine.vector, vector * 1e3, tail=waits * 1e3)
    return profile_by_hand(build)


def test_a_kernel_is_bound_by_its_launch_by_an_engine_or_by_waiting():
    assert bound_of(9.0).bound_by == "launch"  # 9.4 of 18.4 us
    busy = bound_of(10.0)
    assert busy.bound_by == "vector"
    assert busy.bound_us == pytest.approx(10.0)
    assert busy.bound_share == pytest.approx(1.0)
    assert bound_of(61.0, waits=39.0).bound_by == "vector"
    waiting = bound_of(59.0, waits=41.0)
    assert waiting.bound_by == "dependencies"
    assert waiting.bound_us == pytest.approx(59.0)
    assert waiting.bound_share == pytest.approx(0.59)


# -- lines and memory ------------------------------------------------------------------------------


def test_a_line_has_its_busy_time_its_instructions_and_its_share_of_the_critical_path():
    build = Builder()
    last = build.on(Engine.vector, 2000, tail=100, line=1)
    build.on(Engine.scalar, 1000, line=2)
    build.on(Engine.scalar, 1500, line=2)
    build.on(Engine.gpsimd, 5000, tail=50, needs=(last,), line=3)
    lines = {line.line: line for line in profile_by_hand(build).lines}
    assert list(lines) == [3, 1, 2]
    # The wait of 40 ns for another engine is with the result that is waited for.
    assert lines[1].critical_us == pytest.approx(2.0 + 0.1 + 0.04)
    assert lines[3].critical_us == pytest.approx(5.0 + 0.05)
    assert lines[2].critical_us == 0
    assert [lines[n].busy_us for n in (1, 2, 3)] == pytest.approx([2.0, 2.5, 5.0])
    assert [lines[n].instructions for n in (1, 2, 3)] == [1, 2, 1]


def test_the_busy_time_of_a_transfer_is_that_of_its_bytes():
    build = Builder()
    build.load(nbytes=368_000, mode="software", trigger=Engine.gpsimd)
    (line,) = profile_by_hand(build).lines
    assert line.busy_us == pytest.approx(0.02 + 1.0)
    assert line.critical_us == pytest.approx(0.67 + 0.751 + 0.02 + 1.0 + 0.315)


def test_waiting_for_dma_engines_belongs_to_the_transfer_that_uses_them():
    build = Builder()
    build.load(nbytes=3_680_000, mode="prebuilt", line=1)
    build.load(nbytes=368, mode="prebuilt", line=2)
    lines = {line.line: line.critical_us for line in profile_by_hand(build).lines}
    issued = 0.01 + 0.751
    assert lines[1] == pytest.approx(issued + 0.02 + 10.0)
    assert lines[2] == pytest.approx(0.02 + 0.001 + 0.315)


def test_a_tile_takes_room_from_its_first_start_to_its_last_result():
    build = Builder()
    tile = build.tile(row_bytes=4096)
    first = build.on(Engine.vector, 1000, tiles=(tile,))
    later = build.on(Engine.vector, 1000, tiles=(tile,), needs=(first,))
    build.on(Engine.scalar, 100, tiles=(tile,), needs=(later,), tail=30)
    (use,) = profile_by_hand(build).memory
    assert (use.start_us, use.row_bytes, use.region) == (0.0, 4096, "sbuf")
    assert use.end_us == pytest.approx(2.0 + 0.04 + 0.1 + 0.03)


def test_spills_are_transfers_but_not_of_the_kernel():
    build = Builder()
    tiles = [build.tile(row_bytes=GEN3.sbuf_usable_bytes // 2, site=i) for i in range(3)]
    for tile in (*tiles, *tiles):
        build.on(Engine.vector, 100, tiles=(tile,))
    profile = profile_by_hand(build)
    half = 128 * (GEN3.sbuf_usable_bytes // 2)
    # The second one leaves for the third and comes back.
    assert profile.spill_bytes == 2 * half
    assert profile.transfers == profile.instructions["spill"] == 2
    assert profile.descriptors == {}
    assert profile.hbm_bytes == profile.spill_bytes
    assert {span.queue for span in profile.timeline if span.engine == "dma"} == {"spills"}
