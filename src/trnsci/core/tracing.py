"""Functions whose results torch.compile takes as constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["constant_to_compile"]

_F = TypeVar("_F", bound=Callable[..., Any])


def constant_to_compile(function: _F) -> _F:
    """Mark a function whose result for given arguments does not change while a process lives.

    It is what ``torch.compiler.assume_constant_result`` does, which imports all of the compiler
    for it: a second that users of the libraries would wait for.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
