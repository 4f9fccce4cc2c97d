"""Functions that read values of tensors: when they can, checks for NaN, and graphs without them.

Where values cannot be read, such as in ``torch.compile``, ``vmap`` and with fake tensors, they are
assumed to be finite and of magnitude 1.
"""

from __future__ import annotations

from cmath import isfinite
from collections.abc import Callable
from functools import wraps
from math import frexp
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.compiler import is_compiling
from torch.nn import Parameter

from trnsci.core.errors import DerivativeError, FlagError, NotFiniteError
from trnsci.core.interop import (
    compiler_loaded,
    dispatch_modes,
    forward_level,
    is_batched,
    is_batched_cotangent,
    is_wrapped,
    transform_level,
    unwrapped,
)

_PLAIN = (Tensor, Parameter)

recorded: Callable[[], bool] = torch.jit.is_tracing  # type: ignore[attr-defined]
"""Whether ``torch.jit.trace`` records: results computed outside of torch would be constants."""


def autocast_on(*tensors: Tensor) -> bool:
    """Return whether autocast is on for the device of one of these tensors.

    False for meta tensors: torch has no autocast for them.
    """
    seen = ""
    for tensor in tensors:
        kind = tensor.device.type
        if kind != seen and not tensor.is_meta and torch.is_autocast_enabled(kind):
            return True
        seen = kind
    return False


def shapes_are_static() -> bool:
    """Return whether shapes must not depend on values: in graphs, and of fake tensors."""
    return torch.compiler.is_compiling() or bool(dispatch_modes())


def concrete(*tensors: Tensor) -> bool:
    """Return whether the values of these tensors can be read on the host.

    False under ``torch.compile``, ``torch.export``, ``torch.jit.trace``, fake tensor modes and
    transforms of ``torch.func``, and for subclasses of ``Tensor`` and meta tensors. The tensors may
    require gradients and may be on any device.
    """
    if torch.compiler.is_dynamo_compiling():  # torch.export has fake tensors if it does not use it
        return False
    for tensor in tensors:
        if type(tensor) not in _PLAIN or tensor.is_meta:
            return False
    return transform_level() is None and not dispatch_modes() and not recorded()


def inert(*tensors: Tensor) -> bool:
    """Return whether an operation on these tensors may be computed outside of torch.

    True if they are ``concrete`` and neither autograd, forward mode nor autocast applies.
    """
    if not concrete(*tensors) or autocast_on(*tensors) or forward_level() >= 0:
        return False
    for tensor in tensors:
        if tensor.requires_grad:
            return not torch.is_grad_enabled()
    return True


def batched(tensor: Tensor) -> bool:
    """Return whether ``torch.vmap`` runs over a tensor, inside of other transforms or outside."""
    while is_wrapped(tensor):
        if is_batched(tensor):
            return True
        tensor = unwrapped(tensor)
    return False


def one_problem(function: str, *tensors: Tensor, instead: str = "") -> None:
    """Raise for tensors of ``torch.vmap``, in a function whose steps depend on their values.

    Args:
        function: The function, for the message.
        *tensors: Its operands.
        instead: What to do instead, for the message.
    """
    if torch.compiler.is_compiling() or transform_level() is None:
        return
    if any(map(batched, tensors)):
        raise DerivativeError(
            f"{function}: torch.vmap has no values for steps that depend on them"
            f"{instead and '; '}{instead}"
        )


def one_cotangent(function: str, *grads: Tensor | None) -> None:
    """Raise where torch passes several cotangents at once to the backward of a function.

    Raises:
        DerivativeError: The gradients are batched.
    """
    if any(grad is not None and is_batched_cotangent(grad) for grad in grads):
        raise DerivativeError(
            f"{function}: is_grads_batched and vectorize must be False, since the backward takes "
            f"one cotangent at a time; torch.func.jacrev takes several"
        )


def readable(function: str, name: str, *values: Tensor) -> None:
    """Raise if a function that depends on values is traced, compiled or batched by ``vmap``.

    Raises:
        FlagError: The values cannot be read.
    """
    hidden = torch.compiler.is_compiling() or recorded()
    if hidden or any(value.is_meta or batched(value) for value in values):
        raise FlagError(
            f"{function}: the values of {name} are read, which is not possible while a call is "
            f"traced, compiled or batched by vmap"
        )


def finite(function: str, name: str, value: Tensor) -> None:
    """Raise if an element is NaN or infinite.

    Args:
        function: The function, for messages.
        name: The argument, for messages.
        value: The tensor to check.

    Raises:
        NotFiniteError: An element is NaN or infinite.
    """
    if not only_finite(value):
        raise NotFiniteError(f"{function}: {name} must be finite, got NaN or infinity")


def only_finite(value: Tensor) -> bool:
    """Return whether every element is finite; True where values cannot be read."""
    if not concrete(value):
        return True
    plain = value.detach()
    # A sum is NaN or infinite if a term is. Finite terms may overflow, so then each is checked.
    return isfinite(plain.sum().item()) or bool(torch.isfinite(plain).all())


def power_below(value: Tensor) -> float:
    """Return the power of two at or below the largest real or imaginary part, 1 for zeros.

    Division by it is exact, and the squares of the quotients neither overflow nor underflow.
    """
    if not value.numel() or not concrete(value):
        return 1.0
    parts = value.detach()
    if parts.is_complex():  # a modulus may overflow
        parts = torch.view_as_real(parts.resolve_conj())
    peak = float(parts.abs().max())
    return 2.0 ** (frexp(peak)[1] - 1) if peak > 0 else 1.0


STEPS = "the number of its steps depends on values"
"""The reason of iterative methods."""

P = ParamSpec("P")
T = TypeVar("T")


def untraced(
    reason: str = "it is computed outside of torch", name: str = ""
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that excludes a function from graphs of ``torch.compile``.

    A call of the decorated function breaks the graph, or raises where no break is allowed. The
    compiler traces neither the function nor what it calls.

    Args:
        reason: Why it is no part of a graph, for messages.
        name: What is no part of it, for messages; the decorated function if not given.

    Raises:
        FlagError: A full graph is traced, as by ``torch.compile(fullgraph=True)`` or by
            ``torch.export``.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        disabled: list[Callable[P, T]] = []
        shown = name or function.__qualname__

        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> T:
            if is_compiling():
                raise FlagError(
                    f"{shown}: cannot be part of a compiled graph, since {reason}; call it before, "
                    f"or compile without fullgraph=True"
                )
            if not compiler_loaded():  # ``disable`` would import the compiler
                return function(*args, **options)
            if not disabled:
                disable: Any = torch.compiler.disable
                disabled.append(disable(function))
            return disabled[0](*args, **options)

        return call

    return decorate
