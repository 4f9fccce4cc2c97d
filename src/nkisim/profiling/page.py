"""A profile as a self-contained HTML page: timeline, memory, roofline, source and advice."""

from __future__ import annotations

import json
import linecache
import os
from collections.abc import Iterable
from html import escape

from nkisim.diagnostics import Finding
from nkisim.diagnostics.html import PALETTE, document, indented, resource
from nkisim.profiling.charts import COLOURS, MOST_BLOCKS, chart_data, roofline_drawing
from nkisim.profiling.result import LineTime, ProfileData
from nkisim.profiling.text import (
    advice_title,
    arguments_text,
    assumptions_text,
    descriptors_text,
    duration,
    hunks,
    labels,
    range_text,
    roofline_text,
    schedule_us,
    size,
    together_text,
)

__all__ = ["fragment", "profile_page"]

_AROUND = 4
"""Lines of context before the first and after the last timed line of a file."""

_FARTHEST = 40
"""Untimed lines between two timed ones from which on they are left out."""


def profile_page(profiles: ProfileData | Iterable[ProfileData]) -> str:
    """Return profiles as a complete HTML page that needs no network."""
    shown = [profiles] if isinstance(profiles, ProfileData) else list(profiles)
    most = max(MOST_BLOCKS // max(len(shown), 1), 500)
    inner = [_style()]
    if len(shown) > 1:
        inner.append(_contents(shown))
    inner += [_section(profile, most, f"p{number}") for number, profile in enumerate(shown)]
    inner.append(_script())
    names = ", ".join(dict.fromkeys(profile.kernel for profile in shown))
    return document(f"nkisim profile: {names}", "".join(inner))


def fragment(profile: ProfileData) -> str:
    """Return the HTML representation of a profile for notebooks."""
    return f"{_style()}{_section(profile, 2000, '')}{_script()}"


def _style() -> str:
    return f"<style>{PALETTE}{resource('nkisim.profiling', 'page.css')}</style>"


def _script() -> str:
    return f"<script>{resource('nkisim.profiling', 'page.js')}</script>"


def _contents(profiles: list[ProfileData]) -> str:
    """Return a table of the profiles of a page, with links to them."""
    names = labels(profiles)
    rows = "".join(
        f'<tr><td><a href="#p{number}">{escape(names[number])}</a></td><td>{escape(p.target)}</td>'
        f'<td class="n">{duration(p.latency_us)}</td><td>{escape(p.bound_by)}</td>'
        f'<td class="n">{p.bound_share:.0%}</td></tr>'
        for number, p in enumerate(profiles)
    )
    heads = (
        '<tr><th>kernel</th><th>target</th><th class="n">latency</th><th>bound by</th>'
        '<th class="n">share of the bound</th>'
    )
    return (
        f'<div class="nkisim-profile wide" data-ready="1"><table style="width:auto">{heads}</tr>'
        f"{rows}</table></div>"
    )


def _section(profile: ProfileData, most_blocks: int, name: str) -> str:
    data = json.dumps(chart_data(profile, most_blocks), separators=(",", ":"))
    cores = f", {len(profile.per_core)} cores" if len(profile.per_core) > 1 else ""
    parts = [
        f"<h1>{escape(profile.kernel)} on {escape(profile.target)}{cores}</h1>",
        f"<p>{escape(arguments_text(profile))}</p>",
        '<div class="label">predicted device time of one call, '
        f"NKI {escape(profile.nki)}; nothing was measured</div>",
        _findings(profile.findings),
        _facts(profile),
        '<div class="columns"><div><h2>Engines</h2>',
        _engines(profile),
        "</div><div><h2>Roofline</h2>",
        roofline_drawing(profile),
        f"<p>{escape(roofline_text(profile))}</p></div></div>",
        f"<p>DMA {escape(descriptors_text(profile))}. Assumed: "
        f"{escape(assumptions_text(profile))}.</p>",
        "<h2>Timeline and memory</h2>",
        '<div class="tools"><button data-zoom="0.5">+</button><button data-zoom="2">&#8722;'
        '</button><button data-zoom="0">all</button><span class="label range"></span>'
        '<label class="label"><input type="checkbox" class="whole"> memory up to its capacity'
        '</label><span class="label">wheel: zoom, drag: pan, click: one line</span></div>',
        '<div class="chart"><canvas tabindex="0" role="img" aria-label="instructions by engine '
        'and queue, and memory in use, over time"></canvas><div class="tip"></div></div>',
        _timeline_note(profile),
        _advice(profile),
        "<h2>Source</h2>",
        _sources(profile),
        _counts(profile),
        f'<script type="application/json" class="data">{data.replace("<", chr(92) + "u003c")}'
        "</script>",
    ]
    anchor = f' id="{name}"' if name else ""
    return f'<section class="nkisim-profile"{anchor}>{"".join(parts)}</section>'


def _facts(profile: ProfileData) -> str:
    low, high = profile.interval_us
    facts = [
        ("latency", duration(profile.latency_us), f"{duration(low)} to {duration(high)}"),
        ("range", f"{(high - low) / 2 / profile.latency_us:.0%}", f"most by {profile.widest}"),
        ("bound by", profile.bound_by, f"{profile.bound_share:.0%} of the bound reached"),
        ("fixed cost", duration(profile.fixed_us), f"host {duration(profile.host_us)}, apart"),
        ("HBM traffic", size(profile.hbm_bytes), f"{profile.transfers:,} transfers"),
        ("DMA efficiency", f"{profile.dma_efficiency:.0%}", f"spills {size(profile.spill_bytes)}"),
    ]
    return (
        '<div class="facts">'
        + "".join(
            f'<div class="fact">{label}<b>{escape(value)}</b><small>{escape(more)}</small></div>'
            for label, value, more in facts
        )
        + "</div>"
    )


def _engines(profile: ProfileData) -> str:
    """Return busy time and utilisation of the engines of each core."""
    several = len(profile.per_core) > 1
    rows = []
    for core, busy in enumerate(profile.per_core):
        for key, time in busy.items():
            share = time / profile.latency_us if profile.latency_us else 0.0
            label = f"{core}: {key}" if several else key
            bar = f'<i style="width:{min(share, 1):.1%};background:{COLOURS[key]}"></i>'
            rows.append(
                f'<tr><td>{label}</td><td class="n">{duration(time)}</td>'
                f'<td style="width:60%"><div class="bar">{bar}</div></td>'
                f'<td class="n">{share:.1%}</td></tr>'
            )
    heads = '<tr><th>engine</th><th class="n">busy</th><th colspan="2">share of the latency</th>'
    return f"<table>{heads}</tr>{''.join(rows)}</table>"


def _advice(profile: ProfileData) -> str:
    cards = []
    for advice in profile.advice:
        code = "\n".join(hunks(advice.code))
        cards.append(
            f'<div class="advice"><p><b>{escape(advice_title(advice))}</b></p>'
            f"<p>{escape(advice.cause)}</p><p>{escape(advice.action)}</p>"
            f"<p>{escape(range_text(advice.gain_range))}</p>"
            + (f"<pre>{escape(code)}</pre></div>" if code else "</div>")
        )
    together = together_text(profile)
    none = f"None, because {profile.no_advice}." if profile.no_advice else ""
    cards += [f"<p>{escape(text)}</p>" for text in (together, none) if text]
    return f"<h2>Advice</h2>{''.join(cards)}" if cards else ""


def _timeline_note(profile: ProfileData) -> str:
    waits = max(profile.latency_us - profile.fixed_us - schedule_us(profile), 0.0)
    return (
        f'<p class="label">The timeline has {duration(schedule_us(profile))}; the latency adds '
        f"{duration(waits)} of expected waits and {duration(profile.fixed_us)} fixed cost.</p>"
    )


def _counts(profile: ProfileData) -> str:
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="n">{count:,}</td></tr>'
        for name, count in profile.instructions.items()
    )
    total = sum(profile.instructions.values())
    return f"<h2>{total:,} instructions</h2><table style='width:auto'>{rows}</table>"


