"""The contract of public functions, for trnblas."""

from __future__ import annotations

from typing import ClassVar

import torch

import trnblas as tb
from trnsci.core.testing.public import PublicContract

M = (3, 3)
V = (3,)


def lower(a):
    """Return a triangle that is far from singular."""
    return a.tril(-1) + 3 * torch.eye(3, dtype=a.dtype, device=a.device)


class TestPublicFunctions(PublicContract):
    package = tb
    calls: ClassVar = {
        "asum": (tb.asum, V),
        "axpy": (lambda x, y: tb.axpy(0.5, x, y), V, V),
        "batched_gemm": (lambda a, b: tb.batched_gemm(0.5, a, b), (2, 2, 3), (2, 3, 2)),
        "batched_trsm": (
            lambda a, b: tb.batched_trsm(0.5, lower(a), b, uplo="lower"),
            (2, 3, 3),
            (2, 3, 2),
        ),
        "copy": (tb.copy, V),
        "dgmm": (tb.dgmm, M, V),
        "dot": (tb.dot, V, V),
        "dotc": (tb.dotc, V, V),
        "geam": (lambda a, b: tb.geam(0.5, a, 2.0, b, transB=True), M, M),
        "gemm": (lambda a, b, c: tb.gemm(0.5, a, b, 2.0, c, transA=True), M, M, M),
        "gemmt": (lambda a, b: tb.gemmt(0.5, a, b), M, M),
        "gemv": (lambda a, x, y: tb.gemv(0.5, a, x, 2.0, y), M, V, V),
        "ger": (lambda x, y, a: tb.ger(0.5, x, y, a), V, V, M),
        "gerc": (lambda x, y: tb.gerc(0.5, x, y), V, V),
        "grouped_gemm": (lambda a, b: tb.grouped_gemm(0.5, [a], [b]), M, M),
        "hemm": (lambda a, b: tb.hemm(0.5, a, b), M, M),
        "hemv": (lambda a, x: tb.hemv(0.5, a, x), M, V),
        "her": (lambda x: tb.her(0.5, x), V),
        "her2": (lambda x, y: tb.her2(0.5, x, y), V, V),
        "her2k": (lambda a, b: tb.her2k(0.5, a, b), M, M),
        "herk": (lambda a: tb.herk(0.5, a), M),
        "nrm2": (tb.nrm2, V),
        "rot": (lambda x, y: tb.rot(x, y, 0.6, 0.8), V, V),
        "rotg": (tb.rotg, (), ()),
        "rotm": (lambda x, y, h: tb.rotm(x, y, torch.cat([0 * h[:1] - 1, h[1:]])), V, V, (5,)),
        "rotmg": (lambda a, b, x, y: tb.rotmg(a * a, b * b, x, y), (), (), (), ()),
        "scal": (lambda x: tb.scal(0.5, x), V),
        "swap": (tb.swap, V, V),
        "symm": (lambda a, b: tb.symm(0.5, a, b), M, M),
        "symv": (lambda a, x: tb.symv(0.5, a, x), M, V),
        "syr": (lambda x, a: tb.syr(0.5, x, a), V, M),
        "syr2": (lambda x, y: tb.syr2(0.5, x, y), V, V),
        "syr2k": (lambda a, b: tb.syr2k(0.5, a, b), M, M),
        "syrk": (lambda a: tb.syrk(0.5, a), M),
        "trmm": (lambda a, b: tb.trmm(0.5, a, b), M, M),
        "trmv": (tb.trmv, M, V),
        "trsm": (lambda a, b: tb.trsm(0.5, lower(a), b, uplo="lower"), M, M),
        "trsv": (lambda a, x: tb.trsv(lower(a), x, uplo="lower"), M, V),
    }
