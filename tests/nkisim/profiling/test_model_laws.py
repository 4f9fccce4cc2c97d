"""Laws of predicted times, on kernels that differ in one thing: bytes, rows, text, strides."""

import itertools
import sys

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.collectives as ncc
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.arch import resolve_target
from nkisim.arch.timing import timing_of

from ...each_case import each_case

TARGETS = ("trn1", "trn2", "trn3")
BF16, FP8 = ml_dtypes.bfloat16, ml_dtypes.float8_e5m2
HARDWARE = {"dge_mode": nisa.dge_mode.hwdge}


def zeros(*shape, dtype=np.float32):
    return np.broadcast_to(np.zeros((), dtype), shape)


def profiled(kernel, *arguments, target="trn2", **options):
    return nkisim.profile(kernel, target, advice=False, **options)(*arguments)


def latency(kernel, *arguments, target="trn2", **options):
    return profiled(kernel, *arguments, target=target, **options).latency_us


def work_us(*arguments, **options):
    """Return the predicted time without the fixed cost of a call."""
    found = profiled(*arguments, **options)
    return found.latency_us - found.fixed_us


# -- transfers cost what hardware moves ------------------------------------------------------------


def converting(direction, outside, inside):
    """Return a kernel that loads or stores 16 tiles of 128 x 2048 between two types."""

    def kernel(x):
        if direction == "store":
            out = nl.ndarray((2048, 2048), dtype=outside, buffer=nl.shared_hbm)
        for i in range(16):
            rows = slice(i * 128, (i + 1) * 128)
            tile = nl.ndarray((128, 2048), dtype=inside, buffer=nl.sbuf)
            if direction == "load":
                nisa.dma_copy(dst=tile, src=x[rows])
            else:
                nisa.memset(dst=tile, value=0.0)
                nisa.dma_copy(dst=out[rows], src=tile)
        return out if direction == "store" else None

    return kernel


@each_case(
    "direction, outside, inside, target",
    [
        (direction, outside, inside, target)
        for direction in ("load", "store")
        for outside, inside in itertools.product(("float32", "bfloat16", "float8_e5m2"), repeat=2)
        for target in TARGETS
    ],
)
def test_both_sides_of_a_transfer_count(direction, outside, inside, target):
    sizes = {"float32": 4, "bfloat16": 2, "float8_e5m2": 1}
    dtypes = {"float32": np.float32, "bfloat16": BF16, "float8_e5m2": FP8}
    x = zeros(2048, 2048, dtype=dtypes[outside])
    kernel = converting(direction, getattr(nl, outside), getattr(nl, inside))
    found = profiled(kernel, x, target=target)
    elements = 2048 * 2048
    assert found.hbm_bytes == elements * sizes[outside]
    wider = elements * max(sizes[outside], sizes[inside])
    core = timing_of(resolve_target(target)).dma_core_rate
    assert wider / (found.latency_us - found.fixed_us) / 1e3 <= core * 1.001


def loads(rows, columns, count, dtype=nl.float32, start=0):
    """Return a kernel that loads ``count`` tiles of one shape."""

    def kernel(x):
        out = nl.ndarray((rows, 1), dtype=dtype, buffer=nl.shared_hbm)
        for _ in range(count):
            tile = nl.ndarray((rows, columns), dtype=dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[start : start + rows, 0:columns])
        nisa.dma_copy(dst=out, src=tile[:, 0:1])
        return out

    return kernel


# Rows are spread over 16 queues: what can change does so next to a multiple of 16.
BESIDE_QUEUES = [n for n in range(1, 129) if n < 18 or n % 16 in (15, 0, 1)]


@each_case("target", TARGETS)
def test_more_rows_are_never_faster(target):
    assert_no_faster(target, BESIDE_QUEUES)


@pytest.mark.slow
@each_case("target", TARGETS)
def test_any_more_rows_are_never_faster(target):
    assert_no_faster(target, range(1, 129))


def assert_no_faster(target, numbers):
    x = zeros(128, 8192)
    times = [latency(loads(rows, 4096, 32), x, target=target) for rows in numbers]
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(times))


