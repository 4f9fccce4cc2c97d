"""Source rewrites that bring kernels of older NKI releases to newer ones."""

from nkisim.rewriting import Edit
from nkisim.upgrade.engine import Change, Outcome, upgrade_text
from nkisim.upgrade.releases import ERAS, TARGETS
from nkisim.upgrade.rules import RULES, Match, Rule
