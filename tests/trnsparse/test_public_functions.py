"""The contract of public functions, for trnsparse; operands are the stored entries."""

from __future__ import annotations

from typing import ClassVar

import torch

import trnsparse as ts
from trnsci.core.testing import random_tensor
from trnsci.core.testing.public import PublicContract
from trnsparse.masks import AttentionMask

POINTERS, COLUMNS = torch.tensor([0, 2, 3, 5]), torch.tensor([0, 2, 1, 0, 2])
LIKE = ts.CSRMatrix(torch.ones(5, dtype=torch.float64), COLUMNS, POINTERS, (3, 3))
ENTRIES = torch.tensor([4.0, 1.0, 3.0, 1.0, 5.0], dtype=torch.float64)
GRID = ts.BSRMatrix(
    torch.ones(3, 2, 2, dtype=torch.float64), torch.tensor([0, 1, 1]), torch.tensor([0, 2, 3]),
    (4, 4), 2,
)  # fmt: skip
BLOCKS = (3, 2, 2)
MASK = AttentionMask.from_dense(torch.tensor([[1, 0, 1], [1, 1, 0]]).bool(), 2)
DIAGONAL = torch.tensor([4.0, 0.01, 1.0], dtype=torch.float64)
V, M = (3,), (3, 2)
EXACT = {"tol": 1e-13}


def csr(entries):
    return LIKE.with_values(entries)


def bsr(blocks):
    return GRID.with_entries(blocks)


def definite(blocks):
    """Return blocks of a positive definite matrix: two blocks of a diagonal."""
    eye = 4 * torch.eye(2, dtype=blocks.dtype, device=blocks.device)
    return DIAGONAL_BLOCKS.with_entries(0.3 * (blocks + blocks.mT) + eye)


DIAGONAL_BLOCKS = ts.BSRMatrix(
    torch.ones(2, 2, 2, dtype=torch.float64), torch.tensor([0, 1]), torch.tensor([0, 1, 2]),
    (4, 4), 2,
)  # fmt: skip
HALF = 0.3 * random_tensor(2, 2, 2, dtype=torch.float64)


def in_both(solve):
    """Return the call of a solver for a CSR and for a BSR matrix."""
    return (lambda x, b, y, c: (solve(csr(x), b), solve(definite(y), c))), ENTRIES, V, HALF, (4,)


class TestPublicFunctions(PublicContract):
    package = ts
    calls: ClassVar = {
        "block_sparse_attention": (
            lambda q, k, v: ts.block_sparse_attention(q, k, v, MASK),
            (1, 2, 2),
            (1, 3, 2),
            (1, 3, 2),
        ),
        "cg": in_both(lambda A, b: ts.cg(A, b, **EXACT).x),
        "chebyshev": in_both(lambda A, b: ts.chebyshev(A, b, 2.0, 7.0, 60).x),
        "diags": (lambda x, y: ts.diags([x, y, 2.0], [0, -1, 1]).to_dense(), V, (2,)),
        "from_dense": (lambda a: ts.from_dense(a).values, (3, 3)),
        "hstack": (lambda x, y: ts.hstack([csr(x), csr(y)]).to_dense(), ENTRIES, (5,)),
        "kron": (lambda x, y: ts.kron(csr(x), csr(y)).to_dense(), ENTRIES, (5,)),
        "minres": (lambda x, b: ts.minres(csr(x), b, **EXACT).x, ENTRIES, V),
        "permuted": (
            lambda x: ts.permuted(csr(x), torch.tensor([2, 0, 1], device="cpu")).to_dense(),
            ENTRIES,
        ),
        "richardson": in_both(lambda A, b: ts.richardson(A, b, 0.22, 90).x),
        "schwarz_bounds": (lambda d: ts.schwarz_bounds(d * d), V),
        "screened_spmm": (lambda a, b: ts.screened_spmm(a, DIAGONAL, b, 0.5), (3, 3), M),
        "sddmm": (lambda c, d: ts.sddmm(LIKE, c, d).values, M, M),
        "spgemm": (lambda x, y: ts.spgemm(csr(x), csr(y)).to_dense(), ENTRIES, (5,)),
        "splu": (lambda x, b: ts.splu(csr(x)).solve(b), ENTRIES, V),
        "spmm": (lambda x, b, c: ts.spmm(csr(x), b, 2.0, c, 0.5), ENTRIES, M, M),
        "spmm of blocks": (lambda x, b: ts.spmm(bsr(x), b), BLOCKS, (4, 2)),
        "spmv": (lambda x, b: ts.spmv(csr(x), b), ENTRIES, V),
        "spmv_symmetric": (lambda x, b: ts.spmv_symmetric(csr(x), b), ENTRIES, V),
        "spsolve": (lambda x, b: ts.spsolve(csr(x), b), ENTRIES, V),
        "sptrsv": (lambda x, b: ts.sptrsv(csr(x), b, lower=True), ENTRIES, V),
        "vstack": (lambda x, y: ts.vstack([csr(x), csr(y)]).to_dense(), ENTRIES, (5,)),
        "A + D": (lambda x, a: csr(x).__add__(a), ENTRIES, (3, 3)),
        "A.added": (lambda x, y: csr(x).added(csr(y), 2.0).values, ENTRIES, (5,)),
        "A.diagonal": (lambda x: bsr(x).diagonal(), BLOCKS),
        "A.max": (lambda x: csr(x).max(1), (5,)),
        "A.min": (lambda x: csr(x).min(0), (5,)),
        "A.multiply": (lambda x, a: csr(x).multiply(a).values, ENTRIES, (3, 3)),
        "A.power": (lambda x: csr(x).power(2.0).values, ENTRIES),
        "A.sum": (lambda x: csr(x).sum(0), ENTRIES),
        "A.transpose": (lambda x: csr(x).transpose().values, ENTRIES),
    }
