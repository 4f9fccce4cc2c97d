"""The command line: ``nkisim run``, ``check``, ``rule``, ``rules``, ``info`` and ``upgrade``."""

from nkisim.cli.catalogue import rule, rules
from nkisim.cli.checking import check
from nkisim.cli.group import commands, main
from nkisim.cli.information import info
from nkisim.cli.scripts import ScriptCall, run
from nkisim.cli.upgrading import upgrade

__all__ = ["ScriptCall", "check", "commands", "info", "main", "rule", "rules", "run", "upgrade"]
