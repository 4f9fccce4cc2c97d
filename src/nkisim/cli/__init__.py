"""The command line: one module for each group of commands of ``nkisim``."""

from nkisim.cli.catalogue import rule, rules
from nkisim.cli.checking import check
from nkisim.cli.group import commands, main
from nkisim.cli.information import info
from nkisim.cli.profiling import profile
from nkisim.cli.scripts import ScriptCall, run
from nkisim.cli.upgrading import upgrade

__all__ = [
    "ScriptCall",
    "check",
    "commands",
    "info",
    "main",
    "profile",
    "rule",
    "rules",
    "run",
    "upgrade",
]
