"""Loops compiled by numba, which is optional: each loop also has an implementation without it.

Compiled loops are cached on disk, next to the module or in the user's cache folder, if one of them
is writeable. Only module-level functions can be cached: the variables that a nested function
captures differ between processes.

Importing this module does not import numba; ``compiled_loop`` does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

__all__ = ["compiled_loop", "numba_installed", "numba_loaded"]


def numba_loaded() -> bool:
    """Return whether numba has been imported in this process."""
    return sys.modules.get("numba") is not None


@cache
def numba_installed() -> bool:
    """Return whether numba can be imported; importing it takes about half a second."""
    try:
        return find_spec("numba") is not None
    except (ImportError, ValueError):  # sys.modules["numba"] is None
        return False


def compiled_loop(function: Callable[..., Any], signature: Any = None, **options: Any) -> Any:
    """Return a module-level function, compiled for one signature or for each one it is called with.

    Args:
        function: The function to compile. It runs without the interpreter lock.
        signature: A numba signature; None compiles at the first call with arguments of new types.
        **options: Further options of ``numba.njit``.
    """
    import numba

    def compiled(cached: bool) -> Any:
        return numba.njit(signature, cache=cached, nogil=True, **options)(function)

    try:
        return compiled(True)
    except RuntimeError as error:
        if "cannot cache function" not in str(error):  # no writeable folder
            raise
        return compiled(False)
