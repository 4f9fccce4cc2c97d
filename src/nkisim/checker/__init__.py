"""File checker: finds kernels and arguments for them, and runs them on every generation."""

from nkisim.checker.arguments import Shapes, parse_shapes
from nkisim.checker.files import CheckSettings, check_file
from nkisim.checker.selection import Selection, all_rules
from nkisim.checker.settings import ProjectSettings, SettingsError, project_settings

__all__ = [
    "CheckSettings",
    "ProjectSettings",
    "Selection",
    "SettingsError",
    "Shapes",
    "all_rules",
    "check_file",
    "parse_shapes",
    "project_settings",
]
