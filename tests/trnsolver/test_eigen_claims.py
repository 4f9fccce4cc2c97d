"""What eigh with a tolerance claims of its pairs, against their residuals in 60 digits."""

import mpmath
import numpy as np
import pytest
import torch

import trnsolver

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128, torch.bfloat16)
METHODS = ("auto", "exact", "chebyshev")


def matrix_of(rng, n, dtype):
    """Return a Hermitian matrix: random, diagonal, of small integers, or of low rank."""
    drawn = rng.standard_normal((n, n))
    if dtype.is_complex:
        drawn = drawn + 1j * rng.standard_normal((n, n))
    kind = rng.integers(5)
    if kind == 1:
        drawn = np.diag(np.diag(drawn).real)
    elif kind == 2:
        drawn = np.round(2 * drawn)
    elif kind == 3:
        drawn = np.outer(drawn[0], drawn[0].conj())
    elif kind == 4:
        drawn = drawn * np.logspace(0, -6, n)[:, None]
    a = torch.from_numpy(drawn + drawn.conj().T) * 10.0 ** rng.integers(-3, 4)
    return a.to(dtype)


def largest_residual(a, w, v):
    """Return the largest norm(A v - w v), in 60 digits."""
    number = mpmath.mpc if a.is_complex() else mpmath.mpf
    with mpmath.workdps(60):
        rows, vectors = (
            mpmath.matrix([[number(x) for x in row] for row in m.tolist()]) for m in (a, v)
        )
        image = rows * vectors
        sizes = []
        for j, value in enumerate(w.tolist()):
            column = [image[i, j] - mpmath.mpf(value) * vectors[i, j] for i in range(a.shape[0])]
            sizes.append(mpmath.sqrt(mpmath.fsum(abs(x) ** 2 for x in column)))
        return float(max(sizes))


def false_claims(seeds):
    """Return what is reported too small, by seed."""
    found = {}
    for seed in seeds:
        rng = np.random.default_rng([11, seed])
        n, dtype = int(rng.integers(1, 11)), DTYPES[seed % len(DTYPES)]
        a = matrix_of(rng, n, dtype)
        tol = 10.0 ** -rng.uniform(2, 17)
        w, v = (pairs := trnsolver.eigh(a, tol, method=METHODS[seed % 3], on_failure="ignore"))
        wide = a.to(torch.complex128 if dtype.is_complex else torch.float64)
        # float64 has the norm to n eps, which is below 1e-14.
        norm = float(torch.linalg.matrix_norm(wide, 2)) * (1 + 1e-14)
        true = largest_residual(a, w, v) / norm if norm else 0.0
        if true > pairs.info.backward_error or (pairs.info.converged and true > tol):
            found[seed] = (dtype, n, tol, true, pairs.info.backward_error)
    return found


def test_residuals_are_never_reported_too_small():
    found = false_claims(range(60))
    assert not found, found


@pytest.mark.slow
def test_no_false_claim_in_2000():
    found = false_claims(range(2000))
    assert not found, found
