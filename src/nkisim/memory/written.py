"""Reads of memory that nobody wrote: the finding, and the value such a read sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nkisim.diagnostics import flag
from nkisim.memory import rules
from nkisim.memory.region import MemoryRegion

if TYPE_CHECKING:
    from nkisim.memory.tensor import NkiTensor

__all__ = ["INTEGER_SENTINEL", "check_written", "poison"]

INTEGER_SENTINEL = 4
"""What unwritten integers read as; unwritten floats read as NaN."""

_RULES = {
    MemoryRegion.sbuf: rules.UNWRITTEN_SBUF,
    MemoryRegion.psum: rules.UNWRITTEN_PSUM,
    MemoryRegion.private_hbm: rules.UNWRITTEN_HBM,
    MemoryRegion.shared_hbm: rules.UNWRITTEN_HBM,
}


def check_written(tensor: NkiTensor, instruction: str, operand: str) -> None:
    """Report elements of ``tensor`` that nobody wrote, and let them read as the sentinel."""
    if tensor.storage.complete:
        return
    hidden = tensor.storage.unwritten(*tensor.region)
    if hidden is None:
        return
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(hidden)), hidden.shape))
    count = int(hidden.sum())
    poison(tensor, hidden)
    flag(
        _RULES[tensor.buffer],
        f"{instruction} reads {count} of {tensor.size} elements of `{tensor.name}` that nothing "
        f"has written",
        instruction=instruction,
        operand=operand,
        seen=f"first unwritten element {first}",
        fix="write the whole tile first (a load, or nisa.memset), or read only the part that was "
        "written",
        notes=(
            f"{operand}   {tensor.describe()}, made at "
            f"{tensor.alloc.line[0]}:{tensor.alloc.line[1]}",
        ),
    )


def _called(tensor: NkiTensor, operand: str) -> str:
    """Return how to name a tensor: by its own name, else by its role."""
    return f"`{tensor.alloc.name}`" if tensor.alloc.name else operand


def poison(tensor: NkiTensor, hidden: np.ndarray) -> None:
    """Put the sentinel where ``hidden`` is true; the elements stay unwritten."""
    array = tensor.array
    array[hidden] = np.nan if tensor.dtype.kind == "float" else INTEGER_SENTINEL
    tensor.storage.version += 1