@each_case(
    "target, columns",
    [(target, columns) for target in TARGETS for columns in ((1, 2, 3, 64, 65, 512, 2048, 8192),)],
)
def test_more_columns_and_more_transfers_are_never_faster(target, columns):
    x = zeros(128, 8192)
    for rows in (1, 8, 9, 128):
        wider = [latency(loads(rows, c, 16), x, target=target) for c in columns]
        assert all(a <= b + 1e-9 for a, b in itertools.pairwise(wider))
        more = [latency(loads(rows, 64, n), x, target=target) for n in (1, 2, 3, 8, 33, 100)]
        assert all(a <= b + 1e-9 for a, b in itertools.pairwise(more))


def between(nbytes, count=32):
    """Return a kernel that copies from HBM to HBM."""

    def kernel(x):
        out = nl.ndarray((count, nbytes // 4), dtype=nl.float32, buffer=nl.shared_hbm)
        for i in range(count):
            nisa.dma_copy(dst=out[i], src=x[i, 0 : nbytes // 4])
        return out

    return kernel


@each_case("target", TARGETS)
def test_more_bytes_between_hbm_and_hbm_are_never_faster(target):
    x = zeros(32, 1 << 18)
    sizes = [4, 508, 512, 516, 1020, 1024, 1028, 4096, 8188, 8192, 8196, 65536, 1 << 20]
    times = [latency(between(nbytes), x, target=target) for nbytes in sizes]
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(times))


@each_case("target, documented", [("trn1", 410), ("trn2", 750), ("trn3", 1175)])
def test_cores_of_one_stack_share_it(target, documented):
    def kernel(x):
        out = nl.ndarray((4096, 4096), dtype=x.dtype, buffer=nl.shared_hbm)
        first = nl.program_id(0) * (4096 // nl.num_programs())
        for i in range(0, 4096 // nl.num_programs(), 256):
            rows = slice(first + i, first + i + 256)
            nisa.dma_copy(dst=out[rows], src=x[rows])
        return out

    for cores in (1,) if target == "trn1" else (1, 2):
        found = profiled(nkisim.jit(kernel)[cores], zeros(4096, 4096), target=target)
        assert found.hbm_bytes == 2 * 4 * 4096 * 4096  # read and written
        assert found.hbm_bytes / (found.latency_us - found.fixed_us) / 1e3 <= documented


def test_many_small_loads_take_what_the_chip_needed_and_one_alone_two_microseconds():
    x = zeros(128, 512)

    def each(rows, nki="0.6"):
        few, many = (work_us(loads(rows, 64, n), x, nki=nki) for n in (100, 500))
        return (many - few) / 400

    assert 0.3 <= each(128) <= 0.46  # published: at most about 0.45 us, default descriptors
    assert each(1) <= 0.21  # published: about 0.2 us
    for rows in (32, 128):  # published: 0.66 to 0.73 us for each with NKI 0.7, from 32 rows on
        assert each(rows, "0.7") == pytest.approx(0.67)

    def alone(x):
        tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, 0:64])

    assert 1.4 <= work_us(alone, x) <= 2.2


# -- text does not matter --------------------------------------------------------------------------


def move(dst, src):
    nisa.dma_copy(dst=dst, src=src)


def looped(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(8):
        rows = slice(i * 128, (i + 1) * 128)
        tile = nl.ndarray((128, 1024), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[rows], src=tile)
    return out


def helped(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(8):
        rows = slice(i * 128, (i + 1) * 128)
        tile = nl.ndarray((128, 1024), dtype=x.dtype, buffer=nl.sbuf)
        move(tile, x[rows])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        move(out[rows], tile)
    return out


HEAD = "    {out} = nl.ndarray({x}.shape, dtype={x}.dtype, buffer=nl.shared_hbm)"
BODY = (
    "{tile} = nl.ndarray((128, 1024), dtype={x}.dtype, buffer=nl.sbuf)",
    "nisa.dma_copy(dst={tile}, src={x}[{rows}])",
    "nisa.tensor_scalar(dst={tile}, data={tile}, op0=nl.multiply, operand0=2.0)",
    "nisa.dma_copy(dst={out}[{rows}], src={tile})",
)


def other_texts():
    """Return a module with the same kernel in one line, and written out with other names."""
    names = {"x": "x", "out": "out", "tile": "tile", "rows": "i * 128 : (i + 1) * 128"}
    lines = ["import nkisim.isa as nisa", "import nkisim.language as nl", "def in_one_line(x):"]
    lines += [HEAD.format(**names), "    for i in range(8):"]
    lines += ["        " + "; ".join(text.format(**names) for text in BODY), "    return out"]
    names = {"x": "y", "out": "z"}
    lines += ["def unrolled(y):", HEAD.format(**names)]
    for i in range(8):
        names |= {"tile": f"t{i}", "rows": f"{i * 128} : {(i + 1) * 128}"}
        lines += ["    " + text.format(**names).replace(", src", ",\n        src") for text in BODY]
    return "\n".join([*lines, "    return z", ""])


@each_case("target", TARGETS)
def test_the_text_of_a_kernel_does_not_matter(target, tmp_path):
    (tmp_path / "other_texts.py").write_text(other_texts())
    sys.path.insert(0, str(tmp_path))
    try:
        from other_texts import in_one_line, unrolled
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("other_texts", None)
    x = zeros(1024, 1024)
    kernels = (looped, helped, in_one_line, unrolled)
    assert len({latency(kernel, x, target=target) for kernel in kernels}) == 1


# -- cores, ranks and collectives ------------------------------------------------------------------


def test_every_rank_has_its_own_core():
    x = zeros(1024, 1024)
    alone = profiled(looped, x)
    ranks = profiled(looped, [(x,)] * 4, ranks=4)
    assert len(ranks.per_core) == 4
    assert all(busy == alone.engine_busy_us for busy in ranks.per_core)
    assert ranks.latency_us == pytest.approx(alone.latency_us, rel=0.02)
    assert ranks.hbm_bytes == 4 * alone.hbm_bytes


def reduced(columns, collective, ranks):
    """Return a kernel that reduces its input over the ranks and then scales the result."""

    def kernel(x):
        out = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.shared_hbm)
        total = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.shared_hbm)
        mine = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=mine, src=x)
        if collective:
            group = ncc.ReplicaGroup([list(range(ranks))])
            ncc.all_reduce(srcs=[mine], dsts=[total], replica_group=group, op=nl.add)
        else:
            nisa.dma_copy(dst=total, src=mine)
        tile = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=total)
        nisa.dma_copy(dst=out, src=tile)
        return out

    return kernel


def test_collectives_take_time_and_their_results_are_awaited():
    def us(columns, ranks, collective=True):
        inputs = [(zeros(128, columns),)] * ranks
        return profiled(reduced(columns, collective, ranks), inputs, ranks=ranks)

    with_it, without = us(16, 4), us(16, 4, collective=False)
    # 8 KiB over four ranks took 13.3 us; six steps of 1 to 2 us each at least.
    assert 6 <= with_it.latency_us - without.latency_us <= 14
    assert us(16, 8).latency_us > with_it.latency_us
    assert us(4096, 4).latency_us > with_it.latency_us
    reads = [span for span in with_it.timeline if span.name == "dma_copy"]
    (moved, *_) = [span for span in with_it.timeline if span.name == "all_reduce"]
    awaited = [span for span in reads if span.start_us >= moved.end_us]
    assert len(awaited) == 2 * 4  # the load of the total and the store of the result, by rank


def test_two_cores_of_a_rank_take_part_in_a_collective_as_one():
    kernel = nkisim.jit(reduced(16, True, 2))[2]
    found = profiled(kernel, [(zeros(128, 16),)] * 2, ranks=2)
    spans = [span for span in found.timeline if span.name == "all_reduce"]
    assert len({span.start_us for span in spans}) == 1


def test_a_late_rank_delays_the_others():
    def kernel(x, late):
        total = nl.ndarray((128, 16), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 16), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        for _ in range(late):
            nisa.reciprocal(dst=tile, data=tile)
        mine = nl.ndarray((128, 16), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=mine, src=tile)
        group = ncc.ReplicaGroup([[0, 1]])
        ncc.all_reduce(srcs=[mine], dsts=[total], replica_group=group, op=nl.add)
        out = nl.ndarray((128, 16), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=total)
        return out

    def starts(late):
        x = zeros(128, 16)
        found = profiled(kernel, [(x, 0), (x, late)], ranks=2)
        return [span.start_us for span in found.timeline if span.name == "all_reduce"]

    both, later = starts(0), starts(100)
    assert len(set(both)) == len(set(later)) == 1
    assert later[0] > both[0] + 10


# -- strides ---------------------------------------------------------------------------------------


def strided_products(stride):
    def kernel(a, b):
        out = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
        left = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
        right = nl.ndarray((128, 128 * 16), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=a)
        nisa.dma_copy(dst=right, src=b)
        total = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        for k in range(200):
            moving = right[:, 0 : 128 * stride : stride]
            nisa.nc_matmul(dst=total, stationary=left, moving=moving, accumulate=k > 0)
        result = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out, src=result)
        return out

    return kernel


