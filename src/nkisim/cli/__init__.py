"""The command line: one module for each group of commands, imported when one of them runs."""

from nkisim.cli.group import commands, main

__all__ = ["commands", "main"]
