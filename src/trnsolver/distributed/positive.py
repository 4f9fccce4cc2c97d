"""Row-sharded positive definite matrices: blocked Cholesky factors, systems, and their gradients.

Rows are cut into panels. The owner of a panel completes it and broadcasts it, from the left end to
the diagonal; ranks below then compute the columns of the panel in their rows. All but the last
columns of the next panel are complete by then, and their broadcast runs under that computation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from trnblas import gemm, trsm
from trnsci.core.arguments import also_spelled
from trnsci.core.distributed.collectives import (
    all_gather,
    all_reduce,
    broadcast,
    exchange,
    reduce_scatter,
    start_broadcast,
)
from trnsci.core.distributed.groups import Ranks
from trnsci.core.distributed.layout import Layout
from trnsci.core.errors import NotPositiveDefiniteError
from trnsolver import factor as single
from trnsolver.distributed._panels import filled, panels
from trnsolver.distributed._rows import Where, applied, first_derivatives_only, rows_of

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class SpdSolution(NamedTuple):
    """A solution by rows, and the logarithm of the determinant on every rank."""

    x: Tensor
    logdet: Tensor


def cholesky(
    A: Tensor,
    group: ProcessGroup | None = None,
    *,
    layout: Layout | None = None,
    check: bool = True,
) -> Tensor:
    """Return L with ``A = L @ L.mH``, by rows like A.

    Args:
        A: Positive definite matrix of which the lower triangle is read: a DTensor that is Shard(0),
            or the rows of this rank.
        group: Process group of a plain tensor; None for the default one.
        layout: Layout of the rows of a plain tensor; None asks every rank for its number of rows.
        check: Whether ranks compare their arguments first.

    Raises:
        DerivativeError: Forward mode or a transform of ``torch.func`` is active.
        FlagError: A is a DTensor, but not Shard(0) on a mesh of one dimension.
        NotPositiveDefiniteError: A is not positive definite; on every rank.
        ShapeError: A is not square, or a layout does not fit.
    """
    rows = rows_of("cholesky", A, None, Where(group, layout, check), _square)
    return rows.sharded(applied(_Cholesky, rows.A, rows.layout, rows.ranks))


@also_spelled("A", "local")
@also_spelled("B", "right")
def solve_spd(
    A: Tensor,
    B: Tensor,
    group: ProcessGroup | None = None,
    *,
    layout: Layout | None = None,
    check: bool = True,
) -> SpdSolution:
    """Return X with ``A @ X = B``, by rows like B, and ``log(det(A))``, A positive definite.

    The factor is sharded like A. With another number of ranks X differs by at most about
    ``10 * n * u * cond(A)`` relative to its norm.

    Args:
        A: Matrix of which the lower triangle is read, as in ``cholesky``.
        B: Right-hand sides (n,) or (n, k), like A.
        group: Process group of plain tensors; None for the default one.
        layout: Layout of the rows of plain tensors; None asks every rank for its number of rows.
        check: Whether ranks compare their arguments first.

    Raises:
        DerivativeError: Forward mode or a transform of ``torch.func`` is active.
        DTypeError: One of A and B is a DTensor, or dtypes differ.
        FlagError: A DTensor is not Shard(0) on a mesh of one dimension.
        NotPositiveDefiniteError: A is not positive definite; on every rank.
        ShapeError: A is not square, or shapes do not fit.
    """
    rows = rows_of("solve_spd", A, B, Where(group, layout, check), _square)
    X, logdet = applied(_Solve, rows.A, rows.B, rows.layout, rows.ranks)
    return SpdSolution(rows.sharded(rows.solution(X)), rows.replicated(logdet))


def _square(shape: tuple[int, int]) -> str:
    return "" if shape[0] == shape[1] else "all ranks together must have a square matrix"


# -- factors and substitutions ---------------------------------------------------------------------


def _factor(A: Tensor, layout: Layout, ranks: Ranks) -> Tensor:
    """Return this rank's rows of the lower factor."""
    first = layout.offsets[ranks.rank]
    rows = A.clone(memory_format=torch.contiguous_format)
    cuts = panels(layout)
    left = start_broadcast(rows.new_empty(0), ranks, 0)
    before = 0
    for at, (owner, start, end) in enumerate(cuts):
        right = rows.new_empty(end - start, end - before)
        if ranks.rank == owner:
            mine = rows[start - first : end - first]
            mine[:, start:end] = _diagonal(mine, start, end)
            right.copy_(mine[:, before:end])
        sent = start_broadcast(right, ranks, owner)
        # All columns of the next panel are complete but those of this one and its own.
        upcoming = left
        if at + 1 < len(cuts):
            following, top, bottom = cuts[at + 1]
            part = rows.new_empty(bottom - top, start)
            if ranks.rank == following:
                part.copy_(rows[top - first : bottom - first, :start])
            upcoming = start_broadcast(part, ranks, following)
        near, far = sent.wait(), left.wait()
        block = near[:, start - before :]
        if not block.is_meta and bool(block.isnan().any()):
            upcoming.wait()
            raise NotPositiveDefiniteError(
                f"{ranks.function}: A must be positive definite; rows from {start} on are not"
            )
        below = rows[max(0, end - first) :] if end < layout.offsets[-1] else rows[:0]
        if below.shape[0]:
            columns = below[:, start:end]
            if before:
                columns -= gemm(1.0, below[:, :before], far, transB="C")
            if start > before:
                columns -= gemm(1.0, below[:, before:start], near[:, : start - before], transB="C")
            columns.copy_(trsm(1.0, block, columns, side="right", uplo="lower", trans="C"))
        left, before = upcoming, start
    return rows.tril_(first)


