"""A call of an instruction: its plan, legality, operands, execution and effects."""
