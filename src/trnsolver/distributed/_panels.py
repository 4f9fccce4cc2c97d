"""Panels of a sharded matrix: consecutive rows that their rank computes and then broadcasts."""

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.distributed.layout import Layout

_WIDEST = 256
"""Maximum rows of a panel: many make products fast, few keep buffers small."""
_PER_RANK = 4
"""Minimum panels of a rank: later ranks begin with its first panel, before its last row is done."""


class Panel(NamedTuple):
    """Rows ``start`` to ``end`` of a matrix, all of them on the rank ``owner``."""

    owner: int
    start: int
    end: int


def panels(layout: Layout) -> list[Panel]:
    """Return the panels of a square matrix, in order."""
    width = min(_WIDEST, max(1, -(-max(layout.sizes) // _PER_RANK)))
    found = []
    for rank in filled(layout):
        last = layout.offsets[rank + 1]
        for start in range(layout.offsets[rank], last, width):
            found.append(Panel(rank, start, min(start + width, last)))
    return found


def filled(layout: Layout) -> list[int]:
    """Return the ranks that have rows."""
    return [rank for rank, size in enumerate(layout.sizes) if size]