def _diagonal(rows: Tensor, start: int, end: int) -> Tensor:
    """Return the factor of a panel's diagonal block, NaN if there is none."""
    block = rows[:, start:end]
    if start:
        block = gemm(-1.0, rows[:, :start], rows[:, :start], 1.0, block, transB="C")
    try:
        return single.cholesky(block)
    except NotPositiveDefiniteError:
        return torch.full_like(block, torch.nan)


def _forward(factor: Tensor, columns: Tensor, layout: Layout, ranks: Ranks) -> Tensor:
    """Return this rank's rows of Y with ``L @ Y = B``."""
    found = columns
    for rank in filled(layout):
        here = layout.rows(rank)
        part = columns.new_empty(layout.sizes[rank], columns.shape[1])
        if ranks.rank == rank:
            found = part = trsm(1.0, factor[:, here], found, uplo="lower")
        part = broadcast(part, ranks, rank)
        if ranks.rank > rank and columns.shape[0]:
            found = gemm(-1.0, factor[:, here], part, 1.0, found)
    return found


def _backward(factor: Tensor, columns: Tensor, layout: Layout, ranks: Ranks) -> Tensor:
    """Return this rank's rows of X with ``L^H @ X = Y``."""
    found = columns
    for rank in reversed(filled(layout)):
        here = layout.rows(rank)
        if ranks.rank > rank and columns.shape[0]:
            share = gemm(1.0, factor[:, here], found, transA="C")
        else:
            share = columns.new_zeros(layout.sizes[rank], columns.shape[1])
        total = _reduced(share, rank, ranks)
        if ranks.rank == rank:
            found = trsm(1.0, factor[:, here], columns - total, uplo="lower", trans="C")
    return found


def _reduced(share: Tensor, root: int, ranks: Ranks) -> Tensor:
    """Return the sum of the ranks' tensors at the root, and no rows elsewhere."""
    sizes = [share.shape[0] if rank == root else 0 for rank in range(ranks.size)]
    return reduce_scatter(share, ranks, sizes)


# -- gradients -------------------------------------------------------------------------------------


