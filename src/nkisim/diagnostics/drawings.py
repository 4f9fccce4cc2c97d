"""SVG drawings of findings: element maps, two cores side by side."""

from __future__ import annotations

import linecache
import re
from html import escape

from nkisim.diagnostics.findings import Finding
from nkisim.diagnostics.pictures import Bitmap, pattern_bitmap

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
    sides = [(_who(site[0]), site[0], _line(site["file"], int(site["line"]))) for site in sites]
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


def _who(text: str) -> str:
    """Return the first core, rank or engine named in a text."""
    found = _WHO.search(text)
    return found[1] if found else "here"


def _line(file: str, number: int) -> str:
    return linecache.getline(file, number).strip()