def _findings(found: list[Finding]) -> str:
    items = "".join(f"<li>{escape(finding.summary)}</li>" for finding in found)
    return f"<h2>Findings</h2><ul>{items}</ul>" if items else ""


# -- source ----------------------------------------------------------------------------------------


def _sources(profile: ProfileData) -> str:
    """Return the files of a kernel with the time of each line."""
    by_file: dict[str, dict[int, LineTime]] = {}
    for line in profile.lines:
        by_file.setdefault(line.file, {})[line.line] = line
    whole = sum(line.critical_us for line in profile.lines) or 1.0
    parts = []
    for file, timed in by_file.items():
        heads = "<th class='n'>critical</th><th class='n'>busy</th><th class='n'>count</th>"
        rows = "".join(_source_row(file, n, timed.get(n), whole) for n in _shown(file, timed))
        parts.append(
            f'<p>{escape(os.path.basename(file))}</p><div class="source"><table>'
            f"<tr>{heads}<th></th><th></th></tr>{rows}</table></div>"
        )
    return "".join(parts)


def _shown(file: str, timed: dict[int, LineTime]) -> list[int]:
    """Return the numbers of the lines to show; 0 stands for lines that are left out."""
    last = len(linecache.getlines(file))
    if not last:
        return sorted(timed)
    numbers: list[int] = []
    for number in sorted(timed):
        begin = max(number - _AROUND, 1)
        if not numbers:
            numbers += range(begin, number + 1)
        elif number - numbers[-1] <= _FARTHEST:
            numbers += range(numbers[-1] + 1, number + 1)
        else:
            after = range(numbers[-1] + 1, numbers[-1] + _AROUND + 1)
            numbers += [*after, 0, *range(begin, number + 1)]
    return [*numbers, *range(numbers[-1] + 1, min(numbers[-1] + _AROUND, last) + 1)]


def _source_row(file: str, number: int, timed: LineTime | None, whole: float) -> str:
    if not number:
        return '<tr><td colspan="5">...</td></tr>'
    text = linecache.getline(file, number).rstrip() or (timed.text if timed else "")
    if timed is None:
        return (
            f'<tr><td class="n"></td><td></td><td></td><td class="n">{number}</td>'
            f"<td>{indented(escape(text))}</td></tr>"
        )
    heat = timed.critical_us / whole
    return (
        f'<tr data-file="{escape(file)}" data-line="{number}" '
        f'style="background:rgba(209,73,91,{0.08 + 0.4 * heat:.2f})">'
        f'<td class="n">{duration(timed.critical_us)} {heat:>4.0%}</td>'
        f'<td class="n">{duration(timed.busy_us)}</td><td class="n">{timed.instructions:,}</td>'
        f'<td class="n">{number}</td><td>{indented(escape(text))}</td></tr>'
    )
