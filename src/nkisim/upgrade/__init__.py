"""Source rewrites that bring kernels of older NKI releases to newer ones.

Needs libcst (extra ``codemod``), which is why nothing else in nkisim imports this package.
"""

from nkisim.files import python_files
from nkisim.upgrade.edits import Edit
from nkisim.upgrade.engine import Change, Outcome, upgrade_text
from nkisim.upgrade.files import read_source, write_source
from nkisim.upgrade.releases import ERAS, TARGETS
from nkisim.upgrade.rules import RULES, Match, Rule

__all__ = [
    "ERAS",
    "RULES",
    "TARGETS",
    "Change",
    "Edit",
    "Match",
    "Outcome",
    "Rule",
    "python_files",
    "read_source",
    "upgrade_text",
    "write_source",
]
