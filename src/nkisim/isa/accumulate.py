"""Accumulator registers of the Scalar and Vector engines, and chains of instructions on them.

A chain begins with a reset or a load and continues with ``reduce``. An engine's registers hold one
chain at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nkisim.diagnostics import declare, flag
from nkisim.machine import Core, Garbage
from nkisim.memory import NkiTensor
from nkisim.spec import Call, as_op
from nkisim.spec.enums import engine as Engine
from nkisim.spec.enums import reduce_cmd as ReduceCmd
from nkisim.spec.instruction import Follow

Array = np.ndarray

_BEGINNING = (ReduceCmd.reset, ReduceCmd.reset_reduce, ReduceCmd.load_reduce)
REDUCING = (ReduceCmd.reduce, ReduceCmd.reset_reduce, ReduceCmd.load_reduce)

CHAIN_NOT_BEGUN = declare(
    "R006",
    "chain-not-begun",
    "An instruction reduces into, or reads, accumulator registers that nothing has reset.",
    "the registers hold whatever an earlier kernel left there",
    silent=True,
)
CHAIN_MIXED = declare(
    "R007",
    "chain-mixed",
    "Instructions of different kinds are interleaved in one accumulator chain.",
    "all of them use the same registers of the engine",
    silent=True,
)
CHAIN_DISTURBED = declare(
    "R008",
    "chain-disturbed",
    "An accumulator chain goes on after an instruction that ran with reduce_cmd.idle.",
    "on the Vector engine an idle instruction may still change the registers",
    severity="warning",
)
CHAIN_LANES = declare(
    "R009",
    "chain-lanes",
    "An accumulator chain goes on with other partitions than it began with.",
    "each lane has a register of its own",
    silent=True,
)


def follow_chain(
    engine: Engine, command: ReduceCmd | None = None
) -> Callable[[Call], Follow | None]:
    """Return the ``follow`` field of an instruction whose calls belong to chains on ``engine``.

    ``command`` is the command of every call; None takes the call's own ``reduce_cmd``.
    """

    def make(call: Call) -> Follow | None:
        does = call["reduce_cmd"] if command is None else command
        reads = "reduce_res" in call.values and call["reduce_res"] is not None
        if does is ReduceCmd.idle and not reads and engine is not Engine.vector:
            return None
        dst, name = call.instruction.parameters.index("dst"), call.name

        def follow(core: Core, arguments: Sequence[Any]) -> None:
            tile = arguments[dst]
            _follow(core, engine, does, name, (tile.start_partition, tile.shape[0]), reads=reads)

        return follow

    return make


def _follow(
    core: Core,
    engine: Engine,
    command: ReduceCmd,
    name: str,
    lanes: tuple[int, int],
    *,
    reads: bool,
) -> None:
    """Record the effect of an instruction on its engine's chain, and flag a broken chain."""
    registers = core.accumulators(engine)
    if command in REDUCING:
        registers.used = core.clock, lanes
    if registers.origins is not None and (command is not ReduceCmd.idle or reads):
        _propagate_garbage(core, registers.origins, lanes, command)
    if command in _BEGINNING:
        registers.owner, registers.lanes, registers.disturbed = name, lanes, ""
        return
    if command is ReduceCmd.reduce or reads:
        if not registers.owner:
            _broken(
                CHAIN_NOT_BEGUN, name, "the registers were never reset", "begin with reset_reduce"
            )
        elif registers.owner != name:
            why = f"the registers hold a chain of {registers.owner}"
            _broken(CHAIN_MIXED, name, why, "finish one chain before beginning the next")
        elif registers.lanes != lanes:
            why = f"lanes {lanes}, the chain began with {registers.lanes} (first, count)"
            _broken(CHAIN_LANES, name, why, "use the same partitions through the chain")
        elif registers.disturbed:
            why = f"{registers.disturbed} ran in between with reduce_cmd.idle"
            _broken(CHAIN_DISTURBED, name, why, "read the result in the last reducing instruction")
    elif engine is Engine.vector and registers.owner:
        registers.disturbed = name


def _propagate_garbage(
    core: Core, registers: Array, lanes: tuple[int, int], command: ReduceCmd
) -> None:
    """Propagate garbage of the lanes' registers; a command that begins a chain clears it."""
    origins = registers[lanes[0] : lanes[0] + lanes[1]]
    if command in _BEGINNING:
        origins[...] = 0
    elif origins.any():
        core.garbage.append(Garbage(core.clock, "registers", origins.reshape(-1, 1).copy()))


def _broken(rule: Any, name: str, why: str, fix: str) -> None:
    flag(
        rule,
        f"{name}: {why}",
        instruction=name,
        operand="reduce_cmd",
        seen=why,
        fix=fix,
        cause=(name, why),
    )


def accumulate(
    core: Core,
    engine: Engine,
    command: ReduceCmd,
    op: Any,
    values: Array,
    dst: NkiTensor,
    reduce_res: NkiTensor | None,
    load: Any = 0.0,
    *,
    reset: float | None = None,
) -> Any:
    """Fold ``values`` along the free dimension into the registers; return an instruction's results.

    Args:
        core: The core that has the registers.
        engine: The engine that has the registers.
        command: Whether the call resets, loads, extends or leaves the registers.
        op: Operator of the reduction.
        values: Float32, one row per lane; the result for ``dst``.
        dst: Destination; its partitions are the active lanes.
        reduce_res: Destination of the registers, as second result; None if they are not read out.
        load: Initial value of the registers for ``load_reduce``.
        reset: Value that a reset writes to the registers; None is the neutral element of ``op``.
    """
    function = as_op(op)
    part = None
    if function is not None and command in REDUCING:
        assert function.reduce is not None
        part = function.reduce(values)
    lanes, reads = (dst.start_partition, values.shape[0]), reduce_res is not None
    total = fold(core, engine, command, op, part, lanes, load, reads=reads, reset=reset)
    return (values, total) if reads else values


def fold(
    core: Core,
    engine: Engine,
    command: ReduceCmd,
    op: Any,
    part: Array | None,
    lanes: tuple[int, int],
    load: Any = 0.0,
    *,
    reads: bool,
    reset: float | None = None,
) -> Array:
    """Combine the reduction of each row with the registers; return the registers.

    ``part`` has one float32 per lane, and is None if the command does not reduce. ``lanes`` is the
    first lane and the number of lanes. ``reads`` is whether the instruction returns the registers.
    ``accumulate`` describes the other arguments.
    """
    registers = core.accumulators(engine).rows(*lanes)
    if command is ReduceCmd.idle and not reads:
        return registers
    function = as_op(op)
    if command in (ReduceCmd.reset, ReduceCmd.reset_reduce):
        neutral = 0.0 if function is None else function.identity
        registers[...] = neutral if reset is None else reset
    elif command is ReduceCmd.load_reduce:
        registers[...] = load
    if function is not None and part is not None:
        assert function.binary is not None
        registers[...] = function.binary(registers, part.reshape(-1, 1))
    return registers.copy()
