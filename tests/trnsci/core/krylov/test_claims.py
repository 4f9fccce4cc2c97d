"""Iterative solvers claim what their returned results have: at every scale, in every dtype."""

import math

import pytest
import torch

import trnsolver
import trnsparse
from trnsci.core.errors import ConvergenceError, ConvergenceWarning, FlagError
from trnsci.core.testing import random_tensor

N = 16
Z = random_tensor(N, N, dtype=torch.float64, seed=3) / N**0.5
VALUES = torch.linspace(1, 3, N, dtype=torch.float64) * torch.tensor([1, -1] * (N // 2))
VECTORS = torch.linalg.eigh(Z + Z.mT)[1]
POSITIVE = Z @ Z.mT + torch.eye(N)
INDEFINITE = (VECTORS * VALUES) @ VECTORS.mT
GENERAL = Z + 3 * torch.eye(N)
B = random_tensor(N, dtype=torch.float64, seed=1)
LOW, HIGH = (float(w) for w in torch.linalg.eigvalsh(POSITIVE)[[0, -1]])


def sparse(solver):
    return lambda a, b, **options: solver(trnsparse.from_dense(a), b, **options)


def in_blocks(a, b, **options):
    return trnsparse.cg(trnsparse.BSRMatrix.from_dense(a, 4), b, **options)


def preconditioned(solver):
    """Return a solver with the inverse of the diagonal, which scales like the matrix."""
    return lambda a, b, **options: solver(a, b, M=torch.diag(1 / a.diagonal().abs()), **options)


def scale_of(a):
    return float(a[0, 0]) / float(POSITIVE[0, 0])


def chebyshev(a, b, **options):
    size = scale_of(a)
    options.setdefault("K", 12)
    return trnsparse.chebyshev(
        trnsparse.from_dense(a), b, 0.9 * LOW * size, 1.1 * HIGH * size, **options
    )


def richardson(a, b, **options):
    omega = 2 / (LOW + HIGH) / scale_of(a)
    options.setdefault("K", 12)
    return trnsparse.richardson(trnsparse.from_dense(a), b, omega, **options)


SOLVERS = {
    "trnsolver.cg": (trnsolver.cg, POSITIVE),
    "trnsolver.cg with M": (preconditioned(trnsolver.cg), POSITIVE),
    "trnsolver.minres": (trnsolver.minres, INDEFINITE),
    "trnsolver.minres with M": (preconditioned(trnsolver.minres), INDEFINITE),
    "trnsolver.bicgstab": (trnsolver.bicgstab, GENERAL),
    "trnsolver.gmres": (trnsolver.gmres, GENERAL),
    "trnsolver.gmres with M": (preconditioned(trnsolver.gmres), GENERAL),
    "trnsolver.fgmres": (trnsolver.fgmres, GENERAL),
    "trnsparse.cg": (sparse(trnsparse.cg), POSITIVE),
    "trnsparse.cg in blocks": (in_blocks, POSITIVE),
    "trnsparse.minres": (sparse(trnsparse.minres), INDEFINITE),
}
FIXED = {
    "trnsparse.chebyshev": (chebyshev, POSITIVE),
    "trnsparse.richardson": (richardson, POSITIVE),
}
ALL = {**SOLVERS, **FIXED}


def true_residual(a, b, x):
    """Return norm(b - A x) / norm(b) in float64, without overflow."""
    unit = float(b.double().abs().max())
    b, x = b.double() / unit, x.double() / unit
    return float(torch.linalg.vector_norm(b - a.double() @ x) / torch.linalg.vector_norm(b))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ALL)
def test_powers_of_two_scale_the_solution_and_change_nothing_else(name, dtype):
    solver, a = ALL[name]
    a, b = a.to(dtype), B.to(dtype)
    options = {} if name in FIXED else {"tol": 1e-5}
    want = solver(a, b, **options)
    assert name in FIXED or want.converged
    most = 100 if dtype is torch.float64 else 50  # 1e30 and 1e15
    for of_a, of_b in ((-most, 0), (most, 0), (0, -most), (0, most), (most, most), (-most, -most)):
        found = solver(a * 2.0**of_a, b * 2.0**of_b, **options)
        assert torch.equal(found.x, want.x * 2.0 ** (of_b - of_a)), (of_a, of_b)
        assert found.iterations == want.iterations
        assert found.converged == want.converged
        assert found.residual == want.residual
        zero = solver(a * 2.0**of_a, 0 * b, x0=b, **options)
        assert (zero.iterations, zero.residual, zero.converged) == (0, 0.0, True)
        assert not zero.x.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("name", ALL)
def test_the_residual_is_that_of_the_returned_solution(name, dtype):
    solver, a = ALL[name]
    a, b = a.to(dtype), B.to(dtype)
    options = {"K": 3} if name in FIXED else {"max_iter": 2}
    if "gmres" in name:
        options["restart"] = 2
    for start in (None, torch.ones_like(b)):
        found = solver(a, b, x0=start, on_failure="ignore", **options)
        rounding = 4 * N * torch.finfo(torch.float32 if dtype is torch.float16 else dtype).eps
        true = true_residual(a, b, found.x)
        assert found.residual == pytest.approx(true, rel=1e-3, abs=rounding)


REPRESENTABLE = {torch.float16: (11, -11), torch.float32: (100, -100), torch.float64: (700, -700)}


@pytest.mark.parametrize("dtype", REPRESENTABLE, ids=str)
@pytest.mark.parametrize("name", ALL)
def test_a_solution_that_overflows_or_underflows_is_not_converged(name, dtype):
    solver, a = ALL[name]
    if name in FIXED and dtype is torch.float64:
        pytest.skip("the bounds of the spectrum are not representable")
    for exponent in REPRESENTABLE[dtype]:
        big, small = a.to(dtype) * 2.0**exponent, B.to(dtype) * 2.0**-exponent
        found = solver(big, small, on_failure="ignore")
        assert not found.converged
        assert not found.residual <= 1e-5
        with pytest.raises(ConvergenceError):
            solver(big, small, on_failure="raise")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", SOLVERS)
def test_narrow_dtypes_converge_before_they_are_rounded(name, dtype):
    solver, a = SOLVERS[name]
    a, b = a.to(dtype), B.to(dtype)
    found = solver(a, b, tol=1e-5)
    assert found.converged
    true = true_residual(a, b, found.x)
    assert found.residual == pytest.approx(true, rel=1e-3)
    assert 1e-5 < true <= 20 * torch.finfo(dtype).eps


@pytest.mark.parametrize("exponent", [100, -100])
def test_targets_are_not_reached_by_what_overflows_or_underflows(exponent):
    a, b = GENERAL.float() * 2.0**exponent, B.float() * 2.0**-exponent
    for certify in (True, False):
        info = trnsolver.solve(
            a, b, target_forward_error=1e-4, on_failure="ignore", certify=certify
        ).info
        assert not info.converged
        assert info.forward_error >= 0.5
    with pytest.raises(trnsolver.AccuracyError):
        trnsolver.solve(a, b, target_forward_error=1e-4)
    far = 800 if exponent > 0 else -800
    wide, right = GENERAL * 2.0**far, B * 2.0**-far
    info = trnsolver.solve(wide, right, target_forward_error=1e-8, on_failure="ignore").info
    assert not info.converged
    reached = trnsolver.solve(wide, B * 2.0**far, target_forward_error=1e-8)
    assert reached.info.converged
    assert float((reached.x - torch.linalg.solve(GENERAL, B)).abs().max()) <= 1e-7


# -- on_failure ------------------------------------------------------------------------------------

FAILURES = {
    **{
        name: lambda solver=solver, a=a, **options: solver(a, B, tol=1e-14, max_iter=1, **options)
        for name, (solver, a) in SOLVERS.items()
        if "gmres" not in name
    },
    "trnsolver.gmres": lambda **o: trnsolver.gmres(GENERAL, B, 0 * B, 1e-14, 1, 2, **o),
    "trnsolver.fgmres": lambda **o: trnsolver.fgmres(GENERAL, B, 0 * B, 1e-14, 1, 2, **o),
    "trnsparse.chebyshev": lambda **o: trnsparse.chebyshev(POSITIVE, B, 0.1, 0.2, **o),
    "trnsparse.richardson": lambda **o: trnsparse.richardson(POSITIVE, B, 10.0, **o),
    "trnsparse.power_iteration": lambda **o: trnsparse.power_iteration(POSITIVE, max_iter=2, **o),
    "trnsolver.eigsh": lambda **o: trnsolver.eigsh(POSITIVE, 2, ncv=3, max_iter=1, **o),
    "trnsolver.svds": lambda **o: trnsolver.svds(POSITIVE, 2, ncv=3, max_iter=1, **o),
    "trnsolver.lobpcg": lambda **o: trnsolver.lobpcg(POSITIVE, 2, max_iter=1, tol=1e-12, **o),
    "trnsolver.inv_sqrt_spd_ns": lambda **o: trnsolver.inv_sqrt_spd_ns(POSITIVE, max_iter=2, **o),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures_warn_raise_or_are_accepted(name):
    fail = FAILURES[name]
    function = name.partition(".")[2].partition(" ")[0]
    with pytest.warns(ConvergenceWarning, match=f"^{function}: not converged") as warned:
        result = fail()
    assert warned[0].filename == __file__
    assert not result.info.converged
    assert fail(on_failure="ignore").info == result.info
    with pytest.raises(ConvergenceError, match=f"^{function}: not converged"):
        fail(on_failure="raise")
    with pytest.raises(FlagError, match="on_failure must be one of warn, raise, ignore, got 'no'"):
        fail(on_failure="no")


def test_power_iteration_checks_the_pair_and_scales():
    swap = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    start = torch.tensor([1.0, 0.0], dtype=torch.float64)
    # The quotient of these vectors is 0 at every step, which is no eigenvalue.
    assert not trnsparse.power_iteration(swap, start, on_failure="ignore").converged
    want = trnsparse.power_iteration(POSITIVE, max_iter=300)
    for exponent in (-700, -100, 100, 700):
        found = trnsparse.power_iteration(POSITIVE * 2.0**exponent, max_iter=300)
        assert found.value == want.value * 2.0**exponent
        assert (found.iterations, found.info) == (want.iterations, want.info)
        assert torch.equal(found.vector, want.vector)
    assert math.isfinite(want.info.residuals[-1])