@each_case("target", TARGETS)
def test_a_wide_stride_halves_the_rate_of_the_tensor_engine(target):
    a, b = zeros(128, 128), zeros(128, 2048)
    busy = {
        stride: profiled(strided_products(stride), a, b, target=target).engine_busy_us["tensor"]
        for stride in (1, 2, 3, 4, 16)
    }
    assert busy[1] == busy[2] == busy[3]
    assert busy[4] == busy[16]
    assert 1.8 <= busy[4] / busy[1] <= 2.01


def copies(engine, stride):
    def kernel(x):
        out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 512 * 16), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        for _ in range(50):
            dst = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=dst, src=tile[:, 0 : 512 * stride : stride], engine=engine)
        nisa.dma_copy(dst=out, src=dst[:, 0:64])
        return out

    return kernel


@each_case(
    "target, engine",
    [
        (t, e)
        for t in TARGETS
        for e in ("vector", "scalar", "gpsimd")
        if (t, e) != ("trn1", "scalar")
    ],
)
def test_a_wide_stride_costs_on_every_engine_and_a_wider_one_is_never_faster(target, engine):
    x = zeros(128, 512 * 16)
    busy = [
        profiled(copies(nisa.engine[engine], stride), x, target=target).engine_busy_us[engine]
        for stride in (1, 2, 4, 8, 16)
    ]
    assert all(a <= b for a, b in itertools.pairwise(busy))
    assert busy[-1] >= 1.4 * busy[0]


