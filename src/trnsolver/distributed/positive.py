"""Row-sharded positive definite systems: blocked Cholesky factorization over the ranks."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from trnsci.core.errors import NotPositiveDefiniteError, ShapeError
from trnsolver.distributed._shares import Group, Shares, shares_of, summed

__all__ = ["SpdSolution", "solve_spd"]


class SpdSolution(NamedTuple):
    """A solution by rows, and the logarithm of the determinant on every rank."""

    x: Tensor
    logdet: Tensor


def solve_spd(local: Tensor, right: Tensor, group: Group = None) -> SpdSolution:
    """Return this rank's rows of X with ``A @ X = B``, and ``log(det(A))``, A positive definite.

    The factor is sharded like A. For each panel, one rank factorizes its diagonal block and sends
    it to the ranks below, which solve for their blocks and exchange them; A itself is not
    communicated. With another number of ranks X differs by at most about
    ``10 * n * u * cond(A)`` relative to its norm.

    Args:
        local: Rows of A of this rank; the lower triangle is read.
        right: Rows of B of this rank, (m,) or (m, k).
        group: Process group; None for the default one.

    Raises:
        NotPositiveDefiniteError: A is not positive definite; on every rank.
        ShapeError: A is not square, or shares do not fit.
        DTypeError: A share is not a plain tensor, or dtypes differ.
    """
    shares = shares_of("solve_spd", local, group, right)
    if shares.total != shares.columns:
        raise ShapeError(
            f"solve_spd: all ranks together must have a square matrix, got {shares.total} x "
            f"{shares.columns}"
        )
    columns = right.unsqueeze(-1) if right.ndim == 1 else right
    columns = columns.to(local.dtype)
    with torch.no_grad():
        factor = _factor(local, shares, group)
        y = _forward(factor, columns, shares, group)
        x = _backward(factor, y, shares, group)
        own = _diagonal(factor, shares)
        logdet = summed(2 * own.diagonal().real.double().log().sum(), group)
    return SpdSolution(x.squeeze(-1) if right.ndim == 1 else x, logdet)


def _filled(shares: Shares) -> list[int]:
    return [rank for rank, count in enumerate(shares.rows) if count]


def _diagonal(factor: Tensor, shares: Shares) -> Tensor:
    starts = shares.starts()
    return factor[:, starts[shares.rank] : starts[shares.rank + 1]]


def _factor(local: Tensor, shares: Shares, group: Group) -> Tensor:
    """Return this rank's rows of the lower factor."""
    starts, me = shares.starts(), shares.rank
    rows = local.clone()
    filled = _filled(shares)
    for place, panel in enumerate(filled):
        here = slice(starts[panel], starts[panel + 1])
        count = shares.rows[panel]
        block = local.new_empty(count, count)
        if me == panel:
            block, failed = torch.linalg.cholesky_ex(rows[:, here])
            if int(failed):
                block = torch.full_like(block, float("nan"))
            block = block.contiguous()
            rows[:, here] = block
        _broadcast(block, panel, group)
        if bool(block.isnan().any()):
            raise NotPositiveDefiniteError(
                f"solve_spd: A must be positive definite; rows from {starts[panel]} on are not"
            )
        if me > panel and shares.rows[me]:
            rows[:, here] = torch.linalg.solve_triangular(
                block.mH, rows[:, here], upper=True, left=False
            )
        for below in filled[place + 1 :]:
            part = local.new_empty(shares.rows[below], count)
            if me == below:
                part = rows[:, here].contiguous()
            _broadcast(part, below, group)
            if me >= below and shares.rows[me]:
                there = slice(starts[below], starts[below + 1])
                rows[:, there] -= rows[:, here] @ part.mH
    # Entries right of the diagonal are not part of the factor.
    rows[:, starts[me + 1] :] = 0
    return rows


def _forward(factor: Tensor, columns: Tensor, shares: Shares, group: Group) -> Tensor:
    """Return this rank's rows of Y with ``L @ Y = B``."""
    starts, me = shares.starts(), shares.rank
    left = columns.clone()
    for rank in _filled(shares):
        part = columns.new_empty(shares.rows[rank], columns.shape[-1])
        if me == rank:
            part = torch.linalg.solve_triangular(_diagonal(factor, shares), left, upper=False)
            left = part = part.contiguous()
        _broadcast(part, rank, group)
        if me > rank:
            left = left - factor[:, starts[rank] : starts[rank + 1]] @ part
    return left


def _backward(factor: Tensor, y: Tensor, shares: Shares, group: Group) -> Tensor:
    """Return this rank's rows of X with ``L^H @ X = Y``."""
    starts, me = shares.starts(), shares.rank
    x = y
    for rank in reversed(_filled(shares)):
        share = y.new_zeros(shares.rows[rank], y.shape[-1])
        if me > rank:
            share = factor[:, starts[rank] : starts[rank + 1]].mH @ x
        total = summed(share, group)
        if me == rank:
            block = _diagonal(factor, shares)
            x = torch.linalg.solve_triangular(block.mH, y - total, upper=True)
    return x


def _broadcast(value: Tensor, root: int, group: Group) -> None:
    source = root if group is None else dist.get_global_rank(group, root)
    dist.broadcast(value, source, group=group)
