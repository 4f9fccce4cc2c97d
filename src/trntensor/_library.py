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
"""Names of the published library, each with the level whose bound it keeps for float32 operands."""

LIBRARY = Library("trntensor", _PUBLISHED, widens=False)
