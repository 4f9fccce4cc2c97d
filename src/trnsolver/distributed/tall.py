"""QR, least squares and singular values of row-sharded tall matrices.

Each is backward stable on any number of ranks. With another number of ranks, results of a matrix
with condition number c and n columns differ by at most about ``100 * c * n * u`` relative to their
norm, u the unit roundoff. Signs are fixed, so nothing else depends on the ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trnsci.core.arguments import also_spelled, whole
from trnsci.core.distributed.collectives import all_gather, all_reduce
from trnsci.core.distributed.groups import Ranks
from trnsci.core.distributed.layout import Layout
from trnsci.core.errors import DerivativeError, FlagError
from trnsci.core.numbers.values import finite
from trnsolver import factor as single
from trnsolver.distributed._rows import Where, applied, first_derivatives_only, rows_of
from trnsolver.factor import QRFactors, SVDFactors
from trnsolver.least_squares import LeastSquares
from trnsolver.randomized import sketch, sketch_width
from trnsolver.signs import MUON, NEWTON_SCHULZ, gram_steps

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


@also_spelled("A", "local")
def tsqr(
    A: Tensor,
    group: ProcessGroup | None = None,
    *,
    layout: Layout | None = None,
    check: bool = True,
) -> QRFactors:
    """Return Q by rows like A, and R on every rank, with a non-negative diagonal.

    Each rank factorizes its own rows; then the small triangles of all ranks are factorized.

    Args:
        A: A tall matrix: a DTensor that is Shard(0), or the rows of this rank.
        group: Process group of a plain tensor; None for the default one.
        layout: Layout of the rows of a plain tensor; None asks every rank for its number of rows.
        check: Whether ranks compare their arguments first.

    Raises:
        DerivativeError: Forward mode or a transform of ``torch.func`` is active.
        DTypeError: A is neither a DTensor nor a strided tensor, or dtypes differ.
        FlagError: A is a DTensor, but not Shard(0) on a mesh of one dimension.
        ShapeError: All ranks together have fewer rows than columns, or shapes do not fit.
    """
    rows = rows_of("tsqr", A, None, Where(group, layout, check), _tall)
    Q, R = applied(_QR, rows.A, rows.ranks)
    return QRFactors(rows.sharded(Q), rows.replicated(R))


@also_spelled("A", "local")
@also_spelled("B", "right")
def lstsq(
    A: Tensor,
    B: Tensor,
    group: ProcessGroup | None = None,
    *,
    layout: Layout | None = None,
    check: bool = True,
) -> LeastSquares:
    """Return X on every rank that minimizes the norm of ``A @ X - B``, of least norm if several do.

    Args:
        A: A tall matrix, as in ``tsqr``.
        B: Right-hand sides (m,) or (m, k), like A.
        group: Process group of plain tensors; None for the default one.
        layout: Layout of the rows of plain tensors; None asks every rank for its number of rows.
        check: Whether ranks compare their arguments first.

    Returns:
        Solution, squared residuals, rank and singular values, as in ``trnsolver.lstsq``.

    Raises:
        DerivativeError: A gradient is taken of a matrix with dependent columns; forward mode or a
            transform of ``torch.func`` is active.
        DTypeError: One of A and B is a DTensor, or dtypes differ.
        FlagError: A DTensor is not Shard(0) on a mesh of one dimension.
        NotFiniteError: A or B has a NaN or an infinity, on some rank.
        ShapeError: A is wide, or shapes do not fit.
    """
    rows = rows_of("lstsq", A, B, Where(group, layout, check), _tall)
    X, squares, rank, s = applied(_LeastSquares, rows.A, rows.B, rows.layout.shape[0], rows.ranks)
    if rows.vector:
        squares = squares.squeeze(-1)
    return LeastSquares(*map(rows.replicated, (rows.solution(X), squares, rank, s)))


@also_spelled("A", "local")
def rsvd(
    A: Tensor,
    k: int,
    *,
    oversampling: int = 10,
    power_iterations: int = 2,
    seed: int = 0,
    group: ProcessGroup | None = None,
    layout: Layout | None = None,
    check: bool = True,
) -> SVDFactors:
    """Return U by rows like A, and s and Vh on every rank, from a random sketch.

    The sketch is that of ``trnsolver.rsvd``, the same on every rank.

    Args:
        A: A tall matrix, as in ``tsqr``.
        k: Rank of the result.
        oversampling: Columns of the sketch beyond k.
        power_iterations: Number of products of the sketch with ``A @ A.mH``.
        seed: Seed of the sketch.
        group: Process group of a plain tensor; None for the default one.
        layout: Layout of the rows of a plain tensor; None asks every rank for its number of rows.
        check: Whether ranks compare their arguments first.

    Raises:
        DerivativeError: A is being differentiated.
        FlagError: k is not between 1 and the columns, or A is not Shard(0).
        NotFiniteError: A has a NaN or an infinity, on some rank.
        ShapeError: A is wide, or shapes do not fit.
    """
    options = f"k {k}, {oversampling}, {power_iterations}, {seed}"
    rows = rows_of("rsvd", A, None, Where(group, layout, check), _tall, False, options)
    local, ranks, n = rows.A, rows.ranks, rows.A.shape[1]
    width = sketch_width("rsvd", k, n, oversampling, power_iterations)
    q = _tsqr(local @ sketch(local, width, seed), ranks).Q
    inner = all_reduce(q.mH @ local, ranks)
    for _ in range(power_iterations):
        basis = single.qr(inner.mH).Q
        q = _tsqr(local @ basis, ranks).Q
        inner = all_reduce(q.mH @ local, ranks)
    finite("rsvd", "A", inner)
    u, s, vh = torch.linalg.svd(inner, full_matrices=False)
    # Fix the phase of each vector, independent of the rank and of the number of ranks.
    place = vh.abs().argmax(-1, keepdim=True)
    phase = torch.sgn(vh.gather(-1, place))
    u, vh = u * phase.mH.conj().squeeze(0), vh * phase.conj()
    return SVDFactors(rows.sharded((q @ u)[:, :k]), rows.replicated(s[:k]), rows.replicated(vh[:k]))


@also_spelled("A", "local")
def msign(
    A: Tensor,
    steps: int = 10,
    polish: int = 4,
    group: ProcessGroup | None = None,
    *,
    layout: Layout | None = None,
    check: bool = True,
) -> Tensor:
    """Return ``U @ Vh`` by rows like A, as ``trnsolver.msign`` does, by two Gram matrices.

    All steps run on the Gram matrix, in float64, on every rank. It is summed once for the steps
    with a large slope and once more for those that converge.

    Args:
        A: A tall matrix, as in ``tsqr``.
        steps: Number of steps with a large slope.
        polish: Number of steps that converge.
        group: Process group of a plain tensor; None for the default one.
        layout: Layout of the rows of a plain tensor; None asks every rank for its number of rows.
        check: Whether ranks compare their arguments first.

    Raises:
        DerivativeError: A is being differentiated.
        FlagError: A number of steps is negative, or A is not Shard(0).
        ShapeError: All ranks together have fewer rows than columns, or shapes do not fit.
    """
    options = f"steps {steps}, polish {polish}"
    rows = rows_of("msign", A, None, Where(group, layout, check), _tall, False, options)
    for name, count in (("steps", steps), ("polish", polish)):
        whole("msign", name, count, 0, error=FlagError)
    wide = rows.A.to(torch.complex128 if rows.A.is_complex() else torch.float64)
    size = all_reduce((wide.abs() ** 2).sum(), rows.ranks).sqrt()
    x = wide / torch.where(size > 0, size, 1.0)
    for count, coefficients in ((steps, MUON), (polish, NEWTON_SCHULZ)):
        x = x @ gram_steps(all_reduce(x.mH @ x, rows.ranks), count, coefficients)
    return rows.sharded(x.to(rows.A.dtype))


def _tsqr(local: Tensor, ranks: Ranks) -> QRFactors:
    rows, n = local.shape
    q, r = single.qr(local)
    mine = r.new_zeros(n, n)
    mine[: r.shape[0]] = r
    triangles = all_gather(mine, ranks, [n] * ranks.size, gradient="replicated")
    outer, final = single.qr(triangles)
    diagonal = final.diagonal()
    phase = torch.where(diagonal == 0, torch.ones_like(diagonal), torch.sgn(diagonal))
    first = ranks.rank * n
    part = outer[first : first + min(rows, n)] * phase
    return QRFactors(q @ part, phase.conj().unsqueeze(-1) * final)


def _tall(shape: tuple[int, int]) -> str:
    if shape[0] >= shape[1]:
        return ""
    return (
        "all ranks together must have at least as many rows as columns, because a wide matrix by "
        "rows would have to be gathered"
    )


# -- gradients -------------------------------------------------------------------------------------


class _QR(torch.autograd.Function):
    """Q and R; the gradient is that of ``torch.linalg.qr``, with one sum over the ranks."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, ranks: Ranks) -> tuple[Tensor, Tensor]:
        found = _tsqr(A, ranks)
        ctx.save_for_backward(*found)
        ctx.ranks = ranks
        ctx.set_materialize_grads(False)
        return found.Q, found.R

    @staticmethod
    def backward(ctx: Any, of_Q: Tensor | None, of_R: Tensor | None) -> tuple[Tensor | None, ...]:
        first_derivatives_only("tsqr")
        Q, R = ctx.saved_tensors
        inner = torch.zeros_like(R) if of_R is None else of_R @ R.mH
        if of_Q is not None:
            inner = inner - all_reduce(Q.mH @ of_Q, ctx.ranks)
        inner = inner.triu()
        inner = inner + inner.mH
        inner.diagonal().mul_(0.5)
        grad = Q @ inner if of_Q is None else of_Q + Q @ inner
        return torch.linalg.solve_triangular(R.mH, grad, upper=False, left=False), None


