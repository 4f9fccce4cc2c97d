"""Loops compiled by numba, which is optional; all give the bits of the way without them.

Nothing here imports numba before the loops are worth it: once as many elements went by as take
NumPy about as long as numba takes to load. A process that has numba loaded uses them at once.
"""

import sys
from importlib import import_module
from importlib.util import find_spec

__all__ = ["load_numba", "numba_loaded", "repays"]

_WORTH_LOADING = 1 << 29
"""Elements that NumPy works on for about the second that it takes to load numba and its loops."""


class _Work:
    """What was done without compiled loops that they could have done."""

    elements = 0


def numba_loaded() -> bool:
    """Whether the process has numba loaded."""
    return sys.modules.get("numba") is not None


def repays(elements: int) -> bool:
    """Whether compiled loops are to work on so many elements: numba is loaded, or now worth it."""
    if sys.modules.get("numba") is not None:  # spares every instruction a call
        return True
    _Work.elements += elements
    if _Work.elements < _WORTH_LOADING:
        return False
    _Work.elements = 0  # where it is missing, it is looked for again after as much work
    return find_spec("numba") is not None and load_numba()


def load_numba() -> bool:
    """Import numba and return True.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    try:
        import_module("numba")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the fast way needs numba, which is not installed: pip install '.[fast]' in the "
            "checkout of trnsci",
            name="numba",
        ) from error
    return True
