"""Results scale with the matrix, by powers of two, from the smallest numbers to the largest."""

import math
from typing import NamedTuple

import pytest
import torch

import trnsolver
from each_case import each_case
from trnsci.core.testing import random_tensor

ORDER = 24
B = random_tensor(ORDER, ORDER, dtype=torch.float64)
GENERAL = B + 2 * torch.eye(ORDER, dtype=torch.float64)
SYMMETRIC = (B + B.mT) / 2
DEFINITE = B @ B.mT / ORDER + torch.eye(ORDER, dtype=torch.float64)
TALL = random_tensor(4 * ORDER, ORDER, dtype=torch.float64, seed=1)
RIGHT = random_tensor(ORDER, 3, dtype=torch.float64, seed=2)
LONG = random_tensor(4 * ORDER, 3, dtype=torch.float64, seed=3)


class Case(NamedTuple):
    """A result, and the power of the scale that it grows with.

    ``reach`` is the share of all exponents: methods that form squares of A have half of them.
    """

    matrix: torch.Tensor
    call: object
    power: float
    reach: float = 0.9


def solved(method, **options):
    return lambda a: method(a, RIGHT[:, 0].to(a.dtype), tol=1e-5, **options)[0]


CASES = {
    "eigh": Case(SYMMETRIC, lambda a: trnsolver.eigh(a)[0], 1),
    "eigh, some": Case(DEFINITE, lambda a: trnsolver.eigh(a, tol=1e-4, k=3)[0], 1),
    "eigh_generalized": Case(
        SYMMETRIC, lambda a: trnsolver.eigh_generalized(a, DEFINITE.to(a.dtype))[0], 1
    ),
    "eigsh": Case(SYMMETRIC, lambda a: trnsolver.eigsh(a, 3)[0], 1),
    "eigsh, sigma": Case(DEFINITE, lambda a: trnsolver.eigsh(a, 3, sigma=float(a[0, 0]))[0], 1),
    "svds": Case(TALL, lambda a: trnsolver.svds(a, 3)[1], 1),
    "lobpcg": Case(DEFINITE, lambda a: trnsolver.lobpcg(a, 3, tol=1e-4)[0], 1),
    "svd": Case(TALL, lambda a: trnsolver.svd(a)[1], 1),
    "qr": Case(TALL, lambda a: trnsolver.qr(a)[1].abs(), 1),
    "cholqr2": Case(TALL, lambda a: trnsolver.cholqr2(a)[1], 1),
    "cholesky": Case(DEFINITE, trnsolver.cholesky, 0.5),
    "lu": Case(GENERAL, lambda a: trnsolver.lu(a).U, 1),
    "polar": Case(GENERAL, lambda a: trnsolver.polar(a)[1], 1),
    "msign": Case(GENERAL, trnsolver.msign, 0),
    "solve": Case(GENERAL, lambda a: trnsolver.solve(a, RIGHT.to(a.dtype)), -1),
    "solve_spd": Case(DEFINITE, lambda a: trnsolver.solve_spd(a, RIGHT.to(a.dtype)), -1),
    "inv_spd": Case(DEFINITE, trnsolver.inv_spd, -1),
    "inv_sqrt_spd": Case(DEFINITE, trnsolver.inv_sqrt_spd, -0.5),
    "inv_sqrt_spd_ns": Case(DEFINITE, lambda a: trnsolver.inv_sqrt_spd_ns(a)[0], -0.5),
    "lstsq": Case(TALL, lambda a: trnsolver.lstsq(a, LONG.to(a.dtype))[0], -1),
    "pinv": Case(TALL, trnsolver.pinv, -1),
    "cg": Case(DEFINITE, solved(trnsolver.cg), -1),
    "minres": Case(SYMMETRIC, solved(trnsolver.minres), -1, 0.45),
    "gmres": Case(GENERAL, solved(trnsolver.gmres), -1, 0.45),
    "fgmres": Case(GENERAL, solved(trnsolver.fgmres), -1, 0.45),
    "bicgstab": Case(DEFINITE, solved(trnsolver.bicgstab), -1, 0.45),
}


@each_case("dtype", [torch.float32, torch.float64], ids=str)
@each_case("name", CASES)
def test_results_scale_with_the_matrix(name, dtype):
    matrix, call, power, reach = CASES[name]
    matrix = matrix.to(dtype)
    want = call(matrix)
    exponents = math.log2(torch.finfo(dtype).max)
    # What a method stops at moves by rounding, and its result by as much as it may be off.
    bound = 1e-3 * float(want.abs().max())
    for share in (-reach, -reach / 4, reach / 2, reach):
        exponent = 2 * round(share * exponents / 2)
        found = call(matrix * 2.0**exponent).double() / 2.0 ** (power * exponent)
        assert float((found - want).abs().max()) <= bound, exponent


KERNELS = ("eigh", "svd", "qr", "cholesky", "lu", "solve", "inv_spd", "inv_sqrt_spd")


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_scale_their_input(name):
    small = {"svd": TALL[:8, :4], "qr": TALL[:8, :4], "solve": GENERAL[:4, :4]}
    given, call, power, _ = CASES[name]
    matrix = small.get(name, given[:4, :4]).float()
    if name == "solve":
        call = lambda a: trnsolver.solve(a, RIGHT[:4].to(a.dtype))  # noqa: E731
    with trnsolver.backend("simulator"):
        want = call(matrix).double()
        bound = 100 * torch.finfo(torch.float32).eps * float(want.abs().max())
        for exponent in (-122, 122):
            found = call(matrix * 2.0**exponent).double() / 2.0 ** (power * exponent)
            assert float((found - want).abs().max()) <= bound, exponent
        for bad in (math.nan, math.inf):
            if name not in ("qr", "lu", "solve"):  # these return NaN, like torch
                with pytest.raises(trnsolver.NotFiniteError, match=f"{name}: A must be finite"):
                    call(matrix * torch.full_like(matrix, bad))


# Subnormal pivots, of 1e-40, are NaN in the LAPACK of some builds of torch.
@pytest.mark.parametrize(
    ("backend", "least"),
    [("pytorch", -20), ("pytorch", -30), *(("simulator", least) for least in (-20, -30, -40))],
)
def test_regular_graded_matrices_have_solutions(backend, least):
    grades = torch.logspace(0, least, 6, dtype=torch.float64)
    general = (GENERAL[:6, :6] * grades[:, None]).float()
    definite = (DEFINITE[:6, :6] * (grades[:, None] * grades) ** 0.5).float()
    sides = grades.float()
    eps = torch.finfo(torch.float32).eps
    with trnsolver.backend(backend):
        for solve, matrix in (
            (trnsolver.solve, torch.diag(grades).float()),
            (trnsolver.solve_spd, torch.diag(grades).float()),
            (trnsolver.solve, general),
            (trnsolver.solve_spd, definite),
        ):
            x = solve(matrix, sides).double()
            # Each row is solved to the precision of its own entries.
            left = (sides.double() - matrix.double() @ x).abs()
            size = matrix.double().abs() @ x.abs() + sides.double().abs()
            smallest = 1e-44 if backend == "pytorch" else 0.0  # rounding of subnormal numbers
            assert bool((left <= 100 * eps * size + smallest).all())
        with pytest.raises(trnsolver.SingularMatrixError):
            trnsolver.solve(torch.diag(torch.tensor([1.0, 0.0])), torch.ones(2))
        if least > -38:
            inverse = trnsolver.inv(torch.diag(grades).float()).diagonal().double()
            assert torch.allclose(inverse * grades.float().double(), torch.ones(6).double())
