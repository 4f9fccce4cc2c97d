"""Large tiles in blocks of rows that fit the processor's cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nkisim.diagnostics import Rule
from nkisim.machine.transfer import Convert, make_narrower, make_widener
from nkisim.spec.call import Call
from nkisim.spec.instruction import Instruction

__all__ = ["Blocks", "blocks_of_rows", "make_blocks"]

_BLOCK_ELEMENTS = 32768
"""Elements of a block: three float32 arrays of this size fit easily into a level-2 cache."""


def blocks_of_rows(rows: int, width: int, elements: int = _BLOCK_ELEMENTS) -> list[slice]:
    """Return the blocks of rows of a tile, each of at most ``elements`` elements or one row."""
    height = max(1, elements // max(1, width))
    return [slice(first, min(first + height, rows)) for first in range(0, rows, height)]


class Blocks(NamedTuple):
    """The blocks of a large tile: slices of rows, and conversions of inputs and result."""

    rows: list[slice]
    widen: list[Convert]
    narrow: Convert


def make_blocks(
    instruction: Instruction, call: Call, reads: Sequence[str], inexact: Rule
) -> Blocks | None:
    """Return the blocks in which to compute a large tile, or None to compute it at once.

    Args:
        instruction: The instruction.
        call: A call of the signature.
        reads: Names of the operands that are read.
        inexact: The rule for integers that float32 cannot hold.
    """
    dst = call.tensor("dst") if instruction.rowwise else None
    if dst is None or dst.size < 2 * _BLOCK_ELEMENTS:
        return None
    tensors = call.tensors(*instruction.operands)
    if any(t.ndim != 2 or t.indirection is not None for _, t in tensors):
        return None
    rows = blocks_of_rows(dst.shape[0], dst.free_size)
    widen = [make_widener(call[name], name, instruction.name, inexact=inexact) for name in reads]
    narrow = make_narrower(dst, "dst", instruction.name, inexact=inexact)
    return Blocks(rows, widen, narrow)
