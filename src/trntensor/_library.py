"""The backend selection of this library, shared by all its modules."""

from __future__ import annotations

from trnsci.core.backend.library import Library

__all__ = ["LIBRARY"]

LIBRARY = Library("trntensor")
