"""The kernel of three and more dimensions: any size, real operands and real results."""

from __future__ import annotations

import numpy as np
import pytest

import trnfft
from each_case import each_case
from oracles.fourier_long import hermitian, transform, worst_error
from pairwise import pairwise
from trnfft._kernels.n_d import n_d
from trnfft._planning.choice import two_d_constants

from ...trnblas.kernels.harness_products import Count, run, values

GENERATIONS = ("gen2", "gen3", "gen4")
LIMIT = 2e-6  # relative L2 error that every kernel transform keeps in float32


def over(x, dims, inverse=False):
    """The transform by its definition along each of the dimensions."""
    for dim in dims:
        x = np.moveaxis(transform(np.moveaxis(x, dim, -1), inverse), -1, dim)
    return x


def launched(x, sizes, form="full", inverse=False, generation="gen3"):
    *leading, rows = (two_d_constants(n, inverse, 1.0) for n in sizes[:-1])
    columns = two_d_constants(sizes[-1], inverse, 1.0, form)
    absent = [None] * (3 - len(leading))
    parts = [x.real.copy(), x.imag.copy()] if np.iscomplexobj(x) else [x, None]
    real = form == "hermitian"
    out = run(n_d, generation, *parts, *leading, *absent, rows, columns, real)
    if real:
        return out
    assert out[0].dtype == out[1].dtype == np.float32
    return out[0] + 1j * out[1].astype(np.float64)


def signals(*shape):
    return (values(*shape, seed=1) + 1j * values(*shape, seed=2)).astype(np.complex64)


# Fast are all of the first with one of the rest, and one of the first with all of the rest.
SIZES = [
    pytest.param(first, rest, marks=() if rest == (3, 5) or first == 2 else pytest.mark.slow)
    for first in (1, 2, 127, 128, 129, 257)
    for rest in ((1, 2), (3, 5), (2, 257), (130, 4))
]


@pytest.mark.parametrize(("first", "rest"), SIZES)
def test_sizes(first, rest):
    x = signals(2 if first < 127 else 1, first, *rest)
    assert worst_error(launched(x, x.shape[1:]), over(x, (1, 2, 3))) <= LIMIT


@each_case(
    ("generation", "inverse", "shape"),
    pairwise(GENERATIONS, [False, True], [(2, 3, 5, 4, 6), (1, 2, 3, 4, 5, 3)]),
)
def test_four_and_five_dimensions(generation, inverse, shape):
    x = signals(*shape)
    got = launched(x, shape[1:], inverse=inverse, generation=generation)
    assert worst_error(got, over(x, range(1, len(shape)), inverse)) <= LIMIT


@each_case(("width", "generation", "inverse"), pairwise([1, 2, 7, 130], GENERATIONS, [False, True]))
def test_real_operand_and_real_result(width, generation, inverse):
    bins = width // 2 + 1
    x = values(2, 3, 4, width)
    got = launched(x, (3, 4, width), "half", inverse, generation)
    assert worst_error(got, over(x, (1, 2, 3), inverse)[..., :bins]) <= LIMIT
    z = signals(2, 3, 4, bins)
    got = launched(z, (3, 4, width), "hermitian", inverse, generation)
    assert worst_error(got, hermitian(over(z, (1, 2), inverse), width, inverse)) <= LIMIT


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bits_are_read_as_float32(dtype):
    x = [values(2, 4, 6, 5, dtype=dtype, seed=s) for s in (1, 2)]
    tables = [two_d_constants(n, False, 1.0) for n in (4, 6, 5)]
    re, im = run(n_d, "gen2", *x, tables[0], None, None, *tables[1:], False)
    wide = x[0].astype(np.float32) + 1j * x[1].astype(np.float32)
    assert worst_error(re + 1j * im, over(wide, (1, 2, 3))) <= LIMIT


@pytest.mark.parametrize("shape", [(2, 5, 20, 30), (1, 130, 3, 5), (2, 3, 4, 5, 300)])
@pytest.mark.parametrize("kind", ["fftn", "rfftn", "irfftn"])
def test_bytes_are_those_of_the_plan(shape, kind):
    if kind == "irfftn":
        shape = (*shape[:-1], shape[-1] // 2 + 1)
    plan = trnfft.plan(shape, range(1, len(shape)), kind=kind)
    x = [np.zeros(shape, np.float32)] * 2
    parts = (x[0], None) if kind == "rfftn" else x
    *leading, rows, columns = plan.constants()
    absent = [None] * (3 - len(leading))
    count = Count(n_d, "gen3", *parts, *leading, *absent, rows, columns, kind == "irfftn")
    assert count.hbm_bytes == plan.cost.hbm_bytes
    assert "nc_transpose" not in count.instructions
    assert count.psum_banks <= 8
