"""Singular values and vectors at doublefloat, by refinement of float32 results.

A tall matrix is Q R at doublefloat, and R is square. With ``T = U^H A V`` a step solves for E and F
of ``U (I + E)`` and ``V (I + F)``, which make it diagonal and both orthonormal (Ogita and Aishima
2020). Clusters are subspaces, as those of eigenvalues: after a step T is Hermitian in a cluster,
but at zero it is any small matrix.
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
    exponents,
    in_single,
    only_finite,
    product,
    times_power,
)
from trnsolver._doublefloat.columns import qr
from trnsolver._doublefloat.eigenpairs import MOST_STEPS, clusters, vectors_of
from trnsolver._factors.forms import symmetric_part
from trnsolver._paths.batches import SWEEPS
from trnsolver.singular_values import SVD, directions


def svd(
    launch: Launcher, a: Tensor, max_sweeps: int, full: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, s, descending, and V^H for m >= n; U has m columns if full.

    Entries of ``U^H A V - diag(s)`` are at most 2**-42 of the largest value, those of
    ``U^H U - I`` and ``V^H V - I`` at most 2**-42. s is NaN if the rotations do not converge.

    Raises:
        KernelError: Refinement does not reach this, or A is not finite.
    """
    only_finite("svd", a)
    work = widest(a)
    scale = exponents(work, (-2, -1))
    work = times_power(work, -scale)
    m, n = a.shape[-2:]
    q, square = qr(launch, work) if m > n else (None, work)
    u, s, vh = in_single(SVD, launch, square, max_sweeps, False)
    if bool(torch.isfinite(s).all()):
        u, s, vh = _refined(launch, square, u, vh.mH)
    if q is not None:
        u = product(launch, q, u)
    if full and m > n:
        drawn = directions(u, m - n).expand(*u.shape[:-1], m - n)
        u = torch.cat([u, qr(launch, torch.cat([u, drawn], -1))[0][..., n:]], -1)
    return u.to(a.dtype), times_power(s, scale[..., 0]).to(a.real.dtype), vh.to(a.dtype)


def pinv(launch: Launcher, a: Tensor, rcond: float, max_sweeps: int) -> tuple[Tensor, Tensor]:
    """Return pseudo-inverses from values above ``rcond`` times the largest, and the values."""
    u, s, vh = (widest(x) for x in svd(launch, a, max_sweeps))
    kept = s > rcond * s[..., :1]
    inverse = torch.where(kept, 1 / torch.where(kept, s, 1.0), 0.0)
    found = product(launch, vh.mH * inverse.unsqueeze(-2), u.mH)
    return found.to(a.dtype), torch.where(torch.isfinite(s), s, torch.nan).to(a.real.dtype)


def _refined(launch: Launcher, a: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    for _ in range(MOST_STEPS):
        of_u, of_v = product(launch, u.mH, u), product(launch, v.mH, v)
        t = product(launch, u.mH, product(launch, a, v))
        s = (t / (of_u * of_v).sqrt()).diagonal(dim1=-2, dim2=-1).real
        size = s.abs().amax(-1).clamp_min(torch.finfo(s.dtype).tiny)[:, None, None]
        row, column = s.unsqueeze(-2), s.unsqueeze(-1)
        off_u, off_v = t - of_u * row, t.mH - of_v * row
        lost_u, lost_v = eye - of_u, eye - of_v
        moduli = torch.maximum(off_u.abs(), off_v.abs())
        if max(float(x.abs().max()) for x in (moduli / size, lost_u, lost_v)) <= REACHED:
            return _ordered(u, s, v)
        moduli = torch.maximum(moduli, moduli.mT)
        settled = moduli <= REACHED / 2 * size
        apart = (moduli < CLOSE * (row - column).abs()) & ~settled
        near = ~(apart | settled)
        skew, totals = off_u - off_v, (row + column)
        at_zero = skew.abs() >= CLOSE * totals.abs()
        skew = torch.where(near & ~at_zero, skew / totals, (lost_u - lost_v) / 2)
        even = (lost_u + lost_v) / 2
        squares = (row - column) * totals
        e = torch.where(apart, (row * off_u + column * off_v) / squares, (even + skew) / 2)
        f = torch.where(apart, (column * off_u + row * off_v) / squares, (even - skew) / 2)
        u, v = u + product(launch, u, e), v + product(launch, v, f)
        if bool(near.any()):
            turn_u, turn_v = _turns(launch, t, of_u, of_v, s, near, at_zero)
            u, v = product(launch, u, turn_u), product(launch, v, turn_v)
    raise KernelError(f"svd: {MOST_STEPS} steps did not refine the vectors to 2**-44")


def _turns(
    launch: Launcher,
    t: Tensor,
    of_u: Tensor,
    of_v: Tensor,
    s: Tensor,
    near: Tensor,
    at_zero: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return matrices that turn the vectors of each cluster to those of its values."""
    turn_u = torch.eye(t.shape[-1], dtype=t.dtype, device=t.device).repeat(t.shape[0], 1, 1)
    turn_v = turn_u.clone()
    for place, values in enumerate(s):
        for here in clusters(values, near[place]):
            rows = here.unsqueeze(-1)
            small = t[place, rows, here]
            if bool((near & at_zero)[place, rows, here].any()):
                scaled = times_power(small, -exponents(small, (-2, -1)))
                u, found, vh = in_single(SVD, launch, scaled[None], SWEEPS, False)
                if not bool(torch.isfinite(found).all()):
                    raise KernelError("svd: the rotations of a cluster did not converge")
                turn_u[place, rows, here], turn_v[place, rows, here] = u[0], vh[0].mH
            else:
                grams = (of_u + of_v)[place, rows, here] / 2
                turn = vectors_of(launch, symmetric_part(small) - values[here].mean() * grams)
                turn_u[place, rows, here] = turn_v[place, rows, here] = turn
    return turn_u, turn_v


def _ordered(u: Tensor, s: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return factors with values that are not negative, descending, and the adjoint of V."""
    u = torch.where(s.unsqueeze(-2) < 0, -u, u)
    s, order = s.abs().sort(descending=True)
    places = order.unsqueeze(-2).expand_as(u)
    return u.gather(-1, places), s, v.gather(-1, places).mH
