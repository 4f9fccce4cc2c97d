"""Validation of the arguments of point sets; errors name the function and the argument."""

from __future__ import annotations

from typing import SupportsIndex

import torch

from trnrand.errors import DTypeError, FlagError, ParameterError
from trnsci.core import arguments

#: Number of dimensions with published direction numbers (Joe and Kuo, 2008).
MAX_DIMS = 21201

#: Significant bits of each dtype of points.
DTYPES = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


def whole(
    function: str, name: str, value: SupportsIndex | None, least: int, most: int | None = None
) -> int:
    """Return ``value`` as an int; raise unless it is an integer from ``least`` to ``most``."""
    return arguments.whole(function, name, value, least, most, ParameterError)


def given_once(
    function: str, name: str, value: SupportsIndex | None, alias: str, other: SupportsIndex | None
) -> SupportsIndex:
    """Return the argument or its alias; raise unless exactly one of them is given."""
    if (value is None) == (other is None):
        number = "neither" if value is None else "both"
        raise FlagError(f"{function}: give either {name} or its alias {alias}, got {number}")
    chosen = other if value is None else value
    assert chosen is not None
    return chosen


def floating(function: str, dtype: torch.dtype) -> int:
    """Return the significant bits of a dtype; raise if points cannot have it."""
    if dtype not in DTYPES:
        accepted = ", ".join(str(known) for known in DTYPES)
        raise DTypeError(f"{function}: dtype must be one of {accepted}, got {dtype}")
    return DTYPES[dtype]
