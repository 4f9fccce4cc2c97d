"""Derivatives of solutions, whatever iteration found them.

With ``A x = b``, a tangent of x solves ``A Tx = Tb - TA x``, and a gradient g of x pulls back to
``y`` for b and ``-y x^H`` for A with ``A^H y = g``: one more system each, of which the steps of the
iteration have no part. These are made of solutions again, so that they can be differentiated too.

Of a function for A the entries are not at hand. There, with ``r = b - A x`` at an x that is held
fixed, ``x + A^-1 r`` is the solution to first order in everything that r depends on, b and whatever
the function has in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from trnsci.core.errors import DerivativeError

__all__ = ["dense_solution", "differentiated", "operator_solution"]

Solve = Callable[[Tensor], Tensor]
DenseSolve = Callable[[Tensor, Tensor], Tensor]


def differentiated(*values: Any) -> bool:
    """Return whether a derivative by one of these tensors may be asked for."""
    if forward_ad._current_level >= 0 or torch._C._functorch.maybe_current_level() is not None:
        return True
    if not torch.is_grad_enabled():
        return False
    return any(value.requires_grad for value in values if isinstance(value, Tensor))


def dense_solution(A: Tensor, b: Tensor, x: Tensor, solve: DenseSolve) -> Tensor:
    """Return x with the derivatives of the solution of ``A x = b`` by vectors.

    Args:
        A: Matrices.
        b: Right sides (..., n).
        x: Solutions, without derivatives.
        solve: ``solve(A, b)`` returns solutions, with derivatives.
    """
    found: Tensor = _Dense.apply(A, b, x, solve)  # type: ignore[no-untyped-call]
    return found


def operator_solution(
    function: str, x: Tensor, b: Tensor, image: Tensor, solve: Solve, solve_turned: Solve
) -> Tensor:
    """Return x with the first derivatives of the solution, and by b with all of them.

    Args:
        function: Whose solution it is.
        x: The solution, without derivatives.
        b: The right side, with derivatives.
        image: ``A x``, with the derivatives of what A has in it.
        solve: Returns the solution of A for a right side.
        solve_turned: The same for the conjugate transpose of A.
    """
    tracked = function if image.requires_grad else ""
    found: Tensor = _Operator.apply(b - image, x, solve, solve_turned, tracked)  # type: ignore[no-untyped-call]
    return found


class _Dense(torch.autograd.Function):
    @staticmethod
    def forward(A: Tensor, b: Tensor, x: Tensor, solve: DenseSolve) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        A, b, _, ctx.solve = inputs
        ctx.save_for_backward(A, output)
        ctx.save_for_forward(A, output)
        ctx.sides = b.shape

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        A, x = ctx.saved_tensors
        y = ctx.solve(A.mH, grad)
        for_a = None
        if ctx.needs_input_grad[0]:
            for_a = (-y.unsqueeze(-1) * x.conj().unsqueeze(-2)).sum_to_size(A.shape)
        return for_a, y.sum_to_size(ctx.sides), None, None

    @staticmethod
    def jvp(ctx: Any, of_a: Tensor | None, of_b: Tensor | None, *others: Any) -> Tensor:
        A, x = ctx.saved_tensors
        right = torch.zeros_like(x) if of_b is None else of_b
        if of_a is not None:
            right = right - (of_a @ x.unsqueeze(-1)).squeeze(-1)
        found: Tensor = ctx.solve(A, right)
        return found


class _Operator(torch.autograd.Function):
    @staticmethod
    def forward(
        residual: Tensor, x: Tensor, solve: Solve, solve_turned: Solve, tracked: str
    ) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, _, ctx.solve, ctx.solve_turned, ctx.tracked = inputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.tracked and torch.is_grad_enabled():
            # How x moves with A is not in the image of x: second derivatives would lack that.
            raise DerivativeError(
                f"{ctx.tracked}: of what a function for A has in it there are first derivatives "
                f"only; give A as a tensor, or take gradients without create_graph"
            )
        return ctx.solve_turned(grad), None, None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *others: Any) -> Tensor:
        found: Tensor = ctx.solve(tangent)
        return found
