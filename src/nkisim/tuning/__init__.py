"""Tuning: a kernel with all combinations of values of its parameters, ranked."""

from nkisim.tuning.result import Dropped, NoneLegalError, Tuning, Variant
from nkisim.tuning.search import Progress, tune

__all__ = ["Dropped", "NoneLegalError", "Progress", "Tuning", "Variant", "tune"]