class _Solve(torch.autograd.Function):
    """The solution and the logarithm of the determinant.

    For a gradient G of X, ``Y = A^-1 G`` is that of B, and ``-(Y X^H + X Y^H) / 2`` that of A.
    """

    @staticmethod
    def forward(
        ctx: Any, A: Tensor, B: Tensor, layout: Layout, ranks: Ranks
    ) -> tuple[Tensor, Tensor]:
        factor = _factor(A, layout, ranks)
        X = _backward(factor, _forward(factor, B, layout, ranks), layout, ranks)
        own = factor[:, layout.rows(ranks.rank)]
        logdet = all_reduce(2 * own.diagonal().real.double().log().sum(), ranks)
        ctx.save_for_backward(factor, X)
        ctx.layout, ctx.ranks = layout, ranks
        ctx.set_materialize_grads(False)
        return X, logdet

    @staticmethod
    def backward(
        ctx: Any, grad: Tensor | None, of_logdet: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        first_derivatives_only("solve_spd")
        factor, X = ctx.saved_tensors
        layout, ranks = ctx.layout, ctx.ranks
        Y, of_A = None, None
        if grad is not None:
            Y = _backward(factor, _forward(factor, grad, layout, ranks), layout, ranks)
            if ctx.needs_input_grad[0]:
                of_A = gemm(-0.5, Y, _whole(X, layout, ranks), transB="C")
                of_A = gemm(-0.5, X, _whole(Y, layout, ranks), 1.0, of_A, transB="C")
        if of_logdet is not None and ctx.needs_input_grad[0]:
            eye = torch.zeros_like(factor)
            eye[:, layout.rows(ranks.rank)].fill_diagonal_(1.0)
            inverse = _backward(factor, _forward(factor, eye, layout, ranks), layout, ranks)
            inverse = inverse * of_logdet.to(inverse.dtype)
            of_A = inverse if of_A is None else of_A + inverse
        return of_A, Y, None, None


class _Cholesky(torch.autograd.Function):
    """The factor; the gradient is the Hermitian part of ``L^-H Phi(L^H G) L^-1``.

    Phi takes the lower triangle, with half of the diagonal.
    """

    @staticmethod
    def forward(ctx: Any, A: Tensor, layout: Layout, ranks: Ranks) -> Tensor:
        factor = _factor(A, layout, ranks)
        ctx.save_for_backward(factor)
        ctx.layout, ctx.ranks = layout, ranks
        return factor

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        first_derivatives_only("cholesky")
        (factor,) = ctx.saved_tensors
        layout, ranks = ctx.layout, ctx.ranks
        first = layout.offsets[ranks.rank]
        lower = grad.tril(first)
        inner = torch.zeros_like(factor)
        for rank in filled(layout):
            end = layout.offsets[rank + 1]
            if ranks.rank >= rank and factor.shape[0]:
                share = gemm(1.0, factor[:, layout.rows(rank)], lower[:, :end], transA="C")
            else:
                share = grad.new_zeros(layout.sizes[rank], end)
            total = _reduced(share, rank, ranks)
            if ranks.rank == rank:
                inner[:, :end] = total
        inner.tril_(first)
        inner[:, layout.rows(ranks.rank)].diagonal().mul_(0.5)
        found = _right_solved(factor, _backward(factor, inner, layout, ranks), layout, ranks)
        sizes = layout.sizes
        flipped = exchange(found, ranks, 0, 1, sizes, sizes).mH
        return (found + flipped) / 2, None, None


def _right_solved(factor: Tensor, rows: Tensor, layout: Layout, ranks: Ranks) -> Tensor:
    """Return rows of X with ``X @ L = B``; those of L are broadcast from the last one."""
    found = rows.clone()
    for rank in reversed(filled(layout)):
        here, end = layout.rows(rank), layout.offsets[rank + 1]
        part = factor[:, :end] if ranks.rank == rank else rows.new_empty(layout.sizes[rank], end)
        part = broadcast(part, ranks, rank)
        if not rows.shape[0]:
            continue
        found[:, here] = trsm(1.0, part[:, here], found[:, here], side="right", uplo="lower")
        if here.start:
            found[:, : here.start] -= gemm(1.0, found[:, here], part[:, : here.start])
    return found


def _whole(rows: Tensor, layout: Layout, ranks: Ranks) -> Tensor:
    return all_gather(rows, ranks, layout.sizes, gradient="replicated")
