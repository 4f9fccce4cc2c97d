"""Reads of memory that nobody wrote: the finding, and the value such a read sees."""

from __future__ import annotations

import numpy as np

from nkisim.diagnostics import flag
from nkisim.memory import rules
from nkisim.memory.region import MemoryRegion
from nkisim.memory.view import View

__all__ = ["INTEGER_SENTINEL", "report_unwritten", "with_sentinel"]

INTEGER_SENTINEL = 4
"""What unwritten integers read as; unwritten floats read as NaN."""

_RULES = {
    MemoryRegion.sbuf: rules.UNWRITTEN_SBUF,
    MemoryRegion.psum: rules.UNWRITTEN_PSUM,
    MemoryRegion.private_hbm: rules.UNWRITTEN_HBM,
    MemoryRegion.shared_hbm: rules.UNWRITTEN_HBM,
}


def report_unwritten(
    tensor: View, instruction: str, operand: str, part: np.ndarray | None = None
) -> np.ndarray | None:
    """Flag a read of elements that nobody wrote, and return the mask of all such, or None.

    Of a read that takes ``part`` of the elements only, the others are no reason for a finding.
    """
    if tensor.storage.complete:
        return None
    unwritten = tensor.storage.unwritten(*tensor.region)
    if unwritten is None:
        return None
    hidden = unwritten if part is None else unwritten & part
    if not hidden.any():
        return unwritten
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
    return unwritten


def _called(tensor: View, operand: str) -> str:
    """Return how to name a tensor: by its own name, else by its role."""
    return f"`{tensor.alloc.name}`" if tensor.alloc.name else operand


def with_sentinel(tensor: View, hidden: np.ndarray | None) -> np.ndarray:
    """Return the elements with the sentinel where ``hidden`` is true; the memory stays as it is."""
    if hidden is None:
        return tensor.array
    seen = np.array(tensor.array)
    seen[hidden] = np.nan if tensor.dtype.kind == "float" else INTEGER_SENTINEL
    return seen
