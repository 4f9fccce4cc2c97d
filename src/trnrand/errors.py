"""The exception of trnrand for arguments that have no meaning."""

from __future__ import annotations

from trnsci.core.errors import ParameterError

__all__ = ["ParameterError"]
