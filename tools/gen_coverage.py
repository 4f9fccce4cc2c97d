#!/usr/bin/env python
"""Write docs/coverage.md: the kernel of every public function, by dtype and level of precision.

The picture of the page, docs/pictures/coverage.svg, is drawn from the same table. Both are part of
the repository. A test compares them with the table of the sources.

    python tools/gen_coverage.py [FOLDER]     default: docs
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT / "tools") not in sys.path:
    sys.path.append(str(ROOT / "tools"))

from markdown_text import block, join, table  # noqa: E402

from trnsci.core.backend.precision import LEVELS  # noqa: E402
from trnsci.core.examples import DTYPES  # noqa: E402
from trnsci.coverage import WORDS, Line, lines, render, summary  # noqa: E402

COLOURS = {"kernel": "#8fce9b", "partly": "#d3ecb0", "refused": "#f6c48a", "torch": "#dfe3e8"}
"""The outcomes of the picture, in the order of a bar, and their colours."""
LEFT, TOP, CELL, BAR, ROW, GAP = 92, 74, 46, 42, 22, 30
"""Pixels: margins, distance and width of bars, distance of rows, and of libraries."""


def main(folder: Path = ROOT / "docs") -> None:
    """Write the page and its picture."""
    found = lines()
    for name, text in (("coverage.md", page(found)), ("pictures/coverage.svg", picture(found))):
        (folder / name).write_text(text, encoding="utf-8")
    print(f"{folder}: {summary(found)}")


def picture(found: Sequence[Line]) -> str:
    """Return the shares of the outcomes as SVG: a bar by library, level and dtype."""
    libraries = list(dict.fromkeys(line.library for line in found))
    tall = GAP + len(LEVELS) * ROW
    width, height = LEFT + CELL * len(DTYPES) + 6, TOP + tall * len(libraries)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="system-ui, sans-serif" font-size="13">',
        "<title>Functions on kernels, by library, level of precision and dtype</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(6, 20, "Functions on kernels, in percent", 'font-size="15" font-weight="600"'),
    ]
    for number, (outcome, colour) in enumerate(COLOURS.items()):
        x = 6 + 84 * number
        parts.append(f'<rect x="{x}" y="32" width="14" height="14" fill="{colour}"/>')
        parts.append(_text(x + 19, 44, outcome))
    for number, dtype in enumerate(DTYPES):
        middle = LEFT + CELL * number + BAR // 2
        short = dtype.replace("complex", "c").replace("bfloat", "bf").replace("float", "f")
        parts.append(_text(middle, 68, short.replace("int", "i"), 'text-anchor="middle"'))
    for above, library in enumerate(libraries):
        own = [line for line in found if line.library == library]
        parts += [f'<g transform="translate(0,{TOP + tall * above})">', panel(own), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def panel(found: Sequence[Line]) -> str:
    """Return the bars of one library."""
    parts = [_text(6, 18, found[0].library, 'font-weight="600"')]
    for below, level in enumerate(LEVELS):
        parts += _row([line for line in found if line.level == level], GAP - 6 + ROW * below)
    return "\n".join(parts)


def _row(found: Sequence[Line], y: int) -> Iterator[str]:
    """Yield the bars of a library at a level; a dtype that no call accepts has none."""
    yield _text(6, y + 14, found[0].level)
    for number, dtype in enumerate(DTYPES):
        outcomes = Counter(line.cells[dtype].outcome for line in found)
        total, x = sum(outcomes[outcome] for outcome in COLOURS), LEFT + CELL * number
        if not total:
            continue
        start = 0
        for outcome, colour in COLOURS.items():
            left, start = BAR * start / total, start + outcomes[outcome]
            wide = BAR * start / total - left
            if wide:
                yield (
                    f'<rect x="{x + left:.2f}" y="{y}" width="{wide:.2f}" height="18" '
                    f'fill="{colour}"/>'
                )
        share = f"{100 * outcomes['kernel'] / total:.0f}"
        yield _text(x + BAR // 2, y + 14, share, 'text-anchor="middle"')


def _text(x: int, y: int, text: str, style: str = "") -> str:
    return f'<text x="{x}" y="{y}" {style}>{text}</text>'.replace(" >", ">")


def page(found: Sequence[Line]) -> str:
    """Return the text of the page."""
    return join(
        [
            "<!-- Written by tools/gen_coverage.py. -->",
            "# Coverage by kernels",
            "Which kernel computes a function, for each dtype of its operands and each "
            "[level of precision](libraries/precision.md). The table is measured: one small call "
            "of every public function runs on the simulator with operands of each dtype, at each "
            "level, and the launch counters tell which kernels ran. "
            f"{summary(found)}; [Validation status](status.md) shows how exact and fast they are.",
            "![Share of functions on kernels by library, level and dtype](pictures/coverage.svg)",
            "Each bar shows the calls that accept a dtype; the number is the percentage that "
            "kernels compute completely. Calls of the outcomes `partly` and `refused` give one "
            "[`NkiRefusalWarning`](libraries/backends.md#see-what-ran) for each function and "
            "reason; functions without a kernel give none.",
            block("sh", "trnsci coverage --lib trnblas\ntrnsci coverage --format json"),
            table(
                ("cell", "meaning"),
                [
                    ("names of kernels" if word == "kernel" else word, meaning)
                    for word, meaning in WORDS.items()
                ],
            ),
            "Numbers refer to the reasons below a table. A row `at` a level is shown only where it "
            "differs from the row of the default level, `float32`. Draws of `trnrand` have no "
            "operands: their dtype is that of the result. A dtype that no function of a library "
            "accepts has no column. Left out are functions that compute nothing with operands: "
            "settings, plans, patterns, conversions and pictures; and classes. Larger operands "
            "can reach other kernels than the small ones of this table.",
            render(found, "md").rpartition("\n\n")[0],
            "## Doublefloat",
            "Functions of which a kernel computes something at any level, and those of them that "
            "kernels compute completely for float64 or complex128 operands at `doublefloat`. "
            "[Digits, bounds and cost](precision-figures.md) are on a page of their own.",
            table(("library", "with a kernel", "at doublefloat", "others"), at_doublefloat(found)),
            "## JSON",
            "`trnsci coverage --format json` prints an object with `dtypes`, `levels`, `left_out` "
            "(functions by library) and `lines`. A line has `library`, `function`, `case` (what "
            "distinguishes several calls of a function, else empty), `level`, and `cells` by "
            "dtype; a cell has `outcome` (`kernel`, `partly`, `refused`, `torch` or `error`), "
            "`kernels` and `reasons`.",
        ]
    )


def at_doublefloat(found: Sequence[Line]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each library: the share of its functions with the level, and the others."""
    for library in dict.fromkeys(line.library for line in found):
        own = [line for line in found if line.library == library]
        cells = [cell for line in own for cell in line.cells.values()]
        if not any(name.startswith("doublefloat") for cell in cells for name in cell.kernels):
            continue
        reached = {
            line.function
            for line in own
            if {cell.outcome for cell in line.cells.values()} & {"kernel", "partly", "refused"}
        }
        reasons: dict[str, list[str]] = {}
        complete = set()
        for line in own:
            if line.level != "doublefloat" or line.function not in reached:
                continue
            wide = [line.cells[dtype] for dtype in ("float64", "complex128")]
            kept = [cell for cell in wide if cell.outcome != "error"]
            if any(cell.outcome == "kernel" for cell in kept):
                complete.add(line.function)
            else:
                texts = {why.partition(": ")[2] for cell in kept for why in cell.reasons}
                text = "; ".join(sorted(texts)) or "the example takes other operands"
                reasons.setdefault(text, []).append(f"`{line.function}`")
        others = "; ".join(f"{', '.join(names)}: {why}" for why, names in reasons.items())
        share = f"{len(complete)}, {len(complete) / len(reached):.0%}"
        yield library, str(len(reached)), share, others


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
