"""The exceptions of ``trnsci.core.errors`` that derive from torch's ``LinAlgError``."""

from __future__ import annotations

import torch

from trnsci.core.root_error import TrnsciError

__all__ = [
    "AccuracyError",
    "ConvergenceError",
    "LinAlgError",
    "NotFiniteError",
    "NotPositiveDefiniteError",
    "SingularMatrixError",
]


class LinAlgError(TrnsciError, torch.linalg.LinAlgError, ValueError):  # type: ignore[misc,name-defined]
    """A matrix does not allow what is asked of it.

    It is torch's ``LinAlgError``, and a ``ValueError`` as NumPy's is.
    """


class SingularMatrixError(LinAlgError):
    """A matrix has no inverse, or a zero stands where one is divided by."""


class NotPositiveDefiniteError(LinAlgError):
    """A matrix is not symmetric (Hermitian) positive definite."""


class NotFiniteError(LinAlgError):
    """NaN or infinity stands where neither has a meaning."""


class ConvergenceError(LinAlgError):
    """An iteration ended before it reached its goal."""


class AccuracyError(LinAlgError):
    """An accuracy that was asked for was not reached."""
