"""The exceptions of the suite.

::

    Exception
    └── TrnsciError
        ├── ShapeError      (also a ValueError)    operands whose shapes do not fit
        │   └── OperandError (also an AssertionError)  the same, of sparse operands
        ├── DimensionError  (also an IndexError)   a dimension or an element that is not there
        ├── DTypeError      (also a TypeError)     operands whose dtypes do not fit
        ├── DeviceError     (also a RuntimeError)  operands that are not on one device
        ├── DerivativeError (also a RuntimeError)  a derivative asked of what cannot have one
        ├── FlagError       (also a ValueError)    an option that is none of the accepted ones
        ├── ParameterError  (also a ValueError     a number, size or dtype without a meaning, where
        │                    and AssertionError)    random numbers are asked for
        ├── LinAlgError     (also torch's and a    a matrix that does not allow what is asked of it
        │   │                ValueError)
        │   ├── SingularMatrixError                without an inverse, or with a zero to divide by
        │   ├── NotPositiveDefiniteError           not symmetric positive definite
        │   ├── NotFiniteError                     NaN or infinity where neither has a meaning
        │   ├── ConvergenceError                   an iteration that ended before its goal
        │   └── AccuracyError                      an accuracy that was asked for and not reached
        ├── BackendError    (also a RuntimeError)  a backend that this process cannot serve
        └── KernelError     (also a RuntimeError)  a kernel that does not do what is asked of it
    Warning
    ├── NkiFallbackWarning (a UserWarning)       a kernel failed and torch computed the result
    └── AccuracyWarning    (a UserWarning)       an accuracy that was asked for was not reached

Each also derives from the built-in exception that a caller of torch or NumPy would catch. Those of
matrices derive from torch's, so torch is imported when one of them is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from trnsci.core.root_error import TrnsciError

if TYPE_CHECKING:
    from trnsci.core.matrix_errors import (
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
    "DTypeError",
    "DerivativeError",
    "DeviceError",
    "DimensionError",
    "FlagError",
    "KernelError",
    "LinAlgError",
    "NkiFallbackWarning",
    "NotFiniteError",
    "NotPositiveDefiniteError",
    "OperandError",
    "ParameterError",
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
    return getattr(import_module("trnsci.core.matrix_errors"), name)


class ShapeError(TrnsciError, ValueError):
    """The shapes of operands do not fit each other or the operation."""


class OperandError(ShapeError, AssertionError):
    """The shapes of sparse operands do not fit each other or the operation.

    It is an ``AssertionError`` too, for callers that catch the one of older code.
    """


class DimensionError(TrnsciError, IndexError):
    """An operand has no such dimension, or no element to choose from."""


class DTypeError(TrnsciError, TypeError):
    """The dtypes of operands do not fit each other or the operation."""


class DeviceError(TrnsciError, RuntimeError):
    """The operands are not on one device."""


class DerivativeError(TrnsciError, RuntimeError):
    """A derivative is asked of something that cannot have one, such as an ``out`` argument."""


class FlagError(TrnsciError, ValueError):
    """An option has a value that is none of the accepted ones."""


class ParameterError(TrnsciError, ValueError, AssertionError):
    """A parameter, size or dtype that a function does not accept.

    It is a ``ValueError``, and an ``AssertionError`` for callers that catch the one of older code.
    """


class BackendError(TrnsciError, RuntimeError):
    """The requested backend cannot serve in this process."""


class KernelError(TrnsciError, RuntimeError):
    """A kernel does not do what the operation that launched it needs."""


class NkiFallbackWarning(UserWarning):
    """A kernel failed and torch computed the result instead."""


class AccuracyWarning(UserWarning):
    """An accuracy that was asked for was not reached; the result says what was."""
