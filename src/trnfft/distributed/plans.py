"""Communication plans of distributed transforms, from shapes alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import log2, prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trnfft._paths.arguments import REAL_INPUT, Dims
from trnfft.distributed import nd, vectors
from trnfft.distributed.bounds import NAME, Axis, least_received, lower_bound, mirrored
from trnfft.distributed.four_steps import Matrix
from trnfft.distributed.nd import problem_of, split_of
from trnfft.distributed.schedule import (
    Exchange,
    Problem,
    Transform,
    coordinates,
    schedule,
)
from trnfft.distributed.vectors import Vectors, vectors_of
from trnsci.core.arguments import data_type, flag, integers, several
from trnsci.core.distributed.layout import even_sizes
from trnsci.core.distributed.plans import Communication, LowerBound, Step, agreement_step
from trnsci.core.distributed.recording import peaks
from trnsci.core.distributed.schedule import Mesh
from trnsci.core.errors import FlagError

if TYPE_CHECKING:
    from torch.distributed.tensor import Placement

_ND = ("fftn", "ifftn", "rfftn", "irfftn")
_VECTORS = ("fft", "ifft")


def plan(
    function: str,
    shape: Sequence[int],
    mesh: int | Sequence[int],
    *,
    in_placements: Sequence[Placement] | None = None,
    placements: Sequence[Placement] | None = None,
    dtype: torch.dtype | None = None,
    s: Dims = None,
    dim: Dims = None,
    transposed: bool = False,
) -> Communication:
    """Return the communication of a call; it needs no process group.

    The memory is recorded from the call on meta tensors, without gradients and without the
    workspace of local transforms.

    Args:
        function: ``"fftn"``, ``"ifftn"``, ``"rfftn"``, ``"irfftn"``, ``"fft"`` or ``"ifft"``.
        shape: Shape of the operand.
        mesh: Number of ranks, or of ranks along each mesh dimension.
        in_placements: Placements of the operand. None splits the first dimensions in order. For
            ``"fft"`` and ``"ifft"`` None splits the last dimension, and on two mesh dimensions the
            first one by the first mesh dimension.
        placements: Placements of the result, as in the call.
        dtype: Dtype of the operand; None for complex64, or float32 of ``"rfftn"``.
        s: Lengths, as in the call.
        dim: Dimensions, as in the call.
        transposed: Layout of the spectrum of vectors, as in the call.

    Raises:
        FlagError: The function, the mesh, an option or placements are invalid.
        ShapeError, IndexError, DTypeError: As in the call.
    """
    if function not in _ND + _VECTORS:
        raise FlagError(
            f"plan: function must be one of {', '.join(_ND + _VECTORS)}, got {function!r}"
        )
    grid = tuple(several("plan", "mesh", mesh, 1, FlagError))
    if len(grid) not in (1, 2):
        raise FlagError(f"plan: mesh must have 1 or 2 dimensions, got {grid}")
    if dtype is None:
        dtype = torch.float32 if function in REAL_INPUT else torch.complex64
    data_type("plan", "dtype", dtype)
    flag("plan", "transposed", transposed)
    sizes = integers("plan", "shape", shape, 0)
    x = torch.empty(sizes, dtype=dtype, device="meta")
    given = _default(function, x.ndim, grid) if in_placements is None else in_placements
    split = split_of("plan", "in_placements", given, x.ndim, len(grid))
    if function in _VECTORS:
        if placements is not None or s is not None or dim is not None:
            raise FlagError(f"plan: {function} has no placements, s and dim")
        found = vectors_of("plan", function, x, grid, split, transposed)
        call: Any = partial(getattr(vectors, function), transposed=transposed)
        held = peaks(grid, [(sizes, given, dtype)], call)
        return _plan_of_vectors(function, x, grid, split, found, held)
    if transposed:
        raise FlagError(f"plan: {function} is transposed by placements, got transposed=True")
    wanted = (
        None
        if placements is None
        else split_of("plan", "placements", placements, x.ndim, len(grid))
    )
    problem = problem_of("plan", function, x, grid, split, s, dim, None)
    call = partial(getattr(nd, function), s=s, dim=dim, placements=placements)
    held = peaks(grid, [(sizes, given, dtype)], call)
    return _plan_of_dimensions(problem, dtype, wanted, held)


def _default(function: str, ndim: int, grid: tuple[int, ...]) -> tuple[Placement, ...]:
    from torch.distributed.tensor import Shard

    if function in _VECTORS:
        return (Shard(0), Shard(ndim - 1))[-len(grid) :]
    return tuple(map(Shard, range(len(grid))))


# -- several dimensions ----------------------------------------------------------------------------


def _plan_of_dimensions(
    problem: Problem,
    dtype: torch.dtype,
    wanted: tuple[int, ...] | None,
    held: Callable[[int], int],
) -> Communication:
    steps = schedule("plan", problem, wanted)
    operand, result = problem.operand, steps[-1].after
    work = [step for step in steps if _is_work(step)]
    exchanges = [step for step in work if isinstance(step, Exchange)]
    return Communication(
        function=f"trnfft.distributed.{problem.kind}",
        problem=f"{_named(operand.split)} {operand.shape} in {dtype} to {_named(result.split)}",
        mesh=operand.grid,
        steps=(agreement_step(operand.grid), *map(_step, work)),
        held=held,
        lower_bound=lower_bound(problem, result),
        backward=tuple(_step(each.transposed) for each in reversed(exchanges)),
    )


def _named(split: Sequence[int]) -> str:
    return ", ".join(f"Shard({dim})" for dim in split)


def _is_work(step: Transform | Exchange) -> bool:
    """Return whether a step does something: an exchange within one rank does not."""
    return isinstance(step, Transform) or step.before.grid[step.mesh_dim] > 1


def _step(step: Transform | Exchange) -> Step:
    grid = step.before.grid
    ranks = coordinates(grid)
    if isinstance(step, Exchange):
        mesh = Mesh(grid, step.before.itemsize)
        return mesh.step(step.move, f"split {step.old} to {step.new}", step.before.shape)
    wide = step.before if step.kind == "irfftn" else step.after
    flops = tuple(
        _flops(prod(wide.local_shape(rank)), prod(step.sizes), step.kind in ("rfftn", "irfftn"))
        for rank in ranks
    )
    touched = tuple(
        sum(each.itemsize * prod(each.local_shape(rank)) for each in (step.before, step.after))
        for rank in ranks
    )
    dims = ", ".join(map(str, step.dims))
    return Step("compute", f"{step.kind} along {dims}", (0,) * len(ranks), 0, flops, touched)


def _flops(elements: int, points: int, real: bool) -> int:
    """Return the operations of transforms, by the usual count of 5 n log2(n) for n points."""
    return int((2.5 if real else 5) * elements * log2(max(points, 2)))


# -- vectors ---------------------------------------------------------------------------------------


def _plan_of_vectors(
    function: str,
    x: Tensor,
    grid: tuple[int, ...],
    split: tuple[int, ...],
    vectors: Vectors,
    held: Callable[[int], int],
) -> Communication:
    before, after = vectors.before, vectors.after
    ranks = coordinates(grid)
    narrow, wide = x.dtype.itemsize, x.dtype.to_complex().itemsize
    parts = [_VectorPart(vectors, rank, grid, split) for rank in ranks]

    def exchanged(what: str, counts: Sequence[int], itemsize: int, messages: int) -> Step:
        received = tuple(n * itemsize for n in counts)
        return Step("all_to_all", what, received, messages if any(received) else 0)

    def computed(what: str, counts: Sequence[int], points: int) -> Step:
        flops = tuple(_flops(count, points, real=False) for count in counts)
        touched = tuple(2 * wide * count for count in counts)
        return Step("compute", f"{function} of {what}", (0,) * len(ranks), 0, flops, touched)

    columns, rows = [each.columns for each in parts], [each.rows for each in parts]
    across = before.exchanges
    steps = [
        computed(f"{before.columns} columns", columns, before.rows),
        exchanged("columns to rows", [each.received_rows for each in parts], wide, across[0]),
        computed(f"{before.rows} rows", rows, before.columns),
    ]
    counts = [each.received_columns for each in parts]
    backward = [exchanged("rows to columns", counts, wide, across[1])]
    if not vectors.from_matrix:
        counts = [each.points_to_columns(before) for each in parts]
        steps.insert(0, exchanged("points to columns", counts, narrow, before.messages[0]))
        counts = [each.columns_to_points(before) for each in parts]
        backward.append(exchanged("columns to points", counts, narrow, before.messages[1]))
    if not vectors.to_matrix:
        counts = [each.columns_to_points(after) for each in parts]
        steps.append(exchanged("columns to points", counts, wide, after.messages[1]))
        counts = [each.points_to_columns(after) for each in parts]
        backward.insert(0, exchanged("points to columns", counts, wide, after.messages[0]))
    if before.ranks == 1:
        steps = [step for step in steps if step.kind == "compute"]
        backward = []
    layout = f"to a matrix {after.rows} x {after.columns}" if vectors.to_matrix else "to vectors"
    real = None if x.is_complex() else "held"
    itemsize = wide if real is None else narrow
    bound = max(least_received(each.axes(), real) for each in parts) * itemsize
    return Communication(
        function=f"trnfft.distributed.{function}",
        problem=f"{tuple(x.shape)} in {x.dtype} as {before.rows} x {before.columns} {layout}",
        mesh=grid,
        steps=(agreement_step(grid), *steps),
        held=held,
        lower_bound=LowerBound(bound, NAME),
        backward=tuple(backward),
    )


class _VectorPart:
    """Sizes of one rank's part of vectors and of their matrices, in elements, batch included."""

    def __init__(
        self,
        vectors: Vectors,
        rank: Sequence[int],
        grid: Sequence[int],
        split: Sequence[int],
    ) -> None:
        sizes = list(vectors.batch)
        for mesh_dim, dim in enumerate(split):
            if mesh_dim != vectors.mesh_dim:
                sizes[dim] = even_sizes(sizes[dim], grid[mesh_dim])[rank[mesh_dim]]
        self.vectors = vectors
        self.batch = prod(sizes)
        self.place = rank[vectors.mesh_dim]
        before, after = vectors.before, vectors.after
        self.width = len(before.columns_of(self.place))
        self.height = len(after.columns_of(self.place))
        self.columns = before.rows * self.width * self.batch
        self.rows = before.columns * self.height * self.batch
        self.points = len(before.points_of(self.place)) * self.batch

    @property
    def received_rows(self) -> int:
        return (self.vectors.before.columns - self.width) * self.height * self.batch

    @property
    def received_columns(self) -> int:
        return (self.vectors.before.rows - self.height) * self.width * self.batch

    def points_to_columns(self, matrix: Matrix) -> int:
        all_columns = matrix.rows * len(matrix.columns_of(self.place))
        return (all_columns - matrix.shared(self.place, self.place)) * self.batch

    def columns_to_points(self, matrix: Matrix) -> int:
        points = len(matrix.points_of(self.place))
        return (points - matrix.shared(self.place, self.place)) * self.batch

    def axes(self) -> list[Axis]:
        vectors, after = self.vectors, self.vectors.after
        held, computed = self.points // max(1, self.batch), len(after.points_of(self.place))
        common = mirrored(after.points_of(self.place), after.rows * after.columns)
        if vectors.from_matrix:
            held = vectors.before.rows * self.width
        if vectors.to_matrix:
            computed = after.rows * self.height
            common = after.rows * mirrored(after.columns_of(self.place), after.columns)
        batch = Axis(0, self.batch, self.batch, self.batch)
        return [batch, Axis(after.rows * after.columns, held, computed, common)]
