"""The exceptions of the suite.

::

    Exception
    └── TrnsciError
        ├── ShapeError    (also a ValueError)    operands whose shapes do not fit
        ├── DTypeError    (also a TypeError)     operands whose dtypes do not fit
        ├── FlagError     (also a ValueError)    an option that is none of the accepted ones
        ├── BackendError  (also a RuntimeError)  a backend that this process cannot serve
        └── KernelError   (also a RuntimeError)  a kernel that does not do what its operation needs
    Warning
    └── NkiFallbackWarning (a UserWarning)       a kernel failed and torch computed the result

Each also derives from the built-in exception that a caller of torch or NumPy would catch.
"""

from __future__ import annotations

__all__ = [
    "BackendError",
    "DTypeError",
    "FlagError",
    "KernelError",
    "NkiFallbackWarning",
    "ShapeError",
    "TrnsciError",
]


class TrnsciError(Exception):
    """Anything that the suite refuses or cannot do."""


class ShapeError(TrnsciError, ValueError):
    """The shapes of operands do not fit each other or the operation."""


class DTypeError(TrnsciError, TypeError):
    """The dtypes of operands do not fit each other or the operation."""


class FlagError(TrnsciError, ValueError):
    """An option has a value that is none of the accepted ones."""


class BackendError(TrnsciError, RuntimeError):
    """The requested backend cannot serve in this process."""


class KernelError(TrnsciError, RuntimeError):
    """A kernel does not do what the operation that launched it needs."""


class NkiFallbackWarning(UserWarning):
    """A kernel failed and torch computed the result instead."""
