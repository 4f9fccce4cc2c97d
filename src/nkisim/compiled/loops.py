"""Compiling a loop, once for all processes where numba can keep what it compiled.

numba keeps it beside the module, or in the user's cache folder, and compiles anew when the
function's own module has changed. Only functions of a module can be kept: what a function made
inside another one closes over differs from process to process. Whoever changes a module from which
others take intrinsics removes the ``__pycache__`` folder.

Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

__all__ = ["compiled_loop", "compiled_ufunc", "direct"]


def compiled_loop(function: Callable[..., Any], signature: Any = None, **options: Any) -> Any:
    """Return a function of a module, compiled for one signature, or for each that it meets."""
    return _kept_if_possible(
        lambda kept: numba.njit(signature, cache=kept, nogil=True, **options)(function)
    )


def direct(loop: Any) -> Any:
    """Return a compiled loop without its look at the types of the arguments, which takes a while.

    Whoever calls it makes sure of them: of arrays it only asks whether elements have the size.
    """
    (signature,) = loop.signatures
    return loop.overloads[signature].entry_point


def compiled_ufunc(function: Callable[..., Any], signature: str) -> Any:
    """Return a function of a module and of single elements as a compiled ufunc."""
    return _kept_if_possible(lambda kept: numba.vectorize([signature], cache=kept)(function))


def _kept_if_possible(compile_it: Callable[[bool], Any]) -> Any:
    try:
        return compile_it(True)
    except RuntimeError as error:
        if "cannot cache function" not in str(error):  # no folder that may be written to
            raise
        return compile_it(False)
