"""The elementwise complex product against float64, of any size and shape."""

from __future__ import annotations

import numpy as np

from comparing import assert_within
from each_case import each_case
from oracles.blas_kernels import FLOAT32_ROUNDOFF
from trnfft._kernels.mask import COLUMNS, complex_mask

from ...trnblas.kernels.harness_products import DTYPES, Count, run, values

GENERATIONS = ("gen2", "gen3", "gen4")
CHUNK = 128 * COLUMNS
SHAPES = [
    (1,),
    (2,),
    (127,),
    (128,),
    (129,),
    (64, 32),
    (257, 251),
    (3, 200, 513),
    (CHUNK - 1,),
    (CHUNK,),
    (CHUNK + 1,),
    (2, CHUNK // 2 + 77),
]


def check(shape, dtype, generation):
    parts = [values(*shape, dtype=dtype, seed=seed) for seed in range(4)]
    out = run(complex_mask, generation, *parts)
    a_re, a_im, b_re, b_im = (part.astype(np.float64) for part in parts)
    # Two products and their sum, each rounded once: every term passes two roundings.
    u = 2 * FLOAT32_ROUNDOFF
    for got, first, second in (
        (out[0], a_re * b_re, -a_im * b_im),
        (out[1], a_re * b_im, a_im * b_re),
    ):
        assert got.dtype == DTYPES[dtype]
        bound = u / (1 - u) * (np.abs(first) + np.abs(second)) + 2.0**-149
        assert_within(got, first + second, bound)


@each_case("shape", SHAPES, ids=str)
def test_every_size(shape):
    check(shape, "float32", "gen3")


@each_case("generation", GENERATIONS)
@each_case("dtype", DTYPES)
@each_case("shape", [(129,), (251, 257)], ids=str)
def test_every_generation_and_dtype(generation, dtype, shape):
    check(shape, dtype, generation)


def test_nan_stays_where_it_is():
    parts = [values(37, 11, seed=seed) for seed in range(4)]
    parts[2][5, 6] = np.nan
    for got in run(complex_mask, "gen3", *parts):
        assert np.argwhere(np.isnan(got)).tolist() == [[5, 6]]


@each_case("generation", GENERATIONS)
@each_case(("size", "tiles"), [(1, 1), (1001, 2), (1024, 1), (CHUNK, 1), (CHUNK + 999, 3)])
def test_one_pass_over_hbm(generation, size, tiles):
    x = np.zeros(size, np.float32)
    count = Count(complex_mask, generation, x, x, x, x)
    assert count.instructions["tensor_tensor"] == 6 * tiles
    assert count.hbm_bytes == 6 * x.nbytes
    assert 2 * count.sbuf_bytes <= 180_224  # two chunks at once fit on the smallest core
