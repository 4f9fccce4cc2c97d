"""The level of precision of a call: its argument, or the setting of the library."""

from __future__ import annotations

import torch
from torch import Tensor

from trnblas._library import LIBRARY
from trnsci.core.backend.precision import CHOSEN, PrecisionLevel, check_level
from trnsci.core.errors import DTypeError

_REAL = (torch.float32, torch.float64)


def level_name(function: str, precision: PrecisionLevel | None, operand: Tensor) -> PrecisionLevel:
    """Return the level of a call: that of the argument, else that of the library.

    Other dtypes than float32 and float64 have one level, their own arithmetic, which is returned as
    ``"float32"``.

    Raises:
        FlagError: The level is unknown.
        DTypeError: The dtype has no such level.
    """
    if precision is None and not CHOSEN.used:
        return "float32"
    name = LIBRARY.level() if precision is None else precision
    check_level(function, name)
    if operand.dtype in _REAL:
        return name
    if name != "doublefloat" if operand.is_complex() else precision is None:
        return "float32"
    raise DTypeError(
        f"{function}: precision={name!r} takes torch.float32 and torch.float64, got {operand.dtype}"
    )
