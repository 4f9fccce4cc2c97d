"""The machine: cores that execute instructions and let clients watch."""

from nkisim.machine.core import CORE, Core, Event, current_core
from nkisim.machine.dispatch import instruction
from nkisim.machine.plan import Plan, make_plan
from nkisim.machine.transfer import commit, prepare_read

__all__ = [
    "CORE",
    "Core",
    "Event",
    "Plan",
    "commit",
    "current_core",
    "instruction",
    "make_plan",
    "prepare_read",
]
