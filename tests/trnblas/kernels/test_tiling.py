"""Tilings and plans: inside the memories, honest about bytes, and readable."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drawn import examples
from each_case import each_case
from fresh_process import printed_after
from trnblas._kernels.tiling_syrk import syrk_tiling
from trnblas.plans import plan_gemm
from trnsci.core.errors import DTypeError, ShapeError
from trnsci.core.tiles.hardware import CORES, ITEMSIZE, resolve_generation
from trnsci.core.tiles.tiling import column_start, column_tiles, fewest_bytes
from trnsci.core.tiles.tiling_gemm import gemm_tiling, part, splits

# Documented for kernels: usable SBUF bytes per partition, and PSUM banks.
SBUF_BYTES = {"gen2": 180_224, "gen3": 212_984, "gen4": 245_752}
PSUM_BANKS = 8

extents = st.one_of(
    st.integers(1, 600),
    st.integers(601, 20_000),
    st.sampled_from([127, 128, 129, 511, 512, 513, 2048, 8192]),
)
generations = st.sampled_from(sorted(SBUF_BYTES))
dtypes = st.sampled_from(sorted(ITEMSIZE))
layouts = st.sampled_from(["rows", "columns", "upper", "lower"])


@examples(60)
@given(extents, extents, extents, dtypes, generations, layouts, layouts, st.integers(1, 40))
def test_gemm_tilings_are_inside_the_memories(m, n, k, dtype, generation, a, b, batch):
    for shared in ("", "a", "b") if batch > 1 else ("",):
        t = gemm_tiling(
            m, n, k, dtype, generation, a_layout=a, b_layout=b, batch=batch, shared=shared
        )
        assert 0 < t.sbuf_bytes <= SBUF_BYTES[generation]
        assert 0 < t.psum_banks <= PSUM_BANKS
        once = m * k * (1 if shared == "a" else batch) + k * n * (1 if shared == "b" else batch)
        assert t.hbm_bytes >= ITEMSIZE[dtype] * (once + batch * m * n)


@examples(60)
@given(extents, extents, dtypes, generations, st.sampled_from([1, 2]))
def test_syrk_tilings_are_inside_the_memories(m, k, dtype, generation, operands):
    t = syrk_tiling(m, k, dtype, generation, operands=operands)
    assert 0 < t.sbuf_bytes <= SBUF_BYTES[generation]
    assert 0 < t.psum_banks <= PSUM_BANKS
    assert t.hbm_bytes >= ITEMSIZE[dtype] * (operands * m * k + m * m)


@examples(60)
@given(st.integers(1, 1500), st.integers(1, 1500), st.integers(1, 1500), dtypes, generations)
def test_what_fits_is_not_fetched_twice(m, n, k, dtype, generation):
    """Up to 1500 one operand takes 72 KiB of a partition, and leaves room for the rest."""
    t = gemm_tiling(m, n, k, dtype, generation)
    assert t.hbm_bytes == fewest_bytes(m, n, k, dtype, generation)


@each_case("dtype", ITEMSIZE)
@each_case("generation", SBUF_BYTES)
def test_fewest_bytes_is_below_every_plan_and_grows_past_one_pass(dtype, generation):
    for n in (512, 2048, 4096, 8192, 32768):
        bound = fewest_bytes(n, n, n, dtype, generation)
        assert 3 * n * n * ITEMSIZE[dtype] <= bound
        assert bound <= gemm_tiling(n, n, n, dtype, generation).hbm_bytes
    assert fewest_bytes(32768, 32768, 32768, dtype, generation) > 3 * 32768**2 * ITEMSIZE[dtype]


@given(st.integers(1, 10_000))
def test_column_tiles_are_aligned_and_never_slivers(extent):
    tiles = column_tiles(extent)
    starts = [column_start(t, extent) for t in range(tiles + 1)]
    widths = [b - a for a, b in itertools.pairwise(starts)]
    assert starts[0] == 0
    assert starts[-1] == extent
    assert all(start % 128 == 0 for start in starts[:-1])
    assert max(widths) <= 512
    assert min(widths) > 128 or tiles == 1


@given(st.integers(1, 3000))
def test_splits_are_all_sizes_of_even_cuts(tiles):
    assert splits(tiles) == sorted({-(-tiles // count) for count in range(1, tiles + 1)})


@given(st.integers(1, 200), st.integers(1, 8))
def test_part_is_the_smallest_for_its_count(tiles, limit):
    size = part(tiles, limit)
    assert 1 <= size <= limit
    fewest = -(-tiles // limit)
    assert size * fewest >= tiles > (size - 1) * fewest


def test_bytes_of_a_cut_are_the_sum_of_what_it_holds():
    t = gemm_tiling(2048, 2048, 2048, "float32", "gen2")
    cut = t.blocks
    assert (cut.row_tiles, cut.column_tiles, cut.depth_tiles, cut.resident) == (1, 4, 16, "b")
    resident = 16 * 2048 * 4  # all of B
    passing = 2 * 16 * 128 * 4  # a row of tiles of A, and the next one
    staged = 2 * 8 * 128 * 4  # rows of A before they are transposed, 4 KiB each
    outgoing = 2 * 2048 * 4 + 2 * 512 * 4  # rows of the result or of C, and scaled tiles
    assert t.sbuf_bytes == resident + passing + staged + outgoing
    assert t.psum_banks == 8  # two groups of four tiles; the Vector engine transposes


def test_larger_memory_moves_no_more():
    for n in (3000, 4096, 6000):
        moved = [gemm_tiling(n, n, n, "float32", g).hbm_bytes for g in ("gen2", "gen3", "gen4")]
        assert moved[0] >= moved[1] >= moved[2]


@examples(60)
@given(extents, extents, extents, dtypes, layouts, layouts)
def test_without_a_generation_times_are_those_of_trn2_and_every_sbuf_is_large_enough(
    m, n, k, dtype, a, b
):
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("NKISIM_TARGET", "NEURON_PLATFORM_TARGET_OVERRIDE"):
            patch.delenv(variable, raising=False)
        found = [
            gemm_tiling(m, n, k, dtype, a_layout=a, b_layout=b),
            syrk_tiling(m, k, dtype),
            syrk_tiling(m, k, dtype, operands=2),
        ]
    for t in found:
        assert t.generation == "gen3"
        assert t.sbuf_bytes <= min(SBUF_BYTES.values()) == t.sbuf_limit


def test_generation_comes_from_the_argument_or_the_environment(monkeypatch):
    monkeypatch.delenv("NKISIM_TARGET", raising=False)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    assert resolve_generation() == "gen3"
    assert gemm_tiling(64, 64, 64).generation == "gen3"
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    assert gemm_tiling(64, 64, 64).generation == "gen4"
    assert resolve_generation("inf2") == "gen2"
    with pytest.raises(ValueError, match="generation: got 'trn9', accepted: gen2"):
        resolve_generation("trn9")
    assert {g: core.sbuf_bytes for g, core in CORES.items()} == SBUF_BYTES


def test_plan_shows_what_it_is_made_of():
    plan = plan_gemm(2048, 2048, 2048, generation="gen2")
    text = str(plan)
    assert text == plan.describe()
    assert plan.cost.flops == 2 * 2048**3
    for part_of in (
        "gen2",
        "float32",
        "50,331,648 bytes",
        "1,024 nc_matmul",
        "17,179,869,184 flop",
    ):
        assert part_of in text
    assert f"{plan.tiling.sbuf_bytes / 1024:.1f} of 176.0 KiB" in text
    assert f"{plan.tiling.psum_banks} of 8" in text


def test_plan_of_a_column_is_that_of_the_row_it_is_computed_as():
    plan = plan_gemm(3000, 1, 400, "bfloat16", generation="gen3")
    assert "1 x 6 x 4 of 128 x 512 x 128" in str(plan)
    assert plan.tiling.products == 6 * 4
    assert (
        plan.tiling
        == plan_gemm(1, 3000, 400, "bfloat16", transA=True, transB=True, generation="gen3").tiling
    )


def test_plan_takes_torch_dtypes_and_names_what_it_refuses():
    torch = pytest.importorskip("torch")
    assert plan_gemm(64, 64, 64, torch.bfloat16).tiling.dtype == "bfloat16"
    with pytest.raises(DTypeError, match="dtype must be float32 or bfloat16 or float16, got torch"):
        plan_gemm(64, 64, 64, torch.float64)
    with pytest.raises(
        ShapeError, match="plan_gemm: M, N and K must be at least 1, got 0, 4 and 4"
    ):
        plan_gemm(0, 4, 4)
    with pytest.raises(ValueError, match="syrk_tiling: sizes must be at least 1, got M=0, K=4"):
        syrk_tiling(0, 4)
    with pytest.raises(ValueError, match="gemm_tiling: dtype 'float64', accepted: float32"):
        gemm_tiling(4, 4, 4, "float64")


def test_planning_imports_no_nki():
    modules = printed_after(
        "torch", "import sys, trnblas.plans; print(json.dumps(list(sys.modules)))"
    )
    assert not {"nkisim", "nki"} & set(modules)


@each_case("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_a_plan_is_executed_with_the_operands_it_was_made_for(turned):
    plan = plan_gemm(3, 5, 4, transA=turned[0], transB=turned[1])
    # Small integers, of which every order of summation gives the same bits.
    a, b = torch.arange(12.0).reshape(3, 4), torch.arange(20.0).reshape(4, 5) - 7
    given = [x.mT.contiguous() if flip else x for x, flip in zip((a, b), turned, strict=True)]
    assert torch.equal(plan.execute(*given), a @ b)
    with pytest.raises(ShapeError, match=r"execute: A must have shape \(.*\), got \(3, 3\)"):
        plan.execute(a[:, :3], given[1])
    with pytest.raises(DTypeError, match=r"execute: B must be float32, got torch.float64"):
        plan.execute(given[0], given[1].double())
