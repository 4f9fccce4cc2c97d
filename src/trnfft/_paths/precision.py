"""How exactly transforms are computed: three levels, and the older names that mean one of them.

========== ===================================================== ==============================
level      on a kernel                                           on torch
========== ===================================================== ==============================
``fast``   bfloat16 operands, float32 accumulation               as ``fp32``
``fp32``   float32 throughout; the default                       in the dtype of the input
``double`` no kernel: float64 on the host, then rounded          in float64, then rounded
========== ===================================================== ==============================

``fast`` is a permission, not a demand: torch has nothing to gain from bfloat16, so there the result
is the better one. Integers, float16 and bfloat16 are computed in float32 at least on every level.

The level chosen with ``set_precision`` holds for the process, the one chosen with ``with
precision(...)`` for the current thread or task.
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
    "set_ozaki_product_precision_verified",
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
"""Names of older releases. Each means the level that is at least as exact as it promised to be."""

_LEVELS: dict[str, Level] = {**{name: name for name in get_args(Level)}, **ALIASES}


MODE = Setting("trnfft.precision", "fp32")
"""The mode, by the name that was used."""


def set_precision(mode: str) -> None:
    """Choose the precision for the process; inside a ``with precision`` block, for that block.

    Args:
        mode: ``"fast"``, ``"fp32"`` or ``"double"``; or an older name: ``"bf16"``, which is
            ``fast``, and ``"bf16_refined"``, ``"kahan"``, ``"ozaki"``, ``"ozaki_hq"``: ``fp32``.

    Raises:
        FlagError: The mode is none of these. It is a ``ValueError``.
    """
    _check("set_precision", mode)
    MODE.set(mode)


def get_precision() -> str:
    """Return the mode that was asked for, by the name that was used; ``"fp32"`` if none was."""
    return MODE.get()


def precision(mode: str) -> AbstractContextManager[None]:
    """Choose the precision inside a ``with`` block, for the current thread or task only.

    Raises:
        FlagError: The mode is none of the accepted ones.
    """
    _check("precision", mode)
    return MODE.scope(mode)


def level() -> Level:
    """Return the level that a transform made now is computed on."""
    return _LEVELS[MODE.get()]


def set_ozaki_product_precision_verified(verified: bool = True) -> None:
    """Do nothing: kept for callers of older releases.

    It allowed the modes ``ozaki`` and ``ozaki_hq``, which here are names of ``fp32`` and need no
    permission.

    Raises:
        FlagError: ``verified`` is not a bool.
    """
    if not isinstance(verified, bool):
        raise FlagError(
            f"set_ozaki_product_precision_verified: verified must be a bool, got {verified!r}"
        )


def _check(function: str, mode: str) -> None:
    if mode not in _LEVELS:
        raise FlagError(f"{function}: got {mode!r}, accepted: {', '.join(_LEVELS)}")
