"""Derivatives of the factorizations that have kernels, computed from their results.

They are products and triangular solutions; nothing is factorized again. G is the gradient by a
result and T a tangent. ``^T`` is the adjoint of a complex matrix, whose eigenvectors and singular
vectors have free phases, and whose triangles have real diagonals. A triangle that a factorization
does not read has the same derivatives as in ``torch.linalg``.
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
        return (v * _or_zeros(for_w, w).unsqueeze(-2)) @ v.mH, None
    inner = 0.5 * _skew(v.mH @ for_v) * _over_differences(w)
    if for_w is not None:
        inner = inner + torch.diag_embed(for_w)
    return v @ inner @ v.mH, None


def eigh_jvp(
    tangents: Tangents, a: Tensor, max_sweeps: int, *, result: Any
) -> tuple[Tensor, Tensor]:
    """Return the diagonal of M = V^T T V with the symmetric part of T, and V (M / E)."""
    w, v = result
    given = _given(tangents[0])
    projected = v.mH @ symmetric_part(given) @ v
    return _real_diagonal(projected), v @ (projected * _over_differences(w))


def svd_backward(
    grads: Gradients, needed: Needed, a: Tensor, *options: Any, result: Any
) -> Gradients:
    """Return the gradient by A of its factors, for m >= n (Townsend 2016).

    Columns of a full U beyond those of A have no gradient, as in torch. Without gradients by U and
    V nothing is divided by differences of singular values or by them.
    """
    u, s, vh = result
    for_u, for_s, for_vh = grads
    if for_u is None and for_vh is None:
        return (u[..., : s.shape[-1]] * _or_zeros(for_s, s).unsqueeze(-2)) @ vh, None, None
    for_u = _or_zeros(for_u, u)[..., : s.shape[-1]]
    u = u[..., : s.shape[-1]]
    for_s, for_vh = _or_zeros(for_s, s), _or_zeros(for_vh, vh)
    gaps, turned = _over_differences(s * s), _skew(u.mH @ for_u)
    left = turned * gaps * s.unsqueeze(-2)
    right = s.unsqueeze(-1) * (_skew(vh @ for_vh.mH) * gaps)
    # A phase of U, which is not one of V too, moves with the imaginary part of diag(U^T T V).
    diagonal = for_s + _phases(turned, s) if a.is_complex() else for_s
    found = u @ (left + right + torch.diag_embed(diagonal)) @ vh
    if a.shape[-2] > a.shape[-1]:
        outside = for_u - u @ (u.mH @ for_u)
        found = found + outside / s.unsqueeze(-2) @ vh
    return found, None, None


def svd_jvp(
    tangents: Tangents, a: Tensor, *options: Any, result: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the tangents of the factors, for m >= n; zeros for further columns of a full U."""
    whole, s, vh = result
    u = whole[..., : s.shape[-1]]
    of_v = _given(tangents[0]) @ vh.mH
    projected = u.mH @ of_v
    gaps = _over_differences(s * s)
    row, column = s.unsqueeze(-2), s.unsqueeze(-1)
    inner = (projected * row + column * projected.mH) * gaps
    if a.is_complex():
        inner = inner + torch.diag_embed(_phases(_skew(projected), s))
    of_u = u @ inner
    of_vh = ((column * projected + projected.mH * row) * gaps).mH @ vh
    if a.shape[-2] > a.shape[-1]:
        of_u = of_u + (of_v - u @ projected) / row
    if whole.shape[-1] > u.shape[-1]:
        of_u = torch.cat([of_u, torch.zeros_like(whole[..., u.shape[-1] :])], -1)
    return of_u, _real_diagonal(projected), of_vh


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
    pt, gt = p.mH, grad.mH
    left, right = gt @ (p @ pt), (pt @ p) @ gt
    found = left - a @ (p @ left) + right - (right @ p) @ a - pt @ grad @ pt
    return found, None, None


def pinv_jvp(tangents: Tangents, a: Tensor, *options: float, result: Any) -> tuple[Tensor, Tensor]:
    """Return ``-P T P + P P^T T^T (I - A P) + (I - P A) T^T P^T P``, and zeros."""
    p, s = result
    tangent = _given(tangents[0])
    pt, tt = p.mH, tangent.mH
    left, right = (p @ pt) @ tt, tt @ (pt @ p)
    found = left - (left @ a) @ p + right - p @ (a @ right) - p @ tangent @ p
    return found, torch.zeros_like(s)


# -- triangular factors ----------------------------------------------------------------------------


def cholesky_backward(grad: Tensor, needed: Needed, a: Tensor, *, result: Tensor) -> Gradients:
    """Return L^-H phi(L^H G) L^-1, symmetrized; phi: the lower triangle, with half the diagonal."""
    inner = _phi(result.mH @ grad)
    found = _times_inverse(_inverse_times(result.mH, inner, upper=True), result, upper=False)
    return (symmetric_part(found),)


def cholesky_jvp(tangents: Tangents, a: Tensor, *, result: Tensor) -> Tensor:
    """Return L phi(L^-1 T L^-H) for the tangent T of A; phi as in ``cholesky_backward``."""
    inner = _inverse_times(result, _given(tangents[0]), upper=False)
    inner = _times_inverse(inner, result.mH, upper=True)
    return result @ _phi(symmetric_part(inner))


