"""Thread-safe parsing of Python source.

Python 3.11 has one depth counter of syntax trees for all threads, and raises SystemError if two of
them build trees at the same time (https://github.com/python/cpython/issues/106905).
"""

from __future__ import annotations

import ast
import threading
from functools import lru_cache

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
def module_of(source: str) -> ast.Module:
    """Return the syntax tree of a source; a text is parsed once, and its tree is not changed.

    Raises:
        SyntaxError: The source is not valid Python; also ValueError, RecursionError, MemoryError.
    """
    with SYNTAX_LOCK:
        return ast.parse(source)


def tree_of(source: str) -> ast.Module | None:
    """Return the result of ``module_of``, or None if the source is not valid Python."""
    try:
        return module_of(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
