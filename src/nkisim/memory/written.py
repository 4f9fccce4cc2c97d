"""Reads of memory that nobody wrote: the finding, and the value such a read sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nkisim.diagnostics import flag
from nkisim.memory import rules
from nkisim.memory.region import MemoryRegion

if TYPE_CHECKING:
    from nkisim.memory.tensor import NkiTensor

__all__ = ["INTEGER_SENTINEL", "read_elements", "report_unwritten", "with_sentinel"]

INTEGER_SENTINEL = 4
"""What unwritten integers read as; unwritten floats read as NaN."""

_RULES = {
    MemoryRegion.sbuf: rules.UNWRITTEN_SBUF,
    MemoryRegion.psum: rules.UNWRITTEN_PSUM,
    MemoryRegion.private_hbm: rules.UNWRITTEN_HBM,
    MemoryRegion.shared_hbm: rules.UNWRITTEN_HBM,
}


def read_elements(tensor: NkiTensor, instruction: str, operand: str) -> np.ndarray:
    """Return the stored elements; unwritten ones are a finding and read as NaN or 4."""
    return with_sentinel(tensor, report_unwritten(tensor, instruction, operand))


def report_unwritten(tensor: NkiTensor, instruction: str, operand: str) -> np.ndarray | None:
    """Flag a read of elements that nobody wrote, and return their mask, or None."""
    if tensor.storage.complete:
        return None
    hidden = tensor.storage.unwritten(*tensor.region)
    if hidden is None:
        return None
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(hidden)), hidden.shape))
    count = int(hidden.sum())
    flag(
        _RULES[tensor.buffer],
        f"{instruction} reads {count} of {tensor.size} elements of {_called(tensor, operand)} "
        "that nothing has written",
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
    return hidden


def _called(tensor: NkiTensor, operand: str) -> str:
    """Return how to name a tensor: by its own name, else by its role."""
    return f"`{tensor.alloc.name}`" if tensor.alloc.name else operand


def with_sentinel(tensor: NkiTensor, hidden: np.ndarray | None) -> np.ndarray:
    """Return the elements with the sentinel where ``hidden`` is true; the memory stays as it is."""
    if hidden is None:
        return tensor.array
    seen = np.array(tensor.array)
    seen[hidden] = np.nan if tensor.dtype.kind == "float" else INTEGER_SENTINEL
    return seen
