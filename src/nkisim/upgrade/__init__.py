"""Source rewrites that bring kernels of older NKI releases to NKI 0.3.0.

Needs libcst (extra ``codemod``), which is why nothing else in nkisim imports this package.
"""

from nkisim.rewriting import Edit
from nkisim.upgrade.engine import ERAS, TARGETS, Change, Outcome, upgrade_text
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
    "upgrade_text",
]
