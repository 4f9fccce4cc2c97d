"""Functions that torch.compile does not trace: SciPy computes them, or steps depend on values."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch.compiler import is_compiling

from trnsci.core.errors import FlagError
from trnsci.core.interop import compiler_loaded

__all__ = ["STEPS", "untraced"]

STEPS = "the number of its steps depends on values"
"""The reason of iterative methods."""

P = ParamSpec("P")
T = TypeVar("T")


def untraced(
    name: str, reason: str = "it is computed outside of torch"
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator of functions that break a graph, and are errors in a full graph.

    None of the functions that they call is traced.

    Args:
        name: The public function, for messages.
        reason: Why it is no part of a graph, for messages.

    Raises:
        FlagError: A full graph is traced, as by ``torch.compile(fullgraph=True)`` or by
            ``torch.export``.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        disabled: list[Callable[P, T]] = []

        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> T:
            if is_compiling():
                raise FlagError(
                    f"{name}: cannot be part of a compiled graph, since {reason}; call it before, "
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
