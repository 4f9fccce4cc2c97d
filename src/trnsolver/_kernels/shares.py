"""Split of a batch between the cores of a launch, for kernels with loops on the device.

The compiler translates a kernel once for each core of a logical core, and both programs must have
the same loops. So both cores take as many items; where one item is left over, both compute it and
one stores it. A kernel that is launched on one core takes all items.
"""

from __future__ import annotations

from trnsci.core.nki import nl


def turns(count: int) -> int:
    """Return the number of items that each core computes, of ``count``."""
    cores = nl.num_programs()
    return (count + cores - 1) // cores


def item(turn: int, count: int) -> int:
    """Return the item of a turn on this core."""
    return min(turn * nl.num_programs() + nl.program_id(0), count - 1)


def stores(turn: int, count: int) -> bool:
    """Return whether this core stores the results of a turn."""
    return turn * nl.num_programs() + nl.program_id(0) < count
