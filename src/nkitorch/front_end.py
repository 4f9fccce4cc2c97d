"""Whether calls of kernels go through torch's operators, and by which function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nkisim.api import Kernel
from nkitorch.launch import launch

_FUNCTION: list[Callable[..., Any]] = [launch]


def enable() -> None:
    """Direct the calls of all kernels to torch, from now on."""
    Kernel.front_end = staticmethod(_FUNCTION[0])


def disable() -> None:
    """Undo ``enable``; the device and the operators stay."""
    Kernel.front_end = None


def is_enabled() -> bool:
    """Return whether calls of kernels go through torch's operators."""
    return Kernel.front_end is not None


def replace(function: Callable[..., Any]) -> None:
    """Use another form of ``launch``, that of the compiler."""
    _FUNCTION[0] = function
    if is_enabled():
        enable()