def qr_backward(grads: Gradients, needed: Needed, a: Tensor, *, result: Any) -> Gradients:
    """Return (Gq + Q M) R^-T, with M the lower triangle of R Gr^T - Gq^T Q and its mirror."""
    q, r = result
    for_q, for_r = _or_zeros(grads[0], q), _or_zeros(grads[1], r)
    inner = r @ for_r.triu().mH - for_q.mH @ q
    mirrored = inner.tril(-1) + inner.tril(-1).mH + torch.diag_embed(_real_diagonal(inner))
    return (_times_inverse(for_q + q @ mirrored, r.mH, upper=False),)


def qr_jvp(tangents: Tangents, a: Tensor, *, result: Any) -> tuple[Tensor, Tensor]:
    """Return the tangents of Q and R, for m >= n."""
    q, r = result
    scaled = _times_inverse(_given(tangents[0]), r, upper=True)
    inside = q.mH @ scaled
    upper = inside.triu(1) + inside.tril(-1).mH + torch.diag_embed(_real_diagonal(inside))
    return scaled - q @ upper, upper @ r


def lu_backward(grads: Gradients, needed: Needed, a: Tensor, *, result: Any) -> Gradients:
    """Return P L^-T (tril(L^T Gl, -1) + triu(Gu U^T)) U^-T, with the squares of L and U.

    Rows below them are ``L2 = A2 U^-1``, columns beside them ``U2 = L^-1 A2``.
    """
    p, lower, upper = result
    k = upper.shape[-2]
    for_lower, for_upper = _or_zeros(grads[1], lower), _or_zeros(grads[2], upper)
    square_l, square_u = lower[..., :k, :], upper[..., :k]
    below = _times_inverse(for_lower[..., k:, :], square_u.mH, upper=False)
    beside = _inverse_times(square_l.mH, for_upper[..., k:], upper=True)
    for_lower = for_lower[..., :k, :] - beside @ upper[..., k:].mH
    for_upper = for_upper[..., :k] - lower[..., k:, :].mH @ below
    inner = (square_l.mH @ for_lower).tril(-1) + (for_upper @ square_u.mH).triu()
    inner = _inverse_times(square_l.mH, inner, upper=True)
    inner = torch.cat([_times_inverse(inner, square_u.mH, upper=False), below], -2)
    return (p @ torch.cat([inner, beside], -1) if a.shape[-1] > k else p @ inner,)


def lu_jvp(tangents: Tangents, a: Tensor, *, result: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return L tril(X, -1) and triu(X) U with X = L^-1 P^T T U^-1; P does not move."""
    p, lower, upper = result
    k = upper.shape[-2]
    given, square_l, square_u = p.mH @ _given(tangents[0]), lower[..., :k, :], upper[..., :k]
    inner = _inverse_times(square_l, given[..., :k, :k], upper=False)
    inner = _times_inverse(inner, square_u, upper=True)
    of_lower, of_upper = square_l @ inner.tril(-1), inner.triu() @ square_u
    below = given[..., k:, :k] - lower[..., k:, :] @ of_upper
    beside = given[..., :k, k:] - of_lower @ upper[..., k:]
    below = _times_inverse(below, square_u, upper=True)
    beside = _inverse_times(square_l, beside, upper=False)
    return torch.zeros_like(p), torch.cat([of_lower, below], -2), torch.cat([of_upper, beside], -1)


# -- helpers ---------------------------------------------------------------------------------------


def _given(tangent: Tensor | None) -> Tensor:
    assert tangent is not None, "an operation of one tensor is differentiated by it"
    return tangent


def _or_zeros(grad: Tensor | None, result: Tensor) -> Tensor:
    return torch.zeros_like(result) if grad is None else grad


def _over_differences(values: Tensor) -> Tensor:
    """Return ``1 / (values_j - values_i)``, and 0 on the diagonal."""
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    n = values.shape[-1]
    diagonal = torch.eye(n, dtype=torch.bool, device=values.device)
    return 1 / gaps.masked_fill(diagonal, float("inf"))


def _real_diagonal(values: Tensor) -> Tensor:
    diagonal = values.diagonal(dim1=-2, dim2=-1)
    return diagonal.real if diagonal.is_complex() else diagonal


def _phases(skew: Tensor, s: Tensor) -> Tensor:
    return 0.5 * skew.diagonal(dim1=-2, dim2=-1) / s


def _skew(values: Tensor) -> Tensor:
    return values - values.mH


def _phi(values: Tensor) -> Tensor:
    return values.tril() - 0.5 * torch.diag_embed(values.diagonal(dim1=-2, dim2=-1))


def _inverse_times(a: Tensor, b: Tensor, *, upper: bool) -> Tensor:
    return torch.linalg.solve_triangular(a, b, upper=upper)


def _times_inverse(b: Tensor, a: Tensor, *, upper: bool) -> Tensor:
    return torch.linalg.solve_triangular(a, b, upper=upper, left=False)
