"""Declarations of instructions: operands, operators, constraints, cost."""

from nkisim.spec.call import Call
from nkisim.spec.constraints import Constraint
from nkisim.spec.instruction import INSTRUCTIONS, Arithmetic, Instruction, unconverted
from nkisim.spec.operands import HBM, ON_CHIP, PSUM, SBUF, Column, In, Named, Operand, Out, Sum
from nkisim.spec.ops import OPS, Op, as_op

__all__ = [
    "HBM",
    "INSTRUCTIONS",
    "ON_CHIP",
    "OPS",
    "PSUM",
    "SBUF",
    "Arithmetic",
    "Call",
    "Column",
    "Constraint",
    "In",
    "Instruction",
    "Named",
    "Op",
    "Operand",
    "Out",
    "Sum",
    "as_op",
    "unconverted",
]
