"""What trnsolver raises and warns of: names of the core, for callers of this library."""

from __future__ import annotations

from trnsci.core.errors import (
    AccuracyError,
    AccuracyWarning,
    ConvergenceError,
    LinAlgError,
    NotFiniteError,
    NotPositiveDefiniteError,
    SingularMatrixError,
)

__all__ = [
    "AccuracyError",
    "AccuracyWarning",
    "ConvergenceError",
    "LinAlgError",
    "NotFiniteError",
    "NotPositiveDefiniteError",
    "SingularMatrixError",
]
