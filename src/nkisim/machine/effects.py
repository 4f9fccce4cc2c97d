"""From a call of an instruction to what trackers see of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nkisim.machine.door import Rows
from nkisim.machine.tracking import Effect, Step
from nkisim.spec.enums import engine as Engine
from nkisim.spec.instruction import Instruction

__all__ = ["step_of"]

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
) -> Step:
    """Return a call as trackers see it, from its operands behind the door and their parts."""
    read = tuple(_effect(*operand) for operand in reads)
    some = any(type(value) is Rows and not value.inside.all() for _, value, _ in reads)
    written = tuple(_effect(*operand) for operand in writes)
    if some or any(instruction.operands[effect.operand].masked for effect in written):
        written = tuple(effect._replace(certain=False) for effect in written)
    return Step(core, instruction.name, engine, read, written, lasts)


def _effect(name: str, value: Any, part: np.ndarray | None) -> Effect:
    if type(value) is Rows:
        return Effect(name, value.table, value.indices[value.inside], part)
    return Effect(name, value, None, part, value.indirect is None)
