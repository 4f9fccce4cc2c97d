"""The accumulator registers that some Scalar and Vector instructions share."""

from __future__ import annotations

from typing import Any

import numpy as np

from nkisim.machine import Core
from nkisim.spec import as_op
from nkisim.spec.enums import engine as Engine
from nkisim.spec.enums import reduce_cmd as ReduceCmd

__all__ = ["accumulate"]

Array = np.ndarray


def accumulate(
    core: Core,
    engine: Engine,
    command: ReduceCmd,
    op: Any,
    values: Array,
    start: int,
    load: Any = 0.0,
) -> Array:
    """Fold ``values`` along the free dimension into the registers; return the registers.

    Args:
        core: The core whose registers they are.
        engine: Whose set of registers.
        command: What happens to them.
        op: Operator of the reduction.
        values: Float32, one row per lane.
        start: Lane of the first row.
        load: What ``load_reduce`` puts into them first.
    """
    registers = core.accumulators(engine).rows(start, values.shape[0])
    function = as_op(op)
    identity = 0.0 if function is None else function.identity
    if command in (ReduceCmd.reset, ReduceCmd.reset_reduce):
        registers[...] = identity
    elif command is ReduceCmd.load_reduce:
        registers[...] = load
    if function is not None and command in (
        ReduceCmd.reduce,
        ReduceCmd.reset_reduce,
        ReduceCmd.load_reduce,
    ):
        assert function.reduce is not None and function.binary is not None
        part = function.reduce(values).reshape(-1, 1)
        registers[...] = function.binary(registers, part)
    return registers.copy()
