"""The backend and precision of this library, shared by all its modules."""

from __future__ import annotations

from trnsci.core.backend.library import Library

__all__ = ["LIBRARY", "no_kernel"]

LIBRARY = Library("trnblas", widens=False)
no_kernel = LIBRARY.no_kernel
