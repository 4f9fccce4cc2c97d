"""The exceptions of the suite.

::

    Exception
    └── TrnsciError
        ├── ShapeError      (also a ValueError)    operands whose shapes do not fit
        │   └── OperandError (also an AssertionError)  the same, of sparse operands and
        │                                          of linear systems
        ├── DimensionError  (also an IndexError)   a dimension or an element that does not exist
        ├── DTypeError      (also a TypeError)     operands whose dtypes do not fit
        ├── DeviceError     (also a RuntimeError)  operands that are not on one device
        ├── DerivativeError (also a RuntimeError)  a derivative requested of a non-differentiable
        │                                          argument
        ├── FlagError       (also a ValueError)    an option with a value that is not accepted
        ├── ParameterError  (also a ValueError     an invalid parameter, size or dtype of random
        │                    and AssertionError)    numbers
        ├── LinAlgError     (also torch's and a    a matrix unsuitable for the operation
        │   │                ValueError)
        │   ├── SingularMatrixError                without an inverse, or a division by zero
        │   ├── NotPositiveDefiniteError           not symmetric positive definite
        │   ├── NotFiniteError                     NaN or infinity where finite values are required
        │   ├── ConvergenceError                   an iteration that did not converge
        │   └── AccuracyError                      a requested accuracy that was not reached
        ├── BackendError    (also a RuntimeError)  a backend that is not available in this process
        ├── KernelError     (also a RuntimeError)  a kernel that violates its contract
        └── RankError       (also a RuntimeError)  ranks that differ, or that no longer answer
    Warning
    ├── NkiFallbackWarning (a UserWarning)       a kernel failed and torch computed the result
    ├── NkiRefusalWarning  (a UserWarning)       a kernel does not accept a call, and torch computes
    ├── ConvergenceWarning (a UserWarning)       an iteration did not converge
    └── AccuracyWarning    (a UserWarning)       a requested accuracy was not reached

Each also derives from the built-in exception that a caller of torch or NumPy would catch. The
matrix errors derive from torch's ``LinAlgError``, so torch is imported at their first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from trnsci.core.errors.root import TrnsciError

if TYPE_CHECKING:
    from trnsci.core.errors.matrices import (
        AccuracyError,
        ConvergenceError,
        LinAlgError,
        NotFiniteError,
        NotPositiveDefiniteError,
        SingularMatrixError,
    )

__all__ = [
    "AccuracyError",
    "AccuracyWarning",
    "BackendError",
    "ConvergenceError",
    "ConvergenceWarning",
    "DTypeError",
    "DerivativeError",
    "DeviceError",
    "DimensionError",
    "FlagError",
    "KernelError",
    "LinAlgError",
    "NkiFallbackWarning",
    "NkiRefusalWarning",
    "NotFiniteError",
    "NotPositiveDefiniteError",
    "OperandError",
    "ParameterError",
    "RankError",
    "ShapeError",
    "SingularMatrixError",
    "TrnsciError",
]


_OF_MATRICES = (
    "AccuracyError",
    "ConvergenceError",
    "LinAlgError",
    "NotFiniteError",
    "NotPositiveDefiniteError",
    "SingularMatrixError",
)


def __getattr__(name: str) -> object:
    if name not in _OF_MATRICES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("trnsci.core.errors.matrices"), name)


class ShapeError(TrnsciError, ValueError):
    """The shapes of operands do not fit each other or the operation."""


class OperandError(ShapeError, AssertionError):
    """The shapes of sparse operands do not fit each other or the operation.

    It is also an ``AssertionError``, for callers written against older versions.
    """


class DimensionError(TrnsciError, IndexError):
    """An operand has no such dimension, or no element to choose from."""


class DTypeError(TrnsciError, TypeError):
    """The dtypes of operands do not fit each other or the operation."""


class DeviceError(TrnsciError, RuntimeError):
    """The operands are not on one device."""


class DerivativeError(TrnsciError, RuntimeError):
    """A derivative is requested of something that cannot have one, such as an ``out`` argument."""


class FlagError(TrnsciError, ValueError):
    """An option has a value that is not accepted."""


class ParameterError(TrnsciError, ValueError, AssertionError):
    """A parameter, size or dtype that a function does not accept.

    It is a ``ValueError``, and an ``AssertionError`` for callers written against older versions.
    """


class BackendError(TrnsciError, RuntimeError):
    """The requested backend is not available in this process."""


class KernelError(TrnsciError, RuntimeError):
    """A kernel does not do what the operation that launched it requires."""


class RankError(TrnsciError, RuntimeError):
    """Ranks give different arguments, or one of them failed, ended or did not answer in time."""


class NkiFallbackWarning(UserWarning):
    """A kernel failed and torch computed the result instead."""


class NkiRefusalWarning(UserWarning):
    """A kernel does not accept a dtype, a level of precision, a shape or an option of a call."""


class ConvergenceWarning(UserWarning):
    """An iteration did not converge; the result has its last iterate."""


class AccuracyWarning(UserWarning):
    """A requested accuracy was not reached; the result holds the accuracy that was."""
