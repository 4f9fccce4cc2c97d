"""Builder of generator programs."""

from __future__ import annotations

from trnrand.programs import GeneratorProgram, ProgramBuilder, Step

__all__ = ["GeneratorProgram", "ProgramBuilder", "Step"]
