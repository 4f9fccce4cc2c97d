"""Solutions with a wanted error, against the exact ones in 60 digits."""

from functools import cache

import mpmath
import numpy as np
import pytest
import torch

import trnsolver
from oracles.solver_matrices import hilbert, with_condition
from trnsci.core.testing import random_tensor
from trnsolver import refinement
from trnsolver._factors.bounds import RealSystem, Residual

N = 20


def exact(a, b):
    """The solution in 60 digits, as mpmath finds it."""
    with mpmath.workdps(60):
        rows = [[_number(v) for v in row] for row in a.tolist()]
        right = mpmath.matrix([_number(v) for v in b.tolist()])
        return [mpmath.mpmathify(v) for v in mpmath.lu_solve(mpmath.matrix(rows), right)]


def _number(value):
    return mpmath.mpc(value) if isinstance(value, complex) else mpmath.mpf(value)


def relative_error(x, want):
    with mpmath.workdps(60):
        errors = [abs(_number(v) - w) for v, w in zip(x.tolist(), want, strict=True)]
        return float(max(errors) / max(abs(w) for w in want))


@cache
def conditioned_system(power):
    """Return A, b and the solution, of a condition number of 10^power."""
    a = with_condition(10.0**power, N, seed=power).float()
    b = random_tensor(N, seed=power)
    return a, b, exact(a, b)


@pytest.mark.parametrize("certify", [True, False], ids=["proven", "estimated"])
@pytest.mark.parametrize("power", [3, 5, 6, 7, 8, 9])
def test_the_bound_holds_in_float32_storage(power, certify):
    a, b, want = conditioned_system(power)
    x, info = trnsolver.solve(a, b, target_forward_error=1e-10, certify=certify)
    assert x.dtype is torch.float64
    assert info.converged
    assert info.certified == certify
    assert relative_error(x, want) <= info.forward_error <= 1e-10
    condition = float(torch.linalg.cond(a.double(), float("inf")))
    assert condition / 10 <= info.condition <= 10 * condition
    assert info.backward_error <= 1e-10


