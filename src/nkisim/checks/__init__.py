"""Checks of a whole run, and of a kernel's source."""

from nkisim.checks.arguments import check_arguments
from nkisim.checks.capacity import check_capacity
from nkisim.checks.detectors import Detectors
from nkisim.checks.langcheck import (
    KernelSource,
    file_findings,
    kernel_findings,
    source_rules,
)
from nkisim.checks.occupancy import occupancy_of
from nkisim.checks.outputs import check_outputs, lead_with_origins, nonfinite_outputs
from nkisim.checks.recursion import report_recursion
from nkisim.checks.unbound import report_unbound

__all__ = [
    "Detectors",
    "KernelSource",
    "check_arguments",
    "check_capacity",
    "check_outputs",
    "file_findings",
    "kernel_findings",
    "lead_with_origins",
    "nonfinite_outputs",
    "occupancy_of",
    "report_recursion",
    "report_unbound",
    "source_rules",
]
