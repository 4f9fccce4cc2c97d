"""Approximate eigensolvers, cheaper than the exact one for tolerances above rounding."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

import torch
from torch import Tensor

from trnrand import Generator, normal
from trnsci.core.matrix_errors import TorchLinAlgError
from trnsolver._eigen.quality import EighInfo, judged, rounding_of
from trnsolver._factors.symmetric import symmetric_part
from trnsolver._matrix_functions.polar import qdwh

__all__ = ["Pairs", "approximate_pairs"]

Pairs: TypeAlias = tuple[Tensor, Tensor]
Exact: TypeAlias = Callable[[Tensor], Pairs]

_FILTER_DEGREE = 12
_MOST_ROUNDS = 60
_BASE = 64
# Below this order LAPACK is faster than any other method.
_SMALL = 320


def approximate_pairs(
    a: Tensor,
    tol: float,
    k: int | None,
    which: str,
    method: str,
    exact: Exact,
    wanted: Callable[[], Pairs],
    size: float,
) -> tuple[Tensor, Tensor, EighInfo]:
    """Return values, vectors and their accuracy, by one method or by the exact one after it.

    Args:
        a: One matrix, of which the lower triangle is read.
        tol: Tolerance of the residual.
        k: Number of pairs; None for all.
        which: The end of the spectrum, or largest magnitude.
        method: The method.
        exact: Returns all pairs of a matrix to rounding.
        wanted: Returns the requested pairs of A to rounding, values ascending.
        size: Frobenius norm of A, with both triangles as given.
    """
    n = a.shape[-1]
    if method == "auto":
        method = _chosen(a, n, tol, k, which)
    stages: list[str] = []
    full = a if method == "exact" else a.tril() + a.tril(-1).mH
    methods: dict[str, Callable[[], tuple[Tensor, Tensor, int]]] = {
        "refined": lambda: _refined(full, tol, exact),
        "chebyshev": lambda: _chebyshev(full, k or n, which, tol),
        "randomized": lambda: _randomized(full, k or n),
        "qdwh": lambda: (*_divided(full, exact), 1),
    }
    if method in methods and n > 1:
        stages.append(f"{method} in {_name(a)}")
        try:
            w, v, steps = methods[method]()
        except TorchLinAlgError:
            stages[-1] += ", broken down"
        else:
            w, v = _wanted(w, v, k, which)
            info = judged(a, w, v, tol, method, steps, tuple(stages), size)
            if info.converged and not (method == "randomized" and _others(w, n, which)):
                return w, v, info
            stages[-1] += ", not enough" if not info.converged else ", not the requested ones"
    w, v = wanted()
    stages.append(f"exact in {_name(a)}")
    return w, v, judged(a, w, v, tol, "exact", 1, tuple(stages), size)


def _others(w: Tensor, n: int, which: str) -> bool:
    """Return whether pairs of largest magnitude may differ from those at the requested end."""
    if w.shape[-1] == n or which == "magnitude":
        return False
    return bool((w[0] < 0) if which == "largest" else (w[-1] > 0))


def _chosen(a: Tensor, n: int, tol: float, k: int | None, which: str) -> str:
    """Return the cheapest method by order, number of pairs and tolerance."""
    eps = torch.finfo(a.dtype).eps
    if n <= _SMALL or tol < 10 * eps:
        return "exact"
    if k is not None and 10 * k <= n and tol >= 1e3 * eps:
        return "chebyshev"
    return "exact"


def _wanted(w: Tensor, v: Tensor, k: int | None, which: str) -> Pairs:
    """Return k of the pairs, values ascending."""
    if k is None or w.shape[-1] <= k:
        return w, v
    if which == "magnitude":
        places = w.abs().argsort(descending=True)[:k].sort().values
        return w[places], v[:, places]
    cut = slice(0, k) if which == "smallest" else slice(w.shape[-1] - k, None)
    return w[cut], v[:, cut]


# -- all pairs in float32, corrected ---------------------------------------------------------------


def _refined(a: Tensor, tol: float, exact: Exact) -> tuple[Tensor, Tensor, int]:
    """Return all pairs from float32, corrected in the precision of A (Ogita and Aishima 2018).

    A correction squares the error of vectors with well-separated values; clusters of close values
    are solved by ``exact`` in their subspace.
    """
    low = torch.complex64 if a.is_complex() else torch.float32
    v = exact(a.to(low))[1].to(a.dtype)
    n = a.shape[-1]
    eye = torch.eye(n, dtype=a.dtype, device=a.device)
    steps = 0
    while True:
        gram, image = eye - v.mH @ v, a @ v
        projected = v.mH @ image
        w = projected.diagonal().real / (1 - gram.diagonal().real)
        size = w.abs().max()
        off = projected + gram * w
        off = off - torch.diag(off.diagonal())
        worst = float(torch.linalg.vector_norm(image - v * w, dim=0).max() / size)
        if (worst <= tol and float(gram.abs().max()) <= max(tol, rounding_of(a))) or steps == 3:
            order = w.argsort()
            return w[order], v[:, order], steps
        gaps = w.unsqueeze(0) - w.unsqueeze(1)
        limit = 2 * (torch.linalg.matrix_norm(off) + size * torch.linalg.matrix_norm(gram))
        apart = gaps.abs() > limit
        quotient = off / torch.where(apart, gaps, 1.0)
        change = torch.where(apart, quotient, gram / 2)
        change = change - torch.diag(change.diagonal()) + torch.diag(gram.diagonal() / 2)
        v = _rotated_within(a, v + v @ change, w, float(limit), exact)
        steps += 1


def _rotated_within(a: Tensor, v: Tensor, w: Tensor, limit: float, exact: Exact) -> Tensor:
    """Return vectors, by ascending value, after solving each cluster of close values separately."""
    order = w.argsort()
    w, v = w[order], v[:, order]
    edges = [0, *(torch.nonzero(w.diff() > limit).flatten() + 1).tolist(), w.shape[0]]
    parts = []
    for first, last in pairwise(edges):
        part = v[:, first:last]
        if last - first > 1:
            basis = torch.linalg.qr(part).Q
            inner = basis.mH @ (a @ basis)
            part = basis @ exact(symmetric_part(inner))[1]
        parts.append(part)
    return torch.cat(parts, -1)


# -- a few pairs -----------------------------------------------------------------------------------


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


def _randomized(a: Tensor, k: int) -> tuple[Tensor, Tensor, int]:
    """Return k pairs of largest magnitude from a sketch with two power steps (Halko 2011)."""
    n = a.shape[-1]
    block = min(n, k + 10)
    real = a.real.dtype if a.is_complex() else a.dtype
    sketch = normal(n, block, dtype=real, generator=Generator(22)).to(a.device)
    q = torch.linalg.qr(a @ sketch.to(a.dtype)).Q
    for _ in range(2):
        q = torch.linalg.qr(a @ q).Q
    inner = q.mH @ (a @ q)
    w, rotation = torch.linalg.eigh(symmetric_part(inner))
    places = w.abs().argsort(descending=True)[:k].sort().values
    return w[places], q @ rotation[:, places], 2


# -- divide and conquer ----------------------------------------------------------------------------


def _divided(a: Tensor, exact: Exact, depth: int = 0) -> Pairs:
    """Return all pairs by splitting the spectrum (Nakatsukasa and Higham 2013).

    The unitary polar factor of ``A - sigma I`` is its sign: +1 on the part of the spectrum above
    sigma and -1 below. Bases of the ranges of both projectors reduce A to two smaller problems.
    """
    n = a.shape[-1]
    if n <= _BASE or depth > 60:
        return exact(a)
    eye = torch.eye(n, dtype=a.dtype, device=a.device)
    diagonal = a.diagonal().real
    sigma = float(diagonal.median())
    radius = float(torch.linalg.matrix_norm(a - sigma * eye))
    if radius <= torch.finfo(a.dtype).eps * n * float(torch.linalg.matrix_norm(a)):
        return exact(a)
    sign = qdwh(a - sigma * eye)[0]
    projector = 0.5 * (sign + eye)
    upper = round(float(projector.diagonal().real.sum()))
    if not 0 < upper < n:
        return exact(a)
    real = a.real.dtype if a.is_complex() else a.dtype
    mixed = normal(n, n, dtype=real, generator=Generator(23 + depth)).to(a.device).to(a.dtype)
    # Basis of the range of a projector, and its complement, from a product with random vectors.
    q = torch.linalg.qr(projector @ mixed[:, :upper]).Q
    q = torch.linalg.qr(torch.cat([q, mixed[:, upper:] - q @ (q.mH @ mixed[:, upper:])], -1)).Q
    top, bottom = q[:, :upper], q[:, upper:]
    values, vectors = [], []
    for basis in (bottom, top):
        inner = basis.mH @ a @ basis
        w, v = _divided(symmetric_part(inner), exact, depth + 1)
        values.append(w)
        vectors.append(basis @ v)
    w, v = torch.cat(values), torch.cat(vectors, -1)
    order = w.argsort()
    return w[order], v[:, order]


def _name(a: Tensor) -> str:
    return str(a.dtype).removeprefix("torch.")
