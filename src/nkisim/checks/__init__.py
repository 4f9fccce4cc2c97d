"""Checks that look at a run as a whole."""

from nkisim.checks.capacity import check_capacity
from nkisim.checks.outputs import check_outputs

__all__ = ["check_capacity", "check_outputs"]
