"""Findings as a self-contained HTML page: the source with findings next to its lines."""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from html import escape

from nkisim.diagnostics.charts import occupancy_chart
from nkisim.diagnostics.drawings import access_drawings, map_drawing, two_sides
from nkisim.diagnostics.findings import MOST_SHOWN, Finding
from nkisim.diagnostics.pictures import Occupancy

__all__ = ["body", "fragment"]

_AROUND = 20
"""Maximum number of context lines before the first and after the last finding of a file."""

_STYLE = """
.nkisim { font: 14px/1.45 system-ui, sans-serif; color: #1c2733; background: #fff; }
.nkisim h1 { font-size: 20px; margin: 0 0 4px; }
.nkisim h2 { font-size: 15px; margin: 24px 0 6px; }
.nkisim .file { display: flex; gap: 12px; align-items: stretch; }
.nkisim .lines { flex: 1 1 56%; min-width: 0; overflow-x: auto; background: #fbfcfd; }
.nkisim .cards { flex: 1 1 44%; min-width: 280px; position: relative; }
.nkisim .line { font: 12px/20px monospace; white-space: pre; padding-right: 8px; }
.nkisim .line span { display: inline-block; width: 40px; margin-right: 12px; text-align: right;
  color: #8795a5; }
.nkisim .line.error { background: #fbe9eb; }
.nkisim .line.warning { background: #fcf3df; }
.nkisim .line.note { background: #e6f1f8; }
.nkisim mark { background: none; border-bottom: 2px solid #d1495b; }
.nkisim .card { border-left: 4px solid #7a8794; background: #f7f9fb; margin: 0 0 8px;
  padding: 6px 10px; font-size: 13px; overflow-wrap: anywhere; }
.nkisim .card.error { border-color: #d1495b; }
.nkisim .card.warning { border-color: #d9a441; }
.nkisim .card.note { border-color: #3a86b7; }
.nkisim .card p { margin: 4px 0; }
.nkisim .card pre { background: #eaf4ea; margin: 4px 0; padding: 6px 8px; overflow-x: auto;
  font: 12px/17px monospace; }
.nkisim .label { color: #66758a; }
.nkisim figure { margin: 6px 0; }
.nkisim figcaption { color: #66758a; font-size: 12px; }
.nkisim figure.memory svg { width: 100%; max-width: 860px; height: auto; }
.nkisim svg text { font: 10px system-ui, sans-serif; fill: #fff; }
.nkisim svg line.limit { stroke: #d1495b; stroke-dasharray: 5 3; }
.nkisim svg text.limit { fill: #b03447; }
.nkisim svg text.axis, .nkisim svg text.title { fill: #46566a; }
.nkisim svg text.title { font-size: 13px; font-weight: 600; fill: #1c2733; }
.nkisim svg path.axis { stroke: #8795a5; fill: none; }
.nkisim svg path.grid { stroke: #dde4ec; fill: none; }
.nkisim table.sides { border-collapse: collapse; width: 100%; table-layout: fixed; }
.nkisim table.sides td, .nkisim table.sides th { border: 1px solid #cfd8e1; padding: 4px 6px;
  vertical-align: top; text-align: left; }
"""


_SCRIPT = """
for (const file of document.querySelectorAll(".nkisim .file")) {
  const cards = file.querySelector(".cards");
  let free = 0;
  for (const card of cards.children) {
    const line = file.querySelector(`.line[data-line="${card.dataset.line}"]`);
    const top = Math.max(line ? line.offsetTop - file.querySelector(".lines").offsetTop : 0, free);
    card.style.position = "absolute";
    card.style.top = top + "px";
    card.style.left = card.style.right = 0;
    free = top + card.offsetHeight + 8;
  }
  cards.style.minHeight = free + "px";
}
"""
"""Script that aligns each card with its line; without it the cards form a plain column."""


