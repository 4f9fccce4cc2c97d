"""Does everything fit? Live bytes in SBUF and PSUM, and explicit addresses that collide.

A tensor is live from its first write to its last use. What is live together must fit together.
Tiles on few partitions may share a byte range with tiles on others, so a tile counts with the
quarter of the partitions that it needs: the check may miss an overflow, it never invents one.
"""

from __future__ import annotations

from nkisim.diagnostics import Place, Rule, declare, flag
from nkisim.machine import Core
from nkisim.memory import Lifetime, MemoryRegion
from nkisim.memory.rules import ADDRESSES_MIXED

__all__ = ["check_capacity"]

SBUF_OVERFLOW = declare(
    "M008",
    "sbuf-overflow",
    "error",
    "Tiles that are live at the same time need more SBUF than there is.",
    "the allocator fails, or spills to HBM",
)
PSUM_OVERFLOW = declare(
    "M010",
    "psum-overflow",
    "error",
    "PSUM tiles that are live at the same time need more than 8 banks.",
    "each tile takes whole banks",
)
ADDRESS_COLLISION = declare(
    "M013",
    "address-collision",
    "error",
    "Two tensors that are live at the same time have overlapping explicit addresses.",
    "one overwrites the other, and no dependency is tracked",
)

_QUADRANT = 32


def check_capacity(core: Core) -> None:
    """Check the live ranges of a finished run."""
    for region, rule, unit in (
        (MemoryRegion.sbuf, SBUF_OVERFLOW, 1),
        (MemoryRegion.psum, PSUM_OVERFLOW, core.generation.psum_bank_bytes),
    ):
        tiles = [a for a in core.memory.log if a.region is region and a.first_use >= 0]
        if not tiles:
            continue
        psum = region is MemoryRegion.psum
        limit = core.generation.psum_bytes if psum else core.generation.sbuf_usable_bytes
        if sum(_device_bytes(a, unit) for a in tiles) > limit:
            _check_peak(tiles, region, rule, unit, limit, core)
        _check_addresses([a for a in tiles if a.address is not None])
        placed = sum(a.address is not None for a in tiles)
        if 0 < placed < len(tiles):
            example = next(a for a in tiles if a.address is None)
            flag(
                ADDRESSES_MIXED,
                f"{placed} of {len(tiles)} tensors in {region.value} have explicit addresses, "
                f"the rest do not",
                operand=example.name,
                seen=f"{placed} placed, {len(tiles) - placed} automatic",
                fix="place all long-lived tiles explicitly, or none",
                place=Place(*example.line),
            )


def _device_bytes(tile: Lifetime, unit: int) -> int:
    """Return bytes per partition on the device, rounded up to whole units."""
    count = 1
    for extent in tile.shape[1:]:
        count *= extent
    return -(-count * tile.dtype.itemsize // unit) * unit


def _check_peak(
    tiles: list[Lifetime], region: MemoryRegion, rule: Rule, unit: int, limit: int, core: Core
) -> None:
    """Sweep over the live ranges and report the highest sum if it is too high."""
    changes: list[tuple[int, int, int]] = []
    for tile in tiles:
        share = -(-tile.shape[0] // _QUADRANT) * _device_bytes(tile, unit)
        changes.append((tile.first_use, 1, share))
        changes.append((tile.last_use, 2, -share))
    changes.sort()
    live = peak = moment = 0
    for time, _, share in changes:
        live += share
        if live > peak:
            peak, moment = live, time
    quarters = core.generation.partitions // _QUADRANT
    if peak <= limit * quarters:
        return
    together = sorted(
        (a for a in tiles if a.first_use <= moment <= a.last_use),
        key=lambda a: -_device_bytes(a, unit),
    )
    largest = tuple(
        f"{_device_bytes(a, unit)} bytes  {a.dtype} {a.shape} `{a.name or 'unnamed'}` at "
        f"{a.line[0]}:{a.line[1]}"
        for a in together[:10]
    )
    flag(
        rule,
        f"{len(together)} tiles live in {region.value} at instruction {moment} need "
        f"{-(-peak // quarters)} bytes per partition, {core.generation} has {limit}",
        operand=together[0].name or "unnamed",
        seen=f"{-(-peak // quarters)} bytes",
        allowed=f"{limit} bytes per partition",
        fix="use smaller tiles, reuse them, or shorten their lives",
        notes=largest,
        place=Place(*together[0].line),
    )


def _check_addresses(placed: list[Lifetime]) -> None:
    """Report pairs of placed tensors that overlap in space and in time."""
    for i, a in enumerate(placed):
        for b in placed[i + 1 :]:
            if not _overlap_in_space(a, b) or a.last_use < b.first_use or b.last_use < a.first_use:
                continue
            flag(
                ADDRESS_COLLISION,
                f"`{a.name or 'unnamed'}` and `{b.name or 'unnamed'}` overlap in "
                f"{a.region.value} while both are live",
                operand=b.name or "unnamed",
                seen=f"{_span(a)} and {_span(b)}",
                allowed="disjoint addresses, or lives that do not overlap",
                fix="give them disjoint addresses",
                notes=(f"first placed at {a.line[0]}:{a.line[1]}",),
                place=Place(*b.line),
            )


def _overlap_in_space(a: Lifetime, b: Lifetime) -> bool:
    assert a.address is not None and b.address is not None
    rows = a.address[0] < b.address[0] + b.shape[0] and b.address[0] < a.address[0] + a.shape[0]
    a_bytes, b_bytes = _device_bytes(a, 1), _device_bytes(b, 1)
    return rows and a.address[1] < b.address[1] + b_bytes and b.address[1] < a.address[1] + a_bytes


def _span(tile: Lifetime) -> str:
    assert tile.address is not None
    partition, offset = tile.address
    return (
        f"partitions {partition}-{partition + tile.shape[0] - 1} "
        f"bytes {offset}-{offset + _device_bytes(tile, 1) - 1}"
    )
