"""Tuning as a self-contained HTML page: time against memory, and the table of variants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from importlib import resources

from nkisim.diagnostics.html import PALETTE, document
from nkisim.profiling.charts import COLOURS, svg_line, svg_text
from nkisim.profiling.text import duration, size
from nkisim.tuning.result import Tuning, Variant, dropped_lines, shown

_WIDTH, _HEIGHT = 640, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 16, 14, 40


def tuning_page(results: Sequence[Tuning]) -> str:
    """Return results as a complete HTML page that needs no network."""
    css = (resources.files("nkisim.profiling") / "page.css").read_text(encoding="utf-8")
    sections = "".join(map(_section, results))
    names = ", ".join(dict.fromkeys(result.kernel for result in results))
    return document(f"nkisim tune: {names}", f"<style>{PALETTE}{css}</style>{sections}")


def _section(result: Tuning) -> str:
    given = ", ".join(f"{name} {text}" for name, text in result.arguments.items())
    parts = [
        f"<h1>{escape(result.kernel)} on {escape(result.target)}</h1>",
        f"<p>{escape(given)}</p>",
        f'<div class="label">predicted device times, NKI {escape(result.nki)}; nothing was '
        "measured</div>",
        f"<p>Best: <b>{escape(shown(result.best.values))}</b>, {duration(result.best.latency_us)}; "
        f"{_count(result.ties, 'variant')} within 2 %. Outputs: {escape(result.agreement)}</p>",
        "<h2>Time against memory</h2>",
        _scatter(result),
        f"<h2>{_count(len(result.variants), 'legal variant')}</h2>",
        _table(result),
    ]
    if result.dropped:
        items = "".join(f"<li>{escape(line)}</li>" for line in dropped_lines(result.dropped))
        parts.append(f"<h2>{len(result.dropped)} dropped</h2><ul>{items}</ul>")
    return f'<section class="nkisim-profile" data-ready="1">{"".join(parts)}</section>'


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _table(result: Tuning) -> str:
    heads = [*result.best.values, "latency", "range", "bound by", "share", "SBUF free", "spills"]
    rows = []
    for variant in result.variants:
        low, high = variant.interval_us
        cells = [
            *map(str, variant.values.values()),
            duration(variant.latency_us),
            f"{duration(low)} to {duration(high)}",
            variant.bound_by,
            f"{variant.bound_share:.0%}",
            size(variant.free_bytes("sbuf")),
            size(variant.spill_bytes),
        ]
        rows.append("".join(f'<td class="n">{escape(cell)}</td>' for cell in cells))
    head = "".join(f'<th class="n">{escape(text)}</th>' for text in heads)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="source"><table style="width:auto"><tr>{head}</tr>{body}</table></div>'


def _scatter(result: Tuning) -> str:
    """Return a drawing with the bytes of SBUF in use over the time of each variant."""
    used = [variant.used_bytes["sbuf"] for variant in result.variants]
    slowest = max(variant.latency_us for variant in result.variants) * 1.05
    fullest = max(*used, 1) * 1.1

    def x(us: float) -> float:
        return _LEFT + us / slowest * (_WIDTH - _LEFT - _RIGHT)

    def y(nbytes: float) -> float:
        return _HEIGHT - _BOTTOM - nbytes / fullest * (_HEIGHT - _TOP - _BOTTOM)

    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = []
    for step in range(5):
        us, nbytes = slowest * step / 4, fullest * step / 4
        parts += [
            svg_line(x(us), _TOP, x(us), bottom, "grid"),
            svg_text(x(us), bottom + 16, duration(us), "end" if step == 4 else "middle"),
            svg_line(_LEFT, y(nbytes), right, y(nbytes), "grid"),
            svg_text(_LEFT - 6, y(nbytes) + 4, size(nbytes), "end"),
        ]
    for number in reversed(range(len(result.variants))):  # the best is on top
        parts.append(_point(result.variants[number], number, result.ties, x, y))
    middle = (_LEFT + right) / 2
    parts.append(svg_text(middle, _HEIGHT - 5, "predicted time; up: bytes of SBUF", "middle"))
    return (
        f'<svg class="roofline" viewBox="0 0 {_WIDTH} {_HEIGHT}" style="max-width:{_WIDTH}px" '
        f'role="img" aria-label="time against memory of {len(result.variants)} variants">'
        f"{''.join(parts)}</svg>"
    )


def _point(
    variant: Variant,
    number: int,
    ties: int,
    x: Callable[[float], float],
    y: Callable[[float], float],
) -> str:
    """Return the point of a variant: filled for the best and its ties, large for the best."""
    colour = COLOURS["tensor" if number < ties else "sync"]
    title = f"{shown(variant.values)}: {duration(variant.latency_us)}"
    return (
        f'<circle cx="{x(variant.latency_us):.1f}" cy="{y(variant.used_bytes["sbuf"]):.1f}" '
        f'r="{6 if number == 0 else 4}" stroke="{colour}" '
        f'fill="{colour if number < ties else "none"}"><title>{escape(title)}</title></circle>'
    )
