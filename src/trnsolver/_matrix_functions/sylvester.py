"""Derivatives of roots and polar factors that need no gaps between eigenvalues.

A root or a polar factor is a smooth function of a regular matrix, but the eigenvectors or singular
vectors are not where values repeat: for the identity they are arbitrary. So derivatives are
computed from the equation of the result, which is a Sylvester equation.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsolver._factors.forms import symmetric_part


def sylvester(p: Tensor, c: Tensor) -> Tensor:
    """Return S with ``P S + S P = C`` for Hermitian positive definite P."""
    found: Tensor = _Sylvester.apply(p, c)  # type: ignore[no-untyped-call]
    return found


def inverse_root(a: Tensor, x: Tensor) -> Tensor:
    """Return ``X = A^-1/2``, computed without derivatives, with the derivatives of the root."""
    found: Tensor = _InverseRoot.apply(a, x)  # type: ignore[no-untyped-call]
    return found


def unitary_factor(a: Tensor, u: Tensor) -> Tensor:
    """Return the polar factor U of tall A, computed without derivatives, with derivatives."""
    found: Tensor = _UnitaryFactor.apply(a, u)  # type: ignore[no-untyped-call]
    return found


class _Sylvester(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(p: Tensor, c: Tensor) -> Tensor:
        w, v = torch.linalg.eigh(p)
        sums = w.unsqueeze(-1) + w.unsqueeze(-2)
        return v @ ((v.mH @ c @ v) / sums) @ v.mH

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)
        ctx.save_for_forward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        p, s = ctx.saved_tensors
        for_c = sylvester(p, grad)
        return -(for_c @ s.mH + s.mH @ for_c), for_c

    @staticmethod
    def jvp(ctx: Any, of_p: Tensor | None, of_c: Tensor | None) -> Tensor:
        p, s = ctx.saved_tensors
        right = torch.zeros_like(s) if of_c is None else of_c
        if of_p is not None:
            right = right - (of_p @ s + s @ of_p)
        return sylvester(p, right)


class _InverseRoot(torch.autograd.Function):
    """``d(X^2) = -X^2 dA X^2``, so ``X dX + dX X`` is the same."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        square = x @ x
        return -square @ sylvester(x, symmetric_part(grad)) @ square, None

    @staticmethod
    def jvp(ctx: Any, of_a: Tensor, of_x: Tensor | None) -> Tensor:
        (x,) = ctx.saved_tensors
        square = x @ x
        return sylvester(x, -square @ symmetric_part(of_a) @ square)


class _UnitaryFactor(torch.autograd.Function):
    """With ``P = U^H A``: ``dU = U S + (I - U U^H) dA P^-1``, ``P S + S P = U^H dA - dA^H U``."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, u: Tensor) -> Tensor:
        return u.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)
        ctx.save_for_forward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        a, u = ctx.saved_tensors
        inside = u.mH @ grad
        solved = sylvester(_positive(a, u), inside)
        found = u @ (solved - solved.mH)
        if a.shape[-2] > a.shape[-1]:
            found = found + _outside_range(a, u, grad, inside)
        return found, None

    @staticmethod
    def jvp(ctx: Any, of_a: Tensor, of_u: Tensor | None) -> Tensor:
        a, u = ctx.saved_tensors
        inside = u.mH @ of_a
        found = u @ sylvester(_positive(a, u), inside - inside.mH)
        if a.shape[-2] > a.shape[-1]:
            found = found + _outside_range(a, u, of_a, inside)
        return found


def _positive(a: Tensor, u: Tensor) -> Tensor:
    p = u.mH @ a
    return symmetric_part(p)


def _outside_range(a: Tensor, u: Tensor, value: Tensor, inside: Tensor) -> Tensor:
    """Return the part of a value outside of the range of U, times P^-1."""
    outside = value - u @ inside
    return torch.linalg.solve(_positive(a, u), outside, left=False)
