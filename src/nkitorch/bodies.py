"""Bodies of ``nki_op`` operators that are running: what their kernels write, against the schema."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

from torch import Tensor

import nkisim
from nkisim.diagnostics import user_stacklevel


class _Body:
    """One running body.

    Attributes:
        operator: Name of the operator.
        arguments: Its tensors by the name of the parameter.
        mutates: The parameters that the schema declares as written.
    """

    def __init__(self, operator: str, arguments: dict[str, Any], mutates: frozenset[str]) -> None:
        self.operator, self.arguments, self.mutates = operator, arguments, mutates

    def argument_of(self, tensor: Tensor) -> str:
        """Return the parameter that a tensor is, empty for another tensor."""
        for name, value in self.arguments.items():
            parts = value if isinstance(value, (list, tuple)) else [value]
            if any(part is tensor for part in parts):
                return name
        return ""


_RUNNING: ContextVar[_Body | None] = ContextVar("body", default=None)


def note_write(kernel: str, tensor: Tensor) -> None:
    """Warn if the running body does not declare that it writes this tensor."""
    body = _RUNNING.get()
    name = body.argument_of(tensor) if body else ""
    if body and name and name not in body.mutates:
        warnings.warn(
            f"nki_op {body.operator}: kernel {kernel} writes argument {name}, which mutates_args "
            "does not have; compiled graphs and autograd take it for unchanged",
            nkisim.NkiFindingWarning,
            stacklevel=user_stacklevel(),
        )


@contextmanager
def _running(body: _Body) -> Iterator[None]:
    token = _RUNNING.set(body)
    try:
        yield
    finally:
        _RUNNING.reset(token)


def body_of(name: str, function: Callable[..., Any], mutates: frozenset[str]) -> Callable[..., Any]:
    """Return a function as the body of an operator.

    An operator may not return its argument: such a result is a copy.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def body(*args: Any, **kwargs: Any) -> Any:
        given = dict(signature.bind(*args, **kwargs).arguments)
        with _running(_Body(name, given, mutates)):
            result = function(*args, **kwargs)
        inputs = [part for part in given.values() if isinstance(part, Tensor)]

        def own(part: Any) -> Any:
            return part.clone() if any(part is other for other in inputs) else part

        if isinstance(result, (list, tuple)):
            return type(result)(map(own, result))
        return own(result)

    return body
