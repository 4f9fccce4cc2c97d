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
    trsv = staticmethod(oracle.trsv_sensitivity)


def _turned(trans, rows, columns):
    return (columns, rows) if trans else (rows, columns)


def _level1():
    v = (K,)
    yield Case("axpy", lambda b, s, x, y: b.axpy(s(-1.5), x, y), ((M, K), (M, K)), 3)
    yield Case("axpy-one", lambda b, s, x, y: b.axpy(s(1), x, y), (v, v), 3)
    yield Case("dot", lambda b, s, x, y: b.dot(x, y), (v, v), K + 2)
    yield Case("dotc", lambda b, s, x, y: b.dotc(x, y), (v, v), K + 2)
    yield Case("swap", lambda b, s, x, y: b.swap(x, y)[0], ((M, K), (M, K)), 1)
    yield Case("swap-y", lambda b, s, x, y: b.swap(x, y)[1], (v, v), 1)
    yield Case("copy", lambda b, s, x: b.copy(x), ((M, K),), 1)
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
    yield Case(
        "gemv-batch",
        lambda b, s, A, x, y: b.gemv(s(-2), A, x, s(3), y),
        ((2, 1, M, K), (BATCH, K), (M,)),
        K + 4,
    )
    for name, u in product(("symv", "hemv"), UPLO):
        yield Case(
            f"{name}-{u}",
            lambda b, s, A, x, y, n=name, u=u: getattr(b, n)(s(-2), A, x, s(3), y, uplo=u),
            ((K, K), (K,), (K,)),
            K + 4,
        )
        yield Case(
            f"{name}-{u}-batch",
            lambda b, s, A, x, n=name, u=u: getattr(b, n)(s(-2), A, x, uplo=u),
            ((K, K), (BATCH, K)),
            K + 4,
        )
    for u, t, d in product(UPLO, TRANS, DIAG):
        yield Case(
            f"trmv-{u}-{t}-{d}",
            lambda b, s, A, x, u=u, t=t, d=d: b.trmv(A, x, u, t, d),
            ((K, K), (K,)),
            K + 4,
        )
        yield Case(
            f"trsv-{u}-{t}-{d}",
            lambda b, s, A, x, u=u, t=t, d=d: b.trsv(A, x, u, t, d),
            ((K, K), (K,)),
            2 * K + 4,
            solves=True,
            floats_only=True,
        )
    yield Case(
        "trmv-batch", lambda b, s, A, x: b.trmv(A, x, "lower"), ((BATCH, K, K), (2, 1, K)), K + 4
    )
    yield Case(
        "trsv-batch",
        lambda b, s, A, x: b.trsv(A, x, "lower"),
        ((K, K), (BATCH, K)),
        2 * K + 4,
        solves=True,
        floats_only=True,
    )
    yield from _updates()


def _updates():
    for name in ("ger", "gerc"):
        yield Case(
            name,
            lambda b, s, x, y, A, n=name: getattr(b, n)(s(-2), x, y, A),
            ((M,), (N,), (M, N)),
            5,
        )
        yield Case(
            f"{name}-plain", lambda b, s, x, y, n=name: getattr(b, n)(s(2), x, y), ((M,), (N,)), 5
        )
        yield Case(
            f"{name}-batch",
            lambda b, s, x, y, A, n=name: getattr(b, n)(s(2), x, y, A),
            ((BATCH, M), (2, 1, N), (M, N)),
            5,
        )
    for name, u in product(("syr", "her"), UPLO):
        yield Case(
            f"{name}-{u}",
            lambda b, s, x, A, n=name, u=u: getattr(b, n)(s(-2), x, A, u),
            ((M,), (M, M)),
            5,
        )
    for name, u in product(("syr2", "her2"), UPLO):
        yield Case(
            f"{name}-{u}",
            lambda b, s, x, y, A, n=name, u=u: getattr(b, n)(s(-2), x, y, A, u),
            ((M,), (M,), (M, M)),
            7,
        )
    for name in ("syr", "her"):
        yield Case(
            f"{name}-batch", lambda b, s, x, n=name: getattr(b, n)(s(3), x), ((BATCH, M),), 5
        )
    for name in ("syr2", "her2"):
        yield Case(
            f"{name}-batch",
            lambda b, s, x, y, n=name: getattr(b, n)(s(3), x, y),
            ((BATCH, M), (M,)),
            7,
        )


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
    for name, side, u in product(("symm", "hemm"), SIDE, UPLO):
        yield Case(
            f"{name}-{side}-{u}",
            lambda b, s, A, B, C, n=name, o=(side, u): getattr(b, n)(s(-2), A, B, s(3), C, *o),
            ((K, K), (K, N) if side == "left" else (M, K), (K, N) if side == "left" else (M, K)),
            K + 4,
        )
    for name in ("symm", "hemm"):
        yield Case(
            f"{name}-batch",
            lambda b, s, A, B, n=name: getattr(b, n)(s(-2), A, B),
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
    for name, t, u in product(("syr2k", "her2k"), (False, True), UPLO):
        yield Case(
            f"{name}-{t}-{u}",
            lambda b, s, A, B, C, n=name, o=(t, u): getattr(b, n)(s(-2), A, B, s(3), C, *o),
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


def _extensions():
    for ta, tb in product(TRANS, TRANS):
        yield Case(
            f"geam-{ta}-{tb}",
            lambda b, s, A, B, o=(ta, tb): b.geam(s(-2), A, s(3), B, *o),
            (_turned(ta, M, N), _turned(tb, M, N)),
            4,
        )
    yield Case(
        "geam-batch",
        lambda b, s, A, B: b.geam(s(1), A, s(2), B),
        ((M, N), (BATCH, M, N)),
        4,
    )
    for side in SIDE:
        x = (M,) if side == "left" else (N,)
        yield Case(f"dgmm-{side}", lambda b, s, A, x, side=side: b.dgmm(A, x, side), ((M, N), x), 2)
        yield Case(
            f"dgmm-{side}-batch",
            lambda b, s, A, x, side=side: b.dgmm(A, x, side),
            ((BATCH, M, N), (2, 1, *x)),
            2,
        )
    for t in TRANS:
        yield Case(
            f"grouped_gemm-{t}",
            lambda b, s, A, B, C, t=t: b.grouped_gemm(s(-2), [A], [B], s(3), [C], t)[0],
            (_turned(t, M, K), (K, N), (M, N)),
            K + 4,
        )


CASES = [
    *_level1(),
    *_level2(),
    *_products(),
    *_symmetric(),
    *_triangular(),
    *_extensions(),
]
