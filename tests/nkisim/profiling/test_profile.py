"""``nkisim.profile`` on kernels: times, counts, refusals."""

import functools

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.arch import GENERATIONS, resolve_target
from nkisim.arch.timing import TIMINGS, timing_of
from nkisim.profiling.model.program import Capture
from nkisim.profiling.text import summary
from nkisim.spec import INSTRUCTIONS


def copied(x, rows=128):
    """Copy through SBUF, block by block."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(x.shape[0] // rows):
        tile = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * rows : (i + 1) * rows])
        nisa.dma_copy(dst=out[i * rows : (i + 1) * rows], src=tile)
    return out


def product(a, b):
    """Multiply (K, 128) and (K, 512) in one PSUM tile."""
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(a.shape[0] // 128):
        left = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
        right = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=a[k * 128 : (k + 1) * 128])
        nisa.dma_copy(dst=right, src=b[k * 128 : (k + 1) * 128])
        nisa.nc_matmul(dst=total, stationary=left, moving=right)
    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    nisa.dma_copy(dst=out, src=result)
    return out


def on_both_cores(x):
    """Copy one half on each core."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    half = x.shape[0] // nl.num_programs()
    first = nl.program_id(0) * half
    for i in nl.affine_range(half // 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[first + i * 128 : first + (i + 1) * 128])
        nisa.dma_copy(dst=out[first + i * 128 : first + (i + 1) * 128], src=tile)
    return out


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


@pytest.mark.parametrize("target", [g.name for g in GENERATIONS])
def test_a_large_copy_takes_the_time_of_its_bytes(target):
    x = zeros(4096, 4096)
    found = nkisim.profile(copied, target)(x)
    timing = timing_of(resolve_target(target))
    assert found.hbm_bytes == 2 * x.nbytes
    assert found.transfers == 64
    least = (2 * x.nbytes / timing.dma_core_rate + 9400) / 1e3
    assert least < found.latency_us < 1.2 * least
    assert found.bound_by == "dma"
    assert found.interval_us[0] <= found.latency_us <= found.interval_us[1]


def test_a_small_kernel_is_bound_by_its_launch():
    found = nkisim.profile(copied)(zeros(128, 16))
    assert found.bound_by == "launch"
    assert found.latency_us > found.fixed_us
    assert found.host_us > 0


def test_float32_products_take_four_passes():
    a, b = zeros(2048, 128), zeros(2048, 512)
    four = nkisim.profile(product, "trn1")(a, b).engine_busy_us["tensor"]
    one = nkisim.profile(product, "trn1")(
        a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16)
    ).engine_busy_us["tensor"]
    assert 3.5 < four / one < 4.2


def test_flops_intensity_and_roofline_are_those_of_the_product():
    a, b = zeros(2048, 128), zeros(2048, 512)
    found = nkisim.profile(product)(a, b)
    assert found.flops == 2 * 2048 * 128 * 512
    nbytes = a.nbytes + b.nbytes + 128 * 512 * 4
    assert found.hbm_bytes == nbytes
    assert found.intensity == pytest.approx(found.flops / nbytes)
    assert 0 < found.achieved_tflops < found.roofline_tflops <= found.peak_tflops


def test_two_cores_share_the_work():
    x = zeros(4096, 4096)
    one = nkisim.profile(copied)(x)
    two = nkisim.profile(nkisim.jit(on_both_cores)[2])(x)
    assert len(two.per_core) == 2
    assert two.hbm_bytes == one.hbm_bytes
    assert two.transfers == one.transfers
    assert 0.45 < (two.latency_us - two.fixed_us) / (one.latency_us - one.fixed_us) < 0.6


def test_critical_path_and_memory_name_lines_of_the_kernel():
    found = nkisim.profile(copied)(zeros(512, 1024))
    assert all(line.file == __file__ for line in found.lines)
    assert sum(line.instructions for line in found.lines) == sum(found.instructions.values())
    work = found.latency_us - found.fixed_us
    assert 0 < sum(line.critical_us for line in found.lines) <= work * 1.001
    assert {use.name for use in found.memory} == {"tile"}
    assert all(use.row_bytes == 4096 and use.region == "sbuf" for use in found.memory)
    instructions = [span for span in found.timeline if span.engine != "dge"]
    assert len(instructions) == sum(found.instructions.values())


