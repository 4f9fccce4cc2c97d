"""Memory use over the instructions of a run, as data for a drawing."""

from __future__ import annotations

import math

from nkisim.diagnostics.pictures import Occupancy, Tile
from nkisim.machine import Core
from nkisim.memory import MemoryRegion


def occupancy_of(core: Core, where: str = "") -> list[Occupancy]:
    """Return the use of SBUF and PSUM over a finished run."""
    found = []
    for region in (MemoryRegion.sbuf, MemoryRegion.psum):
        psum = region is MemoryRegion.psum
        unit = core.generation.psum_bank_bytes if psum else 1
        limit = core.generation.psum_bytes if psum else core.generation.sbuf_usable_bytes
        tiles = tuple(
            Tile(
                life.label if life.label != "unnamed" else f"line {life.line[1]}",
                -(-math.prod(life.shape[1:]) * life.dtype.itemsize // unit) * unit,
                life.first_use,
                life.last_use,
                f"{life.line[0]}:{life.line[1]}",
            )
            for life in core.memory.log
            if life.region is region and life.first_use >= 0
        )
        if tiles:
            found.append(Occupancy(region.value, limit, tiles, where))
    return found
