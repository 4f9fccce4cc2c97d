"""Source text as syntax trees, one thread at a time.

Python 3.11 counts the depth of trees for all threads together, and raises SystemError where two of
them make trees at once (https://github.com/python/cpython/issues/106905).
"""

from __future__ import annotations

import ast
import threading

__all__ = ["SYNTAX_LOCK", "parsed"]

SYNTAX_LOCK = threading.RLock()
"""Held by whoever makes syntax trees."""


def parsed(source: str) -> ast.Module | None:
    """Return the tree of a source, or None where it is no Python."""
    with SYNTAX_LOCK:
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError):
            return None
