"""Every public routine with every combination of its options, on operands that fit.

A case is called with a module, a function that is applied to its factors, and its operands; the
module is trnblas or its oracle. With the oracle, ``abs`` and the moduli of the operands it gives
the magnitude that rounding errors are relative to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch

from oracles import blas as oracle

from .agreement import draw


def unchanged(factor):
    """The factors of a case as they stand."""
    return factor


M, N, K, BATCH = 5, 4, 7, 3
TRANS = (False, True, "C")
UPLO = ("upper", "lower")
SIDE = ("left", "right")
DIAG = ("nonunit", "unit")


@dataclass(frozen=True)
class Case:
    """A call, the shapes of its operands and the number of roundings behind an element."""

    name: str
    call: Callable
    shapes: tuple[tuple[int, ...], ...]
    steps: int
    solves: bool = False  # the first operand is the triangular matrix of a system
    floats_only: bool = False

    def operands(self, dtype):
        """Random ones; a triangular system has a diagonal that dominates, or it has no answer."""
        drawn = [draw(shape, dtype, seed) for seed, shape in enumerate(self.shapes)]
        if self.solves:
            drawn[0] = drawn[0] / 4 + 2 * torch.eye(drawn[0].shape[-1], dtype=dtype)
        return drawn

    def magnitude(self, arrays):
        if self.solves:
            return self.call(_Sensitivity, abs, *arrays)
        return self.call(oracle, abs, *map(np.abs, arrays))


class _Sensitivity:
    trsm = batched_trsm = staticmethod(oracle.trsm_sensitivity)


def _turned(trans, rows, columns):
    return (columns, rows) if trans else (rows, columns)


def _level1():
    v = (K,)
    yield Case("axpy", lambda b, s, x, y: b.axpy(s(-1.5), x, y), ((M, K), (K,)), 3)
    yield Case("axpy-one", lambda b, s, x, y: b.axpy(s(1), x, y), (v, v), 3)
    yield Case("dot", lambda b, s, x, y: b.dot(x, y), (v, v), K + 2)
    yield Case("dot-2d", lambda b, s, x, y: b.dot(x, y), ((M, K), (M * K,)), M * K + 2)
    yield Case("scal", lambda b, s, x: b.scal(s(-2.5), x), ((M, K),), 2)
    yield Case("asum", lambda b, s, x: b.asum(x), ((M, K),), M * K + 4)
    yield Case("nrm2", lambda b, s, x: b.nrm2(x), ((M, K),), M * K + 8, floats_only=True)


def _level2():
    for t in TRANS:
        yield Case(
            f"gemv-{t}",
            lambda b, s, A, x, y, t=t: b.gemv(s(-2), A, x, s(3), y, trans=t),
            (_turned(t, M, K), (K,), (M,)),
            K + 4,
        )
    yield Case("gemv-plain", lambda b, s, A, x: b.gemv(s(1), A, x), ((M, K), (K,)), K + 4)
    yield Case("gemv-scaled", lambda b, s, A, x: b.gemv(s(-3), A, x), ((M, K), (K,)), K + 4)
    for u in UPLO:
        yield Case(
            f"symv-{u}",
            lambda b, s, A, x, y, u=u: b.symv(s(-2), A, x, s(3), y, uplo=u),
            ((K, K), (K,), (K,)),
            K + 4,
        )
    for u, t, d in product(UPLO, TRANS, DIAG):
        yield Case(
            f"trmv-{u}-{t}-{d}",
            lambda b, s, A, x, u=u, t=t, d=d: b.trmv(A, x, u, t, d),
            ((K, K), (K,)),
            K + 4,
        )
    yield Case("ger", lambda b, s, x, y, A: b.ger(s(-2), x, y, A), ((M,), (N,), (M, N)), 5)
    yield Case("ger-plain", lambda b, s, x, y: b.ger(s(2), x, y), ((M,), (N,)), 5)


def _products():
    for ta, tb in product(TRANS, TRANS):
        a, b_, c = _turned(ta, M, K), _turned(tb, K, N), (M, N)
        for name, lead in (("gemm", ()), ("batched_gemm", (BATCH,))):
            yield Case(
                f"{name}-{ta}-{tb}",
                lambda b, s, A, B, C, ta=ta, tb=tb, n=name: getattr(b, n)(
                    s(-2), A, B, s(3), C, ta, tb
                ),
                ((*lead, *a), (*lead, *b_), (*lead, *c)),
                K + 4,
            )
    shapes = {
        "gemm-plain": ((M, K), (K, N)),
        "gemm-batches": ((2, 1, M, K), (BATCH, K, N)),
        "batched_gemm-plain": ((BATCH, M, K), (BATCH, K, N)),
        "batched_gemm-shared-left": ((M, K), (BATCH, K, N)),
        "batched_gemm-shared-right": ((BATCH, M, K), (K, N)),
        "batched_gemm-grid": ((2, 1, M, K), (BATCH, K, N)),
    }
    for name, pair in shapes.items():
        routine = name.partition("-")[0]
        for alpha in (1, -3):
            yield Case(
                f"{name}-{alpha}",
                lambda b, s, A, B, n=routine, x=alpha: getattr(b, n)(s(x), A, B),
                pair,
                K + 4,
            )
    yield Case(
        "gemm-row-accumulator",
        lambda b, s, A, B, C: b.gemm(s(-2), A, B, s(3), C),
        ((M, K), (K, N), (N,)),
        K + 4,
    )
    yield Case(
        "batched_gemm-shared-right-accumulator",
        lambda b, s, A, B, C: b.batched_gemm(s(-2), A, B, s(3), C),
        ((BATCH, M, K), (K, N), (M, 1)),
        K + 4,
    )


def _symmetric():
    for side, u in product(SIDE, UPLO):
        yield Case(
            f"symm-{side}-{u}",
            lambda b, s, A, B, C, side=side, u=u: b.symm(s(-2), A, B, s(3), C, side, u),
            ((K, K), (K, N) if side == "left" else (M, K), (K, N) if side == "left" else (M, K)),
            K + 4,
        )
    yield Case(
        "symm-batch",
        lambda b, s, A, B: b.symm(s(-2), A, B),
        ((BATCH, K, K), (K, N)),
        K + 4,
    )
    for name, t, u in product(("syrk", "herk"), (False, True), UPLO):
        yield Case(
            f"{name}-{t}-{u}",
            lambda b, s, A, C, n=name, t=t, u=u: getattr(b, n)(s(-2), A, s(3), C, t, u),
            (_turned(t, M, K), (M, M)),
            K + 4,
        )
        yield Case(
            f"{name}-{t}-{u}-batch",
            lambda b, s, A, n=name, t=t, u=u: getattr(b, n)(s(1), A, trans=t, uplo=u),
            ((BATCH, *_turned(t, M, K)),),
            K + 4,
        )
    for t, u in product((False, True), UPLO):
        yield Case(
            f"syr2k-{t}-{u}",
            lambda b, s, A, B, C, t=t, u=u: b.syr2k(s(-2), A, B, s(3), C, t, u),
            (_turned(t, M, K), _turned(t, M, K), (M, M)),
            K + 5,
        )
    for ta, tb, u in product(TRANS, TRANS, UPLO):
        yield Case(
            f"gemmt-{ta}-{tb}-{u}",
            lambda b, s, A, B, C, ta=ta, tb=tb, u=u: b.gemmt(s(-2), A, B, s(3), C, u, ta, tb),
            (_turned(ta, M, K), _turned(tb, K, M), (M, M)),
            K + 4,
        )
    yield Case(
        "gemmt-plain", lambda b, s, A, B: b.gemmt(s(2), A, B), ((BATCH, M, K), (K, M)), K + 4
    )


def _triangular():
    for side, u, t, d in product(SIDE, UPLO, TRANS, DIAG):
        other = (K, N) if side == "left" else (M, K)
        options = f"{side}-{u}-{t}-{d}"
        yield Case(
            f"trmm-{options}",
            lambda b, s, A, B, o=(side, u, t, d): b.trmm(s(-2), A, B, *o),
            ((K, K), other),
            K + 4,
        )
        for name, lead in (("trsm", ()), ("batched_trsm", (BATCH,))):
            yield Case(
                f"{name}-{options}",
                lambda b, s, A, B, n=name, o=(side, u, t, d): getattr(b, n)(s(-2), A, B, *o),
                ((*lead, K, K), (*lead, *other)),
                2 * K + 4,
                solves=True,
                floats_only=True,
            )
    yield Case("trmm-batch", lambda b, s, A, B: b.trmm(s(1), A, B), ((BATCH, K, K), (K, N)), K + 4)
    yield Case(
        "batched_trsm-shared",
        lambda b, s, A, B: b.batched_trsm(s(1), A, B),
        ((K, K), (BATCH, K, N)),
        2 * K + 4,
        solves=True,
        floats_only=True,
    )


CASES = [*_level1(), *_level2(), *_products(), *_symmetric(), *_triangular()]