def test_a_profile_is_the_same_each_time_and_with_values():
    x = np.random.default_rng(0).standard_normal((256, 256), dtype=np.float32)
    found = [nkisim.profile(copied, values=values)(x).to_json() for values in (False, False, True)]
    assert found[0] == found[1] == found[2]


def test_results_are_the_returned_tensors():
    def two(x):
        rows = nl.ndarray((4, 6), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nisa.dma_copy(dst=rows, src=tile[0:4, 0:6])
        narrow = nl.ndarray((8, 6), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=narrow, src=tile)
        return rows, narrow

    for kernel, expected in ((two, ["float32[4,6]", "bfloat16[8,6]"]), (copied, ["float32[8,6]"])):
        for values in (False, True):
            found = nkisim.profile(kernel, values=values, advice=False)(zeros(8, 6))
            assert found.results == found.to_dict()["results"] == expected


def test_arguments_are_not_changed():
    x = np.ones((128, 64), np.float32)
    nkisim.profile(copied, values=True)(x)
    assert (x == 1).all()


def test_a_strided_load_is_slower_than_a_contiguous_one_and_gets_advice():
    def transposing(x):
        out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.ap([[1, 128], [128, 512]]))
        nisa.dma_copy(dst=out, src=tile)
        return out

    slow = nkisim.profile(transposing)(zeros(512, 128))
    fast = nkisim.profile(copied)(zeros(128, 512))
    assert slow.latency_us > 1.5 * fast.latency_us
    (first, *_) = slow.advice
    assert first.rule == "P008"


def test_many_small_transfers_get_advice_whose_gain_is_less_than_the_time():
    found = nkisim.profile(functools.partial(copied, rows=128))(zeros(128 * 200, 64))
    rules = [piece.rule for piece in found.advice]
    assert "P001" in rules
    assert "P002" in rules
    gains = [piece.gain_us for piece in found.advice if piece.gain_us is not None]
    assert gains == sorted(gains, reverse=True)
    assert all(0 < gain < found.latency_us for gain in gains)


