"""SVG drawings: element maps, two cores side by side, memory use over the instructions of a run."""

from __future__ import annotations

import linecache
import math
import re
from html import escape

from nkisim.diagnostics.findings import Finding
from nkisim.diagnostics.pictures import Bitmap, Occupancy, Tile, pattern_bitmap

_MOST_PATTERNS = 3


def map_drawing(picture: Bitmap, colour: str = "#ee6677") -> str:
    """Return a map: partitions downwards, elements of a partition to the right."""
    rows, columns = len(picture.cells), len(picture.cells[0])
    width, height = 260, max(24, min(160, 260 * rows // max(columns, 1)))
    w, h = width / columns, height / rows
    cells = []
    for y, row in enumerate(picture.cells):
        for run in re.finditer("1+", row):
            cells.append(
                f'<rect x="{run.start() * w:.2f}" y="{y * h:.2f}" '
                f'width="{(run.end() - run.start()) * w:.2f}" height="{h:.2f}"/>'
            )
    size = f"{picture.shape[0]} partitions &#215; {picture.shape[1]} elements"
    return (
        f'<figure><svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" shape-rendering="crispEdges">'
        f'<rect width="{width}" height="{height}" class="map"/>'
        f'<g fill="{colour}">{"".join(cells)}</g></svg>'
        f"<figcaption>{size}; coloured: {escape(picture.marked)}</figcaption></figure>"
    )


def access_drawings(finding: Finding) -> str:
    """Return drawings of the access patterns of operands that are partial views."""
    drawn: list[str] = []
    first = sorted(finding.facts, key=lambda f: f.argument != finding.operand)
    for fact in first:
        if not fact.argument or not fact.pattern or len(drawn) == _MOST_PATTERNS:
            continue
        picture = pattern_bitmap(fact.of, fact.pattern, fact.offset)
        if picture is not None and any("0" in row for row in picture.cells):
            text = ", ".join(f"[{step}, {count}]" for step, count in fact.pattern)
            drawn.append(
                f"<p>{escape(fact.argument)}: {escape(fact.dtype)} {fact.shape} in "
                f"{escape(fact.buffer)}, pattern {text} from element {fact.offset}</p>"
                + map_drawing(picture, "#4477aa")
            )
    return "".join(drawn)


_WHO = re.compile(r"\b((?:core|rank) \d+|the other core|\w+ engine)\b")
_SITE = re.compile(r"^(?P<does>.*?) at (?P<file>\S+):(?P<line>\d+)(?P<rest>.*)$")


def two_sides(finding: Finding) -> str:
    """Return both sides of a race or a wait in two columns; empty for other findings."""
    if finding.rule.id[0] not in "RC":
        return ""
    sites = [site for note in finding.notes if (site := _SITE.match(note)) is not None]
    sides = [(_side(site[0]), site[0], _line(site["file"], int(site["line"]))) for site in sites]
    if len(sides) == 1:
        here = str(finding.place)
        sides.insert(0, (finding.data.get("who", "here"), here, finding.place.text))
    if len(sides) < 2:
        return ""
    heads = "".join(f"<th>{escape(who)}</th>" for who, _, _ in sides[:2])
    cells = "".join(
        f"<td>{escape(text)}<br><code>{escape(source)}</code></td>" for _, text, source in sides[:2]
    )
    return f'<table class="sides"><tr>{heads}</tr><tr>{cells}</tr></table>'


def _side(text: str) -> str:
    """Return the first core, rank or engine named in a text."""
    found = _WHO.search(text)
    return found[1] if found else "here"


def _line(file: str, number: int) -> str:
    return linecache.getline(file, number).strip()


_MOST_TILES = 400
_WIDTH, _HEIGHT = 640, 220
_LEFT, _TOP, _BOTTOM = 92, 54, 50
_COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#777777")


def occupancy_chart(picture: Occupancy) -> str:
    """Return a chart: instructions to the right, bytes per partition upwards, a box per tile."""
    tiles = sorted(picture.tiles, key=lambda t: (t.first, -t.nbytes))
    left_out = max(len(tiles) - _MOST_TILES, 0)
    if left_out:
        tiles = sorted(tiles, key=lambda t: -t.nbytes)[:_MOST_TILES]
        tiles.sort(key=lambda t: t.first)
    placed = _placed(tiles)
    peak = max((at + t.nbytes for t, at in placed), default=1)
    # The capacity is a line in the chart, unless the tiles would be too small to see.
    near = 4 * peak > picture.limit
    top = 1.08 * max(picture.limit, peak) if near else 1.25 * peak
    end = max((t.last for t in tiles), default=1) + 1
    x, y = _WIDTH / end, _HEIGHT / top
    owners = list(dict.fromkeys(t.label for t in tiles))
    boxes = "".join(
        _box(tile, at, x, y, _COLOURS[owners.index(tile.label) % len(_COLOURS)])
        for tile, at in placed
    )
    title = " ".join(
        part
        for part in (
            f"{picture.kernel}:" if picture.kernel else "",
            picture.memory.upper(),
            f"of {picture.where}" if picture.where else "",
            f"on {picture.target}" if picture.target else "",
        )
        if part
    )
    more = f"; {left_out} smaller tiles are not drawn" if left_out else ""
    named = "".join(
        f'<i style="background:{_COLOURS[number % len(_COLOURS)]}"></i>{escape(owner)}'
        for number, owner in enumerate(owners[:12])
    ) + (", ..." if len(owners) > 12 else "")
    size = f"{-_LEFT} {-_TOP} {_LEFT + _WIDTH + 14} {_TOP + _HEIGHT + _BOTTOM}"
    return (
        f'<figure class="memory"><svg viewBox="{size}" role="img" aria-label="{escape(title)}">'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" class="plot"/>'
        f"{_axes(top, end, x, y)}{boxes}{_capacity(picture.limit, y if near else 0.0)}"
        f'<text class="title" x="0" y="-30">{escape(title)}</text></svg>'
        f"<figcaption>At most {peak:,} of {picture.limit:,} bytes per partition in use at a time, "
        f"over {end - 1:,} instructions. Tiles:{named}{more}</figcaption></figure>"
    )


def _box(tile: Tile, at: int, x: float, y: float, colour: str) -> str:
    """Return the box of a tile, with its name if there is space for it."""
    width = max((tile.last - tile.first + 1) * x, 1.5)
    high = max(tile.nbytes * y, 1.0)
    title = (
        f"{tile.label}: {tile.nbytes} bytes per partition, instructions {tile.first} to "
        f"{tile.last}, made at {tile.place}"
    )
    left, down = tile.first * x, _HEIGHT - at * y - high
    box = (
        f'<rect x="{left:.2f}" y="{down:.2f}" width="{width:.2f}" height="{high:.2f}" '
        f'fill="{colour}"><title>{escape(title)}</title></rect>'
    )
    if high > 11 and width > 7 * len(tile.label):
        box += (
            f'<text class="tile" x="{left + 3:.1f}" y="{down + 11:.1f}">{escape(tile.label)}</text>'
        )
    return box


def _axes(top: float, end: int, x: float, y: float) -> str:
    """Return both axes, with marks at round numbers and their titles."""
    parts = [f'<path class="axis" d="M0 0V{_HEIGHT}H{_WIDTH}"/>']
    for value in _marks(top):
        at = _HEIGHT - value * y
        parts.append(
            f'<path class="grid" d="M0 {at:.1f}H{_WIDTH}"/>'
            f'<text class="axis" x="-5" y="{at + 3:.1f}" text-anchor="end">{value:,}</text>'
        )
    for value in _marks(end):
        at = value * x
        parts.append(
            f'<path class="axis" d="M{at:.1f} {_HEIGHT}v4"/><text class="axis" x="{at:.1f}" '
            f'y="{_HEIGHT + 19}" text-anchor="middle">{value:,}</text>'
        )
    parts.append(
        f'<text class="axis" x="{_WIDTH / 2}" y="{_HEIGHT + 42}" text-anchor="middle">'
        f'instruction</text><text class="axis" transform="translate({16 - _LEFT} {_HEIGHT / 2}) '
        'rotate(-90)" text-anchor="middle">bytes per partition</text>'
    )
    return "".join(parts)


def _marks(end: float) -> range:
    """Return about five round numbers from 0 to an end."""
    size = 10 ** math.floor(math.log10(max(end / 5, 1)))
    step = next(size * n for n in (1, 2, 5, 10) if size * n >= end / 5 or n == 10)
    return range(0, math.floor(end) + 1, max(step, 1))


def _capacity(limit: int, y: float) -> str:
    """Return the line of the capacity; a text if it is above the chart (``y`` is 0)."""
    text = f"capacity {limit:,} bytes"
    if not y:
        return (
            f'<text class="limit" x="{_WIDTH}" y="-6" text-anchor="end">{text}, above this chart '
            "&#8593;</text>"
        )
    at = _HEIGHT - limit * y
    return (
        f'<line x1="0" x2="{_WIDTH}" y1="{at:.2f}" y2="{at:.2f}" class="limit"/>'
        f'<text class="limit" x="{_WIDTH}" y="{at - 4:.1f}" text-anchor="end">{text}</text>'
    )


def _placed(tiles: list[Tile]) -> list[tuple[Tile, int]]:
    """Return an offset for each tile: the lowest that is free during its lifetime."""
    live: list[tuple[Tile, int]] = []
    placed = []
    for tile in tiles:
        live = [(other, at) for other, at in live if other.last >= tile.first]
        at = 0
        for other, start in sorted(live, key=lambda pair: pair[1]):
            if start - at >= tile.nbytes:
                break
            at = max(at, start + other.nbytes)
        live.append((tile, at))
        placed.append((tile, at))
    return placed
