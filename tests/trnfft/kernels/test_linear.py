"""The complex linear kernel against float64, with and without a bias, at every tail."""

from __future__ import annotations

import numpy as np

from comparing import assert_within
from each_case import each_case
from oracles.fourier_kernels import complex_product
from pairwise import in_turn, pairwise
from trnfft._kernels.complex_gemm_tiling import parts_tiling
from trnfft._kernels.linear import complex_linear

from ...trnblas.kernels.harness_products import DTYPES, Count, run, values

GENERATIONS = ("gen2", "gen3", "gen4")

# (rows, inputs, outputs)
SHAPES = [
    (1, 1, 1),
    (128, 128, 256),
    (127, 129, 513),
    (129, 200, 257),
    (251, 513, 127),
    (257, 1, 200),
    (513, 251, 1),
    (2, 257, 1100),
]


def as_complex(re, im):
    return np.asarray(re, np.float64) + 1j * np.asarray(im, np.float64)


def planned(shape, dtype, generation, bias):
    rows, inputs, outputs = shape
    return parts_tiling(rows, outputs, inputs, dtype, generation, bias=bias, right_layout="columns")


def check(shape, dtype, generation, bias):
    rows, inputs, outputs = shape
    x = [values(rows, inputs, dtype=dtype, seed=seed) for seed in (1, 2)]
    w = [values(outputs, inputs, dtype=dtype, seed=seed) for seed in (3, 4)]
    b = [values(outputs, dtype=dtype, seed=seed) for seed in (5, 6)] if bias else [None, None]
    blocks = planned(shape, dtype, generation, bias).blocks
    out = run(complex_linear, generation, *x, *w, *b, blocks)
    want = complex_product(as_complex(*x), as_complex(*w).T, bias=as_complex(*b) if bias else None)
    for got, expected in zip(out, want, strict=True):
        assert got.dtype == DTYPES[dtype]
        assert_within(got, expected.value, expected.tolerance)


@each_case(("shape", "dtype", "bias"), pairwise(SHAPES, list(DTYPES), [False, True]))
def test_layer(shape, dtype, bias):
    check(shape, dtype, "gen3", bias)


@each_case(
    ("generation", "dtype", "shape"),
    pairwise(["gen2", "gen4"], list(DTYPES), [(129, 200, 257), (300, 130, 700)]),
)
def test_every_generation(generation, dtype, shape):
    check(shape, dtype, generation, bias=True)


def test_long_contraction_adds_the_bias_once():
    shape = (140, 128 * 10 + 3, 150)
    plan = planned(shape, "float32", "gen3", True)
    assert plan.blocks.depth_tiles * 128 < 2 * shape[1]
    check(shape, "float32", "gen3", bias=True)


@each_case(
    ("case", "shape"),
    in_turn(
        pairwise(GENERATIONS, list(DTYPES)), [(1000, 40, 1500), (512, 512, 1024), (5, 90, 3000)]
    ),
)
def test_counts_are_those_of_the_plan(case, shape):
    (generation, dtype), (rows, inputs, outputs) = case, shape
    x, w, b = (np.zeros(s, DTYPES[dtype]) for s in ((rows, inputs), (outputs, inputs), (outputs,)))
    plan = planned(shape, dtype, generation, True)
    count = Count(complex_linear, generation, x, x, w, w, b, b, plan.blocks)
    assert count.sbuf_bytes <= plan.sbuf_bytes
    assert count.psum_banks <= plan.psum_banks
    plain = Count(complex_linear, generation, x, x, w, w, None, None, plan.blocks)
    assert plain.hbm_bytes == plan.hbm_bytes
    # The bias costs its loads, and no instruction on the way out.
    loads = count.instructions["dma_copy"] - plain.instructions["dma_copy"]
    assert count.instructions.total() == plain.instructions.total() + loads
