"""The ladder of precision that all libraries share.

=============== ===============================================================================
level           arithmetic of products and sums
=============== ===============================================================================
``bfloat16``    bfloat16 operands, float32 sums
``float16x3``   three float16 products with scaling, float32 sums
``float32``     float32; the default
``doublefloat`` pairs of float32 on a NeuronCore, float64 on torch: thirteen digits
=============== ===============================================================================

A level promises a bound on errors, not bits: where a library has no kernel of a level, a more
accurate one or torch computes. float64 operands are computed in float64 by torch on every level.

``with trnsci.precision(level)`` and ``with library.precision(level)`` apply to the current thread
or task, and the innermost block counts. Outside of blocks, a library's ``set_precision`` takes
precedence over ``trnsci.set_precision``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Literal, get_args

from trnsci.core.backend.setting import Setting
from trnsci.core.errors import FlagError

PrecisionLevel = Literal["bfloat16", "float16x3", "float32", "doublefloat"]
LEVELS: tuple[str, ...] = get_args(PrecisionLevel)

_SUITE = ""

CHOSEN: Setting[Mapping[str, str]] = Setting("trnsci.precision", {_SUITE: "float32"})
"""The level of the suite, and the names that libraries have set for themselves, by library."""


def check_level(function: str, name: object, accepted: tuple[str, ...] = LEVELS) -> None:
    """Raise FlagError unless ``name`` is accepted as a precision."""
    if not isinstance(name, str) or name not in accepted:
        raise FlagError(f"{function}: got precision {name!r}, accepted: {', '.join(accepted)}")


def chosen_by(library: str) -> str:
    """Return the name of the precision that applies to a library."""
    chosen = CHOSEN.get()
    return chosen.get(library) or chosen[_SUITE]


def chosen_with(library: str, name: str) -> Mapping[str, str]:
    """Return the setting with another precision for one library."""
    return {**CHOSEN.get(), library: name}


def precision(level: str) -> AbstractContextManager[None]:
    """Set the precision of all libraries inside a ``with`` block, for the current thread or task.

    Args:
        level: ``"bfloat16"``, ``"float16x3"``, ``"float32"`` or ``"doublefloat"``.

    Raises:
        FlagError: The level is not one of these. It is a ``ValueError``.
    """
    check_level("trnsci.precision", level)
    return CHOSEN.scope({_SUITE: level})


def set_precision(level: str) -> None:
    """Set the precision of all libraries for which no precision has been set.

    Applies to the process; inside a ``with precision`` block, to that block.

    Args:
        level: ``"bfloat16"``, ``"float16x3"``, ``"float32"`` or ``"doublefloat"``.

    Raises:
        FlagError: The level is none of the four.
    """
    check_level("trnsci.set_precision", level)
    CHOSEN.set(chosen_with(_SUITE, level))


def get_precision() -> str:
    """Return the precision of libraries for which none has been set; ``"float32"`` by default."""
    return chosen_by(_SUITE)
