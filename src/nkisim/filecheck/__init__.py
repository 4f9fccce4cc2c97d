"""File checker: finds kernels and arguments for them, and runs them on every generation."""

from nkisim.filecheck.arguments import Shapes, parse_shapes
from nkisim.filecheck.files import check_files
from nkisim.filecheck.settings import (
    BROKEN_FILE,
    CheckSettings,
    Selection,
    all_rules,
)
