"""QR, least squares and singular values of row-sharded tall matrices.

Each is backward stable on any number of ranks. With another number of ranks, results of a matrix
with condition number c and n columns differ by at most about ``100 * c * n * u`` relative to their
norm, u the unit roundoff. Signs are fixed, so nothing else depends on the ranks.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from trnrand import Generator, normal
from trnsci.core.arguments import whole
from trnsci.core.errors import FlagError, ShapeError
from trnsci.core.finite import finite
from trnsolver._paths.torch_path import MUON
from trnsolver.direct import LeastSquares
from trnsolver.distributed._shares import Group, Shares, shares_of, summed
from trnsolver.factor import QRFactors, SVDFactors

__all__ = ["lstsq", "msign", "rsvd", "tsqr"]

_POLISH = (1.875, -1.25, 0.375)


def tsqr(local: Tensor, group: Group = None) -> QRFactors:
    """Return this rank's rows of Q, and R on every rank, with a non-negative diagonal.

    Each rank factorizes its own rows; then the small triangles of all ranks are factorized.

    Args:
        local: Rows of this rank.
        group: Process group; None for the default one.

    Raises:
        ShapeError: All ranks together have fewer rows than columns, or shares do not fit.
        DTypeError: A share is not a plain tensor, or dtypes differ.
    """
    shares = shares_of("tsqr", local, group)
    _tall("tsqr", shares)
    return _tsqr(local, group)


def lstsq(local: Tensor, right: Tensor, group: Group = None) -> LeastSquares:
    """Return X on every rank that minimizes the norm of ``A @ X - B``, of least norm if several do.

    Args:
        local: Rows of A of this rank.
        right: Rows of B of this rank, (m,) or (m, k).
        group: Process group; None for the default one.

    Returns:
        Solution, squared residuals, rank and singular values, as in ``trnsolver.lstsq``.

    Raises:
        NotFiniteError: A or B has a NaN or an infinity, on some rank.
        ShapeError: A is wide, or shares do not fit.
        DTypeError: A share is not a plain tensor, or dtypes differ.
    """
    shares = shares_of("lstsq", local, group, right)
    _tall("lstsq", shares)
    columns = right.unsqueeze(-1) if right.ndim == 1 else right
    columns = columns.to(local.dtype)
    q, r = _tsqr(local, group)
    inner = summed(q.mH @ columns, group)
    # The values are equal on every rank, so all ranks raise together.
    for name, part in (("local", r), ("right", inner)):
        finite("lstsq", name, part)
    u, s, vh = torch.linalg.svd(r)
    kept = s > torch.finfo(s.dtype).eps * shares.total * s[:1]
    rank = kept.sum()
    if int(rank) == shares.columns:
        solution = torch.linalg.solve_triangular(r, inner, upper=True)
    else:
        inverse = torch.where(kept, 1 / torch.where(kept, s, 1.0), 0.0)
        solution = vh.mH @ (inverse.unsqueeze(-1) * (u.mH @ inner))
    off = local @ solution - columns
    squares = summed((off.abs() ** 2).sum(0).to(local.dtype), group).real
    if right.ndim == 1:
        solution, squares = solution.squeeze(-1), squares.squeeze(-1)
    return LeastSquares(solution, squares, rank, s)


def rsvd(
    local: Tensor,
    k: int,
    *,
    oversampling: int = 10,
    power_iterations: int = 2,
    seed: int = 0,
    group: Group = None,
) -> SVDFactors:
    """Return this rank's rows of U, and s and Vh on every rank, from a random sketch.

    The sketch is that of ``trnsolver.rsvd``, the same on every rank.

    Args:
        local: Rows of this rank.
        k: Rank of the result.
        oversampling: Columns of the sketch beyond k.
        power_iterations: Number of products of the sketch with ``A @ A.mH``.
        seed: Seed of the sketch.
        group: Process group; None for the default one.

    Raises:
        FlagError: k is not between 1 and the columns.
        NotFiniteError: A has a NaN or an infinity, on some rank.
        ShapeError: A is wide, or shares do not fit.
    """
    shares = shares_of("rsvd", local, group)
    _tall("rsvd", shares)
    n = shares.columns
    whole("rsvd", "k", k, 1, n, FlagError)
    width = min(n, k + whole("rsvd", "oversampling", oversampling, 0, error=FlagError))
    real = local.real.dtype if local.is_complex() else local.dtype
    sketch = normal(n, width, dtype=real, generator=Generator(seed))
    q = _tsqr(local @ sketch.to(local.device).to(local.dtype), group).Q
    inner = summed(q.mH @ local, group)
    for _ in range(whole("rsvd", "power_iterations", power_iterations, 0, error=FlagError)):
        basis = torch.linalg.qr(inner.mH).Q
        q = _tsqr(local @ basis, group).Q
        inner = summed(q.mH @ local, group)
    finite("rsvd", "local", inner)
    u, s, vh = torch.linalg.svd(inner, full_matrices=False)
    # Fix the phase of each vector, independent of the rank and of the number of ranks.
    place = vh.abs().argmax(-1, keepdim=True)
    phase = torch.sgn(vh.gather(-1, place))
    u, vh = u * phase.mH.conj().squeeze(0), vh * phase.conj()
    return SVDFactors((q @ u)[:, :k], s[:k], vh[:k])


def msign(local: Tensor, steps: int = 10, polish: int = 4, group: Group = None) -> Tensor:
    """Return this rank's rows of ``U @ Vh``, as ``trnsolver.msign`` does, by two Gram matrices.

    All steps run on the Gram matrix, in float64, on every rank. It is summed once for the steps
    with a large slope and once more for those that converge.

    Args:
        local: Rows of this rank.
        steps: Number of steps with a large slope.
        polish: Number of steps that converge.
        group: Process group; None for the default one.

    Raises:
        FlagError: A number of steps is negative.
        ShapeError: All ranks together have fewer rows than columns, or shares do not fit.
    """
    for name, count in (("steps", steps), ("polish", polish)):
        whole("msign", name, count, 0, error=FlagError)
    _tall("msign", shares_of("msign", local, group))
    wide = local.to(torch.complex128 if local.is_complex() else torch.float64)
    size = summed((wide.abs() ** 2).sum().to(wide.dtype), group).real.sqrt()
    x = wide / torch.where(size > 0, size, 1.0)
    for count, (first, third, fifth) in ((steps, MUON), (polish, _POLISH)):
        gram = summed(x.mH @ x, group)
        eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
        product = eye
        for _ in range(count):
            step = first * eye + third * gram + fifth * (gram @ gram)
            product = step @ product
            gram = step @ gram @ step
        x = x @ product
    return x.to(local.dtype)


def _tsqr(local: Tensor, group: Group) -> QRFactors:
    rows, n = local.shape
    q, r = torch.linalg.qr(local)
    mine = r.new_zeros(n, n)
    mine[: r.shape[0]] = r
    triangles = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(triangles, mine, group=group)
    outer, final = torch.linalg.qr(torch.cat(triangles))
    diagonal = final.diagonal()
    phase = torch.where(diagonal == 0, torch.ones_like(diagonal), torch.sgn(diagonal))
    first = dist.get_rank(group) * n
    part = outer[first : first + min(rows, n)] * phase
    return QRFactors(q @ part, phase.conj().unsqueeze(-1) * final)


def _tall(function: str, shares: Shares) -> None:
    if shares.total < shares.columns:
        raise ShapeError(
            f"{function}: all ranks together must have at least as many rows as columns, got "
            f"{shares.total} x {shares.columns}; a wide matrix by rows would have to be gathered"
        )
