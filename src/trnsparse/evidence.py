"""Validation cases of the trnsparse kernels, on ragged patterns against dense float64.

Those of operations in the modules of their public functions are with the operations.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import trnsparse
from trnsci.core.backend.precision import precision
from trnsci.core.evidence import Case, product_bound
from trnsci.core.testing import random_tensor, unit_roundoff
from trnsparse._library import LIBRARY

__all__ = ["CASES"]

_DENSE = "dense in float64"
_EPS = torch.finfo(torch.float32).eps


def _ragged(rows: int, columns: int, every: int) -> Tensor:
    """Return a dense matrix with rows of unequal length; some are empty."""
    x = random_tensor(rows, columns)
    place = torch.arange(rows).unsqueeze(1) * 7 + torch.arange(columns) * 11
    kept = place % every < torch.arange(rows).unsqueeze(1) % 4
    return torch.where(kept, x, 0.0)


def _even(rows: int, columns: int) -> Tensor:
    """Return a dense matrix with three entries in every row."""
    x = random_tensor(rows, columns)
    place = (torch.arange(rows).unsqueeze(1) * 5 + torch.arange(columns)) % columns
    return torch.where(place < 3, x, 0.0)


def _blocked() -> tuple[Any, Tensor, Tensor]:
    dense = random_tensor(300, 260)
    dense[0:128, 128:256] = 0
    dense[128:256] = 0  # an empty row of blocks
    return trnsparse.BSRMatrix.from_dense(dense), dense, random_tensor(260, 70, seed=1)


def _products(dense: Tensor, columns: int) -> tuple[Any, Tensor, Tensor]:
    matrix = trnsparse.CSRMatrix.from_dense(dense)
    return matrix, dense, random_tensor(dense.shape[1], columns, seed=1)


def _wide_products() -> tuple[Any, Tensor, Tensor]:
    """Return operands with more digits than float32 has."""
    dense, b = _ragged(300, 260, 97).double(), random_tensor(260, 7, seed=1).double()
    dense, b = dense + dense.flip(1) * 2.0**-30, b + b.flip(0) * 2.0**-30
    return trnsparse.CSRMatrix.from_dense(dense), dense, b


def _wide_product(matrix: Any, dense: Tensor, b: Tensor) -> Tensor:
    with precision("doublefloat"):
        return trnsparse.spmm(matrix, b)


def _wide_bound(matrix: Any, dense: Tensor, b: Tensor) -> float:
    """Return the promise of 2**-44 |A| |B|, and the roundings of the float64 reference."""
    rounded = b.shape[0] * unit_roundoff(torch.float64)
    moduli = torch.linalg.matrix_norm(dense.abs() @ b.abs())
    return float((2.0**-44 + rounded) * moduli / torch.linalg.matrix_norm(dense @ b))


def _tiled() -> tuple[Any, Tensor, Tensor]:
    x = random_tensor(300, 260)
    return _products(torch.where(x > 0.5, x, 0.0), 70)


def _heads() -> tuple[Tensor, Tensor, Tensor, Any]:
    q, k, v = (random_tensor(1, 2, 256, 32, seed=seed) for seed in range(3))
    return q, k, v, trnsparse.local_window_mask(256, window=64, block_size=64)


def _seen(mask: Any) -> Tensor:
    """Return the mask as booleans, (queries, keys)."""
    dense: Tensor = mask.to_dense()
    return dense.bool().reshape(*dense.shape[-2:])


def _attention(q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Tensor:
    scores = q.double() @ k.double().mT * q.shape[-1] ** -0.5
    return torch.softmax(scores.masked_fill(~_seen(mask), -torch.inf), -1) @ v.double()


def _gradients(q: Tensor, k: Tensor, v: Tensor, mask: Any, function: Any) -> tuple[Tensor, ...]:
    with torch.enable_grad():
        leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
        return torch.autograd.grad(function(*leaves, mask).square().sum(), leaves)


def _attention_bound(q: Tensor, k: Tensor, v: Tensor, mask: Any) -> float:
    """Return the error bound of a score of 32 products, relative after the exponential.

    It grows with the largest score; the weighted sum of 256 values adds its own error.
    """
    scores = float((q.double().abs() @ k.double().abs().mT).max()) * q.shape[-1] ** -0.5
    return (2 * q.shape[-1] * scores + k.shape[-2]) * _EPS


def _system() -> tuple[Tensor, Tensor]:
    """Return a tridiagonal matrix of blocks, positive definite, and two right-hand sides."""
    n, size = 250, 64
    block = torch.arange(n) // size
    near = (block[:, None] - block).abs() <= 1
    off = torch.where(near, random_tensor(n, n), 0.0)
    return off + off.mT + 60 * torch.eye(n), random_tensor(n, 2, seed=1)


def _solution(a: Tensor, b: Tensor) -> Tensor:
    return trnsparse.cg(trnsparse.BSRMatrix.from_dense(a, 64), b, tol=1e-6).x


def _solution_bound(a: Tensor, b: Tensor) -> float:
    """Return the tolerance of the residual times the condition number of the matrix."""
    return 2e-6 * float(torch.linalg.cond(a.double()))


def _factors() -> tuple[Tensor, Tensor, Tensor]:
    """Return the pattern of a sampled product, and its factors."""
    return _ragged(300, 260, 9), random_tensor(300, 70), random_tensor(260, 70, seed=1)


def _sampled(a: Tensor, c: Tensor, d: Tensor) -> Tensor:
    return trnsparse.sddmm(trnsparse.from_dense(a), c, d).values


def _sampled_exactly(a: Tensor, c: Tensor, d: Tensor) -> Tensor:
    return (c.double() @ d.double().mT)[a != 0]


def _sampled_blocks(a: Tensor, c: Tensor, d: Tensor) -> Tensor:
    """Return the gradient of a product by its blocks."""
    matrix = trnsparse.BSRMatrix.from_dense(a, 64)
    with torch.enable_grad():
        matrix.blocks.requires_grad_()
        (found,) = torch.autograd.grad(trnsparse.spmm(matrix, d), matrix.blocks, c)
    return found


def _exact_blocks(a: Tensor, c: Tensor, d: Tensor) -> Tensor:
    full = torch.zeros(320, 320, dtype=torch.float64)
    full[:300, :260] = c.double() @ d.double().mT
    cut = full.reshape(5, 64, 5, 64).transpose(1, 2)
    return cut[:, :5].flatten(0, 1)[_stored(a)]


def _stored(a: Tensor) -> Tensor:
    padded = torch.zeros(320, 320)
    padded[:300, :260] = a
    return padded.reshape(5, 64, 5, 64).transpose(1, 2).flatten(0, 1).abs().amax((1, 2)) > 0


def _factor_bound(a: Tensor, c: Tensor, d: Tensor) -> float:
    return product_bound(c, d.mT)


CASES = (
    Case(
        "sddmm",
        "sampled product by rows",
        _factors,
        _sampled,
        _sampled_exactly,
        _DENSE,
        _factor_bound,
    ),
    Case(
        "bsr_sddmm",
        "sampled product in blocks",
        _factors,
        _sampled_blocks,
        _exact_blocks,
        _DENSE,
        _factor_bound,
    ),
    Case(
        "bsr_cg",
        "conjugate gradients",
        _system,
        _solution,
        lambda a, b: torch.linalg.solve(a.double(), b.double()),
        _DENSE,
        _solution_bound,
        decided_by_values=True,
    ),
    Case(
        "spmm_one_hot",
        "SpMM gather-matmul-scatter",
        lambda: _products(_ragged(300, 260, 97), 70),
        lambda matrix, dense, b: trnsparse.spmm(matrix, b),
        lambda matrix, dense, b: dense.double() @ b.double(),
        _DENSE,
        lambda matrix, dense, b: product_bound(dense, b),
    ),
    Case(
        "spmm_segments",
        "SpMM by sorted segments",
        lambda: _products(_even(256, 140), 70),
        lambda matrix, dense, b: trnsparse.spmm(matrix, b),
        lambda matrix, dense, b: dense.double() @ b.double(),
        _DENSE,
        lambda matrix, dense, b: product_bound(dense, b),
    ),
    Case(
        "doublefloat_spmm",
        "SpMM in pairs of float32",
        _wide_products,
        _wide_product,
        lambda matrix, dense, b: dense @ b,
        _DENSE,
        _wide_bound,
    ),
    Case(
        "tiled_spmm",
        "SpMM of held tiles",
        _tiled,
        lambda matrix, dense, b: trnsparse.spmm(matrix.hold_tiles(), b),
        lambda matrix, dense, b: dense.double() @ b.double(),
        _DENSE,
        lambda matrix, dense, b: product_bound(dense, b),
    ),
    Case(
        "bsr_spmm",
        "block-sparse product",
        _blocked,
        lambda matrix, dense, b: trnsparse.spmm(matrix, b),
        lambda matrix, dense, b: dense.double() @ b.double(),
        _DENSE,
        lambda matrix, dense, b: product_bound(dense, b),
    ),
    *LIBRARY.evidence(),
    Case(
        "attention",
        "block-sparse attention",
        _heads,
        trnsparse.block_sparse_attention,
        _attention,
        _DENSE,
        _attention_bound,
    ),
    Case(
        "attention_backward",
        "gradients of block-sparse attention",
        _heads,
        lambda q, k, v, mask: _gradients(q, k, v, mask, trnsparse.block_sparse_attention),
        lambda q, k, v, mask: _gradients(q, k, v, mask, _attention),
        _DENSE,
        lambda *inputs: 4 * _attention_bound(*inputs),
    ),
)