class _LeastSquares(torch.autograd.Function):
    """Solutions, squared residuals, rank and singular values.

    For a gradient G of X, with ``Y = (A^H A)^-1 G`` and the residual ``E = A X - B``, the gradient
    of B is ``A Y`` and that of A is ``-A Y X^H - E Y^H``. Every rank has what it takes.
    """

    @staticmethod
    def forward(ctx: Any, A: Tensor, B: Tensor, height: int, ranks: Ranks) -> tuple[Tensor, ...]:
        Q, R = _tsqr(A, ranks)
        inner = all_reduce(Q.mH @ B, ranks)
        # The values are equal on every rank, so all ranks raise together.
        for name, part in (("A", R), ("B", inner)):
            finite("lstsq", name, part)
        u, s, vh = torch.linalg.svd(R)
        kept = s > torch.finfo(s.dtype).eps * height * s[:1]
        rank = kept.sum()
        if rank.is_meta or int(rank) == A.shape[1]:
            X = torch.linalg.solve_triangular(R, inner, upper=True)
        elif any(ctx.needs_input_grad):
            raise DerivativeError(
                f"lstsq: has gradients over ranks for matrices of full rank only, got rank "
                f"{int(rank)} of {A.shape[1]} columns"
            )
        else:
            inverse = torch.where(kept, 1 / torch.where(kept, s, 1.0), 0.0)
            X = vh.mH @ (inverse.unsqueeze(-1) * (u.mH @ inner))
        off = A @ X - B
        squares = all_reduce((off.abs() ** 2).sum(0), ranks)
        ctx.save_for_backward(A, Q, R, u, vh, X, off)
        ctx.mark_non_differentiable(rank)
        ctx.set_materialize_grads(False)
        return X, squares, rank, s

    @staticmethod
    def backward(
        ctx: Any, of_X: Tensor | None, of_squares: Tensor | None, _: Any, of_s: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        first_derivatives_only("lstsq")
        A, Q, R, u, vh, X, off = ctx.saved_tensors
        of_A, of_B = torch.zeros_like(A), torch.zeros_like(off)
        if of_X is not None:
            inner = torch.linalg.solve_triangular(R.mH, of_X, upper=False)
            Y = torch.linalg.solve_triangular(R, inner, upper=True)
            of_B = A @ Y
            of_A = -of_B @ X.mH - off @ Y.mH
        if of_squares is not None:
            change = 2 * off * of_squares
            of_A, of_B = of_A + change @ X.mH, of_B - change
        if of_s is not None:
            of_A = of_A + Q @ ((u * of_s) @ vh)
        return of_A, of_B, None, None
