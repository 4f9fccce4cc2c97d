"""Communication plans of distributed functions, from shapes alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import torch

from trnblas.distributed.products import split_of
from trnblas.distributed.schedule import schedule
from trnsci.core.arguments import whole
from trnsci.core.distributed.plans import Communication, LowerBound, agreement_step
from trnsci.core.errors import FlagError, ShapeError

if TYPE_CHECKING:
    from torch.distributed.tensor import Placement

__all__ = ["plan"]

_WORDS = {"m": "rows", "n": "columns", "k": "the sum"}


def plan(
    function: str,
    *shapes: Sequence[int],
    mesh: int | Sequence[int],
    in_placements: Sequence[Sequence[Placement]] | None = None,
    placements: Sequence[Placement] | None = None,
    dtype: torch.dtype = torch.float32,
    transA: bool | str = False,
    transB: bool | str = False,
) -> Communication:
    """Return the communication of a call; it needs no process group.

    Args:
        function: ``"gemm"``.
        *shapes: Shapes of A and B.
        mesh: Number of ranks, or of ranks along each mesh dimension.
        in_placements: Placements of A and of B; None for rows on one mesh dimension, and for rows
            and columns on two.
        placements: Placements of the result, as in the call.
        dtype: Dtype of the matrices.
        transA: Transposition of A.
        transB: Transposition of B.

    Raises:
        FlagError: The function, the mesh or placements are invalid.
        ShapeError: The shapes are incompatible.
    """
    if function != "gemm":
        raise FlagError(f"plan: function must be gemm, got {function!r}")
    grid = (mesh,) if isinstance(mesh, int) else tuple(mesh)
    grid = tuple(whole("plan", "mesh", size, 1, error=FlagError) for size in grid)
    if len(grid) not in (1, 2):
        raise FlagError(f"plan: mesh must have 1 or 2 dimensions, got {grid}")
    if len(shapes) != 2 or any(len(shape) != 2 for shape in shapes):
        raise ShapeError(f"plan: gemm takes the shapes of two matrices, got {shapes}")
    given = _default(grid) if in_placements is None else in_placements
    flips = transA not in (False, "N"), transB not in (False, "N")
    a, b = (
        split_of("plan", f"in_placements[{place}]", each, "AB"[place], flips[place])
        for place, each in enumerate(given)
    )
    (m, k), (inner, n) = (s[::-1] if flip else s for s, flip in zip(shapes, flips, strict=True))
    if k != inner:
        raise ShapeError(f"plan: A and B must agree in the contracted dimension, got {shapes}")
    c = None if placements is None else split_of("plan", "placements", placements, "C")
    if any(len(split) != len(grid) for split in (a, b, c) if split is not None):
        raise FlagError(f"plan: placements must have {len(grid)} entries, one per mesh dimension")
    chosen = schedule((m, k, n), grid, dtype.itemsize, a, b, c)
    splits = ", ".join(f"{_WORDS[i]} over {size}" for i, size in zip(chosen.by, grid, strict=True))
    return Communication(
        function="trnblas.distributed.gemm",
        problem=f"({m}, {k}) @ ({k}, {n}) in {dtype}, {splits}",
        mesh=grid,
        steps=(agreement_step(grid), *chosen.steps),
        peak_bytes=chosen.peak_bytes,
        lower_bound=_bound((m, k, n), grid, dtype.itemsize, (a, b, chosen.c)),
        backward=tuple(step for name in ("A", "B") for step in chosen.gradient(name).steps),
    )


def _default(grid: tuple[int, ...]) -> tuple[tuple[Placement, ...], ...]:
    from torch.distributed.tensor import Shard

    split = (Shard(0), Shard(1))[: len(grid)]
    return split, split


def _bound(
    sizes: tuple[int, int, int],
    grid: tuple[int, ...],
    itemsize: int,
    splits: tuple[tuple[str, ...], ...],
) -> LowerBound | None:
    """Return the memory-independent lower bound of products of which there is one copy.

    It is that of Al Daas, Ballard, Grigori, Kumar and Rouse (SPAA 2022): with sides
    d1 >= d2 >= d3 and p ranks, a rank accesses at least D elements and starts and ends with a p-th
    of all, so it communicates the difference.
    """
    pairs = (pair for split in splits for pair in zip(split, grid, strict=True))
    if any(not index and size > 1 for index, size in pairs):
        return None
    p = prod(grid)
    first, second, third = sorted(sizes, reverse=True)
    if not third:
        return None
    if p * second <= first:
        accessed = (first * second + first * third) / p + second * third
    elif p * third**2 <= first * second:
        accessed = 2 * (first * second * third**2 / p) ** 0.5 + first * second / p
    else:
        accessed = 3 * (first * second * third / p) ** (2 / 3)
    owned = (first * second + first * third + second * third) / p
    name = "Al Daas et al. 2022, any algorithm with one copy of each matrix"
    return LowerBound(max(0, int((accessed - owned) * itemsize)), name)
