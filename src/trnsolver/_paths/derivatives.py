"""Derivatives of the factorizations that have kernels, computed from their results.

They are products and triangular solutions; nothing is factorized again. G is the gradient by a
result and T a tangent; all matrices are real, like those of the kernels. A triangle that a
factorization does not read has the same derivatives as in ``torch.linalg``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci.core.backend.derivatives import Gradients, Needed, Tangents
from trnsolver._factors.forms import symmetric_part

# -- eigenvalues and singular values ---------------------------------------------------------------


def eigh_backward(
    grads: Gradients, needed: Needed, a: Tensor, max_sweeps: int = 0, *, result: Any
) -> Gradients:
    """Return V (diag(Gw) + skew(V^T Gv) / 2 E) V^T with E_ij = w_j - w_i, which is symmetric.

    Without a gradient by V nothing is divided by E: eigenvalues may be repeated.
    """
    w, v = result
    for_w, for_v = grads
    if for_v is None:
        return (v * _or_zeros(for_w, w).unsqueeze(-2)) @ v.mT, None
    inner = 0.5 * _skew(v.mT @ for_v) / _differences(w)
    if for_w is not None:
        inner = inner + torch.diag_embed(for_w)
    return v @ inner @ v.mT, None


def eigh_jvp(
    tangents: Tangents, a: Tensor, max_sweeps: int, *, result: Any
) -> tuple[Tensor, Tensor]:
    """Return the diagonal of M = V^T T V with the symmetric part of T, and V (M / E)."""
    w, v = result
    given = _given(tangents[0])
    projected = v.mT @ symmetric_part(given) @ v
    return projected.diagonal(dim1=-2, dim2=-1), v @ (projected / _differences(w))


def svd_backward(
    grads: Gradients, needed: Needed, a: Tensor, max_sweeps: int = 0, *, result: Any
) -> Gradients:
    """Return the gradient by A of its thin factors, for m >= n (Townsend 2016).

    Without gradients by U and V nothing is divided by differences of singular values or by them.
    """
    u, s, vh = result
    for_u, for_s, for_vh = grads
    if for_u is None and for_vh is None:
        return (u * _or_zeros(for_s, s).unsqueeze(-2)) @ vh, None
    for_u, for_s, for_vh = _or_zeros(for_u, u), _or_zeros(for_s, s), _or_zeros(for_vh, vh)
    gaps = _differences(s * s)
    left = _skew(u.mT @ for_u) / gaps * s.unsqueeze(-2)
    right = s.unsqueeze(-1) * (_skew(vh @ for_vh.mT) / gaps)
    found = u @ (left + right + torch.diag_embed(for_s)) @ vh
    if a.shape[-2] > a.shape[-1]:
        outside = for_u - u @ (u.mT @ for_u)
        found = found + outside / s.unsqueeze(-2) @ vh
    return found, None


def svd_jvp(
    tangents: Tangents, a: Tensor, max_sweeps: int, *, result: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the tangents of the thin factors, for m >= n."""
    u, s, vh = result
    of_v = _given(tangents[0]) @ vh.mT
    projected = u.mT @ of_v
    gaps = _differences(s * s)
    row, column = s.unsqueeze(-2), s.unsqueeze(-1)
    of_u = u @ ((projected * row + column * projected.mT) / gaps)
    of_vh = ((column * projected + projected.mT * row) / gaps).mT @ vh
    if a.shape[-2] > a.shape[-1]:
        of_u = of_u + (of_v - u @ projected) / row
    return of_u, projected.diagonal(dim1=-2, dim2=-1), of_vh


# -- pseudo-inverses -------------------------------------------------------------------------------


def pinv_backward(
    grads: Gradients, needed: Needed, a: Tensor, *options: float, result: Any
) -> Gradients:
    """Return the gradient by A of its pseudo-inverse P at constant rank (Golub and Pereyra 1973).

    It is ``-P^T G P^T + (I - A P) G^T P P^T + P^T P G^T (I - P A)``. The singular values, the
    second result, are returned to callers without derivatives.
    """
    p = result[0]
    grad = _or_zeros(grads[0], p)
    pt, gt = p.mT, grad.mT
    left, right = gt @ (p @ pt), (pt @ p) @ gt
    found = left - a @ (p @ left) + right - (right @ p) @ a - pt @ grad @ pt
    return found, None, None


