"""Panels: what a rank needs of an operand of a product and does not have, received in pieces.

One broadcast for each panel is started while the panel before it is multiplied, so that a rank
holds two panels of an operand and not all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from trnsci.core.distributed.layout import even_offsets
from trnsci.core.distributed.plans import Step
from trnsci.core.distributed.schedule import FREE, Move, Schedule, Split

_WIDTH = 512
"""Largest width of a panel: a rank holds two of each matrix, and 512 is four tiles of a kernel."""


@dataclass(frozen=True)
class Panel:
    """A range of an index; ``owners`` has, for each operand, the rank that sends it."""

    start: int
    stop: int
    owners: dict[int, int]


@dataclass(frozen=True)
class Panels:
    """The operands of a product that are received in panels.

    Attributes:
        index: The index of the panels; empty without any.
        streamed: The last move of each operand that is received in panels, an all-gather.
        every: The panels, cut where the owner of an operand's panel changes.
    """

    index: str
    streamed: dict[int, Move]
    every: tuple[Panel, ...]


@lru_cache(maxsize=256)
def panels_of(plan: Schedule) -> Panels:
    """Return the panels of a product: of operands whose last move is an all-gather of one index."""
    streamed: dict[int, Move] = {}
    index = ""
    for operand, (term, found) in enumerate(zip(plan.terms, plan.before, strict=True)):
        if found and found[-1].kind == "all_gather":
            dim = found[-1].dims[0]
            assert dim is not None
            if index in ("", term[dim]):
                index, streamed[operand] = term[dim], found[-1]
    if not streamed:
        return Panels("", {}, ())
    offsets = {
        operand: even_offsets(plan.sizes[index], plan.mesh.shape[move.mesh_dim])
        for operand, move in streamed.items()
    }
    outer = sorted({cut for each in offsets.values() for cut in each})
    cuts = sorted({cut for a, b in pairwise(outer) for cut in (*range(a, b, _WIDTH), b)})
    every = tuple(
        Panel(
            start,
            stop,
            {
                operand: max(r for r, first in enumerate(each[:-1]) if first <= start)
                for operand, each in offsets.items()
            },
        )
        for start, stop in pairwise(cuts)
    )
    return Panels(index, streamed, every)


def product_steps(plan: Schedule) -> tuple[Step, ...]:
    """Return the collectives and the products of a schedule of two matrices."""
    mesh, panels = plan.mesh, panels_of(plan)
    found: list[Step] = []
    overlapped: list[Step] = []
    for operand, moves in enumerate(plan.before):
        steps = [
            mesh.step(move, "AB"[operand], plan.shapes[operand])
            for move in moves
            if move.kind not in FREE
        ]
        if operand in panels.streamed:
            last = steps.pop()
            count = len(panels.every) if any(last.received) else 0
            overlapped.append(Step("broadcast", last.what, last.received, count, overlapped=True))
        found += steps
    flops = []
    for at in mesh.coordinates:
        (rows, depth), (_, columns) = plan.contracted_shapes(at)
        flops.append(2 * rows * depth * columns)
    work = Step(
        "compute",
        "products",
        (0,) * len(flops),
        flops=tuple(flops),
        hbm_bytes=tuple(map(plan.touched, mesh.coordinates)),
        launches=max(1, len(panels.every)),
    )
    after = [mesh.step(move, "C", plan.shape) for move in plan.after if move.kind not in FREE]
    return (*found, *overlapped, work, *after)


def flipped(split: Split) -> Split:
    """Return the split of the transpose of a matrix."""
    return tuple(None if dim is None else 1 - dim for dim in split)
