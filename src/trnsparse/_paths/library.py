"""The backend of this library, one object that all its modules ask."""

from __future__ import annotations

from trnsci.core.backend.library import Library

__all__ = ["LIBRARY"]

LIBRARY = Library("trnsparse")
