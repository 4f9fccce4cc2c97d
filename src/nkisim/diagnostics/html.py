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


def resource(package: str, name: str) -> str:
    """Return a text file of a package of nkisim."""
    from importlib import resources  # its import takes longer than most checks

    return (resources.files(package) / name).read_text(encoding="utf-8")


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
        f"<style>{PALETTE}{resource('nkisim.diagnostics', 'findings.css')}</style>",
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
    parts.append(f"<script>{resource('nkisim.diagnostics', 'findings.js')}</script>")
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
