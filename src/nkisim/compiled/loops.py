"""Compile a function with numba, and cache the machine code on disk if possible.

numba writes the cache next to the module or into the user's cache folder. Importing this module
imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled_loop(function: Callable[..., None]) -> Callable[..., None]:
    """Return a loop over arrays, compiled for each combination of types that it is called with."""
    loop: Callable[..., None] = _cached(lambda cache: numba.njit(cache=cache, nogil=True)(function))
    return loop


def compiled_ufunc(function: Callable[[Any], Any], signature: str) -> Callable[..., Any]:
    """Return a function of one element, compiled for one signature, as a NumPy ufunc."""
    ufunc: Callable[..., Any] = _cached(
        lambda cache: numba.vectorize([signature], cache=cache)(function)
    )
    return ufunc


def _cached(compile_it: Callable[[bool], Any]) -> Any:
    try:
        return compile_it(True)
    except RuntimeError as error:
        if "cannot cache function" not in str(error):  # no folder is writable
            raise
        return compile_it(False)
