"""Kernels as data: recorded without values, stored, and replayed where their code never was."""

from nkisim.program.program import Program
from nkisim.program.recording import record
from nkisim.program.values import ProgramError

__all__ = ["Program", "ProgramError", "record"]
