"""SVG drawings: element maps, memory use over time, two cores side by side."""

from __future__ import annotations

import linecache
import re
from html import escape

from nkisim.diagnostics.findings import Finding
from nkisim.diagnostics.pictures import Bitmap, Occupancy, Tile, pattern_bitmap

__all__ = ["access_drawings", "map_drawing", "occupancy_drawing", "two_sides"]

_MOST_TILES = 400
_MOST_PATTERNS = 3
_WIDTH, _HEIGHT = 640, 220
_COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#777777")


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
        f'<rect width="{width}" height="{height}" fill="#dde5ee"/>'
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


def occupancy_drawing(picture: Occupancy) -> str:
    """Return the memory use over the instructions of a run: one box per tile, height = bytes."""
    tiles = sorted(picture.tiles, key=lambda t: (t.first, -t.nbytes))
    left_out = max(len(tiles) - _MOST_TILES, 0)
    if left_out:
        tiles = sorted(tiles, key=lambda t: -t.nbytes)[:_MOST_TILES]
        tiles.sort(key=lambda t: t.first)
    placed = _placed(tiles)
    peak = max((at + t.nbytes for t, at in placed), default=1)
    near = 4 * peak > picture.limit
    top = max(picture.limit, peak) if near else peak * 1.2
    end = max((t.last for t in tiles), default=1) + 1
    x, y = _WIDTH / end, _HEIGHT / top
    owners = list(dict.fromkeys(t.label for t in tiles))
    boxes = []
    for tile, at in placed:
        colour = _COLOURS[owners.index(tile.label) % len(_COLOURS)]
        width = max((tile.last - tile.first + 1) * x, 1.5)
        high = max(tile.nbytes * y, 1.0)
        title = (
            f"{tile.label}: {tile.nbytes} bytes per partition, instructions {tile.first} to "
            f"{tile.last}, made at {tile.place}"
        )
        left, down = tile.first * x, _HEIGHT - at * y - high
        boxes.append(
            f'<rect x="{left:.2f}" y="{down:.2f}" width="{width:.2f}" height="{high:.2f}" '
            f'fill="{colour}"><title>{escape(title)}</title></rect>'
        )
        if high > 11 and width > 7 * len(tile.label):
            boxes.append(
                f'<text x="{left + 3:.1f}" y="{down + 11:.1f}">{escape(tile.label)}</text>'
            )
    at_limit = _HEIGHT - picture.limit * y
    line = (
        f'<line x1="0" x2="{_WIDTH}" y1="{at_limit:.2f}" y2="{at_limit:.2f}" class="limit"/>'
        if near
        else ""
    )
    limit = f"{picture.limit:,} bytes per partition"
    limit = f"the line is at {limit}" if near else f"at most {peak:,} of {limit}"
    where = f" of {escape(picture.where)}" if picture.where else ""
    more = f"; {left_out} smaller tiles are not drawn" if left_out else ""
    named = ", ".join(map(escape, owners[:12])) + (", ..." if len(owners) > 12 else "")
    return (
        f'<figure class="memory"><svg viewBox="0 -4 {_WIDTH} {_HEIGHT + 8}" role="img">'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#f2f5f8"/>{"".join(boxes)}'
        f"{line}</svg>"
        f"<figcaption>{picture.memory.upper()}{where} over {end - 1} instructions; {limit}. "
        f"Tiles: {named}{more}</figcaption></figure>"
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


_WHO = re.compile(r"\b((?:core|rank) \d+|the other core|\w+ engine)\b")
_SITE = re.compile(r"^(?P<does>.*?) at (?P<file>\S+):(?P<line>\d+)(?P<rest>.*)$")


def two_sides(finding: Finding) -> str:
    """Return both sides of a race or a wait in two columns; empty for other findings."""
    if finding.rule.id[0] not in "RC":
        return ""
    sites = [site for note in finding.notes if (site := _SITE.match(note)) is not None]
    sides = [(_who(site[0]), site[0], _line(site["file"], int(site["line"]))) for site in sites]
    if len(sides) == 1:
        here = str(finding.place)
        sides.insert(0, (_who(finding.message), here, finding.place.text))
    if len(sides) < 2:
        return ""
    heads = "".join(f"<th>{escape(who)}</th>" for who, _, _ in sides[:2])
    cells = "".join(
        f"<td>{escape(text)}<br><code>{escape(source)}</code></td>" for _, text, source in sides[:2]
    )
    return f'<table class="sides"><tr>{heads}</tr><tr>{cells}</tr></table>'


def _who(text: str) -> str:
    """Return the first core, rank or engine named in a text."""
    found = _WHO.search(text)
    return found[1] if found else "here"


def _line(file: str, number: int) -> str:
    return linecache.getline(file, number).strip()
