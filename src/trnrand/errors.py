"""The exception of trnrand for invalid arguments."""

from __future__ import annotations

from trnsci.core.errors import ParameterError

__all__ = ["ParameterError"]
