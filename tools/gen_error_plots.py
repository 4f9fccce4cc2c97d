#!/usr/bin/env python
"""Draw docs/pictures/doublefloat-errors.svg: errors of doublefloat products, on the simulator.

Left: 10,000 errors over the printed bound for each of five spreads of the entries, uniform times
exp(phi normal). Right: the largest error and the bound, by slices. Errors are against exact
integers.

    python tools/gen_error_plots.py [FILE]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import log2
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
for folder in ("tests", "src"):
    if str(ROOT / folder) not in sys.path:
        sys.path.append(str(ROOT / folder))

import numpy as np  # noqa: E402
import torch  # noqa: E402

from oracles.exact_products import errors_by_norms  # noqa: E402
from trnblas._paths.level_launches import sliced_product  # noqa: E402
from trnblas._precise.slicing import bound, fewest_slices  # noqa: E402
from trnsci.core.backend.launch import Launcher  # noqa: E402

SPREADS = range(5)
SLICES = range(3, 11)
DEPTH = 24
COLOURS = ("#1b9e77", "#d95f02", "#7570b3", "#e7298a", "#666666")
WIDTH, HEIGHT, MARGIN = 420, 260, 50

Point = tuple[float, float]


def main(file: Path = ROOT / "docs" / "pictures" / "doublefloat-errors.svg") -> None:
    """Compute the errors and draw them."""
    slices = fewest_slices(2.0**-45, DEPTH)
    curves = []
    for phi in SPREADS:
        ratios = errors(phi, 100, slices) / bound(slices, DEPTH)
        if (ratios > 1).any():
            raise SystemExit(f"phi = {phi}: {(ratios > 1).sum()} errors above the bound")
        curves.append(distribution(ratios))
    largest = [(s, log2(errors(1, 12, s).max())) for s in SLICES]
    promised = [(s, log2(bound(s, DEPTH))) for s in SLICES]
    names = [f"phi = {phi}" for phi in SPREADS]
    left = panel(
        0, "share of entries below, by log2(error / bound)", (-12, 0), (0, 1), curves, names
    )
    lines = [promised, largest]
    right = panel(WIDTH, "log2(error), by slices", (3, 10), (-54, -10), lines, ["bound", "largest"])
    file.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="11">\n<rect width="100%" height="100%" fill="white"/>'
        f"\n{left}\n{right}\n</svg>\n",
        encoding="utf-8",
    )


def errors(phi: float, order: int, slices: int) -> np.ndarray:
    """Return errors of a product of ill-scaled matrices, relative to norms."""
    rng = np.random.default_rng(phi)
    a, b = (
        rng.uniform(-1, 1, shape) * np.exp(phi * rng.standard_normal(shape))
        for shape in ((order, DEPTH), (DEPTH, order))
    )
    panels = torch.tensor(a)[None], torch.tensor(b)[None]
    found = sliced_product(Launcher("simulator"), *panels, slices, False, False)
    return errors_by_norms(found[0].numpy(), a, b)


def distribution(ratios: np.ndarray) -> list[Point]:
    """Return the share of errors below each power of two, in quarters."""
    return [(x / 4, float((ratios <= 2.0 ** (x / 4)).mean())) for x in range(-48, 1)]


def panel(
    x0: int,
    title: str,
    across: tuple[float, float],
    up: tuple[float, float],
    curves: Sequence[Sequence[Point]],
    names: Sequence[str],
) -> str:
    """Return the SVG elements of one plot."""
    inner, tall = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN

    def place(x: float, y: float) -> str:
        right = x0 + MARGIN + inner * (x - across[0]) / (across[1] - across[0])
        down = MARGIN + tall * (up[1] - y) / (up[1] - up[0])
        return f"{right:.1f},{down:.1f}"

    def label(x: float, y: float, text: str, anchor: str = "middle") -> str:
        return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{text}</text>'

    parts = [
        f'<rect x="{x0 + MARGIN}" y="{MARGIN}" width="{inner}" height="{tall}" fill="none" '
        f'stroke="#999"/>',
        label(x0 + WIDTH / 2, MARGIN - 14, title),
    ]
    for end, x in zip(across, (x0 + MARGIN, x0 + WIDTH - MARGIN), strict=True):
        parts.append(label(x, HEIGHT - MARGIN + 16, f"{end:g}"))
    for end, y in zip(up, (HEIGHT - MARGIN, MARGIN + 8), strict=True):
        parts.append(label(x0 + MARGIN - 6, y, f"{end:g}", "end"))
    for number, (curve, name) in enumerate(zip(curves, names, strict=True)):
        colour = COLOURS[number]
        points = " ".join(place(*point) for point in curve)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
        at = x0 + MARGIN + inner * (number + 0.5) / len(names)
        named = label(at, HEIGHT - 14, name)
        parts.append(named.replace("<text ", f'<text fill="{colour}" '))
    return "\n".join(parts)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