def fragment(
    title: str, summary: str, findings: list[Finding], memory: Iterable[Occupancy] = ()
) -> str:
    """Return the HTML representation of one run for notebooks."""
    return body(title, summary, [], findings, list(memory))


def body(
    title: str,
    summary: str,
    notes: list[str],
    findings: list[Finding],
    memory: list[Occupancy],
) -> str:
    """Return the findings by file and the memory use by kernel."""
    shown = findings[:MOST_SHOWN]
    by_file: dict[str, list[Finding]] = {}
    for finding in shown:
        by_file.setdefault(finding.file, []).append(finding)
    parts = [f"<style>{_STYLE}</style>", f"<h1>{escape(title)}</h1>", f"<p>{escape(summary)}</p>"]
    parts += [f"<p>{escape(note)}</p>" for note in notes]
    for file, found in by_file.items():
        parts += [f"<h2>{escape(file)}</h2>", _source(file, found)]
    if len(findings) > len(shown):
        parts.append(f"<p>... and {len(findings) - len(shown):,} more</p>")
    if memory:
        parts.append("<h2>Memory in use</h2>")
    parts += map(occupancy_chart, memory)
    parts.append(f"<script>{_SCRIPT}</script>")
    return f'<div class="nkisim">{"".join(parts)}</div>'


def _source(file: str, findings: list[Finding]) -> str:
    """Return a file's lines around the findings, with the findings in the margin."""
    lines = linecache.getlines(file)
    ordered = sorted(findings, key=lambda f: f.line)
    cards = "".join(map(_card, ordered))
    if not lines:
        return cards
    by_line: dict[int, list[Finding]] = {}
    for finding in ordered:
        by_line.setdefault(finding.line, []).append(finding)
    first = max(min(by_line) - _AROUND, 1)
    last = min(max(by_line) + _AROUND, len(lines))
    rows = []
    for number in range(first, last + 1):
        found = by_line.get(number, [])
        code = _marked(lines[number - 1].rstrip(), number, found)
        hit = f" {found[0].severity}" if found else ""
        rows.append(
            f'<div class="line{hit}" data-line="{number}"><span>{number}</span>{code}</div>'
        )
    return (
        f'<div class="file"><div class="lines">{"".join(rows)}</div>'
        f'<div class="cards">{cards}</div></div>'
    )


def _marked(line: str, number: int, findings: list[Finding]) -> str:
    """Return a line with the operand of the first finding underlined."""
    for finding in findings:
        if finding.span is not None and finding.span[0] == finding.span[2] == number:
            _, start, _, end = finding.span
            before, inside, after = line[:start], line[start:end], line[end:]
            return f"{escape(before)}<mark>{escape(inside)}</mark>{escape(after)}"
    return escape(line)


def _card(finding: Finding) -> str:
    """Return one finding."""
    rows = [
        f"<p><b>{escape(finding.headline)}</b> line {finding.line}</p>"
        f"<p>{escape(finding.message)}</p>",
        _labelled("on", ", ".join(finding.targets)),
        _labelled("loops", ", ".join(f"{n} = {v}" for n, v in finding.place.loops)),
        _labelled("seen", finding.seen),
        _labelled("allowed", finding.allowed),
        _labelled("why", finding.rule.matters),
        _labelled("fix", finding.fix),
    ]
    if finding.rewrite is not None:
        rows.append(f"<pre>{escape(chr(10).join(finding.rewrite.shown()))}</pre>")
    sides = two_sides(finding)
    rows.append(sides or "".join(f"<p>{escape(note)}</p>" for note in finding.notes))
    if finding.picture is not None:
        rows.append(map_drawing(finding.picture))
    rows.append(access_drawings(finding))
    if finding.count > 1:
        rows.append(_labelled("count", f"{finding.count:,}"))
    head = f'<div class="card {finding.severity}" data-line="{finding.line}">'
    return f"{head}{''.join(rows)}</div>"


def _labelled(label: str, text: str) -> str:
    return f'<p><span class="label">{label}</span> {escape(text)}</p>' if text else ""
