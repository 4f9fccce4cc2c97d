"""The exceptions of ``trnsci.core.errors`` that derive from torch's ``LinAlgError``."""

from __future__ import annotations

import torch

from trnsci.core.errors.root import TrnsciError

TorchLinAlgError: type[RuntimeError] = torch.linalg.LinAlgError  # type: ignore[attr-defined]
"""The error of ``torch.linalg``, a base class of the errors below."""


class LinAlgError(TrnsciError, torch.linalg.LinAlgError, ValueError):  # type: ignore[misc,name-defined]
    """A matrix is unsuitable for the operation.

    It is torch's ``LinAlgError``, and a ``ValueError`` as NumPy's is.
    """


class SingularMatrixError(LinAlgError):
    """A matrix has no inverse, or has a zero where a division needs a nonzero value."""


class NotPositiveDefiniteError(LinAlgError):
    """A matrix is not symmetric (Hermitian) positive definite."""


class NotFiniteError(LinAlgError):
    """NaN or infinity is present where finite values are required."""


class ConvergenceError(LinAlgError):
    """An iteration did not converge."""


class AccuracyError(LinAlgError):
    """A requested accuracy was not reached."""
