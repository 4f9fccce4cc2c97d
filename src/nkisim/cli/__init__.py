"""The command line: ``nkisim run``, ``check``, ``profile``, ``rule``, ``rules`` and ``info``."""

from nkisim.cli.catalogue import rule, rules
from nkisim.cli.checking import check
from nkisim.cli.group import commands, main
from nkisim.cli.information import info
from nkisim.cli.profiling import profile
from nkisim.cli.scripts import ScriptCall, run

__all__ = ["ScriptCall", "check", "commands", "info", "main", "profile", "rule", "rules", "run"]
