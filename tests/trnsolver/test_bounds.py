"""Errors of factors and solutions, entry by entry in mpmath, against the bounds of the page.

Matrices are graded, cancelling (their rows differ in their last digits), huge and tiny; with m
rows, ``||A||`` the largest sum of moduli of a row and u = 2^-24. At level float32 a result is exact
for a matrix that differs from A by at most ``8 m u ||A||``. At doublefloat it is that of a matrix
that differs by at most ``8 m 2^-53 ||A||``, rounded once. Residuals follow from this, to first
order in u. The factor 8 covers two stages, a factorization and its use, in complex numbers: a sum
of m complex products has at most ``2 sqrt(2) m u`` times its moduli (Higham, Accuracy and Stability
of Numerical Algorithms, sections 3.1 and 3.6).

    pytest -m "" -s tests/trnsolver/test_bounds.py     also prints the largest share of each bound
"""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import numpy as np
import pytest
import torch
from mpmath import mp

import trnsolver
from trnsci import precision
from trnsci.core.testing import random_tensor, refusals_expected

ROWS, COLUMNS, SIDES = 16, 12, 3
KINDS = ("graded", "cancelling", "huge", "tiny")
SIZES = {"graded": 1.0, "cancelling": 1.0, "huge": 2.0**100, "tiny": 2.0**-100}
DTYPES = (torch.float32, torch.complex64)
LEVELS = ("float32", "doublefloat")


def general(kind, rows, dtype, seed):
    """A matrix of float32 numbers with a condition number of at most about 1e5."""
    a = random_tensor(rows, COLUMNS, dtype=dtype, seed=seed)
    if kind == "graded":
        return a * 2.0 ** -(torch.arange(rows) % 5).unsqueeze(-1) * 2.0 ** -torch.arange(COLUMNS)
    return 1 + 2.0**-10 * a if kind == "cancelling" else SIZES[kind] * a


def hermitian(kind, dtype, seed, positive=False):
    a = random_tensor(COLUMNS, COLUMNS, dtype=dtype, seed=seed)
    a = a @ a.mH / COLUMNS + torch.eye(COLUMNS) if positive else a
    a = a.tril() + a.tril(-1).mH
    if a.is_complex():
        a.diagonal().imag.zero_()
    if kind == "graded":
        grades = 2.0 ** -torch.arange(COLUMNS)
        return grades.unsqueeze(-1) * a * grades
    return 1 + 2.0**-8 * a if kind == "cancelling" else SIZES[kind] * a


# Each function yields residuals by entries, the size of which they may have ``8 m u``, and the
# change of the residual where each part of the result is rounded by its u.


def cholesky(kind, dtype, seed):
    a = hermitian(kind, dtype, seed, positive=True)
    left = exact(trnsolver.cholesky(a))
    wanted = exact(a)
    yield wanted - left @ adjoint(left), norm(wanted), 2 * abs(left) @ abs(adjoint(left))


def solve(kind, dtype, seed):
    a = general(kind, COLUMNS, dtype, seed)
    yield solved(trnsolver.solve, a, seed)


def solve_spd(kind, dtype, seed):
    yield solved(trnsolver.solve_spd, hermitian(kind, dtype, seed, positive=True), seed)


def solved(function, a, seed):
    b = random_tensor(COLUMNS, SIDES, dtype=a.dtype, seed=seed + 1)
    x, a, b = map(exact, (function(a, b), a, b))
    return b - a @ x, norm(a) * abs(x).max(axis=0), abs(a) @ abs(x)


def inv(kind, dtype, seed):
    a = general(kind, COLUMNS, dtype, seed)
    x, a = exact(trnsolver.inv(a)), exact(a)
    yield a @ x - np.eye(COLUMNS, dtype=int), norm(a) * abs(x).max(axis=0), abs(a) @ abs(x)


