"""Data and drawings of a report: blocks of the timeline, memory over time, the roofline."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any, NamedTuple

from nkisim.profiling.result import MemoryUse, ProfileData, Span
from nkisim.profiling.text import flop_rate, schedule_us

MOST_BLOCKS = 20_000
"""Maximum of blocks in a timeline. In a longer one, neighbours of a row are merged."""

COLOURS = {
    "tensor": "#4477aa",
    "vector": "#228833",
    "scalar": "#b39b1e",
    "gpsimd": "#aa3377",
    "sync": "#777777",
    "dge": "#cc6677",
    "dma": "#2a9bc0",
}
"""Colours of the engines."""

_MOST_QUEUES = 8
_OTHER = "other queues"
_MOST_OWNERS = 12
_MOST_INSTANTS = 1500

Owner = tuple[str, str, int]
"""Name of a tile, and file and line of its allocation."""


class Block(NamedTuple):
    """Neighbouring instructions of one row of the timeline.

    Attributes:
        start, end: First start and last end, in us.
        ready: When the last result can be read.
        busy: Sum of the times in which the instructions occupy the engine, in us.
        instructions: Number of instructions.
        name: Name of the first instruction.
        file, line: Line of the first instruction.
        nbytes: Bytes that the transfers among the instructions move.
    """

    start: float
    end: float
    ready: float
    busy: float
    instructions: int
    name: str
    file: str
    line: int
    nbytes: int


def blocks_of(spans: Iterable[Span]) -> list[Block]:
    """Return one block per instruction, by start."""
    return [
        Block(s.start_us, s.end_us, s.ready_us, s.end_us - s.start_us, 1, *s[4:7], s.nbytes)
        for s in sorted(spans, key=lambda span: span.start_us)
    ]


def _merged(rows: list[list[Block]], most: int, whole: float) -> list[list[Block]]:
    """Merge neighbours in each row, over ever longer gaps, until the blocks are few enough."""
    gap = whole / most
    while sum(map(len, rows)) > max(most, len(rows)):
        rows = [_joined(row, gap) for row in rows]
        gap *= 2
    return rows


def _joined(row: list[Block], gap: float) -> list[Block]:
    """Merge neighbours as long as a merged block is not longer than ``gap``."""
    found: list[Block] = []
    for block in row:
        last = found[-1] if found else None
        if last is None or block.end - last.start > gap:
            found.append(block)
            continue
        found[-1] = last._replace(
            end=max(last.end, block.end),
            ready=max(last.ready, block.ready),
            busy=last.busy + block.busy,
            instructions=last.instructions + block.instructions,
            nbytes=last.nbytes + block.nbytes,
        )
    return found


def memory_changes(uses: Iterable[MemoryUse]) -> list[tuple[float, dict[Owner, int]]]:
    """Return the changes of the bytes in use by owner, in order of time."""
    changes: dict[float, dict[Owner, int]] = {}
    for use in uses:
        owner = (use.name, use.file, use.line)
        for time, change in ((use.start_us, use.row_bytes), (use.end_us, -use.row_bytes)):
            here = changes.setdefault(time, {})
            here[owner] = here.get(owner, 0) + change
    return sorted(changes.items())


def chart_data(profile: ProfileData, most_blocks: int = MOST_BLOCKS) -> dict[str, Any]:
    """Return what the script of a report draws: times in ns, text by index."""
    end = schedule_us(profile)
    labels = _rows(profile)
    rows: list[list[Span]] = [[] for _ in labels]
    numbers = {label: number for number, label in enumerate(labels)}
    for span in profile.timeline:
        number = numbers.get((span.core, span.engine, span.queue))
        if number is None:
            number = numbers[span.core, span.engine, _OTHER]
        rows[number].append(span)
    blocks = _merged([blocks_of(row) for row in rows], most_blocks, end)
    names: dict[str, int] = {}
    places: dict[tuple[str, int], int] = {}
    columns: dict[str, list[int]] = {
        key: [] for key in ("start", "end", "ready", "busy", "count", "name", "place", "nbytes")
    }
    sizes = []
    for row in blocks:
        sizes.append(len(row))
        for block in row:
            for key in ("start", "end", "ready", "busy"):
                columns[key].append(round(1e3 * getattr(block, key)))
            columns["count"].append(block.instructions)
            columns["nbytes"].append(block.nbytes)
            columns["name"].append(names.setdefault(block.name, len(names)))
            columns["place"].append(places.setdefault((block.file, block.line), len(places)))
    texts = {(line.file, line.line): line.text for line in profile.lines}
    several = len(profile.per_core) > 1
    return {
        "end": round(1e3 * end),
        "rows": [
            {"label": _label(*label, several), "colour": COLOURS[label[1]], "blocks": count}
            for label, count in zip(labels, sizes, strict=True)
        ],
        "names": list(names),
        "places": [[file, line, texts.get((file, line), "")] for file, line in places],
        "blocks": columns,
        "memory": list(_memories(profile)),
    }


def _rows(profile: ProfileData) -> list[tuple[int, str, str]]:
    """Return core, engine and queue of each row: engines in order, queues by bytes."""
    moved: Counter[tuple[int, str]] = Counter()
    seen: dict[tuple[int, str], None] = {}
    for span in profile.timeline:
        if span.queue:
            moved[span.core, span.queue] += span.nbytes
        else:
            seen[span.core, span.engine] = None
    rows = []
    for core in range(len(profile.per_core)):
        rows += [(core, key, "") for key in profile.engine_busy_us if (core, key) in seen]
        queues = [queue for (of, queue), _ in moved.most_common() if of == core]
        rows += [(core, "dma", queue) for queue in queues[:_MOST_QUEUES]]
        if len(queues) > _MOST_QUEUES:
            rows.append((core, "dma", _OTHER))
    return rows


def _label(core: int, engine: str, queue: str, several: bool) -> str:
    label = queue or engine
    return f"{core}: {label}" if several else label


def _memories(profile: ProfileData) -> Iterator[dict[str, Any]]:
    """Yield each memory of each core: bytes by owner at the instants where they change."""
    several = len(profile.per_core) > 1
    for core in range(len(profile.per_core)):
        for region, capacity in profile.capacity.items():
            uses = [use for use in profile.memory if (use.core, use.region) == (core, region)]
            if not uses:
                continue
            label = f"{core}: {region.upper()}" if several else region.upper()
            yield {"label": label, "capacity": capacity, **_owned(memory_changes(uses))}


def _owned(changes: list[tuple[float, dict[Owner, int]]]) -> dict[str, Any]:
    """Return the owners' bytes over time; of many instants those with the most bytes in use."""
    used: Counter[Owner] = Counter()
    most: dict[Owner, int] = {}
    totals: list[int] = []
    for _, change in changes:
        for owner, nbytes in change.items():
            used[owner] += nbytes
            most[owner] = max(most.get(owner, 0), used[owner])
        totals.append((totals[-1] if totals else 0) + sum(change.values()))
    chosen = _instants(changes, totals)
    largest = sorted(most, key=lambda owner: -most[owner])
    named = largest if len(largest) <= _MOST_OWNERS else largest[: _MOST_OWNERS - 1]
    rest = set(largest) - set(named)
    series: dict[Owner, list[int]] = {owner: [] for owner in named}
    others: list[int] = []
    used.clear()
    for number, (_, change) in enumerate(changes):
        used.update(change)
        if number in chosen:
            for owner, values in series.items():
                values.append(used[owner])
            others.append(sum(used[owner] for owner in rest))
    owners = [
        {"name": name, "line": line, "bytes": values} for (name, _, line), values in series.items()
    ]
    if rest:
        owners.append({"name": f"{len(rest)} others", "line": 0, "bytes": others})
    times = [round(1e3 * changes[number][0]) for number in sorted(chosen)]
    return {"times": times, "peak": max(totals), "owners": owners}


