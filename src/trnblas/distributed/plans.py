"""Communication plans of distributed functions, from shapes alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import torch

from trnblas._paths.flags import is_left, is_upper
from trnblas.distributed.operands import split_of
from trnblas.distributed.pairs import pair_steps
from trnblas.distributed.schedule import Move, Schedule, moves_back, schedule
from trnblas.distributed.symmetric import mirror_moves
from trnblas.distributed.triangular import substitution
from trnsci.core.arguments import whole
from trnsci.core.distributed.plans import Communication, LowerBound, agreement_step
from trnsci.core.errors import FlagError, ShapeError

if TYPE_CHECKING:
    from torch.distributed.tensor import Placement

__all__ = ["plan"]

_FUNCTIONS = ("gemm", "syrk", "trsm", "batched_pair_energy")
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
    trans: bool | str = False,
    side: str = "left",
    uplo: str = "upper",
) -> Communication:
    """Return the communication of a call; it needs no process group.

    Peak memory is that at the default level of precision; other levels hold copies of operands.

    Args:
        function: ``"gemm"``, ``"syrk"``, ``"trsm"`` or ``"batched_pair_energy"``.
        *shapes: Shapes of the operands: A and B; A for ``syrk``; B for the energy.
        mesh: Number of ranks, or of ranks along each mesh dimension.
        in_placements: Placements of each operand; None for rows on one mesh dimension, and for rows
            and columns on two. The energy has one placement.
        placements: Placements of the result, as in the call.
        dtype: Dtype of the operands.
        transA: Transposition of A, for ``gemm``.
        transB: Transposition of B, for ``gemm``.
        trans: Transposition of A, for ``syrk`` and ``trsm``.
        side: Side of A, for ``trsm``.
        uplo: Triangle of A, for ``trsm``.

    Raises:
        FlagError: The function, the mesh or placements are invalid.
        ShapeError: The shapes are incompatible.
    """
    if function not in _FUNCTIONS:
        raise FlagError(f"plan: function must be one of {', '.join(_FUNCTIONS)}, got {function!r}")
    grid = (mesh,) if isinstance(mesh, int) else tuple(mesh)
    grid = tuple(whole("plan", "mesh", size, 1, error=FlagError) for size in grid)
    if len(grid) not in (1, 2):
        raise FlagError(f"plan: mesh must have 1 or 2 dimensions, got {grid}")
    count, ndim = {"syrk": (1, 2), "batched_pair_energy": (1, 3)}.get(function, (2, 2))
    if len(shapes) != count or any(len(shape) != ndim for shape in shapes):
        raise ShapeError(
            f"plan: {function} takes {count} shapes of {ndim} dimensions, got {shapes}"
        )
    dims = tuple(tuple(shape) for shape in shapes)
    if function == "batched_pair_energy":
        return _pairs(dims[0], grid, dtype)
    given = tuple(_default(grid)[:count] if in_placements is None else in_placements)
    if function == "trsm":
        return _trsm(
            dims,
            grid,
            given,
            placements,
            dtype,
            is_left("plan", side),
            is_upper("plan", uplo),
            _flipped(trans),
        )
    flips = (_flipped(transA), _flipped(transB))
    if function == "syrk":
        flips = (_flipped(trans), not _flipped(trans))
        dims, given = (dims[0],) * 2, (given[0],) * 2
    return _product(function, dims, grid, given, placements, dtype, flips)


def _flipped(trans: bool | str) -> bool:
    return trans not in (False, "N", "n")


def _product(
    function: str,
    shapes: tuple[tuple[int, ...], ...],
    grid: tuple[int, ...],
    given: tuple[Sequence[Placement], ...],
    placements: Sequence[Placement] | None,
    dtype: torch.dtype,
    flips: tuple[bool, bool],
) -> Communication:
    a, b = (
        split_of("plan", f"in_placements[{place}]", each, len(grid), "AB"[place], flips[place])
        for place, each in enumerate(given)
    )
    (m, k), (inner, n) = (s[::-1] if flip else s for s, flip in zip(shapes, flips, strict=True))
    if k != inner:
        raise ShapeError(f"plan: A and B must agree in the contracted dimension, got {shapes}")
    c = None
    if placements is not None:
        c = split_of("plan", "placements", placements, len(grid), "C")
    chosen = schedule((m, k, n), grid, dtype.itemsize, a, b, c)
    backward = [step for name in ("A", "B") for step in chosen.gradient(name).steps]
    steps, peak = chosen.steps, chosen.peak_bytes
    if function == "syrk":
        swap = mirror_moves(chosen)
        mirror = [chosen.step(move) for move in swap if move.kind != "slice"]
        steps += tuple(mirror)
        back = [chosen.step(m) for m in moves_back(swap) if m.kind != "slice"]
        backward = [*back, *backward]
        peak = tuple(
            max(before, _mirror_peak(chosen, swap, at))
            for before, at in zip(peak, chosen.coordinates, strict=True)
        )
    splits = ", ".join(f"{_WORDS[i]} over {size}" for i, size in zip(chosen.by, grid, strict=True))
    return Communication(
        function=f"trnblas.distributed.{function}",
        problem=f"({m}, {k}) @ ({k}, {n}) in {dtype}, {splits}",
        mesh=grid,
        steps=(agreement_step(grid), *steps),
        peak_bytes=peak,
        lower_bound=_bound((m, k, n), grid, dtype.itemsize, (a, b, chosen.c))
        if function == "gemm"
        else None,
        backward=tuple(backward),
    )


def _mirror_peak(chosen: Schedule, swap: Sequence[Move], at: tuple[int, ...]) -> int:
    """Return the bytes that a rank holds at most while triangles are exchanged."""

    def count(matrix: str, split: tuple[str, ...]) -> int:
        return prod(chosen.local_shape(matrix, split, at))

    given = count("A", chosen.a)
    own = count("C", chosen.c)
    most = max([count("C", m.old) + 2 * count("C", m.new) for m in swap], default=0)
    indices = 8 * 4 * sum(chosen.local_shape("C", chosen.c, at)) + own
    return chosen.itemsize * (given + own + max(most, 3 * own)) + indices


def _trsm(
    shapes: tuple[tuple[int, ...], ...],
    grid: tuple[int, ...],
    given: tuple[Sequence[Placement], ...],
    placements: Sequence[Placement] | None,
    dtype: torch.dtype,
    left: bool,
    upper: bool,
    transposed: bool,
) -> Communication:
    (n, other), b_shape = shapes
    if n != other or b_shape[0 if left else 1] != n:
        raise ShapeError(f"plan: A must be square and fit B, got {shapes}")
    flipped = transposed == left
    wanted = given[1] if placements is None else placements
    a = split_of("plan", "in_placements[0]", given[0], len(grid), "A", flipped)
    b = split_of("plan", "in_placements[1]", given[1], len(grid), "C", not left)
    x = split_of("plan", "placements", wanted, len(grid), "C", not left)
    columns = b_shape[1 if left else 0]
    chosen = substitution((n, columns), grid, dtype.itemsize, a, b, x, upper != flipped)
    splits = ", ".join(f"{_WORDS[i]} over {size}" for i, size in zip(chosen.by, grid, strict=True))
    return Communication(
        function="trnblas.distributed.trsm",
        problem=f"order {n}, {columns} right-hand sides in {dtype}, {splits}",
        mesh=grid,
        steps=(agreement_step(grid), *chosen.steps),
        peak_bytes=chosen.peak_bytes,
        backward=(*chosen.adjoint().steps, *chosen.gradient().steps),
    )


def _pairs(shape: tuple[int, ...], grid: tuple[int, ...], dtype: torch.dtype) -> Communication:
    nocc, nvir, naux = shape
    steps, backward, peak = pair_steps((nocc, nvir, naux), grid, dtype.itemsize)
    return Communication(
        function="trnblas.distributed.batched_pair_energy",
        problem=f"{nocc} occupied and {nvir} virtual orbitals, {naux} functions, in {dtype}",
        mesh=grid,
        steps=(agreement_step(grid), *steps),
        peak_bytes=peak,
        backward=tuple(backward),
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
