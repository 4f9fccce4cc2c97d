"""Descriptions of a call: a step for trackers, an event for watchers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nkisim.diagnostics import user_place
from nkisim.machine.calls.columns import Columns
from nkisim.machine.calls.operands import Rows
from nkisim.machine.core import Core, Event
from nkisim.machine.tracking import Effect, Step
from nkisim.spec.enums import engine as Engine
from nkisim.spec.instruction import Instruction
from nkisim.spec.ops import OPS

_ADDITIONS = (OPS["add"], OPS["subtract"])

Behind = Sequence[tuple[str, Any, np.ndarray | None]]
"""Resolved operands: name, view or rows, and the part of it that is accessed."""

Operands = Sequence[tuple[str, Any]]
"""Resolved operands: name, and view or rows."""


def step_of(
    core: Any,
    instruction: Instruction,
    engine: Engine,
    reads: Behind,
    writes: Behind,
    *,
    lasts: bool,
    adds_to: tuple[str, ...],
    moves: bool = False,
    sums: bool = False,
) -> Step:
    """Return the step of a call, from its resolved operands and their parts."""
    read = tuple(_effect(*operand) for operand in reads)
    some = any(type(value) is Rows and not value.inside.all() for _, value, _ in reads)
    written = tuple(_effect(*operand) for operand in writes)
    if some or any(instruction.operands[effect.operand].masked for effect in written):
        written = tuple(effect._replace(certain=False) for effect in written)
    return Step(core, instruction.name, engine, read, written, lasts, adds_to, moves, sums)


def event_of(
    core: Core,
    instruction: Instruction,
    engine: Engine,
    reads: Operands,
    writes: Operands,
    *,
    arguments: Mapping[str, Any],
    signature: object,
) -> Event:
    """Return the event of a call, from its resolved operands and its arguments by name."""
    # Rows and columns selected by index count as the whole table.
    read, written = (
        tuple((name, t.table if type(t) in (Rows, Columns) else t) for name, t in part)
        for part in (reads, writes)
    )
    rank = 0 if core.member is None else core.member.rank
    return Event(
        core.clock,
        instruction.name,
        engine,
        read,
        written,
        user_place(),
        core.program_id,
        arguments,
        signature,
        core.no_reorder_depth > 0,
        rank,
        ("cores", rank) if instruction.synchronises else (),
        core.scope,
    )


def added_operands(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the operands of a call that are added to its result unscaled."""
    first, last = values.get("op0"), values.get("op1", values.get("op"))
    if last not in _ADDITIONS:
        return ()
    if first is None:
        return ("data1", "data2")
    return ("data", "operand1") if first in _ADDITIONS else ("operand1",)


def _effect(name: str, value: Any, part: np.ndarray | None) -> Effect:
    if type(value) is Rows:
        return Effect(name, value.table, value.indices[value.inside], part)
    if type(value) is Columns:
        return Effect(name, value.table, None, value.mask)
    return Effect(name, value, None, part, value.indirection is None)
