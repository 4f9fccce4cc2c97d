"""The root of the exceptions in ``trnsci.core.errors``, where the whole tree is drawn."""

from __future__ import annotations

__all__ = ["TrnsciError"]


class TrnsciError(Exception):
    """Anything that the suite refuses or cannot do."""


TrnsciError.__module__ = "trnsci.core.errors"