@pytest.mark.parametrize("target", [1e-2, 1e-5, 1e-8, 1e-12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_cheap_targets_take_cheap_ways(dtype, target):
    a = with_condition(1e3, N).to(dtype)
    b = random_tensor(N, dtype=dtype)
    x, info = trnsolver.solve(a, b, target_forward_error=target)
    assert info.precision[0] == "float32 LU"
    assert relative_error(x, exact(a, b)) <= info.forward_error <= target
    held = target >= 2 * torch.finfo(dtype).eps
    assert x.dtype is (dtype if held else torch.float64)


def test_the_condition_number_chooses_the_factor():
    b = torch.ones(24, dtype=torch.float64)
    well = trnsolver.solve(with_condition(1e2), b, target_forward_error=1e-6).info
    ill = trnsolver.solve(with_condition(1e9), b, target_forward_error=1e-6).info
    assert well.precision == ("float32 LU", "residual in float64, solution in float64")
    assert ill.precision[0] == "float64 LU"
    assert well.errors[0] > well.errors[-1]
    assert well.iterations == len(well.errors)


def test_gmres_on_a_factor_in_float32(monkeypatch):
    monkeypatch.setattr(refinement, "_SMALL", 8)
    a, b = with_condition(1e8, N), random_tensor(N, dtype=torch.float64)
    x, info = trnsolver.solve(a, b, target_forward_error=1e-6)
    assert info.precision[0] == "float32 LU, GMRES in float64"
    assert relative_error(x, exact(a, b)) <= info.forward_error <= 1e-6


def test_what_was_not_reached_is_not_claimed():
    a, b = hilbert(15), torch.ones(15, dtype=torch.float64)  # condition 1e20
    with pytest.raises(trnsolver.AccuracyError, match="condition number"):
        trnsolver.solve(a, b, target_forward_error=1e-6)
    with pytest.warns(trnsolver.AccuracyWarning, match="forward error") as warned:
        x, info = trnsolver.solve(a, b, target_forward_error=1e-6, on_failure="warn")
    assert [w.filename for w in warned] == [__file__]
    assert not info.converged
    assert info.forward_error > 1e-6
    assert relative_error(x, exact(a, b)) <= info.forward_error
    # Nothing has more digits than float64 holds.
    result = trnsolver.solve(
        torch.eye(3) * 3, torch.ones(3), target_forward_error=1e-18, on_failure="ignore"
    )
    assert not result.info.converged


@pytest.mark.parametrize("condition", [1e2, 1e6])
def test_several_columns_batches_and_complex_numbers(condition):
    base = with_condition(condition, 8)
    a = torch.complex(base, 0.1 * with_condition(10.0, 8, seed=4))
    b = random_tensor(2, 8, 3, dtype=torch.complex128)
    x, info = trnsolver.solve(torch.stack([a, 2 * a]), b, target_forward_error=1e-12)
    assert x.shape == b.shape
    for place, factor in enumerate((1, 2)):
        for column in range(3):
            want = exact(factor * a, b[place, :, column])
            assert relative_error(x[place, :, column], want) <= info.forward_error


def complex_system(seed):
    """Return a system of order 1 to 20 with a condition number up to 1e12, and a target."""
    rng = np.random.default_rng([7, seed])
    n, dtype = 1 + seed % 20, (torch.complex128, torch.complex64)[seed % 3 == 2]
    parts = rng.standard_normal((2, 2, n, n))
    left, right = np.linalg.qr(parts[0] + 1j * parts[1])[0]
    values = np.logspace(0, -rng.uniform(0, 12), n)
    real, imaginary = rng.standard_normal((2, n))
    a, b = torch.from_numpy((left * values) @ right), torch.from_numpy(real + 1j * imaginary)
    return a.to(dtype), b.to(dtype), 10.0 ** -rng.uniform(2, 14)


def missed(seeds, certify=True):
    """Return the seeds whose error in moduli, of 60 digits, is above the reported bound."""
    found = []
    for seed in seeds:
        a, b, target = complex_system(seed)
        x, info = trnsolver.solve(
            a, b, target_forward_error=target, certify=certify, on_failure="ignore"
        )
        if not relative_error(x, exact(a, b)) <= info.forward_error:
            found.append(seed)
    return found


@pytest.mark.parametrize("certify", [True, False], ids=["proven", "estimated"])
def test_bounds_of_complex_systems_are_of_moduli(certify):
    # Of order 1 the ratio of modulus and parts is the largest.
    assert not missed([*range(0, 1000, 20), *range(12), 39], certify)


@pytest.mark.slow
def test_bounds_of_2000_complex_systems_hold():
    assert not missed(range(2000))


def test_gradients_are_those_of_the_solution():
    a = with_condition(10.0, 4).requires_grad_()
    b = random_tensor(4, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda a, b: trnsolver.solve(a, b, target_forward_error=1e-12).x, (a, b)
    )


def test_numbers_of_any_size():
    a = with_condition(1e3, N) * 1e-200
    b = random_tensor(N, dtype=torch.float64) * 1e-100
    x, info = trnsolver.solve(a, b, target_forward_error=1e-8)
    assert relative_error(x, exact(a, b)) <= info.forward_error <= 1e-8


def test_residuals_are_exact_to_twice_float64():
    a, x = random_tensor(9, 9, dtype=torch.float64), random_tensor(9, 1, dtype=torch.float64)
    b = a @ x
    r, bound = Residual(RealSystem(a, b, False), doubled=True)(x)
    with mpmath.workdps(60):
        for row in range(9):
            terms = zip(a[row].tolist(), x[:, 0].tolist(), strict=True)
            want = _number(float(b[row])) - mpmath.fsum(_number(p) * _number(q) for p, q in terms)
            assert abs(_number(float(r[row])) - want) <= _number(float(bound[row]))
            assert float(bound[row]) <= 1e-16 * float(abs(r[row])) * 2 + 1e-28


def test_singular_and_senseless():
    with pytest.raises(trnsolver.SingularMatrixError):
        trnsolver.solve(torch.zeros(3, 3), torch.ones(3), target_forward_error=1e-3)
    for target in (0.0, 2.0, float("nan"), "x"):
        with pytest.raises(ValueError, match="target_forward_error"):
            trnsolver.solve(torch.eye(3), torch.ones(3), target_forward_error=target)
    with pytest.raises(ValueError, match="on_failure"):
        trnsolver.solve(torch.eye(3), torch.ones(3), target_forward_error=0.1, on_failure="no")
    text = str(trnsolver.solve(torch.eye(3), torch.ones(3), target_forward_error=1e-3).info)
    assert "proven" in text
    assert "reached" in text
    nothing = trnsolver.solve(torch.eye(3), torch.zeros(3), target_forward_error=1e-3)
    assert torch.equal(nothing.x, torch.zeros(3))


@cache
def growing_system(dtype):
    """Return A, b and the solution: partial pivoting doubles the last column in every step."""
    n = 40  # by 2^39 in all
    a = torch.eye(n, dtype=dtype) - torch.ones(n, n, dtype=dtype).tril(-1)
    a[:, -1] = 1
    b = torch.from_numpy(np.random.default_rng(12).standard_normal(n)).to(dtype)
    return a, b, exact(a, b)


@pytest.mark.parametrize("certify", [True, False], ids=["proven", "estimated"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("target", [1e-6, 1e-14])
def test_a_factor_whose_numbers_grow_is_not_believed(dtype, certify, target):
    a, b, want = growing_system(dtype)
    x, info = trnsolver.solve(a, b, target_forward_error=target, certify=certify)
    assert relative_error(x, want) <= info.forward_error <= target
