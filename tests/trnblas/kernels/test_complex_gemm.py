"""The complex GEMM kernel against float64, on all generations, and what it moves and occupies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from comparing import assert_within
from each_case import each_case
from oracles.fourier_kernels import complex_product
from pairwise import in_turn, pairwise
from trnblas._kernels.complex_gemm import complex_gemm
from trnsci.core.tiles.tiling import Blocks
from trnsci.core.tiles.tiling_gemm import gemm_tiling

from .harness_products import DTYPES, Count, run, values

GENERATIONS = ("gen2", "gen3", "gen4")
EXTENTS = (1, 127, 128, 129, 200, 251, 257, 513)
TAILS = (1, 127, 128, 129, 257, 513)
KINDS = [("float32", False), ("bfloat16", False), ("bfloat16", True)]  # the last is summed wide
TRANS = list(itertools.product((False, True), repeat=2))
PLAIN = (False, False)


def as_complex(parts):
    """The numbers of an array of parts, in complex128."""
    return np.asarray(parts, np.float64).view(np.complex128)


def stored(shape, trans, *batch, **options):
    """The parts of a matrix of this shape, passed transposed or not."""
    rows, columns = shape[::-1] if trans else shape
    return values(*batch, rows, 2 * columns, **options)


def applied(parts, trans):
    numbers = as_complex(parts)
    return np.swapaxes(numbers, -1, -2) if trans else numbers


def planned(m, k, n, dtype, generation, trans=PLAIN, **options):
    layouts = {
        "a_layout": "rows" if trans[0] else "columns",
        "b_layout": "columns" if trans[1] else "rows",
    }
    return gemm_tiling(m, n, k, dtype, generation, parts=2, **layouts, **options)


def assert_products(out, lefts, rights, alpha=1.0, addends=None):
    """Each matrix of a batch is the product, within the bound of a real one of twice the depth."""
    for i, got in enumerate(out):
        left, right = (x if x.ndim == 2 else x[i] for x in (lefts, rights))
        bias = None if addends is None else addends[i if len(addends) == len(out) else 0]
        want = complex_product(alpha * left, right, bias=bias)
        for part, expected in enumerate(want):
            assert_within(got[:, part::2], expected.value, expected.tolerance)


def check(m, k, n, dtype, generation, wide=False, trans=PLAIN, blocks=None):
    a = stored((m, k), trans[0], dtype=dtype, seed=1)
    b = stored((k, n), trans[1], dtype=dtype, seed=2)
    blocks = blocks or planned(m, k, n, dtype, generation, trans).blocks
    out = run(complex_gemm, generation, a, b, None, 1.0, 0.0, *trans, wide, blocks)
    assert out.dtype == (np.float32 if wide else DTYPES[dtype])
    assert_products([out], applied(a, trans[0]), applied(b, trans[1]))


@each_case(("i", "j"), itertools.product(range(5), repeat=2))
def test_every_two_tails_together(i, j):
    """A Latin square: any two extents, in any two places, meet in one of the 25 shapes."""
    extents = (1, 127, 128, 129, 513)
    trans = TRANS[(i + j) % 4]
    check(extents[i], extents[j], extents[(i + j) % 5], "float32", "gen3", trans=trans)


@pytest.mark.slow
@pytest.mark.parametrize("m", EXTENTS)
def test_every_tail(m):
    for k, n in itertools.product(EXTENTS, repeat=2):
        check(m, k, n, "float32", "gen3")


# Every extent in every place once.
ROTATED = [(m, TAILS[(i + 2) % 6], TAILS[(i + 4) % 6]) for i, m in enumerate(TAILS)]


@each_case(("shape", "generation", "kind", "trans"), pairwise(ROTATED, GENERATIONS, KINDS, TRANS))
def test_every_generation_dtype_and_transposition(shape, generation, kind, trans):
    check(*shape, kind[0], generation, kind[1], trans)


# One tile at a time, either operand resident, and blocks of the result that stay. The contraction
# and the columns count both parts.
CUTS = [
    Blocks(1, 1, 6, "a", 1, 2),
    Blocks(1, 1, 6, "b", 1, 4),
    Blocks(3, 2, 6, "a", 2, 6),
    Blocks(2, 5, 6, "b", 2, 6),
    Blocks(1, 1, 2, "", 1, 2),
    Blocks(3, 2, 4, "", 2, 2),
    Blocks(2, 5, 2, "", 3, 2),
]


@each_case(("blocks", "generation"), in_turn(CUTS, ["gen2", "gen3"]), ids=str)
def test_every_cut_gives_the_product(blocks, generation):
    check(257, 257, 1025, "float32", generation, blocks=blocks)


def test_long_contraction_keeps_the_result_on_chip():
    m, k, n = 130, 128 * 16 + 5, 64
    plan = planned(m, k, n, "float32", "gen3")
    assert plan.blocks.depth_tiles * 128 < 2 * k
    check(m, k, n, "float32", "gen3", blocks=plan.blocks)


BATCHES = [("", 3, (70, 130, 129)), ("a", 2, (129, 70, 257)), ("b", 3, (257, 129, 70))]


@each_case(
    ("batch", "generation", "kind", "trans"), pairwise(BATCHES, GENERATIONS, KINDS[:2], TRANS)
)
def test_batches_with_factors_and_addends(batch, generation, kind, trans):
    (shared, count, (m, k, n)), (dtype, wide) = batch, kind
    a = stored((m, k), trans[0], *(() if shared == "a" else (count,)), dtype=dtype, seed=1)
    b = stored((k, n), trans[1], *(() if shared == "b" else (count,)), dtype=dtype, seed=2)
    c = values(count, m, 2 * n, dtype=dtype, seed=3)
    plan = planned(m, k, n, dtype, generation, trans, batch=count, shared=shared)
    out = run(complex_gemm, generation, a, b, c, 0.5, 2.0, *trans, wide, plan.blocks)
    assert_products(out, applied(a, trans[0]), applied(b, trans[1]), 0.5, 2.0 * as_complex(c))


# (rows, inputs, outputs)
LAYERS = [(1, 1, 1), (127, 129, 513), (251, 513, 127), (257, 1, 200), (513, 251, 1)]


@each_case(("shape", "generation", "dtype"), pairwise(LAYERS, GENERATIONS, list(DTYPES)))
def test_one_row_is_added_to_all_rows(shape, generation, dtype):
    rows, inputs, outputs = shape
    x, w = values(rows, 2 * inputs, dtype=dtype), values(outputs, 2 * inputs, dtype=dtype, seed=1)
    bias = values(1, 2 * outputs, dtype=dtype, seed=2)
    blocks = planned(*shape, dtype, generation, (False, True)).blocks
    out = run(complex_gemm, generation, x, w, bias, 1.0, 1.0, False, True, False, blocks)
    assert out.dtype == DTYPES[dtype]
    assert_products([out], as_complex(x), as_complex(w).T, 1.0, as_complex(bias)[None])


def test_a_long_contraction_adds_the_row_once():
    m, k, n = 140, 128 * 10 + 3, 150
    a, b = values(m, 2 * k), values(n, 2 * k, seed=1)
    bias = values(1, 2 * n, seed=2)
    plan = planned(m, k, n, "float32", "gen3", (False, True))
    assert plan.blocks.depth_tiles * 128 < 2 * k
    out = run(complex_gemm, "gen3", a, b, bias, 1.0, 1.0, False, True, False, plan.blocks)
    assert_products([out], as_complex(a), as_complex(b).T, 1.0, as_complex(bias)[None])


@each_case("generation", GENERATIONS)
def test_nan_and_infinity_reach_their_rows_and_columns_only(generation):
    m, k, n = 140, 150, 160
    a, b = values(m, 2 * k, seed=1), values(k, 2 * n, seed=2)
    a[3, 10], a[139, 299] = np.nan, np.inf  # a real and an imaginary part
    b[20, 66] = np.nan
    blocks = planned(m, k, n, "float32", generation).blocks
    touched = np.zeros((m, n), bool)
    touched[[3, 139]] = touched[:, 33] = True
    out = run(complex_gemm, generation, a, b, None, 1.0, 0.0, *PLAIN, False, blocks)
    assert np.array_equal(~np.isfinite(out), np.repeat(touched, 2, 1))


def test_products_by_one_and_by_i_are_exact():
    a, one = values(200, 256), np.eye(128, dtype=np.complex64)
    blocks = planned(200, 128, 128, "float32", "gen3").blocks
    for factor in (1, 1j):
        b = (factor * one).view(np.float32)
        out = run(complex_gemm, "gen3", a, b, None, 1.0, 0.0, *PLAIN, False, blocks)
        assert np.array_equal(as_complex(out), factor * as_complex(a))


def test_arguments_are_not_modified():
    given = values(130, 280), values(140, 100, seed=1), values(130, 100, seed=2)
    kept = [x.copy() for x in given]
    blocks = planned(130, 140, 50, "float32", "gen3").blocks
    run(complex_gemm, "gen3", *given, 2.0, 0.5, *PLAIN, False, blocks)
    assert all(np.array_equal(x, y) for x, y in zip(given, kept, strict=True))


def counted(m, k, n, dtype, generation, plan, wide=False):
    a, b = (np.zeros(shape, DTYPES[dtype]) for shape in ((m, 2 * k), (k, 2 * n)))
    return Count(complex_gemm, generation, a, b, None, 1.0, 0.0, *PLAIN, wide, plan.blocks)


@each_case(("generation", "dtype"), in_turn(GENERATIONS, DTYPES))
def test_1024_passes_hbm_once(dtype, generation):
    n = 1024
    plan = planned(n, n, n, dtype, generation)
    count = counted(n, n, n, dtype, generation, plan)
    assert count.hbm_bytes == plan.hbm_bytes == 6 * n * n * DTYPES[dtype].itemsize
    # Each stationary tile meets the two parts of b, which is four real products.
    assert count.moving_columns == 4 * (n // 128) * (n // 128) * n
    assert count.sbuf_bytes <= plan.sbuf_bytes
    assert count.psum_banks <= plan.psum_banks


def test_up_to_256_columns_both_parts_come_from_one_product():
    plan = planned(128, 128, 256, "float32", "gen3")
    count = counted(128, 128, 256, "float32", "gen3", plan)
    assert count.instructions["nc_matmul"] == 2
    assert count.moving_columns == 2 * 512


SHAPES = [(1, 1, 1), (129, 257, 513), (1100, 700, 1300), (200, 9000, 300), (9, 6000, 5)]


@each_case(("case", "shape"), in_turn(pairwise(GENERATIONS, KINDS), SHAPES))
def test_counts_are_those_of_the_plan(case, shape):
    (generation, (dtype, wide)), (m, k, n) = case, shape
    plan = planned(m, k, n, dtype, generation)
    count = counted(m, k, n, dtype, generation, plan, wide)
    # The plan counts results in the dtype of the operands.
    size, group = 2 if wide else 0, plan.blocks.group
    assert count.hbm_bytes == plan.hbm_bytes + size * 2 * m * n
    assert count.sbuf_bytes <= plan.sbuf_bytes + size * 2 * group * 512
    assert count.psum_banks <= plan.psum_banks


def test_small_matrices_of_a_batch_share_transfers():
    count, n = 64, 64
    plan = planned(n, n, n, "float32", "gen3", batch=count)
    assert plan.blocks.matrices > 1
    x = np.zeros((count, n, 2 * n), np.float32)
    found = Count(complex_gemm, "gen3", x, x, None, 1.0, 0.0, *PLAIN, False, plan.blocks)
    assert found.hbm_bytes == plan.hbm_bytes == 3 * x.nbytes
    assert found.instructions["dma_copy"] == 3 * -(-count // plan.blocks.matrices)
    assert found.sbuf_bytes <= plan.sbuf_bytes
