"""Products of sparse matrices and dense ones, in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import trnsparse
from device_problems.problem import Problem


def problem(
    rows: int, share: float, columns: int, *, held: bool = False, goal_us: float | None = None
) -> Problem:
    """Return the product of a square matrix with random entries; ``held`` with dense tiles."""
    entries = round(share * rows * rows)

    def prepare() -> Callable[[], Any]:
        generator = torch.Generator().manual_seed(0)
        places = torch.randperm(rows * rows, generator=generator)[:entries].sort().values
        pointers = torch.searchsorted(places, torch.arange(rows + 1) * rows)
        matrix = trnsparse.CSRMatrix(torch.ones(entries), places % rows, pointers, (rows, rows))
        dense = torch.zeros(rows, columns)
        if held:
            matrix.hold_tiles()
        return lambda: trnsparse.spmm(matrix, dense)

    return Problem(
        f"CSR {rows}, {share:.2%}, times {columns} columns{', held' if held else ''}",
        "trnsparse",
        prepare,
        8 * entries + 8 * rows * columns,
        goal_us=goal_us,
    )


PROBLEMS = (
    problem(4096, 0.01, 128, held=True, goal_us=275),
    problem(4096, 0.01, 128, goal_us=1750),
)
LARGER = (problem(6144, 0.01, 128), problem(4096, 0.01, 192), problem(4096, 0.001, 128))
ODD = (problem(3001, 0.013, 77), problem(1000, 0.02, 1))
