"""The backend and precision of this library, shared by all its modules."""

from __future__ import annotations

from trnsci.core.backend.library import Library
from trnsci.core.backend.precision import PrecisionLevel

_PUBLISHED: dict[str, PrecisionLevel] = {
    "fast": "float32",
    "sr": "float32",
    "dd": "float32",
    "kahan": "doublefloat",
}
"""Precision names of published releases, each with the level whose error bound it satisfies."""

LIBRARY = Library("trntensor", _PUBLISHED, widens=False)
