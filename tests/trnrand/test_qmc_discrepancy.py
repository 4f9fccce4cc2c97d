"""Discrepancies: against the formulas in exact fractions, and against SciPy."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats

from each_case import each_case
from oracles import lowdiscrepancy as oracle
from trnrand.qmc import discrepancy

METHODS = ("CD", "WD", "MD", "L2-star")
# The largest factor of a pair of coordinates and of a single one, and the constant.
LARGEST = {"CD": (1.5, 1.125), "WD": (1.5, 4 / 3), "MD": (1.875, 5 / 3), "L2-star": (1.0, 1.0)}


def tolerance(method, dims):
    """How far a sum in float64 may be from the exact squared discrepancy.

    A factor of a pair takes eight roundings of numbers below 4, so that a product of dims of them,
    each at most ``pair`` and that at least 1, is off by 32 dims pair**dims units at most; those of
    single points by less. Sums of positive terms in trees and in order add 64 roundings at most.
    """
    pair, single = LARGEST[method]
    magnitude = pair**dims + 3 * single**dims
    return (32 * dims + 64) * 2.0**-53 * magnitude


@each_case("method", METHODS)
@each_case(("count", "dims"), [(1, 1), (2, 3), (9, 4), (16, 2)])
def test_small_sets_follow_the_formula(method, count, dims):
    points = np.random.default_rng(count).random((count, dims))
    points[0, 0] = 0.0
    points[-1, -1] = 1.0
    exact = oracle.discrepancy([[Fraction(x) for x in p] for p in points.tolist()], method)
    got = discrepancy(torch.from_numpy(points), method)
    if method == "L2-star":
        got *= got
    assert abs(got - float(exact)) <= tolerance(method, dims)


@each_case("method", METHODS)
@each_case(("count", "dims"), [(255, 2), (256, 2), (257, 2), (700, 6)])
def test_values_are_those_of_scipy(method, count, dims):
    points = np.random.default_rng(count).random((count, dims))
    got = discrepancy(torch.from_numpy(points), method)
    want = stats.qmc.discrepancy(points, method=method)
    if method == "L2-star":
        got, want = got * got, want * want
    # SciPy sums pairs one after the other: another rounding for each of them.
    theirs = count**2 * 2.0**-53 * LARGEST[method][0] ** dims
    assert abs(got - want) <= tolerance(method, dims) + theirs


def test_short_dtypes_are_taken_as_they_are():
    points = torch.rand(40, 3, generator=torch.Generator().manual_seed(1))
    assert discrepancy(points) == discrepancy(points.double())
    assert isinstance(discrepancy(points), float)
    assert discrepancy(points.requires_grad_()) == discrepancy(points.detach())


@each_case(
    ("points", "method", "message"),
    [
        (torch.rand(3, 2), "cd", "method must be one of 'CD', 'WD', 'MD', 'L2-star', got 'cd'"),
        (torch.rand(3), "CD", "points must be an (n, d) tensor, not empty, got (3,)"),
        (torch.rand(0, 3), "CD", "got (0, 3)"),
        (np.zeros((2, 2)), "CD", "got ndarray"),
        (torch.full((2, 2), 1.5), "CD", "points must be real numbers from 0 to 1"),
        (torch.full((2, 2), -0.1), "CD", "points must be real numbers from 0 to 1"),
        (torch.full((2, 2), float("nan")), "CD", "points must be real numbers from 0 to 1"),
        (torch.full((2, 2), 0.5j), "CD", "points must be real numbers from 0 to 1"),
    ],
)
def test_bad_arguments_are_named(points, method, message):
    with pytest.raises(ValueError, match=r"^discrepancy: ") as caught:
        discrepancy(points, method)
    assert message in str(caught.value)
