"""The contract of operations, for every operation of trnsolver.

Problems are of order 3 and have condition numbers below 10, gaps of eigenvalues and singular values
above 1: second derivatives divide by their cubes. What a factorization leaves open, the signs of
vectors, is squared away, and the phases of complex ones. Complex operands are made of two real
ones.
"""

from __future__ import annotations

import pytest
import torch

import trnsolver
from trnsci.core.testing import random_tensor
from trnsci.core.testing.contract import DerivativeContract, Sample
from trnsolver._doublefloat.operations import refined_solution
from trnsolver._library import LIBRARY
from trnsolver._paths.arguments import in_full_precision
from trnsolver.factored import CholeskyFactor, PivotedLU
from trnsolver.iterative import CG
from trnsolver.nki import dispatch as low_level

SMALL = 0.25 * random_tensor(3, 3)
APART = torch.diag(torch.tensor([1.0, 2.5, 4.5])) + SMALL
TALL = torch.cat([APART, 0.25 * random_tensor(1, 3, seed=1)])
SIDE = random_tensor(3, seed=2)


def positive(a):
    return 0.25 * (a @ a.mT) + torch.eye(3, dtype=a.dtype)


def eigh(a):
    w, v = trnsolver.eigh(a + a.mT)
    return w, v * v


def svd(a):
    u, s, vh = trnsolver.svd(a)
    return u * u, s, vh * vh


def qr(a):
    q, r = trnsolver.qr(a)
    return q * q, r * r


def doubled(a):
    return a + a.mT


def squared_vectors(w, v):
    return w, v * v


def squares(*parts):
    return tuple(part * part for part in parts)


def at_level(name, *options, matrix=None, after=None):
    """The operation of the level itself: a block with a level must not be inside of a graph."""

    def call(a):
        operation = LIBRARY.operations[f"doublefloat_{name}"]
        found = operation((a if matrix is None else matrix(a))[None], *options)
        parts = found if isinstance(found, tuple) else (found,)
        return found if after is None else after(*parts)

    return in_full_precision(call)  # as the public functions are


def cg(a, b):
    x, _ = CG(positive(a)[None], b[None], torch.zeros_like(b)[None], 1e-5, 6)
    return x


def complex_(function, hermitian=None):
    """The same function of complex matrices, made of real and imaginary parts."""

    def call(real, imaginary, *rest):
        # torch has no complex matrices of half precision.
        wide = torch.promote_types(real.dtype, torch.float32)
        real, imaginary, *rest = (part.to(wide) for part in (real, imaginary, *rest))
        a = torch.complex(real, imaginary)
        if hermitian is not None:
            a = hermitian(a)
        return function(a, *rest)

    return call


def moduli(function):
    """The results of a complex factorization without their phases.

    They are small: torch refuses derivatives by phases above a fixed limit, and so large rounding.
    """
    return lambda a: tuple(0.1 * part.abs() ** 2 for part in function(a))


def complex_positive(a):
    return 0.25 * (a @ a.mH) + torch.eye(3, dtype=a.dtype)


def complex_cg(a, side):
    b = torch.complex(side, 1 - side)
    return CG(a[None], b[None], torch.zeros_like(b)[None], 1e-5, 8)[0]


SAMPLES = (
    Sample("eigh", eigh, (APART,), 2000, backward_launches=False),
    Sample("cg", cg, (APART, SIDE), 2000),
    Sample("cholesky", lambda a: trnsolver.cholesky(positive(a)), (APART,), 500, False),
    Sample("lu", lambda a: trnsolver.lu(a)[1:], (APART,), 500, False),
    Sample(
        "triangles",
        lambda a, b: trnsolver.lu_solve(PivotedLU(a, torch.tensor([1, 0, 2])), b),
        (APART, SIDE[:, None]),
        2000,
    ),
    Sample("qr", qr, (TALL,), 2000, False),
    Sample("svd", svd, (TALL,), 2000, False),
    Sample("pinv", lambda a: trnsolver.pinv(a, 1e-6), (TALL,), 2000, False),
    Sample(
        "inv_sqrt_spd_ns",
        lambda a: trnsolver.inv_sqrt_spd_ns(positive(a), max_iter=10, tol=1e-6)[0],
        (SMALL,),
        2000,
        False,
    ),
    Sample("matvec", low_level.nki_matvec, (SMALL, SIDE[:, None]), backward_launches=False),
    Sample(
        "rank2_update",
        low_level.nki_rank2_update,
        (SMALL, SIDE[:, None], 1 + SIDE[:, None]),
        backward_launches=False,
    ),
    Sample(
        "rotate_pairs",
        low_level.nki_rotate_pairs,
        (SMALL, 1 + SMALL, SIDE[:, None], 1 + SIDE[:, None]),
        backward_launches=False,
    ),
    Sample("matrix_power", lambda a: trnsolver.matrix_power(a, 3), (APART,), 500),
    Sample(
        "solve_tridiagonal",
        lambda a, b: trnsolver.solve_tridiagonal(a[0, 1:], 3 + a[1], a[2, :-1], b),
        (SMALL, SIDE),
        500,
    ),
    *(
        Sample(f"doublefloat_{name}", call, tensors, 2000, launches, takes_float64=True)
        for name, call, tensors, launches in (
            ("cholesky", at_level("cholesky", matrix=positive), (APART,), False),
            ("lu", at_level("lu", after=lambda p, lower, upper: (lower, upper)), (APART,), False),
            ("qr", at_level("qr", after=squares), (TALL,), False),
            ("eigh", at_level("eigh", 12, matrix=doubled, after=squared_vectors), (APART,), False),
            ("svd", at_level("svd", 12, False, after=squares), (TALL,), False),
            ("pinv", at_level("pinv", 1e-6, 12, after=lambda p, s: p), (TALL,), False),
            (
                "msign",
                at_level("msign", 2, 1.5, -0.5, 0.0, matrix=lambda a: a / 8, after=squares),
                (APART,),
                False,
            ),
            (
                "inv_sqrt_spd_ns",
                at_level("inv_sqrt_spd_ns", 10, 1e-6, matrix=positive, after=lambda x, *rest: x),
                (SMALL,),
                False,
            ),
            ("determinant", at_level("determinant", True, after=lambda s, d: d), (APART,), False),
            ("solve", lambda a, b: refined_solution("solve", a, b[:, None]), (APART, SIDE), True),
        )
    ),
    # The sign alone has a constant norm, of which the gradient would be zero.
    Sample(
        "msign", lambda a: a * trnsolver.msign(a, 3, 3, on_failure="ignore"), (APART,), 5000, False
    ),
)