def test_a_kernel_that_the_compiler_refuses_raises_with_its_findings():
    def wrong(x):
        out = nl.ndarray((256, 4), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((256, 4), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=out, src=tile)
        return out

    with pytest.raises(nkisim.ProfileError, match="wrong has no device time") as raised:
        nkisim.profile(wrong)(zeros(256, 4))
    assert raised.value.report.errors


@pytest.mark.parametrize(("columns", "fits"), [(17_000, True), (20_000, False)])
def test_operands_of_one_instruction_must_fit_together(columns, fits):
    def added(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = [nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf) for _ in range(3)]
        nisa.dma_copy(dst=tiles[0], src=x)
        nisa.dma_copy(dst=tiles[1], src=x)
        nisa.tensor_tensor(dst=tiles[2], data1=tiles[0], data2=tiles[1], op=nl.add)
        nisa.dma_copy(dst=out, src=tiles[2])
        return out

    profiled = nkisim.profile(added)
    if fits:
        assert profiled(zeros(128, columns)).spill_bytes == 0
    else:
        with pytest.raises(nkisim.ProfileError, match=r"tensor_tensor uses .* 240000 bytes"):
            profiled(zeros(128, columns))


def test_an_endless_kernel_ends_at_the_limit():
    def endless(x):
        tile = nl.ndarray((128, 4), dtype=x.dtype, buffer=nl.sbuf)
        while True:
            nisa.memset(dst=tile, value=0.0)

    with pytest.raises(nkisim.ProfileError, match="more than 1,000 instructions"):
        nkisim.profile(endless, max_instructions=1000)(zeros(4, 4))


def test_a_loop_counted_in_memory_needs_values_or_a_trip_count():
    def counted(x, n):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        count = nl.ndarray((1, 1), dtype=n.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=count, src=n)
        register = nisa.register_alloc(0)
        nisa.register_load(register, count)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        for _ in nl.dynamic_range(register):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x, n = zeros(128, 64), np.array([[7]], np.int32)
    with pytest.raises(nkisim.ProfileError, match="trip_count"):
        nkisim.profile(counted)(x, n)
    assert nkisim.profile(counted, values=True)(x, n).instructions["tensor_scalar"] == 7
    assert nkisim.profile(counted, trip_count=9)(x, n).instructions["tensor_scalar"] == 9


def test_unknown_targets_and_options_are_refused_at_once():
    with pytest.raises(ValueError, match="trn9"):
        nkisim.profile(copied, "trn9")
    with pytest.raises(TypeError, match="colour"):
        nkisim.profile(copied, colour="red")
    with pytest.raises(ValueError, match="max_instructions: got 0"):
        nkisim.profile(copied, max_instructions=0)


def test_every_constant_has_a_source():
    for timing in TIMINGS.values():
        for name, constant in timing.constants().items():
            assert constant.source, name
            assert constant.confidence in ("documented", "measured", "fitted", "assumed"), name
            assert constant >= 0, name


def test_packed_products_take_one_pass():
    def kernel():
        data = nl.ndarray((128, 128), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
        scale = nl.ndarray((128, 128), dtype=nl.uint8, buffer=nl.sbuf)
        total = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.memset(dst=data, value=0)
        nisa.memset(dst=scale, value=127)
        nisa.nc_matmul_mx(total, data, data, scale, scale)

    capture = Capture(resolve_target("trn3"))
    nkisim.simulate(kernel, target="trn3", watchers=(capture,))()
    timing = timing_of(resolve_target("trn3"))
    cycles = 128 + timing.matmul_issue_cycles
    assert capture.program.operations[-1].work.busy == pytest.approx(cycles / timing.tensor_ghz)


def test_every_instruction_with_a_declaration_has_a_cost():
    assert not [name for name, declared in INSTRUCTIONS.items() if declared.cost is None]


def test_events_name_core_arguments_and_order():
    seen = []

    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x, dge_mode=nisa.dge_mode.hwdge)
        with nl.no_reorder():
            nisa.dma_copy(dst=out, src=tile)
        return out

    nkisim.simulate(kernel, target="trn2", watchers=(seen.append,))(zeros(128, 64))
    assert [event.ordered for event in seen] == [False, True]
    assert seen[0].arguments["dge_mode"] is nisa.dge_mode.hwdge
    assert {event.core for event in seen} == {0}
    capture = Capture(resolve_target("trn2"))
    for event in seen:
        capture(event)
    first, second = capture.program.operations
    assert first.work.transfer.mode == "hardware"
    assert first.work.transfer.descriptors == 128
    assert first.work.transfer.run_bytes == 256
    assert second.work.transfer.mode == "software"
    assert second.needs == (0,)


def test_the_cycle_of_dependent_instructions_has_their_times():
    def chained(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        for _ in nl.sequential_range(20):
            nisa.activation(dst=tile, op=nl.exp, data=tile)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out, src=tile)
        return out

    found = nkisim.profile(chained, advice=False)(np.zeros((128, 512), np.float32))
    variable, iterations, steps = found.cycle
    assert (found.bound_by, variable, iterations) == ("dependencies", "_", 20)
    assert [name for name, *_ in steps] == ["activation", "tensor_scalar"]
    whole = sum(line.critical_us for line in found.lines if line.instructions == 20)
    assert 20 * sum(ns for *_, ns in steps) == pytest.approx(1e3 * whole, rel=0.05)
    assert "one of 20 iterations" in str(found)
    assert found.to_dict()["cycle"]["iterations"] == 20


def test_a_kernel_that_an_engine_binds_has_no_cycle():
    assert nkisim.profile(copied, advice=False)(np.zeros((4096, 4096), np.float32)).cycle is None


def test_flags_are_passed_by_name(product):
    """A call with a bare True does not say what it asks for."""
    calls = (product.to_dict, product.to_json, functools.partial(summary, product, 80))
    for call in calls:
        with pytest.raises(TypeError, match="positional"):
            call(True)
