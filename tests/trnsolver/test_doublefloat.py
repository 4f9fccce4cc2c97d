"""Dense functions at the level doublefloat: float64, one rounding at the end; and on kernels."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from mpmath import mp

import trnblas
import trnsolver
from each_case import each_case
from trnsci.core.backend.precision import precision
from trnsci.core.counters import counts
from trnsci.core.examples import examples_of, function_of
from trnsci.core.testing import random_tensor, unit_roundoff

STEPS = {"bicgstab", "eigsh", "fgmres", "gmres", "minres", "lobpcg", "svds"}
"""Iterations on operators: vectors have the dtype of the operator, and the result a tolerance."""
DENSE = [n for n in examples_of("trnsolver") if n not in STEPS and "preconditioner" not in n]


def tensors(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for part in result for t in tensors(part)] if isinstance(result, tuple) else []


def wide(value):
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.double()
    if hasattr(value, "_fields"):  # factors
        return type(value)(*map(wide, value))
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


# -- systems on kernels ----------------------------------------------------------------------------
#
# See test_doublefloat_factors.py for the bounds of factors and solutions.

ORDER = 5
SYSTEMS = ("solve", "inv", "solve_spd", "inv_spd")
NUMBERS = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def general(dtype):
    """Entries with moduli from 1 to 1.9, which ``solve`` does not scale."""
    drawn = random_tensor(ORDER, ORDER, dtype=dtype, seed=1)
    return (
        drawn
        / drawn.abs()
        * torch.linspace(1, 1.9, ORDER**2, dtype=drawn.real.dtype).reshape(ORDER, ORDER)
    )


def positive(dtype):
    a = general(dtype)
    a = (a @ a.mH + torch.eye(ORDER)).tril()
    return a + a.tril(-1).mH


def exact_numbers(*tensors):
    return [np.asarray(x.to(torch.complex128)) for x in tensors]


def unit_of(dtype):
    return 2.0**-45 * (2**0.5 if dtype.is_complex else 1.0)


def residual_of_triangle(triangle, solution, right):
    """The largest residuals, over the unit of the level."""
    rows = np.linalg.norm(triangle, axis=1)[:, None]
    return rows * np.linalg.norm(solution, axis=0) + abs(right)


def solved_on_kernels(call):
    """The result of a call at the level, of which kernels compute everything."""
    before = counts()
    with trnsolver.backend("simulator"), trnblas.backend("simulator"), precision("doublefloat"):
        found = call()
    since = counts() - before
    assert {"trsm", "doublefloat_gemm"} <= set(since.launches)
    assert not since.fallbacks
    assert not since.refusals
    return found


@each_case("dtype", NUMBERS)
@each_case("name", SYSTEMS)
def test_systems_are_solved_on_kernels_to_the_bound_of_the_level(name, dtype):
    a = positive(dtype) if name.endswith("spd") else general(dtype)
    b = random_tensor(ORDER, 2, dtype=dtype, seed=2)
    operands = (a,) if name.startswith("inv") else (a, b)
    x = solved_on_kernels(lambda: getattr(trnsolver, name)(*operands))
    assert x.dtype is dtype
    a, b, x = exact_numbers(a, torch.eye(ORDER) if name.startswith("inv") else b, x)
    norms = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(x, axis=0)
    if name.endswith("spd"):
        # 2**-43 of each of the factor and two solutions, whose norms are those of L and L^H.
        norms = 3 * np.linalg.norm(a) * np.linalg.norm(x, axis=0) * ORDER**0.5
    rounding = unit_roundoff(dtype) * 2**0.5 * abs(a) @ abs(x)
    assert (abs(b - a @ x) <= 2.0**-43 * (norms + abs(b)) + rounding).all()


@each_case("dtype", NUMBERS)
def test_generalized_eigenvalues_are_those_of_solutions_at_the_level(dtype):
    """Weyl: eigenvalues move by at most the error of ``C = L^-1 A L^-H``, of two solutions."""
    a, b = general(dtype), positive(dtype)
    a = (a + a.mH) / 2
    found = solved_on_kernels(lambda: trnsolver.eigh_generalized(a, b)).eigenvalues.double().numpy()
    a, b = exact_numbers(a, b)
    lower = np.linalg.cholesky(b)
    half = np.linalg.solve(lower, a)
    c = np.linalg.solve(lower, half.conj().T)
    inverse = np.linalg.norm(np.linalg.inv(lower), 2)
    norm = np.linalg.norm
    first = inverse * norm(residual_of_triangle(lower, half, a))
    second = inverse * (first + norm(residual_of_triangle(lower, c, half.conj().T)))
    allowed = unit_of(dtype) * second
    # The factor of B and the eigenvalues are computed in float64, and rounded once.
    allowed += 8 * ORDER * 2.0**-53 * norm(c) * (1 + norm(b) * inverse**2)
    want = np.linalg.eigvalsh(c)
    assert (abs(found - want) <= allowed + unit_roundoff(dtype) * abs(want)).all()
