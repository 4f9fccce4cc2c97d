"""From a call of an instruction to what trackers see of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nkisim.machine.operands import Rows
from nkisim.machine.tracking import Effect, Step
from nkisim.spec.enums import engine as Engine
from nkisim.spec.instruction import Instruction
from nkisim.spec.ops import OPS

__all__ = ["added_operands", "step_of"]

_ADDITIONS = (OPS["add"], OPS["subtract"])

Behind = Sequence[tuple[str, Any, np.ndarray | None]]
"""Operands behind the door: name, view or rows, and the part of it that is touched."""


def step_of(
    core: Any,
    instruction: Instruction,
    engine: Engine,
    reads: Behind,
    writes: Behind,
    *,
    lasts: bool,
    adds_to: tuple[str, ...],
) -> Step:
    """Return a call as trackers see it, from its operands behind the door and their parts."""
    read = tuple(_effect(*operand) for operand in reads)
    some = any(type(value) is Rows and not value.inside.all() for _, value, _ in reads)
    written = tuple(_effect(*operand) for operand in writes)
    if some or any(instruction.operands[effect.operand].masked for effect in written):
        written = tuple(effect._replace(certain=False) for effect in written)
    return Step(core, instruction.name, engine, read, written, lasts, adds_to)


def added_operands(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the operands of a call that its result is a sum with, unscaled."""
    first, last = values.get("op0"), values.get("op1", values.get("op"))
    if last not in _ADDITIONS:
        return ()
    if first is None:
        return ("data1", "data2")
    return ("data", "operand1") if first in _ADDITIONS else ("operand1",)


def _effect(name: str, value: Any, part: np.ndarray | None) -> Effect:
    if type(value) is Rows:
        return Effect(name, value.table, value.indices[value.inside], part)
    return Effect(name, value, None, part, value.indirect is None)
