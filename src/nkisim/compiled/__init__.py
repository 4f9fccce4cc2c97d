"""Loops compiled by numba, an optional package (the ``[fast]`` extra).

Two kinds of loops exist. Conversions and single operations are exact: they run wherever numba is
loaded, and give NumPy's bits. Elementary functions and statistics may differ from NumPy's in the
last places: whose arithmetic runs depends on the size of the tile, on the installation and on
NKISIM_FAST, and never on what ran before.

This module alone decides whether numba is used; it imports it with the first large tile.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Literal

__all__ = [
    "FAST_VARIABLE",
    "FUNCTIONS",
    "LARGE",
    "Arithmetic",
    "arithmetic",
    "compiles_exact",
    "compiles_function",
    "compiles_statistics",
    "numba_problem",
]

FAST_VARIABLE = "NKISIM_FAST"
"""Environment variable; ``0`` asks for NumPy's arithmetic."""

LARGE = 1 << 16
"""Elements of a tile from which on elementary functions and statistics are compiled."""

_MIDDLING = 1 << 10
"""Elements from which on a compiled loop is worth its call."""

Arithmetic = Literal["compiled", "numpy"]


FUNCTIONS = frozenset(
    {"exp", "sigmoid", "silu", "silu_dx", "softplus", "mish", "erf", "erf_dx"}
    | {"gelu", "gelu_dx", "gelu_apprx_tanh", "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx"}
)
"""Activation functions that are compiled; NumPy evaluates the others as fast."""


def compiles_function(name: str, elements: int) -> bool:
    """Return whether an activation function of a tile of so many elements is compiled."""
    return name in FUNCTIONS and compiles_statistics(elements)


def compiles_statistics(elements: int) -> bool:
    """Return whether mean and deviation of the rows of so many elements are compiled."""
    return elements >= LARGE and _is_wanted() and not numba_problem()


def compiles_exact(elements: int) -> bool:
    """Return whether conversions and exact operations are compiled: only where numba is loaded."""
    return elements >= _MIDDLING and "numba" in sys.modules and _is_wanted() and not numba_problem()


def arithmetic() -> Arithmetic:
    """Return the arithmetic of elementary functions on large tiles; does not import numba."""
    if not _is_wanted() or not _is_installed():
        return "numpy"
    was_tried = numba_problem.cache_info().currsize > 0
    return "numpy" if was_tried and numba_problem() else "compiled"


@cache
def numba_problem() -> str:
    """Import numba and return why it cannot be used; empty if it can.

    An installed numba may fail in many ways, for instance after an upgrade of NumPy. Each of them
    means that NumPy computes.
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
    except ValueError:  # something put None in its place among the modules
        return False
