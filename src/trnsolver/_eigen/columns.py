"""Singular values of matrices with more columns than a tile: block one-sided Jacobi.

Columns are divided into groups, which are paired in a round-robin tournament. A pair of groups is a
matrix of at most 128 columns, which the kernel makes orthogonal; all pairs of a round are one
launch. In a sweep all groups are paired once. The lengths of the columns are the singular values,
and errors are relative to each of them: small values are as accurate as large ones.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from trnsolver._eigen.tournament import slot_permutation
from trnsolver._factors.forms import product


def block_jacobi_svd(
    a: Tensor, groups: int, sweeps: int, rotated_pair: Callable[[Tensor], tuple[Tensor, ...]]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return U, singular values in descending order, V^T, and the largest cosine in U.

    Args:
        a: Matrices, (batch, m, n), m at least n.
        groups: An even number of groups of columns.
        sweeps: Largest number of sweeps over all pairs of groups.
        rotated_pair: Returns thin factors of paired groups, (batch, m, 2 n / groups), after some
            rotations, with columns in unchanged order, as the tournament requires.
    """
    batch, _, n = a.shape
    half = -(-n // groups)
    columns = torch.nn.functional.pad(a, (0, groups * half - n))
    v = torch.eye(groups * half, dtype=a.dtype, device=a.device).repeat(batch, 1, 1)
    moves = torch.tensor(slot_permutation(groups), device="cpu")
    for _ in range(sweeps):
        for _ in range(groups - 1):
            u, s, vh = rotated_pair(_paired(columns, groups))
            columns = _next(u * s.unsqueeze(-2), batch, moves)
            v = _next(product(_paired(v, groups), vh.mT.contiguous(), False), batch, moves)
        u, s = _unit(columns)
        gram = product(u, u, True)
        rest = (gram - torch.diag_embed(gram.diagonal(dim1=-2, dim2=-1))).abs().amax((-2, -1))
        if float(rest.max()) <= torch.finfo(a.dtype).eps * a.shape[-2]:
            break
    # Padding has length zero and is not mixed with other rows of V; it is sorted last.
    padding = v[:, n:].abs().sum(-2) > 0.5
    places = torch.where(padding, -1.0, s).argsort(dim=-1, descending=True)[:, :n]
    u, v = (x.gather(-1, places.unsqueeze(-2).expand(-1, x.shape[-2], -1)) for x in (u, v))
    return u, s.gather(-1, places), v[:, :n].mT.contiguous(), rest.unsqueeze(-1)


def _paired(columns: Tensor, groups: int) -> Tensor:
    """Return the columns of paired groups as a batch of matrices."""
    batch, rows, count = columns.shape
    pairs = columns.reshape(batch, rows, groups // 2, 2 * count // groups).movedim(2, 1)
    return pairs.reshape(batch * groups // 2, rows, 2 * count // groups).contiguous()


def _next(pairs: Tensor, batch: int, moves: Tensor) -> Tensor:
    """Return columns with the groups permuted for the next round."""
    groups = len(moves)
    rows, width = pairs.shape[-2:]
    single = pairs.reshape(batch, groups // 2, rows, 2, width // 2).movedim(2, 1)
    permuted = single.reshape(batch, rows, groups, width // 2)[:, :, moves.to(pairs.device)]
    return permuted.reshape(batch, rows, groups * width // 2)


def _unit(columns: Tensor) -> tuple[Tensor, Tensor]:
    """Return columns scaled to length 1, zero columns unchanged, and their lengths."""
    lengths = torch.linalg.vector_norm(columns, dim=-2)
    return columns / torch.where(lengths == 0, 1.0, lengths).unsqueeze(-2), lengths
