"""Mean and variance: bn_stats computes partial statistics, bn_aggr combines them."""

from __future__ import annotations

from typing import Any

import numpy as np

from nkisim.diagnostics import declare
from nkisim.machine import instruction
from nkisim.spec import ON_CHIP, Call, Constraint, In, Out
from nkisim.spec.constraints import elements_per_partition, same_partitions
from nkisim.spec.cost import stream
from nkisim.spec.enums import engine as Engine

Array = np.ndarray

STATISTICS_SHAPE = declare(
    "S047",
    "statistics-shape",
    "bn_stats or bn_aggr has operands of the wrong size.",
    "bn_stats takes up to 512 elements and makes 6, bn_aggr takes triples and makes 2",
    meaningless=True,
)


def _at_most_512(call: Call) -> None:
    data = call.operand("data")
    limit = call.generation.bn_stats_free_max
    if data.free_size > limit:
        call.fail(
            STATISTICS_SHAPE,
            f"data has {data.free_size} elements per partition, more than bn_stats_fmax={limit}",
            operand="data",
            seen=data.free_size,
            allowed=f"at most {limit}",
            fix="call bn_stats on chunks of nl.tile_size.bn_stats_fmax and join them with bn_aggr",
        )


def _triples(call: Call) -> None:
    data = call.operand("data")
    if data.free_size % 3:
        call.fail(
            STATISTICS_SHAPE,
            f"data has {data.free_size} elements per partition, not a multiple of 3",
            operand="data",
            seen=data.free_size,
            allowed="a multiple of 3",
            fix="pass whole (count, mean, variance*count) triples",
        )


def _statistics(data: Array) -> Array:
    """Return count, mean and variance*count of even, then of odd elements, over float64."""
    result = np.zeros((data.shape[0], 6), np.float32)
    for slot, part in ((0, data[:, 0::2]), (3, data[:, 1::2])):
        count = part.shape[1]
        result[:, slot] = count
        if count:
            wide = part.astype(np.float64)
            mean = wide.mean(axis=1, keepdims=True)
            wide -= mean
            result[:, slot + 1] = mean[:, 0]
            result[:, slot + 2] = np.square(wide, out=wide).sum(axis=1)
    return result


@instruction(
    engines=(Engine.vector,),
    operands={"dst": Out(ON_CHIP), "data": In(ON_CHIP)},
    require=(
        same_partitions("dst", "data"),
        elements_per_partition("dst", 6, STATISTICS_SHAPE),
        Constraint(
            "data has at most 512 elements per partition", (STATISTICS_SHAPE,), _at_most_512
        ),
    ),
    spread="lanes",
    cost=stream(over="data"),
    source="nki.isa.bn_stats, 0.3.0",
)
def bn_stats(dst: Any, data: Any, name: str | None = None) -> Array:
    """Return count, mean and variance*count of even, then of odd elements.

    Args:
        dst: Tile (P, 6) that receives the two triples.
        data: Tile of the elements, at most 512 per partition.
    """
    return _statistics(data)


@instruction(
    engines=(Engine.vector,),
    operands={"dst": Out(ON_CHIP), "data": In(ON_CHIP)},
    require=(
        same_partitions("dst", "data"),
        elements_per_partition("dst", 2, STATISTICS_SHAPE),
        Constraint("data holds whole triples", (STATISTICS_SHAPE,), _triples),
    ),
    spread="lanes",
    cost=stream(over="data", factor=13 / 3),
    source="nki.isa.bn_aggr, 0.3.0",
)
def bn_aggr(dst: Any, data: Any, name: str | None = None) -> Array:
    """Return mean and variance from triples of count, mean and variance*count.

    Args:
        dst: Tile (P, 2) that receives mean and variance.
        data: Tile of triples of count, mean and variance*count, as ``bn_stats`` writes them.
    """
    triples = data.reshape(data.shape[0], -1, 3).astype(np.float64)
    count, mean, spread = triples[:, :, 0], triples[:, :, 1], triples[:, :, 2]
    total = count.sum(axis=1)
    joint = (count * mean).sum(axis=1) / total
    variance = (spread + count * np.square(mean - joint[:, None])).sum(axis=1) / total
    return np.stack([joint, variance], axis=1).astype(np.float32)
