"""The schedule of products and batches, on whole numbers, for which every sum is exact."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nkisim
from trnsci.core.nki import nki, nl
from trnsci.core.tiles.gemm_schedule import Product, as_row, matrix_shape, multiply_all, slice_of
from trnsci.core.tiles.tiling import Blocks

M, N, K, BATCH = 5, 6, 7, 3
WHOLE = Blocks(1, 1, 1, "a", 1, 1)
CUTS = [
    Blocks(1, 1, 2, "a", 1, 1),
    Blocks(1, 1, 2, "b", 1, 2),
    Blocks(2, 2, 2, "b", 2, 2),
    Blocks(1, 1, 1, "", 1, 1),
    Blocks(2, 2, 1, "", 1, 1),
]


def numbers(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).integers(-4, 5, shape).astype(np.float32)


@nki.jit
def scheduled(a, b, c, alpha, beta, layouts, between, blocks, shape):
    out = nl.ndarray(shape, dtype=a.dtype, buffer=nl.shared_hbm)
    multiply_all(Product(out, a, b, c, alpha, beta, *layouts, between), blocks)
    return out


def turned(x, layout, own, between):
    """An operand as it is handed over: the contraction first or last, the batch in front or not."""
    if layout != own:
        x = np.swapaxes(x, -1, -2)
    return np.ascontiguousarray(np.moveaxis(x, 0, 1) if between else x)


def check(a, b, layouts, between, blocks=WHOLE, c=None, scales=(1.0, 0.0)):
    want = scales[0] * (a @ b) + (0 if c is None else scales[1] * c)
    shape = want.shape
    if between[0]:
        shape = (shape[1], shape[0], shape[2])
    given = turned(a, layouts[0], "columns", between[1]), turned(b, layouts[1], "rows", between[2])
    run = nkisim.simulate(scheduled, target="gen3")
    got = run(*given, c, *scales, layouts, between, blocks, shape)
    np.testing.assert_array_equal(np.moveaxis(got, 1, 0) if between[0] else got, want)


LAYOUTS = list(itertools.product(("rows", "columns"), repeat=2))


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("between", list(itertools.product((True, False), repeat=3)))
def test_a_batch_may_lie_between_rows_and_columns(layouts, between):
    check(numbers(BATCH, M, K), numbers(BATCH, K, N, seed=1), layouts, between)


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("between", list(itertools.product((False,), (True, False), (True, False))))
def test_a_column_is_computed_as_a_row(layouts, between):
    a, b, c = numbers(BATCH, M, K), numbers(BATCH, K, 1, seed=1), numbers(BATCH, M, 1, seed=2)
    check(a, b, layouts, between, c=c, scales=(2.0, -3.0))
    if not any(between):
        check(a[0], b[0], layouts, between, c=c[0], scales=(2.0, -3.0))
        check(a[:, :1], b, layouts, between)  # one element stays one


@pytest.mark.parametrize("blocks", CUTS, ids=lambda blocks: "-".join(map(str, blocks)))
@pytest.mark.parametrize("shared", ["a", "b", ""])
def test_every_cut_of_a_batch_gives_its_products(blocks, shared):
    a, b = numbers(2, 140, 150), numbers(2, 150, 600, seed=1)
    a, b = a[0] if shared == "a" else a, b[0] if shared == "b" else b
    c = numbers(2, 140, 600, seed=2)
    check(a, b, ("columns", "rows"), (False,) * 3, blocks, c, (1.0, 1.0))


def test_what_is_not_added_is_not_read():
    a, b = numbers(M, K), numbers(K, N, seed=1)
    c = np.full((M, N), np.nan, np.float32)
    run = nkisim.simulate(scheduled, target="gen3")
    got = run(a, b, c, 1.0, 0.0, ("columns", "rows"), (False,) * 3, WHOLE, (M, N))
    np.testing.assert_array_equal(got, a @ b)


def test_matrices_of_a_batch():
    x = numbers(BATCH, M, N)
    assert matrix_shape(x, False) == matrix_shape(x[0], False) == (M, N)
    assert matrix_shape(x, True) == (BATCH, N)
    assert slice_of(None, 1, False) is None
    assert slice_of(x[0], 1, True) is not None
    np.testing.assert_array_equal(slice_of(x[0], 1, False), x[0])
    np.testing.assert_array_equal(slice_of(x, 1, False), x[1])
    np.testing.assert_array_equal(slice_of(x, 1, True), x[:, 1])
    assert as_row(x[0, :, :1], M).shape == (1, M)
    assert as_row(x[:, :, :1], M).shape == (BATCH, 1, M)
