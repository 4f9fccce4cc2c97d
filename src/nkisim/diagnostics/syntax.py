"""Thread-safe parsing of Python source.

Python 3.11 has one depth counter of syntax trees for all threads, and raises SystemError if two of
them build trees at the same time (https://github.com/python/cpython/issues/106905).
"""

from __future__ import annotations

import ast
import threading
from functools import lru_cache

__all__ = ["SYNTAX_LOCK", "parsed", "tree_of"]

SYNTAX_LOCK = threading.RLock()
"""Lock held while a syntax tree is built."""


def parsed(source: str) -> ast.Module | None:
    """Return the syntax tree of a source, or None if it is not valid Python."""
    with SYNTAX_LOCK:
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


@lru_cache(maxsize=32)
def tree_of(source: str) -> ast.Module | None:
    """Return what ``parsed`` does; a text is parsed once, and its tree must not be changed."""
    return parsed(source)