def _instants(changes: list[tuple[float, dict[Owner, int]]], totals: list[int]) -> set[int]:
    """Return the numbers of the changes to draw: all, or in each bin of time the fullest one."""
    if len(changes) <= _MOST_INSTANTS:
        return set(range(len(changes)))
    step = changes[-1][0] / _MOST_INSTANTS or 1.0
    fullest: dict[int, int] = {}
    for number, (time, _) in enumerate(changes):
        there = fullest.setdefault(int(time / step), number)
        if totals[number] > totals[there]:
            fullest[int(time / step)] = number
    return {*fullest.values(), len(changes) - 1}


# -- roofline --------------------------------------------------------------------------------------

_WIDTH, _HEIGHT = 460, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 28, 14, 38


def roofline_drawing(profile: ProfileData) -> str:
    """Return the roofline with the position of the kernel; empty without products."""
    if not (profile.flops and profile.intensity and profile.peak_tflops and profile.hbm_gbps):
        return ""
    ridge = profile.peak_tflops * 1e3 / profile.hbm_gbps
    low, high = min(ridge, profile.intensity) / 10, max(ridge, profile.intensity) * 10
    down, up = min(profile.achieved_tflops / 2, profile.peak_tflops / 50), profile.peak_tflops * 2

    def x(intensity: float) -> float:
        share = math.log(intensity / low) / math.log(high / low)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(tflops: float) -> float:
        share = math.log(tflops / down) / math.log(up / down)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = []
    for value in _ticks(low, high):
        parts.append(svg_line(x(value), _TOP, x(value), bottom, "grid"))
        parts.append(svg_text(x(value), bottom + 18, f"{value:g}", "middle"))
    for value in _ticks(down, up):
        parts.append(svg_line(_LEFT, y(value), right, y(value), "grid"))
        parts.append(svg_text(_LEFT - 5, y(value) + 3, f"{value:g}", "end"))
    start = max(low, down * 1e3 / profile.hbm_gbps)
    roof = [
        (x(start), y(start * profile.hbm_gbps / 1e3)),
        (x(ridge), y(profile.peak_tflops)),
        (right, y(profile.peak_tflops)),
    ]
    points = " ".join(f"{px:.1f},{py:.1f}" for px, py in roof)
    middle, memory = math.sqrt(start * ridge), f"{profile.hbm_gbps:g} GB/s"
    side, across, down_by = ("end", -6, -6) if x(middle) > _LEFT + 80 else ("start", 8, 14)
    at, rate, best = x(profile.intensity), y(profile.achieved_tflops), y(profile.roofline_tflops)
    share = profile.achieved_tflops / profile.roofline_tflops
    anchor, shift = ("end", -8) if at > _WIDTH * 0.6 else ("start", 8)
    below = rate + 18 if rate + 22 < bottom else rate - 8  # the label of the roof is above it
    parts += [
        f'<polyline points="{points}" class="roof"/>',
        svg_line(at, best, at, rate, "gap"),
        f'<circle cx="{at:.1f}" cy="{rate:.1f}" r="5" class="kernel"/>',
        svg_text(at + shift, below, flop_rate(profile.achieved_tflops), anchor),
        svg_text(right - 2, y(profile.peak_tflops) - 5, flop_rate(profile.peak_tflops), "end"),
        svg_text(x(middle) + across, y(middle * profile.hbm_gbps / 1e3) + down_by, memory, side),
        svg_text((_LEFT + right) / 2, _HEIGHT - 5, "FLOP per byte of HBM traffic", "middle"),
        f'<text transform="translate(12 {(_TOP + bottom) / 2:.0f}) rotate(-90)" '
        'text-anchor="middle">TFLOP/s</text>',
    ]
    return (
        f'<svg class="roofline" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="roofline: {share:.0%} of the roof">{"".join(parts)}</svg>'
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return the powers of ten in a range."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    return [10.0**n for n in range(first, last + 1)]


def svg_line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Return a line of a drawing; ``kind`` is its class in the style sheet."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def svg_text(x: float, y: float, text: str, anchor: str = "start") -> str:
    """Return a text of a drawing."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
