"""Checks that look at a run as a whole, and at a kernel's source."""

from nkisim.checks.capacity import check_capacity
from nkisim.checks.detectors import Detectors
from nkisim.checks.langcheck import file_findings, kernel_findings, source_rules
from nkisim.checks.occupancy import occupancy_of
from nkisim.checks.outputs import check_outputs

__all__ = [
    "Detectors",
    "check_capacity",
    "check_outputs",
    "file_findings",
    "kernel_findings",
    "occupancy_of",
    "source_rules",
]
