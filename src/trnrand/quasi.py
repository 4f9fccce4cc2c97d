"""Alias of ``trnrand.qmc``."""

from trnrand.qmc import *  # noqa: F403
from trnrand.qmc import __all__ as __all__
