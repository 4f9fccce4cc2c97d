"""Precision of transforms: three levels, and aliases from older releases.

========== ===================================================== ==============================
level      on a kernel                                           on torch
========== ===================================================== ==============================
``fast``   bfloat16 operands, float32 accumulation               as ``fp32``
``fp32``   float32 throughout; the default                       in the dtype of the input
``double`` no kernel: float64 on the host, then rounded          in float64, then rounded
========== ===================================================== ==============================

``fast`` allows bfloat16 but does not require it: on torch it would not be faster, so float32 is
used. Integers, float16 and bfloat16 are computed in at least float32 on every level.

``set_precision`` applies to the process, ``with precision(...)`` to the current thread or task.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal, get_args

from trnsci.core.backend.setting import Setting
from trnsci.core.errors import FlagError

__all__ = [
    "ALIASES",
    "MODE",
    "Level",
    "get_precision",
    "level",
    "precision",
    "set_precision",
]

Level = Literal["fast", "fp32", "double"]

ALIASES: dict[str, Level] = {
    "bf16": "fast",
    "bf16_refined": "fp32",
    "kahan": "fp32",
    "ozaki": "fp32",
    "ozaki_hq": "fp32",
}
"""Aliases from older releases. Each selects a level at least as accurate as it was there."""

_LEVELS: dict[str, Level] = {**{name: name for name in get_args(Level)}, **ALIASES}


MODE = Setting("trnfft.precision", "fp32")
"""The mode, under the name given by the user."""


def set_precision(mode: str) -> None:
    """Set the precision of the process, or of the enclosing ``with precision`` block.

    Args:
        mode: ``"fast"``, ``"fp32"`` or ``"double"``; or an alias: ``"bf16"`` for ``fast``, and
            ``"bf16_refined"``, ``"kahan"``, ``"ozaki"``, ``"ozaki_hq"`` for ``fp32``.

    Raises:
        FlagError: The mode is not one of these. It is a ``ValueError``.
    """
    _check("set_precision", mode)
    MODE.set(mode)


def get_precision() -> str:
    """Return the current mode, under the name it was set by; ``"fp32"`` by default."""
    return MODE.get()


def precision(mode: str) -> AbstractContextManager[None]:
    """Set the precision inside a ``with`` block, for the current thread or task only.

    Raises:
        FlagError: The mode is not valid.
    """
    _check("precision", mode)
    return MODE.scope(mode)


def level() -> Level:
    """Return the current level."""
    return _LEVELS[MODE.get()]


def _check(function: str, mode: str) -> None:
    if mode not in _LEVELS:
        raise FlagError(f"{function}: got {mode!r}, accepted: {', '.join(_LEVELS)}")
