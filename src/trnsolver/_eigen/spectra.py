"""A few eigenpairs by a Chebyshev filter, for tolerances above rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from trnrand import Generator, normal
from trnsci.core.errors.matrices import TorchLinAlgError
from trnsolver._eigen.few_pairs import largest_magnitude
from trnsolver._eigen.quality import EighInfo, Pairs, judged
from trnsolver._factors.forms import symmetric_part

_FILTER_DEGREE = 12
_MOST_ROUNDS = 60


class Wanted(NamedTuple):
    """Pairs of one matrix with a tolerance.

    Attributes:
        a: The matrix, of which the lower triangle is read.
        tol: Tolerance of the residual.
        k: Number of pairs; None for all.
        which: The end of the spectrum, or largest magnitude.
        places: First and last index of the values.
    """

    a: Tensor
    tol: float
    k: int | None
    which: str
    places: tuple[int, int]


def approximate_pairs(
    wanted: Wanted, method: str, exact: Callable[[Wanted], Pairs], size: float
) -> tuple[Tensor, Tensor, EighInfo]:
    """Return values, vectors and their accuracy, by one method or by the exact one after it.

    Args:
        wanted: The pairs.
        method: ``"chebyshev"``; any other is the exact one.
        exact: Returns the pairs to rounding, values ascending.
        size: Frobenius norm of A, with both triangles as given.
    """
    a, tol, k, which, _ = wanted
    n = a.shape[-1]
    stages: list[str] = []

    def judge(found: Pairs, method: str, steps: int) -> EighInfo:
        nan = math.nan
        by = EighInfo(False, tol, nan, nan, nan, method, steps, tuple(stages))
        return judged(a, found, size, by)

    if method == "chebyshev" and n > 1:
        stages.append(f"{method} in {_name(a)}")
        try:
            w, v, steps = _chebyshev(a.tril() + a.tril(-1).mH, k or n, which, tol)
        except TorchLinAlgError:
            stages[-1] += ", broken down"
        else:
            w, v = _of_these(w, v, k, which)
            info = judge((w, v), method, steps)
            if info.converged:
                return w, v, info
            stages[-1] += ", not enough"
    w, v = exact(wanted)
    stages.append(f"exact in {_name(a)}")
    return w, v, judge((w, v), "exact", 1)


def _of_these(w: Tensor, v: Tensor, k: int | None, which: str) -> Pairs:
    """Return k of the pairs, values ascending."""
    if k is None or w.shape[-1] <= k:
        return w, v
    if which == "magnitude":
        return largest_magnitude(w, v, k)
    cut = slice(0, k) if which == "smallest" else slice(w.shape[-1] - k, None)
    return w[cut], v[:, cut]


def _chebyshev(a: Tensor, k: int, which: str, tol: float) -> tuple[Tensor, Tensor, int]:
    """Return k pairs at one end of the spectrum by filtered subspace iteration (Zhou 2006).

    A Chebyshev polynomial that is small on the rest of the spectrum amplifies the requested part;
    Lanczos bounds the spectrum first. For pairs of largest magnitude the polynomial is small on an
    interval around zero.
    """
    n = a.shape[-1]
    sign = 1.0 if which == "smallest" else -1.0
    block = min(n, k + max(8, k // 2))
    real = a.real.dtype if a.is_complex() else a.dtype
    start = normal(n, block, dtype=real, generator=Generator(20)).to(a.device)
    v = torch.linalg.qr(start.to(a.dtype)).Q
    low, high = _ends(a)
    w = torch.empty(0, device=a.device)
    for rounds in range(1, _MOST_ROUNDS + 1):
        image = a @ v
        inner = v.mH @ image
        w, rotation = torch.linalg.eigh(symmetric_part(inner))
        v, image = v @ rotation, image @ rotation
        if which == "magnitude":
            places = w.abs().argsort(descending=True)
            edge = float(w.abs()[places[-1]])
            places = places[:k]
        else:
            places = torch.arange(block, device=w.device)
            places = places[:k] if sign > 0 else places[-k:]
            edge = float(w[-1] if sign > 0 else w[0])
        norms = torch.linalg.vector_norm(image[:, places] - v[:, places] * w[places], dim=0)
        scale = max(abs(low), abs(high))
        if float(norms.max()) <= 0.5 * tol * scale or block == n:
            order = places[w[places].argsort()]
            return w[order], v[:, order], rounds
        if which == "magnitude":
            interval = (-edge, edge)
        else:
            interval = (edge, high) if sign > 0 else (low, edge)
        v = torch.linalg.qr(_filtered(a, v, *interval)).Q
    order = places[w[places].argsort()]
    return w[order], v[:, order], _MOST_ROUNDS


def _ends(a: Tensor) -> tuple[float, float]:
    """Return bounds on the spectrum: Ritz values of a few Lanczos steps plus the residual."""
    n = a.shape[-1]
    steps = min(n, 12)
    real = a.real.dtype if a.is_complex() else a.dtype
    v = normal(n, dtype=real, generator=Generator(21)).to(a.device).to(a.dtype)
    basis = [v / torch.linalg.vector_norm(v)]
    alphas, betas = [], []
    for _ in range(steps):
        w = a @ basis[-1]
        alphas.append(float(torch.vdot(basis[-1], w).real))
        for u in basis:
            w = w - torch.vdot(u, w) * u
        betas.append(float(torch.linalg.vector_norm(w)))
        if betas[-1] == 0:
            break
        basis.append(w / betas[-1])
    small = torch.diag(torch.tensor(alphas, dtype=torch.float64, device="cpu"))
    beyond = torch.tensor(betas[: len(alphas) - 1], dtype=torch.float64, device="cpu")
    small = small + torch.diag(beyond, 1) + torch.diag(beyond, -1)
    values = torch.linalg.eigvalsh(small)
    return float(values[0]) - betas[-1], float(values[-1]) + betas[-1]


def _filtered(a: Tensor, v: Tensor, low: float, high: float) -> Tensor:
    """Return vectors times a Chebyshev polynomial of A that is small between two values."""
    half, middle = (high - low) / 2, (high + low) / 2
    if not half > 0:
        return v
    before, now = v, (a @ v - middle * v) / half
    for _ in range(_FILTER_DEGREE - 1):
        before, now = now, (2 / half) * (a @ now - middle * now) - before
        size = torch.linalg.vector_norm(now, dim=0).max()
        before, now = before / size, now / size
    return now


def _name(a: Tensor) -> str:
    return str(a.dtype).removeprefix("torch.")
