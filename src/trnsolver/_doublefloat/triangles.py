"""Cholesky and LU factors at doublefloat, by stages.

A stage factorizes what is left in float32 and keeps the leading rows and columns whose factors are
close to those at doublefloat: with ``E = A - L U`` and ``X = L^-1 E U^-1``, the leading block of X
is small. These factors are corrected, ``L <- L (I + tril(X, -1))`` and ``U <- (I + triu(X)) U``,
which squares the error, up to the rounding of float32. The rest of E is then the Schur complement,
the matrix of the next stage. A well-conditioned matrix takes one stage, others take one for about
four digits of the condition number.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.backend.launch import Launcher
from trnsci.core.errors import KernelError
from trnsci.core.numbers.conversions import widest
from trnsolver._doublefloat.arithmetic import (
    CLOSE,
    REACHED,
    Progress,
    exponents,
    in_single,
    leading,
    only_finite,
    product,
    relative,
    solved_left,
    solved_right,
    times_power,
)
from trnsolver._factors.forms import with_real_diagonal
from trnsolver.factor import CHOLESKY, LU

_SMALLEST = 2.0**-14
"""The smallest pivot of a stage, relative to columns with a largest entry of about 1."""
_SHIFT = 2.0**-21
"""Added to each of n diagonal entries of about 1, n times: more than the rounding of float32."""


def lu(launch: Launcher, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return P, L and U: entries of ``P^T A - L U`` are at most 2**-43 of rows and columns.

    Pivots are chosen in float32: entries of L may be larger than those of LAPACK by ``2 CLOSE``.
    """
    only_finite("lu", a)
    rest = widest(a)
    batch, m, n = a.shape
    count, done = min(m, n), 0
    lower, upper = rest.new_zeros(batch, m, count), rest.new_zeros(batch, count, n)
    order = torch.arange(m, device=a.device).expand(batch, m)
    while done < count:
        # A matrix of zeros is factorized as if it were the identity.
        zeros = (rest == 0).all(-1).all(-1)[:, None, None]
        scale = exponents(rest, -2)
        eye = torch.eye(*rest.shape[-2:], dtype=rest.dtype, device=rest.device)
        places, left, right, left_over = _stage(
            launch, torch.where(zeros, eye, times_power(rest, -scale))
        )
        last = done + left.shape[-1]
        lower[:, done:] = _rows(lower[:, done:], places)
        order = torch.cat([order[:, :done], order[:, done:].gather(-1, places)], -1)
        lower[:, done:, done:last] = left
        upper[:, done:last, done:] = times_power(right.masked_fill(zeros, 0), scale)
        rest = times_power(left_over, scale[..., left.shape[-1] :])
        done = last
    permutation = torch.nn.functional.one_hot(order, m).mT
    return permutation.to(a.dtype), lower.to(a.dtype), upper.to(a.dtype)


