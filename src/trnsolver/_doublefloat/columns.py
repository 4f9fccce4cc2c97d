"""QR factors at doublefloat, by stages of columns.

A stage factorizes what is left of the columns in float32. With ``E = A - Q R``, ``F = E R^-1`` and
D upper triangular with ``D + D^H = Q^H F + F^H Q + Q^H Q - I``, the corrections ``Q + F - Q D`` and
``R + D R`` square the errors. Columns whose F is not small are left to the next stage, which has
them without their components along Q. A column that is nothing else, to rounding, gets another
direction, and a zero on the diagonal of R.
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
    only_finite,
    product,
    solved_right,
    times_power,
)
from trnsolver.orthogonal import QR
from trnsolver.singular_values import directions

_SMALLEST = 2.0**-14
"""The smallest diagonal entry of a stage, relative to columns with a largest entry of about 1."""


def qr(launch: Launcher, a: Tensor) -> tuple[Tensor, Tensor]:
    """Return Q (b, m, n) and R (b, n, n) for m >= n.

    Entries of ``A - Q R`` are at most 2**-43 of a column of R, those of ``Q^H Q - I`` 2**-43.

    Raises:
        KernelError: Refinement does not reach this, or A is not finite.
    """
    only_finite("qr", a)
    work = widest(a)
    scale = exponents(work, -2)
    work = times_power(work, -scale)
    batch, m, n = a.shape
    q, r = work.new_zeros(batch, m, 0), work.new_zeros(batch, n, n)
    stages = 0
    while q.shape[-1] < n:
        done = q.shape[-1]
        along, rest = _apart(launch, q, work[..., done:])
        gone = rest.abs().amax(-2, keepdim=True) <= REACHED
        if not done or bool(gone.any()):  # without columns in Q this takes no product
            drawn = directions(rest, n - done).expand_as(rest)
            rest = torch.where(gone, _apart(launch, q, drawn)[1], rest)
        size = exponents(rest, -2)
        new, factor = _stage(launch, times_power(rest, -size))
        last = done + new.shape[-1]
        r[:, :done, done:last] = along[..., : new.shape[-1]]
        factor = times_power(factor, size[..., : new.shape[-1]])
        r[:, done:last, done:last] = factor.masked_fill(gone[..., : new.shape[-1]], 0)
        q, stages = torch.cat([q, new], -1), stages + 1
    if stages > 1:  # columns of one stage are orthogonal to those before it by less than to others
        q, r = _refined(launch, work, q, r, solved=False)
    return q.to(a.dtype), times_power(r, scale).to(a.dtype)


def _apart(launch: Launcher, q: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    """Return coefficients along orthonormal columns, and what is left, orthogonalized twice."""
    first = product(launch, q.mH, a)
    rest = a - product(launch, q, first)
    second = product(launch, q.mH, rest)
    return first + second, rest - product(launch, q, second)


def _stage(launch: Launcher, a: Tensor) -> tuple[Tensor, Tensor]:
    """Return factors of the leading columns."""
    q, r = in_single(QR, launch, a)
    large = r.diagonal(dim1=-2, dim2=-1).abs() >= _SMALLEST
    k = int(large.cumprod(-1).sum(-1).min())
    q, r, given = q[..., :k], r[:, :k, :k], a[..., :k]
    change = solved_right(launch, given - product(launch, q, r), r, True)
    sizes = change.abs().square().nan_to_num(torch.inf, torch.inf).sum(-2).cumsum(-1).sqrt()
    k = int((sizes <= CLOSE).sum(-1).min())
    if not k:
        raise KernelError("qr: float32 has no column of a correct direction")
    return _refined(launch, a[..., :k], q[..., :k], r[:, :k, :k], solved=True)


def _refined(
    launch: Launcher, a: Tensor, q: Tensor, r: Tensor, solved: bool
) -> tuple[Tensor, Tensor]:
    """Return corrected factors; those of a product that is right are made orthogonal only."""
    progress = Progress("qr")
    eye = torch.eye(q.shape[-1], dtype=q.dtype, device=q.device)
    while True:
        left = a - product(launch, q, r)
        lost = product(launch, q.mH, q) - eye
        of_columns = torch.linalg.vector_norm(r, dim=-2, keepdim=True).clamp_min(REACHED)
        if progress.ended(max(float((left.abs() / of_columns).max()), float(lost.abs().max()))):
            return q, r
        change = solved_right(launch, left, r, True) if solved else torch.zeros_like(q)
        inside = product(launch, q.mH, change)
        total = inside + inside.mH + lost
        upper = total.triu(1) + 0.5 * torch.diag_embed(total.diagonal(dim1=-2, dim2=-1))
        q = q + change - product(launch, q, upper)
        r = (r + product(launch, upper, r)).triu()