# -- triggers --------------------------------------------------------------------------------------


@each_case("target", ("trn2", "trn3"))
def test_a_trigger_that_waits_for_its_data_holds_its_engine(target):
    def kernel(x, engine):
        out = nl.ndarray((128, 4096), dtype=x.dtype, buffer=nl.shared_hbm)
        other = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        slow = nl.ndarray((128, 4096), dtype=x.dtype, buffer=nl.sbuf)
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=slow, src=x)
        nisa.dma_copy(dst=tile, src=x[:, 0:512])
        nisa.reciprocal(dst=slow, data=slow)
        nisa.dma_copy(dst=out, src=slow, **HARDWARE, engine=engine)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=other, src=tile, **HARDWARE, engine=nisa.engine.sync)
        return out, other

    def spans(engine):
        found = profiled(kernel, zeros(128, 4096), engine, target=target)
        by_name = {span.name: span for span in found.timeline if span.engine != "dge"}
        return by_name["reciprocal"], by_name["activation"]

    slow, later = spans(nisa.engine.scalar)
    assert later.start_us >= slow.end_us
    slow, later = spans(nisa.engine.sync)
    assert later.start_us < slow.end_us


# -- tiles that are overwritten whole --------------------------------------------------------------


def outside_the_loop(x, once):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=x[0:128, 0:128])
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    if once:
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(32):
        if not once:
            tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.nc_matmul(dst=total, stationary=left, moving=tile, accumulate=i > 0)
    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    nisa.dma_copy(dst=out, src=result)
    return out


@each_case("target", TARGETS)
def test_a_tile_that_is_overwritten_whole_gets_a_new_place(target):
    x = zeros(32 * 128, 512)
    once, each = (profiled(outside_the_loop, x, flag, target=target) for flag in (True, False))
    assert once.latency_us == each.latency_us
    for found in (once, each):
        live = [use for use in found.memory if use.region == "sbuf" and use.row_bytes == 2048]
        steps = sorted([(u.start_us, 2048) for u in live] + [(u.end_us, -2048) for u in live])
        assert max(itertools.accumulate(step for _, step in steps)) > 2048  # both places count


def test_a_tile_with_an_address_or_that_is_partly_overwritten_stays_where_it_is():
    def kernel(x, how):
        out = nl.ndarray((128, 511), dtype=x.dtype, buffer=nl.shared_hbm)
        address = {"address": (0, 0)} if how == "address" else {}
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf, **address)
        width = 511 if how == "part" else 512
        for i in range(16):
            nisa.dma_copy(dst=tile[:, 0:width], src=x[i * 128 : (i + 1) * 128, 0:width])
            result = nl.ndarray((128, 511), dtype=x.dtype, buffer=nl.sbuf)
            nisa.reciprocal(dst=result, data=tile[:, 0:511])
            nisa.dma_copy(dst=out, src=result)
        return out

    x = zeros(16 * 128, 512)
    whole = latency(kernel, x, "whole")
    for how in ("address", "part"):
        assert latency(kernel, x, how) > 1.2 * whole


