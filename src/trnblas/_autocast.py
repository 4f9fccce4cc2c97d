"""Automatic mixed precision, which leaves BLAS alone: a result has the dtype of its operands.

torch would compute some of the routines in a lower precision and not others, depending on which of
its functions, or SciPy's, they are made of.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

__all__ = ["keeps_dtype"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

# The public question is about one type of device, and takes three times as long.
_any_autocast: Callable[[], bool] = torch._C._is_any_autocast_enabled


def keeps_dtype(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return the function as it is outside of autocast."""

    @wraps(function)
    def kept(*args: _P.args, **options: _P.kwargs) -> _R:
        if not _any_autocast():
            return function(*args, **options)
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            return function(*args, **options)

    return kept
