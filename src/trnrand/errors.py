"""The exception of trnrand for arguments that have no meaning."""

from __future__ import annotations

from trnsci.core.errors import TrnsciError

__all__ = ["ParameterError"]


class ParameterError(TrnsciError, ValueError, AssertionError):
    """A parameter, size or dtype that a function does not accept.

    It is a ``ValueError``, and an ``AssertionError`` for callers that catch the one of older code.
    """