TURNED = 0.25 * random_tensor(3, 3, seed=4)
TURNED_TALL = 0.25 * random_tensor(4, 3, seed=5)
LONG = torch.cat([APART, SMALL[:, :1]], -1)
SHAPES = (
    Sample("lu", lambda a: trnsolver.lu(a)[1:], (TALL,), 500, False),
    Sample("lu", lambda a: trnsolver.lu(a)[1:], (LONG,), 500, False),
    Sample("qr", qr, (LONG,), 2000, False),
    Sample(
        "svd",
        lambda a: trnsolver.svd(a, full_matrices=True).U[:, :3] ** 2,
        (TALL,),
        2000,
        False,
    ),
)
COMPLEX = (
    Sample(
        "eigh", complex_(moduli(trnsolver.eigh), lambda a: a + a.mH), (APART, TURNED), 2000, False
    ),
    Sample("cholesky", complex_(trnsolver.cholesky, complex_positive), (APART, TURNED), 500, False),
    Sample("qr", complex_(qr), (TALL, TURNED_TALL), 2000, False),
    Sample("pinv", complex_(lambda a: trnsolver.pinv(a, 1e-6)), (TALL, TURNED_TALL), 2000, False),
    Sample(
        "triangles",
        complex_(lambda a, b: trnsolver.cholesky_solve(CholeskyFactor(a), b.to(a.dtype))),
        (APART, TURNED, SIDE),
        2000,
    ),
    Sample("cg", complex_(complex_cg, complex_positive), (APART, TURNED, SIDE), 2000),
    Sample("lu", complex_(lambda a: trnsolver.lu(a)[1:]), (APART, TURNED), 500, False),
    Sample("lu", complex_(lambda a: trnsolver.lu(a)[1:]), (TALL, TURNED_TALL), 500, False),
    Sample("lu", complex_(lambda a: trnsolver.lu(a.mT)[1:]), (TALL, TURNED_TALL), 500, False),
    Sample("matrix_power", complex_(lambda a: trnsolver.matrix_power(a, 3)), (APART, TURNED), 500),
    Sample("lu", complex_(trnsolver.inv), (APART, TURNED), 2000, False),
    Sample(
        "inv_sqrt_spd_ns",
        complex_(
            lambda a: trnsolver.inv_sqrt_spd_ns(a, max_iter=10, tol=1e-6)[0], complex_positive
        ),
        (SMALL, TURNED),
        2000,
        False,
    ),
    Sample(
        "msign",
        complex_(lambda a: a * trnsolver.msign(a, 3, 3, on_failure="ignore")),
        (APART, TURNED),
        5000,
        False,
    ),
)

COMPLEX_SVD = (Sample("svd", complex_(moduli(trnsolver.svd)), (TALL, TURNED_TALL), 2000, False),)


class TestOperations(DerivativeContract):
    library = LIBRARY
    samples = SAMPLES[:1]

    def test_every_operation_has_a_sample(self):
        assert {sample.operation for sample in SAMPLES} == set(LIBRARY.operations)


@pytest.mark.slow
class TestOtherOperations(DerivativeContract):
    library = LIBRARY
    samples = SAMPLES[1:]
    test_every_operation_has_a_sample = None


class TestShapes(DerivativeContract):
    library = LIBRARY
    samples = SHAPES
    test_every_operation_has_a_sample = None


@pytest.mark.slow
class TestComplexOperations(DerivativeContract):
    library = LIBRARY
    samples = COMPLEX
    test_every_operation_has_a_sample = None


@pytest.mark.slow
class TestComplexSingularValues(DerivativeContract):
    """torch's derivative reads values, so that vmap and torch.compile have none on torch."""

    library = LIBRARY
    samples = COMPLEX_SVD
    test_every_operation_has_a_sample = None
    test_jacobians = None
    test_vmap_of_grad = None
    test_compiled_as_one_graph = None
