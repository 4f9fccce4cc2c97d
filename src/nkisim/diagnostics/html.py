"""Findings as a self-contained HTML page: the source with findings next to its lines."""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from html import escape

from nkisim.diagnostics.drawings import access_drawings, map_drawing, occupancy_chart, two_sides
from nkisim.diagnostics.findings import MOST_SHOWN, Finding
from nkisim.diagnostics.pictures import Occupancy

_AROUND = 20
"""Maximum number of context lines before the first and after the last finding of a file."""

PALETTE = """
.nkisim, .nkisim-profile { color-scheme: light dark;
  --page: #fff; --text: #1c2733; --quiet: #55647a; --panel: #f5f8fa; --source: #fafbfd;
  --border: #cfd8e1; --plot: #eef2f6; --grid: #dbe3eb; --axis: #77869a; --code: #e7f3e8;
  --error: #c23b4e; --warning: #d9a441; --note: #3a86b7;
  --error-line: #fbe6e9; --warning-line: #fcf1da; --note-line: #e3eff7; }
@media (prefers-color-scheme: dark) {
  .nkisim, .nkisim-profile {
    --page: #12181f; --text: #dde5ee; --quiet: #a3b3c6; --panel: #1b232d; --source: #161d25;
    --border: #3a4858; --plot: #1f2833; --grid: #303c4a; --axis: #8496aa; --code: #1c3326;
    --error: #f07585; --warning: #d9a441; --note: #5aa9dc;
    --error-line: #4a2329; --warning-line: #41371d; --note-line: #1c3546; }
}
"""
"""Colours of pages by purpose, for a light and for a dark screen."""

_FRAME = """
:root { color-scheme: light dark; }
body { margin: 20px; background: #fff; }
@media (prefers-color-scheme: dark) { body { background: #12181f; } }
@media (max-width: 700px) { body { margin: 12px; } }
"""

_STYLE = """
.nkisim { font: 14px/1.45 system-ui, sans-serif; color: var(--text); background: var(--page); }
.nkisim h1 { font-size: 20px; margin: 0 0 4px; overflow-wrap: anywhere; }
.nkisim h2 { font-size: 15px; margin: 24px 0 6px; overflow-wrap: anywhere; }
.nkisim > p { overflow-wrap: anywhere; }
.nkisim .file { display: flex; gap: 12px; align-items: stretch; }
.nkisim .lines { flex: 1 1 56%; min-width: 0; overflow-x: auto; background: var(--source); }
.nkisim .cards { flex: 1 1 44%; min-width: 280px; position: relative; }
.nkisim .line { font: 12px/20px monospace; white-space: pre; padding-right: 8px; }
.nkisim .line span { display: inline-block; width: 40px; margin-right: 12px; text-align: right;
  color: var(--quiet); }
.nkisim .line.error { background: var(--error-line); }
.nkisim .line.warning { background: var(--warning-line); }
.nkisim .line.note { background: var(--note-line); }
.nkisim mark { background: none; color: inherit; border-bottom: 2px solid var(--error); }
.nkisim .card { border-left: 4px solid var(--axis); background: var(--panel); margin: 0 0 8px;
  padding: 6px 10px; font-size: 13px; overflow-wrap: anywhere; }
.nkisim .card.error { border-color: var(--error); }
.nkisim .card.warning { border-color: var(--warning); }
.nkisim .card.note { border-color: var(--note); }
.nkisim .card p { margin: 4px 0; }
.nkisim .card pre { background: var(--code); margin: 4px 0; padding: 6px 8px; overflow-x: auto;
  font: 12px/17px monospace; }
.nkisim .label { color: var(--quiet); }
.nkisim figure { margin: 6px 0; }
.nkisim figcaption { color: var(--quiet); font-size: 12px; }
.nkisim figcaption i { display: inline-block; width: 10px; height: 10px; margin: 0 4px 0 8px; }
.nkisim figure svg { max-width: 100%; }
.nkisim figure.memory svg { width: 100%; max-width: 860px; height: auto; }
.nkisim svg .plot { fill: var(--plot); }
.nkisim svg .map { fill: var(--border); }
.nkisim svg text { font: 10px system-ui, sans-serif; fill: #fff; }
.nkisim svg line.limit { stroke: var(--error); stroke-dasharray: 5 3; }
.nkisim svg text.limit { fill: var(--error); }
.nkisim svg text.axis { fill: var(--quiet); }
.nkisim svg text.title { font-size: 13px; font-weight: 600; fill: var(--text); }
.nkisim svg path.axis { stroke: var(--axis); fill: none; }
.nkisim svg path.grid { stroke: var(--grid); fill: none; }
.nkisim table.sides { border-collapse: collapse; width: 100%; table-layout: fixed; }
.nkisim table.sides td, .nkisim table.sides th { border: 1px solid var(--border);
  padding: 4px 6px; vertical-align: top; text-align: left; }
@media (max-width: 700px) {
  .nkisim .file { display: block; }
  .nkisim .cards { margin-top: 8px; }
  .nkisim .line { white-space: pre-wrap; overflow-wrap: anywhere; padding-left: 34px;
    text-indent: -34px; }
  .nkisim .indent { font-size: 6px; }
  .nkisim .line span { width: 26px; margin-right: 8px; text-indent: 0; }
  .nkisim svg text.axis, .nkisim svg text.limit { font-size: 20px; }
  .nkisim svg text.title { font-size: 22px; }
  .nkisim svg text.tile { display: none; }
}
"""


_SCRIPT = """
const align = () => {
for (const file of document.querySelectorAll(".nkisim .file")) {
  const cards = file.querySelector(".cards");
  const apart = getComputedStyle(file).display === "flex";
  let free = 0;
  for (const card of cards.children) {
    const line = file.querySelector(`.line[data-line="${card.dataset.line}"]`);
    const top = Math.max(line ? line.offsetTop - file.querySelector(".lines").offsetTop : 0, free);
    card.style.position = apart ? "absolute" : "static";
    card.style.top = top + "px";
    card.style.left = card.style.right = 0;
    free = top + card.offsetHeight + 8;
  }
  cards.style.minHeight = apart ? free + "px" : 0;
}
};
align();
addEventListener("resize", align);
"""
"""Script that aligns each card with its line; without it the cards form a plain column.

On a narrow screen they do too, below the source.
"""


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
    parts = [
        f"<style>{PALETTE}{_STYLE}</style>",
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(summary)}</p>",
    ]
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
            return indented(f"{escape(before)}<mark>{escape(inside)}</mark>{escape(after)}")
    return indented(escape(line))


def indented(code: str) -> str:
    """Return a line of source with its indentation marked, which is narrow on narrow screens."""
    rest = code.lstrip(" ")
    return f'<i class="indent">{" " * (len(code) - len(rest))}</i>{rest}' if rest != code else code


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


def document(title: str, body: str) -> str:
    """Return a complete HTML page."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_FRAME}</style></head>"
        f"<body>{body}</body></html>\n"
    )
