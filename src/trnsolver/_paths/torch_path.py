"""The operations computed by torch, on validated arguments with one leading batch dimension.

Operations that ``torch.linalg`` does not have are loops with a fixed number of steps, in which
converged entries are no longer updated. They have no branch on values, so that they can be traced,
batched and differentiated.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.krylov.short_recurrences import kernel_reference
from trnsci.core.numbers.values import inert

MUON = (3.4445, -4.775, 2.0315)
"""Coefficients of Muon's quintic step: large slope at zero, values near one."""


def torch_eigh(a: Tensor, max_sweeps: int) -> tuple[Tensor, Tensor]:
    """Return eigenvalues, ascending, and eigenvectors; the lower triangle is read."""
    w, v = torch.linalg.eigh(a)
    return w, v


def torch_cholesky(a: Tensor) -> Tensor:
    """Return the lower factor; the lower triangle is read."""
    return torch.linalg.cholesky(a)


def torch_lu(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return P, L and U with ``a = P @ L @ U``."""
    p, lower, upper = torch.linalg.lu(a)
    return p, lower, upper


def torch_qr(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the reduced factors of matrices with at least as many rows as columns."""
    q, r = torch.linalg.qr(a)
    return q, r


def torch_svd(a: Tensor, max_sweeps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the thin factors U, s and Vh of matrices with at least as many rows as columns."""
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    return u, s, vh


def torch_pinv(a: Tensor, rcond: float, max_sweeps: int) -> tuple[Tensor, Tensor]:
    """Return pseudo-inverses from singular values above ``rcond`` times the largest, and these.

    The singular values have no derivatives.
    """
    return pseudo_inverse(a, rcond), torch.linalg.svdvals(a.detach())


def pseudo_inverse(a: Tensor, rcond: float) -> Tensor:
    """Return pseudo-inverses from singular values above ``rcond`` times the largest."""
    if not (a.is_complex() and torch.compiler.is_compiling()):
        return torch.linalg.pinv(a, rtol=rcond)
    # torch.compile returns wrong pseudo-inverses of complex matrices (torch 2.13), but not of
    # the real matrices of twice the order that have the same singular values.
    m, n = a.shape[-2:]
    above = torch.cat([a.real, -a.imag], -1)
    p = torch.linalg.pinv(torch.cat([above, torch.cat([a.imag, a.real], -1)], -2), rtol=rcond)
    return torch.complex(p[..., :n, :m], p[..., n:, :m])


def fixed_inv_sqrt(a: Tensor, max_iter: int, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return inverse square roots, the number of steps of each, and its last residual.

    All of ``max_iter`` steps are computed; see ``inv_sqrt_steps``.
    """
    return inv_sqrt_steps(a, max_iter, tol, early=False)


def inv_sqrt_steps(
    a: Tensor, max_iter: int, tol: float, early: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return inverse square roots, the number of steps of each, and its last residual.

    Coupled Newton-Schulz on ``Y0 = A / s``, ``Z0 = I`` with s the Frobenius norm: ``T = (3 I - Z Y)
    / 2``, ``Y <- Y T``, ``Z <- T Z``. The product Z Y of the next step gives the residual of this
    one, so that a step takes three products. An entry stops when ``norm(Z Y - I) / sqrt(n)`` is
    below ``tol``, or no longer decreases, because of rounding. ``early`` ends the loop when all
    entries have stopped, which reads values.
    """
    n = a.shape[-1]
    eye = torch.eye(n, dtype=a.dtype, device=a.device)
    scale = torch.linalg.matrix_norm(a, keepdim=True)
    y, z = a / scale, eye.expand_as(a)
    product = y
    last = _distance(product, eye)
    steps = torch.zeros_like(last)
    going = last >= tol
    for _ in range(max_iter):
        if early and not bool(going.any()):
            break
        t = 1.5 * eye - 0.5 * product
        new_y, new_z = y @ t, t @ z
        product = new_z @ new_y
        residual = _distance(product, eye)
        # The first residuals may grow for a step or two; later, growth is due to rounding.
        better = going & ((residual < last) | (last > 0.5))
        keep = better[..., None, None]
        y, z = torch.where(keep, new_y, y), torch.where(keep, new_z, z)
        steps = steps + going.to(steps.dtype)
        last = torch.where(better, residual, last)
        going = better & (residual >= tol)
    return z / scale.sqrt(), steps, last


def fixed_msign(a: Tensor, steps: int, first: float, third: float, fifth: float) -> Tensor:
    """Return the result of quintic steps on matrices with singular values of at most 1.

    Each step is ``X <- first X + (third G + fifth G^2) X`` with the Gram matrix ``G = X X^H`` of
    the shorter side.
    """
    tall = a.shape[-2] > a.shape[-1]
    x = a.mH if tall else a
    for _ in range(steps):
        gram = x @ x.mH
        x = first * x + (third * gram + fifth * (gram @ gram)) @ x
    return x.mH if tall else x


def fixed_cg(a: Tensor, b: Tensor, x0: Tensor, tol: float, max_iter: int) -> tuple[Tensor, Tensor]:
    """Return solutions, and the relative residuals at the start and after each of the steps.

    A system whose residual is at most ``tol`` times the norm of its right-hand side, or whose
    curvature is not positive, is no longer updated; its last residual is repeated.
    """
    size = torch.linalg.vector_norm(b.detach(), dim=-1, keepdim=True)
    size = torch.where(size > 0, size, torch.ones_like(size))
    x, history, _ = kernel_reference(
        lambda v: (a @ v.unsqueeze(-1)).squeeze(-1),
        b,
        x0,
        tol * size,
        max_iter,
        dim=-1,
        recorded=not inert(a, b, x0),
    )
    return x, (torch.cat(history, -1) / size).to(b.dtype)


def cg_shape(a: Tensor, b: Tensor, x0: Tensor, tol: float, max_iter: int) -> tuple[Tensor, Tensor]:
    """Return empty tensors like the results of ``fixed_cg``."""
    return torch.empty_like(b), b.new_empty(b.shape[0], max_iter + 1)


def _distance(product: Tensor, eye: Tensor) -> Tensor:
    """Return the distance of matrices from the identity, relative to its norm."""
    return torch.linalg.matrix_norm(product - eye) / eye.shape[-1] ** 0.5
