"""Capacity checks: live bytes in SBUF and PSUM, overlapping explicit addresses, memory over time.

A tensor is live from its first write to its last use; tensors that are live at the same time must
fit together. Tiles on few partitions may share a byte range with tiles on other partitions, so a
tile is counted only for the quarters of the partitions that it needs. Two tiles on more than half
of the partitions cannot share a byte, so such a tile is counted for all. The check can miss an
overflow but reports no false ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nkisim.diagnostics import Place, Rule, declare, flag
from nkisim.diagnostics.pictures import Occupancy, Tile
from nkisim.dtypes import DType
from nkisim.machine import Core
from nkisim.memory import Lifetime, MemoryRegion
from nkisim.memory.log import QUADRANT, SHARES, AllocationLog, collisions, device_bytes, space
from nkisim.memory.rules import ADDRESSES_MIXED, SBUF_OVERFLOW

PSUM_OVERFLOW = declare(
    "M010",
    "psum-overflow",
    "PSUM tiles that are live at the same time need more than 8 banks.",
    "each tile takes whole banks",
)
ADDRESS_COLLISION = declare(
    "M013",
    "address-collision",
    "Two tensors that are live at the same time have overlapping explicit addresses.",
    "one overwrites the other, and no dependency is tracked",
    silent=True,
)

RING_COLLISION = declare(
    "R002",
    "ring-collision",
    "A tensor that a loop places at an explicit address overwrites that of an earlier "
    "iteration, which is still in use.",
    "the later iteration may write before the earlier one has read",
    silent=True,
)
ELEMENTS_AS_BYTES = declare(
    "M017",
    "elements-as-bytes",
    "Explicit addresses follow each other at distances of elements, although they count bytes.",
    "the tensors overlap, and one may overwrite the other",
    severity="warning",
)

REGISTER_PRESSURE = declare(
    "R014",
    "register-pressure",
    "More registers are in use at a time than a sequencer has.",
    "the back end cannot allocate them",
)

_REGISTERS = 64


def check_capacity(core: Core, place: Place) -> None:
    """Check the live ranges of a finished run of a kernel that is defined at ``place``."""
    _check_registers(core, place)
    used = [a for a in core.memory.log if a.first_use >= 0]
    target = core.generation
    for region, rule, unit, limit in (
        (MemoryRegion.sbuf, SBUF_OVERFLOW, 1, target.sbuf_usable_bytes),
        (MemoryRegion.psum, PSUM_OVERFLOW, target.psum_bank_bytes, target.psum_bytes),
    ):
        # The allocation of a tile that is too large alone has reported it.
        tiles = [a for a in used if a.region is region and device_bytes(a) <= limit]
        if not tiles:
            continue
        _check_peak(tiles, region, rule, unit, limit, core)
        placed = [a for a in tiles if a.address is not None]
        if not placed:
            continue
        _check_addresses(placed, core.memory.log)
        automatic = [a for a in tiles if a.address is None]
        if automatic:
            gone = core.memory.log.dropped(region)
            few, many = len(placed) + gone[0], len(automatic) + gone[1]
            flag(
                ADDRESSES_MIXED,
                f"{few} of {few + many} tensors in {region.value} have explicit addresses, "
                f"the rest do not",
                operand=automatic[0].label,
                seen=f"{few} placed, {many} automatic",
                fix="place all long-lived tiles explicitly, or none",
                place=Place(*automatic[0].line),
            )


def _check_registers(core: Core, place: Place) -> None:
    """Report more live registers than a sequencer has."""
    if len(core.register_spans) <= _REGISTERS:
        return
    first, last = zip(*core.register_spans, strict=True)
    peak, moment = _peak(first, last, [1] * len(first))
    if peak > _REGISTERS:
        flag(
            REGISTER_PRESSURE,
            f"{peak} registers are in use at instruction {moment}, a sequencer has {_REGISTERS}",
            seen=peak,
            allowed=f"at most {_REGISTERS}",
            fix="reuse registers, or keep the values in a tile and load them when they are needed",
            place=place,
        )


def _check_peak(
    tiles: list[Lifetime], region: MemoryRegion, rule: Rule, unit: int, limit: int, core: Core
) -> None:
    """Sweep over the live ranges and report the peak if it exceeds the memory."""
    known: dict[tuple[tuple[int, ...], DType], tuple[int, int]] = {}
    quarters = core.generation.partitions // QUADRANT
    needs = []
    for tile in tiles:
        kind = tile.shape, tile.dtype
        found = known.get(kind)
        if found is None:
            rows = min(-(-tile.shape[0] // QUADRANT), quarters)
            found = known[kind] = rows, device_bytes(tile, unit)
        needs.append(found)
    if sum([nbytes for _, nbytes in needs]) <= limit:
        return
    first, last = [tile.first_use for tile in tiles], [tile.last_use for tile in tiles]
    # Both counts are equal for tiles on all partitions, which most are.
    ways = {tuple(shares[rows] * nbytes for rows, nbytes in needs) for shares in SHARES}
    peak, moment = max(_peak(first, last, shares) for shares in ways)
    if peak <= limit * quarters:
        return
    together = sorted(
        (a for a in tiles if a.first_use <= moment <= a.last_use),
        key=lambda a: -device_bytes(a, unit),
    )
    largest = tuple(
        f"{device_bytes(a, unit)} bytes  {a.dtype} {a.shape} `{a.label}` at {a.line[0]}:{a.line[1]}"
        for a in together[:10]
    )
    need = -(-peak // quarters)
    placed = any(a.address is not None for a in together)
    spills = ""
    if rule is SBUF_OVERFLOW and not placed:
        spilled = (need - limit) * core.generation.partitions
        spills = (
            f"; at least {need - limit} bytes per partition, {spilled} in all, would be written to "
            "HBM and read again at each later use"
        )
    flag(
        rule,
        f"{len(together)} tiles live in {region.value} at instruction {moment} need "
        f"{need} bytes per partition, {core.generation} has {limit}{spills}",
        operand=together[0].label,
        seen=f"{need} bytes",
        allowed=f"{limit} bytes per partition",
        fix="use smaller tiles, reuse them, or shorten their lifetimes",
        notes=largest,
        place=Place(*together[0].line),
        severity="error" if placed else None,
    )


def _peak(first: Sequence[int], last: Sequence[int], shares: Sequence[int]) -> tuple[int, int]:
    """Return the peak of live bytes, and its time."""
    ends = sorted(zip(last, shares, strict=True))
    ended = live = most = moment = 0
    for begin, share in sorted(zip(first, shares, strict=True)):
        # At one instruction, tiles that it uses first and tiles that it uses last are all live.
        while ends[ended][0] < begin:
            live -= ends[ended][1]
            ended += 1
        live += share
        if live > most:
            most, moment = live, begin
    return most, moment


def _check_addresses(placed: list[Lifetime], log: AllocationLog) -> None:
    """Report placed tensors that overlap in space and in time."""
    found = collisions(placed)
    for a, b in found:
        if a.line == b.line and a.shape == b.shape and a.dtype == b.dtype:
            _report_ring(a, b, len(log.lines[a.line].addresses))
            continue
        flag(
            ADDRESS_COLLISION,
            f"`{a.label}` and `{b.label}` overlap in {a.region.value} while both are live",
            operand=b.label,
            seen=f"{_span(a)} and {_span(b)}",
            allowed="disjoint addresses, or lifetimes that do not overlap",
            fix="give them disjoint addresses",
            notes=(f"first placed at {a.line[0]}:{a.line[1]}",),
            place=Place(*b.line),
        )
    if not found:
        _check_units(log, placed[0].region)


def _report_ring(a: Lifetime, b: Lifetime, slots: int) -> None:
    """Report two iterations of a loop that use one slot at the same time."""
    first, second = a.number, b.number
    flag(
        RING_COLLISION,
        f"tile {second} of this line overwrites tile {first} at {_span(b)} while that is in use",
        operand=b.label,
        seen=f"{slots} slots; tile {first} is used from instruction {a.first_use} to {a.last_use}, "
        f"tile {second} from {b.first_use} to {b.last_use}",
        allowed="a slot whose last reader has finished",
        fix=f"give the ring {slots + 1} slots and index it with i % {slots + 1}",
        place=Place(*b.line),
    )


def _check_units(log: AllocationLog, region: MemoryRegion) -> None:
    """Report addresses that would not overlap if they were counted in elements."""
    for a, b in log.neighbours:
        if a.region is not region or a.first_use < 0 or b.first_use < 0:
            continue
        assert a.address is not None and b.address is not None
        width, elements = a.dtype.itemsize, math.prod(a.shape[1:])
        flag(
            ELEMENTS_AS_BYTES,
            f"`{b.label}` begins {elements} bytes after `{a.label}`, "
            f"which has {elements} elements and {elements * width} bytes in a partition",
            operand=b.label,
            seen=f"{_span(a)} and {_span(b)}",
            allowed=f"an address {elements * width} bytes further, or apart",
            fix=f"address=({b.address[0]}, {a.address[1] + elements * width})",
            notes=(f"the other is placed at {a.line[0]}:{a.line[1]}",),
            place=Place(*b.line),
        )


def _span(tile: Lifetime) -> str:
    top, bottom, left, right = space(tile)
    return f"partitions {top}-{bottom - 1} bytes {left}-{right - 1}"


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
