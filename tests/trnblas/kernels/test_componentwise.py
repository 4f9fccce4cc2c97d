"""Doublefloat products with errors relative to |A| |B|, against exact integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

import trnblas
from each_case import each_case
from oracles.exact_products import errors_by_magnitudes
from trnblas._kernels.doublefloat import doublefloat_gemm
from trnblas._library import LIBRARY
from trnblas._paths import level_launches
from trnblas._precise import slicing
from trnsci.core.counters import counts
from trnsci.core.errors import KernelError
from trnsci.core.numbers.doublefloat import row_range

from .harness_products import Count, launcher
from .test_doublefloat import HOSTILE, ill_scaled

PROMISE = 2.0**-45


def product(a, b, target=PROMISE, generation="gen3"):
    operands = torch.as_tensor(a), torch.as_tensor(b)
    found = level_launches.doublefloat_gemm(launcher(generation), *operands, target, True, False)
    return found.numpy()


def ranges(a, b):
    return row_range(torch.as_tensor(a)), row_range(torch.as_tensor(b).mT)


@each_case("target", [PROMISE, 1e-10])
@each_case("phi", [0, 0.5, 1])
def test_no_entry_of_10_000_is_above_the_bound(phi, target):
    """Together; entries below 2**-24 of the largest are made 0: wider ranges are refused."""
    rng = np.random.default_rng(int(10 * phi))
    a, b = ill_scaled(rng, 40, 24, phi), ill_scaled(rng, 24, 42, phi)
    a[np.abs(a) < 2.0**-24 * np.abs(a).max()] = 0.0
    b[np.abs(b) < 2.0**-24 * np.abs(b).max()] = 0.0
    slices = slicing.slices_for_ranges(target, 24, *ranges(a, b))
    bound = slicing.magnitude_bound(slices, 24, *ranges(a, b))
    assert bound <= target
    ratios = errors_by_magnitudes(product(a, b, target), a, b) / bound
    assert (ratios <= 1).all(), f"{(ratios > 1).sum()} above the bound, up to {ratios.max():.3g}"


@each_case("depth", [1, 130, 600, 1100])
def test_rows_of_powers_of_two_that_meet_no_others(depth):
    """Large entries of a row meet zeros of the column, so that |A| |B| is small against norms."""
    rng = np.random.default_rng(depth)
    a, b = rng.standard_normal((5, depth)), rng.standard_normal((depth, 4))
    a[:, ::2] *= 2.0**-22
    b[1::2] = 0.0
    b[::4] *= 2.0**-15
    assert (errors_by_magnitudes(product(a, b), a, b) <= PROMISE).all()


@each_case("name", sorted(set(HOSTILE) - {"subnormal", "huge and tiny"}))
def test_hostile_rows_and_columns(name):
    rng = np.random.default_rng(len(name))
    a = np.stack([HOSTILE[name](rng), HOSTILE[name](rng)[::-1]])
    b = np.stack([HOSTILE[name](rng), rng.choice([-1.0, 1.0], a.shape[1])], 1)
    b[:, 0] /= np.abs(b[:, 0]).max() or 1.0  # products are not below the range of float64
    if max(ranges(a, b)) > 33:
        with pytest.raises(KernelError, match="needs more than 16 slices"):
            product(a, b)
    else:
        assert (errors_by_magnitudes(product(a, b), a, b) <= PROMISE).all()


def test_the_range_of_rows():
    matrix = torch.tensor([[1.0, 2.0**-5, 0.0], [2.0**700, 2.0**690, torch.inf]]).double()
    assert row_range(matrix) == 6  # 1 is 2**-1 of its scale, 2
    assert row_range(matrix[1:]) == 1  # an infinity: the row is not scaled, and not counted
    assert row_range(torch.zeros(2, 2)) == 1


def test_more_slices_for_a_wider_range_until_it_is_refused():
    wanted = [slicing.slices_for_ranges(PROMISE, 1024, r, r) for r in range(0, 34)]
    assert wanted == sorted(wanted)
    assert wanted[0] <= 8
    assert wanted[-1] == slicing.MOST_SLICES
    with pytest.raises(KernelError, match=r"entries are down to 2\*\*-40 of the largest"):
        slicing.slices_for_ranges(PROMISE, 1024, 40, 40)


@pytest.mark.filterwarnings("ignore::trnsci.core.errors.NkiFallbackWarning")
def test_the_public_function():
    a, b = torch.tensor([[1.0, 2.0**-30]]).double(), torch.tensor([[0.0], [2.0**-30]]).double()
    options = {"precision": "doublefloat", "componentwise": True}
    before = counts()
    with LIBRARY.backend("simulator"):
        assert trnblas.gemm(1.0, a, b, **options).item() == 2.0**-60
        assert (counts() - before).launches == {"doublefloat_gemm": 1}
        a[0, 1] = 2.0**-100
        with LIBRARY.requiring("1"), pytest.raises(KernelError, match="16 slices"):
            trnblas.gemm(1.0, a, b, **options)
        assert trnblas.gemm(1.0, a, b, **options).item() == 2.0**-130


@each_case("generation", ["gen2", "gen3", "gen4"])
def test_every_generation(generation):
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((3, 140)), rng.standard_normal((140, 5))
    assert row_range(torch.as_tensor(a)) <= 33
    got = product(a, b, generation=generation)
    allowed = (PROMISE + 140 * 2.0**-53) * (np.abs(a) @ np.abs(b))
    assert (np.abs(got - a @ b) <= allowed).all()


def test_sums_fit_in_psum():
    planes = [np.zeros((1024, n), np.float32) for n in (256, 256, 512, 512)]
    plan = 16, slicing.chunk_rows(16, 1024), slicing.pair_groups(16, 1024)
    assert Count(doublefloat_gemm, "gen2", *planes, *plan, (0, 1024), False, True).psum_banks <= 8


def test_the_oracle():
    a, b = np.array([[1.0, 2.0]]), np.array([[3.0], [-1.0]])
    assert errors_by_magnitudes(np.array([[1.5]]), a, b)[0, 0] == float(Fraction(1, 10))