def lstsq(kind, dtype, seed):
    """The effect of a change of A on the solution: Wedin's theorem, to first order."""
    a = general(kind, ROWS, dtype, seed)
    b = random_tensor(ROWS, SIDES, dtype=dtype, seed=seed + 1)
    b[:, 0] = a.sum(dim=1)  # a system with a solution
    smallest = float(torch.linalg.svdvals(a.to(torch.complex128))[-1])
    found, a, b = map(exact, (trnsolver.lstsq(a, b).solution, a, b))
    normal = mp.matrix((adjoint(a) @ a).tolist())
    columns = [mp.lu_solve(normal, mp.matrix(c.tolist())) for c in (adjoint(a) @ b).T]
    x = np.array([list(column) for column in columns], dtype=object).T
    lengths, left = length(x), length(b - a @ x)
    yield found - x, norm(a) * (lengths / smallest + left / smallest / smallest), abs(x)


def eigh(kind, dtype, seed):
    a = hermitian(kind, dtype, seed)
    w, v = map(exact, trnsolver.eigh(a))
    a = exact(a)
    yield a @ v - v * w, norm(a), abs(a) @ abs(v) + 2 * abs(v) * abs(w)
    yield unitary(v)


def svd(kind, dtype, seed):
    a = general(kind, ROWS, dtype, seed)
    u, s, vh = map(exact, trnsolver.svd(a))
    a = exact(a)
    yield a - (u * s) @ vh, norm(a), 3 * (abs(u) * s) @ abs(vh)
    yield unitary(u)
    yield unitary(adjoint(vh))


def unitary(v):
    return adjoint(v) @ v - np.eye(v.shape[1], dtype=int), 1, 2 * abs(adjoint(v)) @ abs(v)


FUNCTIONS = (cholesky, solve, solve_spd, inv, lstsq, eigh, svd)


def exact(x):
    """The entries as numbers of mpmath."""
    make = mp.mpc if x.is_complex() else mp.mpf
    return np.array([make(v) for v in x.reshape(-1).tolist()], dtype=object).reshape(x.shape)


def adjoint(a):
    return np.vectorize(mp.conj, otypes=[object])(a).T


def norm(a):
    return abs(a).sum(axis=-1).max()


def length(columns):
    return np.vectorize(mp.sqrt, otypes=[object])((abs(columns) ** 2).sum(axis=0))


def shares(function, level, kind, dtype, seed):
    """Residuals over their bounds, of all entries."""
    with mp.workdps(60), precision(level), refusals_expected():
        for residual, size, rounded in function(kind, dtype, seed):
            unit, roundings = (2.0**-53, rounded) if level == "doublefloat" else (2.0**-24, 0)
            bound = 8 * ROWS * unit * size + 2.0**-24 * roundings
            yield from (abs(residual) / bound).astype(float).reshape(-1).tolist()


def largest(backend, levels, kinds, seeds):
    """The number of entries, and the largest share of the bound by function, level and dtype."""
    count, found = 0, defaultdict(float)
    with trnsolver.backend(backend):
        for case in product(FUNCTIONS, levels, kinds, DTYPES, seeds):
            got = list(shares(*case))
            count += len(got)
            name = f"{case[0].__name__} {' '.join(map(str, case[1:4]))} on {backend}"
            found[name] = max(found[name], *got)
    return count, found


def above(found):
    return {name: share for name, share in found.items() if not share <= 1}


def test_bounds_of_graded_matrices_hold():
    assert not above(largest("pytorch", LEVELS, ["graded"], [0])[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "levels", "seeds", "fewest"),
    [("pytorch", LEVELS, 3, 50_000), ("simulator", ["float32"], 2, 15_000)],
)
def test_bounds_of_many_entries_hold(backend, levels, seeds, fewest):
    count, found = largest(backend, levels, KINDS, range(1, 1 + seeds))
    print(f"\n{count} entries on {backend}")
    for name, share in sorted(found.items(), key=lambda item: -item[1]):
        print(f"{name}: {share:.3g}")
    assert count >= fewest
    assert not above(found)
