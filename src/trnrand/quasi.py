"""Alias of ``trnrand.qmc``."""

from __future__ import annotations

from trnrand.qmc import *  # noqa: F403
from trnrand.qmc import __all__ as __all__
