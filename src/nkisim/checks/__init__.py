"""Checks of a whole run, and of a kernel's source."""

from nkisim.checks.arguments import check_arguments
from nkisim.checks.capacity import check_capacity, occupancy_of
from nkisim.checks.compiledloops import check_loops
from nkisim.checks.detectors import Detectors
from nkisim.checks.exceptions import report_fraction, report_recursion, report_unbound
from nkisim.checks.langcheck import (
    KernelSource,
    file_findings,
    kernel_findings,
    source_rules,
)
from nkisim.checks.outputs import check_outputs, lead_with_origins, nonfinite_outputs
