"""Loops compiled by numba, an optional package (the ``[fast]`` extra).

There are two kinds of loops. Conversions, single operations and sums in order are exact: they run
if numba is loaded, and give NumPy's bits. Elementary functions may differ from NumPy's in the last
places: the choice between numba and NumPy depends on the sizes of the tile and of the kernel's
arguments, on the installation and on NKISIM_FAST, and never on earlier calls.

Only this module decides whether numba is used. To import it and its loops takes as long as many
small runs, so it is imported in a large run only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Literal

FAST_VARIABLE = "NKISIM_FAST"
"""Environment variable; ``0`` selects NumPy's arithmetic."""

LARGE = 1 << 16
"""Smallest tile, in elements, for which a large run compiles elementary functions."""

LARGE_RUN = 1 << 20
"""Elements of all arguments from which on a run counts as large."""

_MIDDLING = 1 << 10
"""Elements of a tile from which on a compiled loop of an exact operation is faster."""

Arithmetic = Literal["compiled", "numpy"]


FUNCTIONS = frozenset(
    {"exp", "sigmoid", "silu", "silu_dx", "softplus", "mish", "erf", "erf_dx"}
    | {"gelu", "gelu_dx", "gelu_apprx_tanh", "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx"}
)
"""Compiled activation functions; for the others NumPy is as fast."""

_ELEMENTS: ContextVar[int] = ContextVar("elements", default=0)
"""Number of elements of all arguments of the current run."""


@contextmanager
def run_with(elements: int) -> Iterator[None]:
    """Context in which the arguments of the current run have ``elements`` elements."""
    token = _ELEMENTS.set(elements)
    try:
        yield
    finally:
        _ELEMENTS.reset(token)


def compiles_function(name: str, elements: int) -> bool:
    """Return whether an activation function is compiled for a tile of ``elements`` elements."""
    if name not in FUNCTIONS or elements < LARGE or _ELEMENTS.get() < LARGE_RUN:
        return False
    return _is_wanted() and not numba_problem()


def compiles_exact(elements: int) -> bool:
    """Return whether conversions and exact operations are compiled.

    They are if numba is loaded or the run is large. Their bits are the same either way.
    """
    if elements < _MIDDLING or not _is_wanted():
        return False
    if "numba" not in sys.modules and _ELEMENTS.get() < LARGE_RUN:
        return False
    return not numba_problem()


def arithmetic() -> Arithmetic:
    """Return the arithmetic of elementary functions on large tiles; does not import numba."""
    if not _is_wanted() or not _is_installed():
        return "numpy"
    was_tried = numba_problem.cache_info().currsize > 0
    return "numpy" if was_tried and numba_problem() else "compiled"


@cache
def numba_problem() -> str:
    """Import numba and return the reason why it cannot be used; empty if it can.

    An installed numba may fail to import, for instance after an upgrade of NumPy. NumPy is used
    then.
    """
    if not _is_installed():
        return "not installed"
    try:
        numba = import_module("numba")
        return "NUMBA_DISABLE_JIT is set" if numba.config.DISABLE_JIT else ""
    except Exception as error:
        reason = str(error).partition("\n")[0]
        return f"installed, but cannot be imported: {type(error).__name__}: {reason}"


def _is_wanted() -> bool:
    return os.environ.get(FAST_VARIABLE) != "0"


@cache
def _is_installed() -> bool:
    try:
        return find_spec("numba") is not None
    except ValueError:  # its entry in sys.modules is None
        return False
