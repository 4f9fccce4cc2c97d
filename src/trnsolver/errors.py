"""Exceptions and warnings of trnsolver, re-exported from the core."""

from trnsci.core.errors import (
    AccuracyError,
    AccuracyWarning,
    ConvergenceError,
    ConvergenceWarning,
    LinAlgError,
    NotFiniteError,
    NotPositiveDefiniteError,
    SingularMatrixError,
)

__all__ = [
    "AccuracyError",
    "AccuracyWarning",
    "ConvergenceError",
    "ConvergenceWarning",
    "LinAlgError",
    "NotFiniteError",
    "NotPositiveDefiniteError",
    "SingularMatrixError",
]
