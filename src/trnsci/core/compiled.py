"""Loops compiled by numba, which is optional: every one has a way without it beside it.

A loop is compiled once for all processes where numba can keep what it compiled: beside the module,
or in the user's cache folder. Only functions of a module can be kept: what a function made inside
another one closes over differs from process to process.

Importing this module does not import numba; asking for a loop does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

__all__ = ["compiled_loop", "numba_installed", "numba_loaded"]


def numba_loaded() -> bool:
    """Return whether the process has numba loaded."""
    return sys.modules.get("numba") is not None


@cache
def numba_installed() -> bool:
    """Return whether numba can be imported; importing it takes about half a second."""
    try:
        return find_spec("numba") is not None
    except (ImportError, ValueError):  # somebody put None in its place
        return False


def compiled_loop(function: Callable[..., Any], signature: Any = None, **options: Any) -> Any:
    """Return a function of a module, compiled for one signature, or for each that it meets.

    Args:
        function: What to compile. It runs without the interpreter's lock.
        signature: One of numba's; None compiles at the first call with arguments of new types.
        **options: What ``numba.njit`` takes further.
    """
    import numba

    def made(kept: bool) -> Any:
        return numba.njit(signature, cache=kept, nogil=True, **options)(function)

    try:
        return made(True)
    except RuntimeError as error:
        if "cannot cache function" not in str(error):  # no folder that may be written to
            raise
        return made(False)
