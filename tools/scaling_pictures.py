"""Pictures of strong and weak scaling: the predicted times of plans within one Trn2 UltraServer.

Each problem is a function of the number of ranks and of a factor of its work, which returns the
plan of its call. Strong scaling leaves the work as it is; weak scaling increases it with the ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from math import log2
from pathlib import Path

import torch

from trnblas.distributed import plan as blas_plan
from trnfft.distributed import plan as fft_plan
from trnsci.core.distributed.layout import Layout, even_sizes
from trnsci.core.distributed.plans import Communication, Step
from trnsolver.distributed import plan as solver_plan

RANKS = tuple(2**k for k in range(10))
WIDTH, HEIGHT = 430, 330
LEFT, TOP, RIGHT, BOTTOM = 62, 48, 20, 52
LAST = RANKS[-1]


def _mesh(ranks: int) -> tuple[int, int]:
    """Return the mesh of two dimensions that is closest to a square."""
    rows = 2 ** (int(log2(ranks)) // 2)
    return rows, ranks // rows


def gemm(ranks: int, factor: int) -> Communication:
    """Return the plan of a product of order 16384, with ``factor`` times the operations."""
    order = round(16384 * factor ** (1 / 3) / 128) * 128
    return blas_plan("gemm", (order, order), (order, order), mesh=_mesh(ranks))


def fft(ranks: int, factor: int) -> Communication:
    """Return the plan of a transform of 512**3 * factor points by slabs, transposed."""
    return fft_plan("fftn", (512 * factor, 512, 512), (ranks,), dtype=torch.complex64)


def cg(ranks: int, factor: int) -> Communication:
    """Return the plan of 100 iterations on a seven-point Laplacian of 512**3 * factor unknowns.

    Its matrix is larger than this machine's memory, so the plan of a product is written down: each
    rank has planes of the grid, and receives those next to its own.
    """
    plane = 512 * 512
    counts = [planes * plane for planes in even_sizes(512 * factor, ranks)]
    halo = tuple(4 * plane * ((rank > 0) + (rank + 1 < ranks)) for rank in range(ranks))
    flops = tuple(2 * 7 * rows for rows in counts)
    touched = tuple((7 * (4 + 8) + 8 + 8) * rows for rows in counts)  # entries, pointers, vectors
    product = Communication(
        "matmul",
        "7-point Laplacian",
        (ranks,),
        (
            Step("all_to_all", "halo", halo, min(2, ranks - 1)),
            Step("compute", "local product", (0,) * ranks, 0, flops, touched),
        ),
        touched.__getitem__,
    )
    return solver_plan("cg", _rows(counts), iterations=100, A=product)


def _rows(counts: list[int]) -> Layout:
    offsets = (0, *accumulate(counts))
    return Layout((offsets[-1], offsets[-1]), 0, offsets)


@dataclass(frozen=True)
class Problem:
    """A curve of both pictures."""

    name: str
    plan: Callable[[int, int], Communication]
    colour: str


PROBLEMS = (
    Problem("gemm, order 16384", gemm, "#0b62a4"),
    Problem("fftn, 512 x 512 x 512", fft, "#b35900"),
    Problem("cg, 7-point Laplacian, 512 x 512 x 512", cg, "#3d7a3d"),
)


@cache
def seconds(problem: Problem, ranks: int, factor: int) -> float:
    """Return the predicted time on ranks of one core."""
    return problem.plan(ranks, factor).predicted(server="trn2", lnc=1).seconds


def strong(problem: Problem) -> list[tuple[int, float]]:
    """Return the speed-up on each number of ranks."""
    one = seconds(problem, 1, 1)
    return [(ranks, one / seconds(problem, ranks, 1)) for ranks in RANKS]


def weak(problem: Problem) -> list[tuple[int, float]]:
    """Return the time on one rank over that on each number of ranks with as much work for each."""
    one = seconds(problem, 1, 1)
    return [(ranks, one / seconds(problem, ranks, ranks)) for ranks in RANKS]


# -- drawing ---------------------------------------------------------------------------------------


def picture() -> str:
    """Return both charts as SVG."""
    title = "Predicted scaling within one Trn2 UltraServer, a rank being one core"
    width, height = 2 * WIDTH, HEIGHT + 18 * len(PROBLEMS) + 14
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, sans-serif" font-size="13">',
        f"<title>{title}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *_chart(0, "Strong scaling: speed-up", [2**k for k in range(0, 10, 3)], strong, log2(LAST)),
        *_chart(WIDTH, "Weak scaling: efficiency", [0.0, 0.25, 0.5, 0.75, 1.0], weak, 1.0),
    ]
    for number, problem in enumerate(PROBLEMS):
        y = HEIGHT + 8 + 18 * number
        lines.append(f'<path d="M{LEFT} {y}h24" stroke="{problem.colour}" stroke-width="2.5"/>')
        lines.append(f'<text x="{LEFT + 32}" y="{y + 4}">{problem.name}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _chart(
    at: int,
    title: str,
    ticks: list[float],
    values: Callable[[Problem], list[tuple[int, float]]],
    top: float,
) -> Iterator[str]:
    """Yield one chart; the scale of speed-ups is logarithmic, that of efficiencies is not."""
    logarithmic = top > 1

    def x(ranks: float) -> float:
        return round(at + LEFT + log2(ranks) / log2(LAST) * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        share = (log2(value) if logarithmic else value) / top
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)

    yield f'<text x="{at + LEFT}" y="26" font-size="15" font-weight="600">{title}</text>'
    for tick in ticks:
        text = f"{tick:g}" if logarithmic else f"{tick:.0%}"
        yield f'<path d="M{x(1)} {y(tick)}H{x(LAST)}" stroke="#d0d7de"/>'
        yield f'<text x="{x(1) - 8}" y="{y(tick) + 4}" text-anchor="end">{text}</text>'
    base = y(ticks[0])
    for ranks in RANKS[::3]:
        yield f'<text x="{x(ranks)}" y="{base + 20}" text-anchor="middle">{ranks}</text>'
    yield f'<text x="{x(LAST)}" y="{base + 40}" text-anchor="end">ranks</text>'
    if logarithmic:
        yield (
            f'<path d="M{x(1)} {y(1)}L{x(LAST)} {y(LAST)}" stroke="#8c959f" '
            f'stroke-dasharray="5 4" fill="none"/>'
        )
    for problem in PROBLEMS:
        points = " ".join(f"{x(ranks)},{y(max(value, 0.01))}" for ranks, value in values(problem))
        yield (
            f'<polyline points="{points}" fill="none" stroke="{problem.colour}" '
            f'stroke-width="2.5"/>'
        )


def main(folder: Path) -> None:
    """Write the picture."""
    (folder / "scaling.svg").write_text(picture(), encoding="utf-8")
