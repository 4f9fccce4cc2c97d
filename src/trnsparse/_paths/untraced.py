"""Functions that torch.compile does not trace, since SciPy or NumPy computes them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch.compiler import is_compiling

from trnsci.core.errors import FlagError

__all__ = ["untraced"]

P = ParamSpec("P")
T = TypeVar("T")


def untraced(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator of functions that break a graph, and are errors in a full graph.

    None of the functions that they call is traced.

    Args:
        name: The public function, for messages.

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
                    f"{name}: is computed outside of torch, so it cannot be part of a compiled "
                    f"graph; call it before, or compile without fullgraph=True"
                )
            if "torch._dynamo" not in sys.modules:  # the compiler, which ``disable`` would import
                return function(*args, **options)
            if not disabled:
                disable: Any = torch.compiler.disable
                disabled.append(disable(function))
            return disabled[0](*args, **options)

        return call

    return decorate
