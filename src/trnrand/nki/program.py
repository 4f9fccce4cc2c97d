"""Builder of generator programs."""

from trnrand.programs import GeneratorProgram, ProgramBuilder, Step

__all__ = ["GeneratorProgram", "ProgramBuilder", "Step"]