def _stage(launch: Launcher, a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return an order of rows, leading columns of L and rows of U, and the Schur complement."""
    p, lower, upper = in_single(LU, launch, a)
    places = p.abs().argmax(-2)
    # Columns behind a pivot of zero have NaN; a correction of zero is what they should have.
    lower, upper = (x.where(torch.isfinite(x), 0) for x in (lower, upper))
    large = upper.diagonal(dim1=-2, dim2=-1).abs() >= _SMALLEST
    k = int(large.cumprod(-1).sum(-1).min())
    work, progress = _rows(a, places), Progress("lu")
    while k:
        lower, upper = lower[..., :k], upper[:, :k]
        left = work - product(launch, lower, upper)
        factored = left.clone()
        factored[:, k:, k:] = 0
        reached = relative(factored, lower, upper)
        if progress.ended(reached):
            return places, lower, upper, left[:, k:, k:]
        of_lower = solved_right(launch, left[..., :k], upper[..., :k], True)
        of_upper = solved_left(launch, lower[:, :k], left[:, :k], False)
        x = solved_left(launch, lower[:, :k], of_lower[:, :k], False)
        close = leading(x, CLOSE)
        if close < k:
            k, progress = close, Progress("lu")
            continue
        lower = lower + of_lower - product(launch, lower, x.triu())
        upper = upper + of_upper - product(launch, x.tril(-1), upper)
        lower = lower.tril(-1) + torch.eye(*lower.shape[-2:], dtype=a.dtype, device=a.device)
        upper = upper.triu()
    return _one_column(a)


def _one_column(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the same for one column, by elimination in float64: its pivot is small or zero."""
    batch, rows = a.shape[:2]
    places = torch.arange(rows, device=a.device).repeat(batch, 1)
    pivot = a[..., 0].abs().argmax(-1, keepdim=True)
    places.scatter_(-1, pivot, 0)
    places[:, 0] = pivot[:, 0]
    work = _rows(a, places)
    upper = work[:, :1]
    first = upper[..., :1]
    lower = torch.where(first == 0, 0, work[..., :1] / torch.where(first == 0, 1, first))
    lower[:, 0] = 1
    return places, lower, upper, work[:, 1:, 1:] - lower[:, 1:] * upper[..., 1:]


def _rows(a: Tensor, places: Tensor) -> Tensor:
    return a.gather(-2, places.unsqueeze(-1).expand(*places.shape, a.shape[-1]))


def cholesky(launch: Launcher, a: Tensor) -> Tensor:
    """Return L: entries of ``A - L L^H`` are at most 2**-43 of the lengths of both rows of L.

    It is NaN for a matrix that is not positive definite.

    Raises:
        KernelError: An eigenvalue is too small to tell whether it is positive.
    """
    full = widest(a).tril()
    only_finite("cholesky", full)
    full = full + full.tril(-1).mH
    rest = with_real_diagonal(full) if a.is_complex() else full
    sizes = rest.diagonal(dim1=-2, dim2=-1).real
    n, done = a.shape[-1], 0
    lower = torch.zeros_like(rest)
    while done < n:
        diagonal = rest.diagonal(dim1=-2, dim2=-1).real
        # What is left has errors of 2 * REACHED of the diagonal of A.
        noise = 2 * REACHED * sizes[:, done:] if done else torch.zeros_like(diagonal)
        if done and not bool((diagonal > 0).all()):
            return _indefinite(a, bool((diagonal + noise < 0).any()))
        root = -(-torch.frexp(diagonal).exponent // 2)
        by_row, by_column = root.unsqueeze(-1), root.unsqueeze(-2)
        given = times_power(times_power(rest, -by_row), -by_column)
        found = _cholesky_stage(launch, given)
        if found is None:
            return _indefinite(a, not done or float((noise / diagonal).max()) < _SHIFT / 2)
        left, left_over = found
        last = done + left.shape[-1]
        lower[:, done:, done:last] = times_power(left, by_row)
        scale = root[:, left.shape[-1] :]
        rest = times_power(times_power(left_over, scale.unsqueeze(-1)), scale.unsqueeze(-2))
        done = last
    return lower.to(a.dtype)


def _indefinite(a: Tensor, certainly: bool) -> Tensor:
    if certainly:
        return torch.full_like(a, torch.nan)
    raise KernelError("cholesky: the smallest eigenvalue is too close to zero to tell its sign")


def _cholesky_stage(launch: Launcher, a: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return leading columns of L and the Schur complement; None for an indefinite matrix."""
    n = a.shape[-1]
    lower = in_single(CHOLESKY, launch, a)
    diagonal = lower.diagonal(dim1=-2, dim2=-1).real
    if not bool((diagonal >= _SMALLEST**0.5).all()):
        # The leading factors of a matrix that is farther from singular are close enough.
        lower = in_single(CHOLESKY, launch, a + n * _SHIFT * torch.eye(n, device=a.device))
        if not bool(torch.isfinite(lower).all()):
            return None
    k, progress = n, Progress("cholesky")
    while True:
        lower = lower[..., :k]
        left = a - product(launch, lower, lower.mH)
        if progress.ended(relative(left[..., :k], lower, lower[:, :k].mH)):
            rest = left[:, k:, k:]
            return lower, 0.5 * (rest + rest.mH)
        change = solved_right(launch, left[..., :k], lower[:, :k].mH, True)
        x = solved_left(launch, lower[:, :k], change[:, :k], False)
        close = leading(x, CLOSE)
        if not close:
            return None
        if close < k:
            k, progress = close, Progress("cholesky")
            continue
        half = x.tril() - 0.5 * torch.diag_embed(x.diagonal(dim1=-2, dim2=-1))
        lower = (lower + change - product(launch, lower, half.mH)).tril()
        if a.is_complex():
            lower[:, :k] = with_real_diagonal(lower[:, :k])
