"""Derivatives of the solution of ``A x = b`` by implicit differentiation.

A tangent of x solves ``A Tx = Tb - TA x``, and a gradient g of x pulls back to y for b and to that
of ``-A x`` at y for the data of A, with ``A^H y = g``: one more system each; the steps of the
iteration are not differentiated. The systems are solved by the same function again, so that the
derivatives can be differentiated too.

If A is a function, its entries are not available. With ``r = b - A x`` at a fixed x, ``x + A^-1 r``
is the solution to first order in everything that r depends on: b, and the function's captures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trnsci.core.errors import DerivativeError, FlagError
from trnsci.core.interop import forward_level, transform_level

__all__ = ["Rules", "differentiated", "matrix_solution", "operator_solution"]

Solve = Callable[[Tensor], Tensor]


def differentiated(*values: Any) -> bool:
    """Return whether a derivative with respect to one of these tensors may be taken."""
    if forward_level() >= 0 or transform_level() is not None:
        return True
    if not torch.is_grad_enabled():
        return False
    return any(value.requires_grad for value in values if isinstance(value, Tensor))


@dataclass(frozen=True)
class Rules:
    """A linear system whose matrix is given by a tensor of data.

    Attributes:
        compute: ``compute(data, b, start)`` returns the solution without derivatives.
        solve: ``solve(data, b)`` returns the solution with derivatives.
        solve_adjoint: The same for the conjugate transpose of the matrix.
        image: ``image(data, x)`` returns the product, linear in both.
    """

    compute: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    solve: Callable[[Tensor, Tensor], Tensor]
    solve_adjoint: Callable[[Tensor, Tensor], Tensor]
    image: Callable[[Tensor, Tensor], Tensor]


def matrix_solution(data: Tensor, b: Tensor, start: Tensor | None, rules: Rules) -> Tensor:
    """Return the solution with derivatives of every order by the data and by b."""
    found: Tensor = _Matrix.apply(data, b, start, rules)  # type: ignore[no-untyped-call]
    return found


def operator_solution(
    function: str, x: Tensor, b: Tensor, image: Tensor, solve: Solve, solve_adjoint: Solve
) -> Tensor:
    """Return x with the first derivatives of the solution, and by b with all of them.

    Args:
        function: The public function, for messages.
        x: The solution, without derivatives.
        b: The right side, with derivatives.
        image: ``A x``, with the derivatives of the tensors that A captures.
        solve: Returns the solution of A for a right side.
        solve_adjoint: The same for the conjugate transpose of A.
    """
    tracked = function if image.requires_grad else ""
    found: Tensor = _Operator.apply(b - image, x, solve, solve_adjoint, tracked)  # type: ignore[no-untyped-call]
    return found


class _Matrix(torch.autograd.Function):
    @staticmethod
    def forward(data: Tensor, b: Tensor, start: Tensor | None, rules: Rules) -> Tensor:
        # torch.func passes tensors below its transforms here, whose values can be read.
        return rules.compute(data, b, start)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        data, b, _, ctx.rules = inputs
        ctx.save_for_backward(data, output)
        ctx.save_for_forward(data, output)
        ctx.sides = b.shape

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        data, x = ctx.saved_tensors
        y = ctx.rules.solve_adjoint(data, grad)
        for_data = None
        if ctx.needs_input_grad[0]:
            (for_data,) = torch.func.vjp(lambda d: ctx.rules.image(d, x), data)[1](-y)
        return for_data, y.sum_to_size(ctx.sides), None, None

    @staticmethod
    def jvp(ctx: Any, of_data: Tensor | None, of_b: Tensor | None, *others: Any) -> Tensor:
        data, x = ctx.saved_tensors
        right = torch.zeros_like(x) if of_b is None else of_b
        if of_data is not None:
            right = right - ctx.rules.image(of_data, x)
        found: Tensor = ctx.rules.solve(data, right)
        return found

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> Any:
        raise FlagError(
            "iterative methods do not run under vmap: the number of steps depends on values"
        )


class _Operator(torch.autograd.Function):
    @staticmethod
    def forward(
        residual: Tensor, x: Tensor, solve: Solve, solve_adjoint: Solve, tracked: str
    ) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, _, ctx.solve, ctx.solve_adjoint, ctx.tracked = inputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.tracked and torch.is_grad_enabled():
            # The image has no derivative of x with respect to A: second derivatives would be wrong.
            raise DerivativeError(
                f"{ctx.tracked}: what a function for A captures has first derivatives only; give A "
                f"as a matrix, or take gradients without create_graph"
            )
        return ctx.solve_adjoint(grad), None, None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *others: Any) -> Tensor:
        found: Tensor = ctx.solve(tangent)
        return found
