"""Loops compiled by numba, for processes that have it loaded.

numba is optional: nothing here imports it before a caller has found it among the loaded modules,
and every function has a way without it in the module that calls it.
"""

import sys

__all__ = ["numba_loaded"]


def numba_loaded() -> bool:
    """Whether the process has numba loaded."""
    return sys.modules.get("numba") is not None
