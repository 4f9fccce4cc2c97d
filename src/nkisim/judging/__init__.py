"""The judge: is a kernel legal, right and fast, in one answer that it cannot forge."""

from nkisim.judging.entry import judge, verdict_on
from nkisim.judging.settings import Settings
from nkisim.judging.verdict import KINDS, SCHEMA, Fault, Verdict

__all__ = ["KINDS", "SCHEMA", "Fault", "Settings", "Verdict", "judge", "verdict_on"]
