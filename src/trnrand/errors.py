"""Exceptions of trnrand: subclasses of the suite's exceptions and of ``ParameterError``.

A parameter of a distribution or a generator outside of its range raises ``ParameterError`` itself.
Other mistakes raise the class that all libraries raise for them.
"""

from trnsci.core import errors
from trnsci.core.errors import ParameterError

__all__ = ["DTypeError", "DeviceError", "FlagError", "ParameterError", "ShapeError"]


class ShapeError(errors.ShapeError, ParameterError):
    """A size, or a shape of an argument, does not fit."""


class DTypeError(errors.DTypeError, ParameterError):
    """An argument has a type or dtype that is not accepted."""


class DeviceError(errors.DeviceError, ParameterError):
    """An argument is not on the device of the call."""


class FlagError(errors.FlagError, ParameterError):
    """An option has a value that is not accepted, or excludes another one."""