# -- assumptions -----------------------------------------------------------------------------------


def test_the_range_spans_the_alternatives_that_the_program_touches():
    found = profiled(looped, zeros(1024, 1024))
    low, high = found.interval_us
    assert low < found.latency_us < high
    names = {doubt.name for doubt in found.assumptions}
    assert "software_descriptors" in names
    assert not names & {"row_tiles", "collective_hop_us", "transpose_rate"}
    for doubt in found.assumptions:
        for value, us in doubt.alternatives.items():
            again = profiled(looped, zeros(1024, 1024), assume={doubt.name: value})
            assert again.latency_us == pytest.approx(us, rel=0.05)
            assert low <= us <= high


@each_case(
    "assume, message",
    [
        ({"nonsense": 1}, "assume: got 'nonsense', accepted: exposed_latency, "),
        ({"row_tiles": "sideways"}, r"assume\['row_tiles'\]: got 'sideways', accepted: 'overlap'"),
        ({"exposed_latency": "all"}, "accepted: a number of at least 0"),
    ],
)
def test_unknown_assumptions_are_refused_by_name(assume, message):
    with pytest.raises(ValueError, match=message):
        nkisim.profile(looped, assume=assume)


# -- loops on the device ---------------------------------------------------------------------------

BRANCHES_US = (0.0, 0.1, 0.5, 2.0)


def exponentials(x, counts, compiled):
    """Fill tiles in nested loops, after one that keeps their engine busy from the start."""

    def body(depth):
        if depth == len(counts):
            tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            nisa.activation(dst=tile, op=nl.exp, data=whole)
        elif compiled:
            nl.fori_loop(0, counts[depth], lambda i: body(depth + 1))
        else:
            for _ in range(counts[depth]):
                body(depth + 1)

    whole = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=whole, value=1.0)
    first = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.activation(dst=first, op=nl.exp, data=whole)
    body(0)
    return x


@each_case("counts", [(1,), (8,), (40,), (3, 5), (2, 3, 4)])
def test_a_loop_on_the_device_costs_a_branch_in_each_iteration(counts):
    """On the engine that works in it, for each loop; without that cost it is the unrolled one."""
    iterations = sum(np.prod(counts[: depth + 1]) for depth in range(len(counts)))
    for nki, us in itertools.product(("0.6", "0.7"), BRANCHES_US):
        unrolled = latency(exponentials, zeros(128, 512), counts, False, nki=nki)
        assume = {"device_loops": "overlap", "loop_iteration_us": us}
        found = latency(exponentials, zeros(128, 512), counts, True, nki=nki, assume=assume)
        assert found - unrolled == pytest.approx(iterations * us, abs=1e-6)


# -- transfers that depend on each other -----------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_a_transfer_over_another_one_of_a_longer_ring_comes_after_it(target):
    def kernel(x, y):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=tile[:, 0:1], src=y)
        nisa.dma_copy(dst=out, src=tile)
        return out

    found = profiled(kernel, zeros(128, 512), zeros(128, 1), target=target)
    first, second, _ = sorted((s for s in found.timeline if s.nbytes), key=lambda s: s.line)
    assert second.ready_us > first.ready_us


@each_case("target", ("trn2", "trn3"))
def test_a_copy_of_what_was_loaded_does_not_wait_for_the_store_before_it(target):
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in range(2):
            rows = slice(i * 128, (i + 1) * 128)
            tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[rows])
            shifted = nl.ndarray((127, 512), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=shifted, src=tile[1:128])
            nisa.reciprocal(dst=tile, data=tile)
            nisa.dma_copy(dst=out[rows], src=tile)
        return out

    found = profiled(kernel, zeros(256, 512), target=target)
    moved = [span for span in found.timeline if span.nbytes]
    _, copy, store = sorted({span.line for span in moved})
    (_, second), (first, _) = (
        sorted(span.start_us for span in moved if span.line == line) for line in (copy, store)
    )
    assert second < first
