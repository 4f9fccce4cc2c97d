"""Eigenvalues and eigenvectors at doublefloat, by refinement of float32 results.

With ``R = I - V^H V`` and ``S = V^H A V``, a step ``V <- V + V E`` with ``E_ij = (S_ij + w_j R_ij)
/ (w_j - w_i)`` squares the errors of the vectors (Ogita and Aishima 2018). Pairs of eigenvalues
whose difference is too small for it form clusters: a cluster is refined as a subspace, and the
small matrix that is left in it, ``S - w V^H V``, is diagonalized in float32 relative to its own
size. So eigenvalues at distances of 1e-12 are separated by a second and third matrix of float32.
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
from trnsolver._factors.forms import symmetric_part, with_real_diagonal
from trnsolver._paths.batches import SWEEPS
from trnsolver.eigen import EIGH

MOST_STEPS = 12  # from float32, three or four suffice; each cluster within a cluster takes one more


def eigh(launch: Launcher, a: Tensor, max_sweeps: int) -> tuple[Tensor, Tensor]:
    """Return w, ascending, and V.

    Entries of ``V^H A V - V^H V diag(w)`` are at most 2**-43 of the largest eigenvalue, those of
    ``V^H V - I`` at most 2**-43. w is NaN if the rotations of float32 do not converge.

    Raises:
        KernelError: Refinement does not reach this, or A is not finite.
    """
    full = widest(a).tril()
    only_finite("eigh", full)
    full = full + full.tril(-1).mH
    work = with_real_diagonal(full) if a.is_complex() else full
    scale = exponents(work, (-2, -1))
    work = times_power(work, -scale)
    w, v = in_single(EIGH, launch, work, max_sweeps)
    if bool(torch.isfinite(w).all()):
        w, v = _refined(launch, work, v)
    w = times_power(w, scale[..., 0])
    return w.to(a.real.dtype), v.to(a.dtype)


def _refined(launch: Launcher, a: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    for _ in range(MOST_STEPS):
        gram = product(launch, v.mH, v)
        s = symmetric_part(product(launch, v.mH, product(launch, a, v)))
        w = (s / gram).diagonal(dim1=-2, dim2=-1).real
        size = w.abs().amax(-1).clamp_min(torch.finfo(w.dtype).tiny)[:, None, None]
        off = s - gram * w.unsqueeze(-2)
        lost = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device) - gram
        if max(float((off / size).abs().max()), float(lost.abs().max())) <= REACHED:
            w, order = w.sort(-1)
            return w, v.gather(-1, order.unsqueeze(-2).expand_as(v))
        moduli = torch.maximum(off.abs(), off.abs().mT)
        settled = moduli <= REACHED / 2 * size
        gaps = w.unsqueeze(-2) - w.unsqueeze(-1)
        apart = (moduli < CLOSE * gaps.abs()) & ~settled
        v = v + product(launch, v, torch.where(apart, off / gaps, lost / 2))
        v = _turned(launch, v, s, gram, w, ~(apart | settled))
    raise KernelError(f"eigh: {MOST_STEPS} steps did not refine the vectors to 2**-44")


def _turned(
    launch: Launcher, v: Tensor, s: Tensor, gram: Tensor, w: Tensor, near: Tensor
) -> Tensor:
    """Return vectors of which those of a cluster diagonalize what is left in it."""
    turns = torch.eye(v.shape[-1], dtype=v.dtype, device=v.device).repeat(v.shape[0], 1, 1)
    for place, values in enumerate(w):
        for here in clusters(values, near[place]):
            rows = here.unsqueeze(-1)
            left = s[place, rows, here] - values[here].mean() * gram[place, rows, here]
            turns[place, rows, here] = vectors_of(launch, left)
    return product(launch, v, turns) if bool(near.any()) else v


def vectors_of(launch: Launcher, a: Tensor) -> Tensor:
    """Return the eigenvectors of one small matrix of any size of entries, in float32."""
    scaled = times_power(a, -exponents(a, (-2, -1)))
    w, v = in_single(EIGH, launch, symmetric_part(scaled)[None], SWEEPS)
    if not bool(torch.isfinite(w).all()):
        raise KernelError("eigh: the rotations of a cluster did not converge")
    found: Tensor = v[0]
    return found


def clusters(values: Tensor, near: Tensor) -> list[Tensor]:
    """Return the places of values between which one is near another, without single ones.

    Args:
        values: Real numbers (n,).
        near: Whether two of them are near each other, (n, n), symmetric.
    """
    order = values.argsort()
    sorted_near = near[order][:, order]
    n = len(order)
    places = torch.arange(n, device=order.device)
    last = torch.where(sorted_near, places, -1).amax(-1).tolist()
    found, first, end = [], 0, 0
    for place in range(n):
        if place > end:
            found.append(order[first:place])
            first = place
        end = max(end, place, last[place])
    found.append(order[first:])
    return [cluster for cluster in found if len(cluster) > 1]