def pinv_jvp(tangents: Tangents, a: Tensor, *options: float, result: Any) -> tuple[Tensor, Tensor]:
    """Return ``-P T P + P P^T T^T (I - A P) + (I - P A) T^T P^T P``, and zeros."""
    p, s = result
    tangent = _given(tangents[0])
    pt, tt = p.mT, tangent.mT
    left, right = (p @ pt) @ tt, tt @ (pt @ p)
    found = left - (left @ a) @ p + right - p @ (a @ right) - p @ tangent @ p
    return found, torch.zeros_like(s)


# -- triangular factors ----------------------------------------------------------------------------


def cholesky_backward(grad: Tensor, needed: Needed, a: Tensor, *, result: Tensor) -> Gradients:
    """Return L^-T phi(L^T G) L^-1, symmetrized; phi takes the lower triangle, its diagonal once."""
    inner = _phi(result.mT @ grad)
    found = _times_inverse(_inverse_times(result.mT, inner, upper=True), result, upper=False)
    return (symmetric_part(found),)


def cholesky_jvp(tangents: Tangents, a: Tensor, *, result: Tensor) -> Tensor:
    """Return L phi(L^-1 T L^-T)."""
    inner = _inverse_times(result, _given(tangents[0]), upper=False)
    inner = _times_inverse(inner, result.mT, upper=True)
    return result @ _phi(symmetric_part(inner))


def qr_backward(grads: Gradients, needed: Needed, a: Tensor, *, result: Any) -> Gradients:
    """Return (Gq + Q M) R^-T, with M the lower triangle of R Gr^T - Gq^T Q and its mirror."""
    q, r = result
    for_q, for_r = _or_zeros(grads[0], q), _or_zeros(grads[1], r)
    inner = r @ for_r.triu().mT - for_q.mT @ q
    mirrored = inner.tril() + inner.tril(-1).mT
    return (_times_inverse(for_q + q @ mirrored, r.mT, upper=False),)


def qr_jvp(tangents: Tangents, a: Tensor, *, result: Any) -> tuple[Tensor, Tensor]:
    """Return the tangents of Q and R, for m >= n."""
    q, r = result
    scaled = _times_inverse(_given(tangents[0]), r, upper=True)
    inside = q.mT @ scaled
    upper = inside - _skew(inside.tril(-1))
    return scaled - q @ upper, upper @ r


def lu_backward(grads: Gradients, needed: Needed, a: Tensor, *, result: Any) -> Gradients:
    """Return P L^-T (tril(L^T Gl, -1) + triu(Gu U^T)) U^-T, for square matrices."""
    p, lower, upper = result
    for_lower, for_upper = _or_zeros(grads[1], lower), _or_zeros(grads[2], upper)
    inner = (lower.mT @ for_lower).tril(-1) + (for_upper @ upper.mT).triu()
    inner = _inverse_times(lower.mT, inner, upper=True)
    return (p @ _times_inverse(inner, upper.mT, upper=False),)


def lu_jvp(tangents: Tangents, a: Tensor, *, result: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return L tril(X, -1) and triu(X) U with X = L^-1 P^T T U^-1; P does not move."""
    p, lower, upper = result
    inner = _inverse_times(lower, p.mT @ _given(tangents[0]), upper=False)
    inner = _times_inverse(inner, upper, upper=True)
    return torch.zeros_like(p), lower @ inner.tril(-1), inner.triu() @ upper


# -- helpers ---------------------------------------------------------------------------------------


def _given(tangent: Tensor | None) -> Tensor:
    assert tangent is not None, "an operation of one tensor is differentiated by it"
    return tangent


def _or_zeros(grad: Tensor | None, result: Tensor) -> Tensor:
    return torch.zeros_like(result) if grad is None else grad


def _differences(values: Tensor) -> Tensor:
    """Return ``values_j - values_i``, and infinity on the diagonal, so that quotients are 0."""
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    n = values.shape[-1]
    diagonal = torch.eye(n, dtype=torch.bool, device=values.device)
    return gaps.masked_fill(diagonal, float("inf"))


def _skew(values: Tensor) -> Tensor:
    return values - values.mT


def _phi(values: Tensor) -> Tensor:
    return values.tril() - 0.5 * torch.diag_embed(values.diagonal(dim1=-2, dim2=-1))


def _inverse_times(a: Tensor, b: Tensor, *, upper: bool) -> Tensor:
    return torch.linalg.solve_triangular(a, b, upper=upper)


def _times_inverse(b: Tensor, a: Tensor, *, upper: bool) -> Tensor:
    return torch.linalg.solve_triangular(a, b, upper=upper, left=False)
