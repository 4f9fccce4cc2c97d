"""Derivatives of the solution of ``A x = b`` by implicit differentiation.

A tangent of x solves ``A Tx = Tb - TA x``. For a gradient g of x, the gradient of b is the solution
y of ``A^H y = g``, and that of the data of A is the pullback of ``-A x`` applied to y. Each takes
one more system; the steps of the iteration are not differentiated. The systems are solved by the
same function, so that derivatives can be differentiated too.

If A is a function, its entries are not available. With ``r = b - A x`` at a fixed x, ``x + A^-1 r``
is the solution to first order in everything that r depends on: b, and the function's captures.

Inside ``torch.func``, values are read below the transforms that differentiate, and the entries of a
batch of ``vmap`` are solved one by one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from trnsci.core.backend.fallback import callers_level
from trnsci.core.backend.setting import restored, snapshot
from trnsci.core.errors import ConvergenceWarning, DerivativeError, FlagError
from trnsci.core.interop import (
    forward_level,
    is_wrapped,
    transform_level,
    unwrapped,
    with_forward_mode,
    without_transforms,
)
from trnsci.core.numbers.values import one_cotangent

Solve = Callable[[Tensor], Tensor]

_unpack_dual: Any = forward_ad.unpack_dual


def differentiated(*values: Any) -> bool:
    """Return whether a derivative with respect to one of these tensors may be taken."""
    if forward_level() >= 0 or transform_level() is not None:
        return True
    if not torch.is_grad_enabled():
        return False
    return any(value.requires_grad for value in values if isinstance(value, Tensor))


def values_of(
    function: str,
    tensor: Tensor,
    batched: str = "A is a function that captures a tensor over which vmap runs; give A as a "
    "matrix",
) -> Tensor:
    """Return a tensor without the transforms of ``torch.func`` that differentiate it.

    Args:
        function: The public function, for messages.
        tensor: The tensor.
        batched: The message for a batch of ``vmap``.

    Raises:
        FlagError: It is an entry of a batch of ``vmap``, which has no values of its own.
    """
    while is_wrapped(tensor):
        below = unwrapped(tensor)
        if below.shape != tensor.shape:
            raise FlagError(f"{function}: {batched}")
        tensor = below
    return tensor


@dataclass(frozen=True)
class Rules:
    """A linear system whose matrix is given by a tensor of data.

    Attributes:
        compute: ``compute(data, b, start)`` returns the solution without derivatives.
        solve: ``solve(data, b)`` returns the solution with derivatives.
        solve_adjoint: ``solve_adjoint(data, b)`` solves with the conjugate transpose of the matrix.
        image: ``image(data, x)`` returns the product of matrix and x, linear in both arguments.
        failure: Returns why the method has not converged, or "".
    """

    compute: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    solve: Callable[[Tensor, Tensor], Tensor]
    solve_adjoint: Callable[[Tensor, Tensor], Tensor]
    image: Callable[[Tensor, Tensor], Tensor]
    failure: Callable[[], str]


def matrix_solution(data: Tensor, b: Tensor, start: Tensor | None, rules: Rules) -> Tensor:
    """Return the solution with derivatives of every order by the data and by b."""
    found: Tensor = _Matrix.apply(data, b, start, rules)  # type: ignore[no-untyped-call]
    return found


def operator_run(
    function: str, b: Tensor, start: Tensor | None, image: Solve, compute: Callable[..., Tensor]
) -> Tensor:
    """Return ``compute(b, start)`` without derivatives, for each entry of a batch of ``vmap``.

    Args:
        function: The public function, for messages.
        b: The right side, inside of transforms of ``torch.func``.
        start: The starting vector, or None.
        image: ``x -> A x``.
        compute: Returns the solution for values.

    Raises:
        FlagError: A captures a tensor over which ``vmap`` runs.
        DerivativeError: Differentiating transforms are nested, and A captures a tensor, which has
            first derivatives only.
    """
    with without_transforms():
        zeros = torch.zeros(b.shape, dtype=b.dtype, device=b.device)
    captured = image(zeros)
    values_of(function, captured)
    if is_wrapped(captured) and is_wrapped(unwrapped(captured)):
        raise _first_only(function)
    found: Tensor = b
    while is_wrapped(found):
        below = unwrapped(found)
        if below.shape != found.shape:
            found = _Run.apply(b, start, compute)  # type: ignore[no-untyped-call]
            return found
        found = below
    return compute(found, start)


def operator_solution(
    function: str,
    x: Tensor,
    b: Tensor,
    image: Tensor,
    solve: Solve,
    solve_adjoint: Solve,
    failure: Callable[[], str],
) -> Tensor:
    """Return x with the first derivatives of the solution, and by b with all of them.

    Args:
        function: The public function, for messages.
        x: The solution, without derivatives.
        b: The right side, with derivatives.
        image: ``A x``, with the derivatives of the tensors that A captures.
        solve: ``solve(b)`` returns the solution of ``A x = b``.
        solve_adjoint: ``solve_adjoint(b)`` returns the solution of ``A^H x = b``.
        failure: Returns why x is not the solution, or "".
    """
    base = image
    while is_wrapped(base):
        base = unwrapped(base)
    tracked = function if base.requires_grad else ""
    rules = solve, solve_adjoint, failure, tracked
    found: Tensor = _Operator.apply(b - image, x, *rules)  # type: ignore[no-untyped-call]
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
        ctx.settings = snapshot()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        one_cotangent("an iterative solution", grad)
        data, x = ctx.saved_tensors
        _warn(ctx.rules.failure())
        for_data = None
        with restored(ctx.settings):
            y = ctx.rules.solve_adjoint(data, grad)
            if ctx.needs_input_grad[0]:
                (for_data,) = torch.func.vjp(lambda d: ctx.rules.image(d, x), data)[1](-y)
        return for_data, y.sum_to_size(ctx.sides), None, None

    @staticmethod
    def jvp(ctx: Any, of_data: Tensor | None, of_b: Tensor | None, *others: Any) -> Tensor:
        # Outer derivatives are needed here, and the tangents of this level are not.
        with restored(ctx.settings), with_forward_mode(True):
            data, x = (_unpack_dual(saved)[0] for saved in ctx.saved_tensors)
            right = torch.zeros_like(x) if of_b is None else of_b
            if of_data is not None:
                right = right - ctx.rules.image(of_data, x)
            found: Tensor = ctx.rules.solve(data, right)
        return found

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        return _each(_Matrix, info.batch_size, in_dims, inputs), 0


class _Run(torch.autograd.Function):
    @staticmethod
    def forward(b: Tensor, start: Tensor | None, compute: Callable[..., Tensor]) -> Tensor:
        return compute(b, start)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, ...]:
        return None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        return _each(_Run, info.batch_size, in_dims, inputs), 0


class _Operator(torch.autograd.Function):
    @staticmethod
    def forward(
        residual: Tensor,
        x: Tensor,
        solve: Solve,
        solve_adjoint: Solve,
        failure: Callable[[], str],
        tracked: str,
    ) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, _, ctx.solve, ctx.solve_adjoint, ctx.failure, ctx.tracked = inputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.tracked and torch.is_grad_enabled():
            # The image has no derivative of x with respect to A: second derivatives would be wrong.
            raise _first_only(ctx.tracked)
        one_cotangent("an iterative solution", grad)
        _warn(ctx.failure())
        return ctx.solve_adjoint(grad), None, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *others: Any) -> Tensor:
        found: Tensor = ctx.solve(tangent)
        return found

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        return _each(_Operator, info.batch_size, in_dims, inputs), 0


def _each(node: Any, size: int, in_dims: Sequence[Any], inputs: Sequence[Any]) -> Tensor:
    """Return the results of a node for the entries of a batch, along the first dimension."""
    moved = [
        value if dim is None else value.movedim(dim, 0)
        for value, dim in zip(inputs, in_dims, strict=True)
    ]
    return torch.stack(
        [
            node.apply(*(v if d is None else v[i] for v, d in zip(moved, in_dims, strict=True)))
            for i in range(size)
        ]
    )


def _first_only(function: str) -> DerivativeError:
    return DerivativeError(
        f"{function}: what a function for A captures has first derivatives only; give A as a "
        f"matrix, or take gradients without create_graph"
    )


def _warn(failure: str) -> None:
    """Warn about derivatives of a vector that is not the solution."""
    if failure:
        warnings.warn(
            f"{failure}: its derivatives are those of the exact solution, of which it is not an "
            f"approximation",
            ConvergenceWarning,
            stacklevel=callers_level(),
        )
