"""Dense functions at the level doublefloat: float64, and one rounding at the end."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from mpmath import mp

import trnsolver
from each_case import each_case
from trnsci.core.backend.precision import precision
from trnsci.core.examples import examples_of, function_of

STEPS = {"bicgstab", "fgmres", "gmres", "minres", "lobpcg"}
"""Iterations on operators: vectors have the dtype of the operator, and the result a tolerance."""
DENSE = [n for n in examples_of("trnsolver") if n not in STEPS and "preconditioner" not in n]


def tensors(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for part in result for t in tensors(part)] if isinstance(result, tuple) else []


def wide(value):
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.double()
    return value


@each_case("name", DENSE)
def test_a_result_is_that_of_float64_rounded_once(name):
    """Two computations in float64 differ by roundings of their order."""
    function, example = function_of("trnsolver", name), examples_of("trnsolver")[name]
    given = example.of(torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = tensors(function(*map(wide, given.args), **given.options))
        with precision("doublefloat"):
            found = tensors(function(*given.args, **given.options))
    assert len(found) == len(exact)
    size = max(float(want.abs().max()) for want in exact if want.numel())
    for got, want in zip(found, exact, strict=True):
        assert name == "hutch_plus_plus" or got.dtype in (
            torch.float32,
            torch.complex64,
            torch.int64,
        )
        assert ((got - want).abs() <= 2.0**-24 * want.abs() + 2.0**-42 * size).all(), name


@pytest.mark.parametrize("condition", [1e3, 1e6, 1e9])
def test_the_cut_of_an_inverse_root_is_that_of_float64(condition):
    """The float32 matrix has roots whose small eigenvalues float32's eps would raise."""
    values = np.logspace(0, -np.log10(condition), 4)
    a = torch.diag(torch.tensor(values, dtype=torch.float32))
    with precision("doublefloat"):
        got = trnsolver.inv_sqrt_spd(a)
    for entry, value in zip(got.diagonal().tolist(), a.diagonal().tolist(), strict=True):
        want = 1 / mp.sqrt(mp.mpf(value))
        assert abs(mp.mpf(entry) - want) <= 2.0**-23 * want
