"""The order of local transforms and exchanges in a transform along several dimensions.

A dimension is transformed when a rank holds all of it. An exchange along one mesh dimension makes
one dimension whole and splits another one. From the placements of the operand, the schedule that
leads to the wanted placements is the one with the fewest received bytes: slabs on one mesh
dimension, pencils on two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import heappop, heappush
from itertools import product
from math import prod

from trnsci.core.distributed.layout import even_sizes
from trnsci.core.distributed.schedule import Move
from trnsci.core.errors import FlagError

Split = tuple[int, ...]
_sizes = lru_cache(even_sizes)


@dataclass(frozen=True)
class Parts:
    """A tensor on a mesh.

    Attributes:
        shape: Shape of the whole tensor.
        grid: Number of ranks along each mesh dimension.
        split: The dimension of the tensor that each mesh dimension splits.
        itemsize: Bytes of an element.
    """

    shape: tuple[int, ...]
    grid: tuple[int, ...]
    split: Split
    itemsize: int

    def sizes(self, mesh_dim: int, dim: int | None = None) -> tuple[int, ...]:
        """Return the sizes of the parts if ``mesh_dim`` splits ``dim``, by default its own one."""
        dim = self.split[mesh_dim] if dim is None else dim
        return _sizes(self.shape[dim], self.grid[mesh_dim])

    def local_shape(self, rank: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the part of a rank, which is given by its mesh coordinates."""
        shape = list(self.shape)
        for mesh_dim, dim in enumerate(self.split):
            shape[dim] = self.sizes(mesh_dim)[rank[mesh_dim]]
        return tuple(shape)

    def ranges(self, rank: Sequence[int]) -> list[range]:
        """Return the indices of the part of a rank, along each dimension."""
        found = [range(size) for size in self.shape]
        for mesh_dim, dim in enumerate(self.split):
            sizes = self.sizes(mesh_dim)
            start = sum(sizes[: rank[mesh_dim]])
            found[dim] = range(start, start + sizes[rank[mesh_dim]])
        return found


@dataclass(frozen=True)
class Transform:
    """A transform of whole dimensions on each rank.

    Attributes:
        before: The operand.
        after: The result.
        kind: ``"fftn"``, ``"ifftn"``, ``"rfftn"`` or ``"irfftn"``.
        dims: The dimensions.
        sizes: Their lengths.
    """

    before: Parts
    after: Parts
    kind: str
    dims: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Exchange:
    """An all-to-all along one mesh dimension.

    Attributes:
        before: The operand.
        after: The result.
        mesh_dim: The mesh dimension.
        old: The dimension that becomes whole.
        new: The dimension that becomes split.
    """

    before: Parts
    after: Parts
    mesh_dim: int
    old: int
    new: int

    @property
    def move(self) -> Move:
        """The change of the split."""
        return Move("all_to_all", self.mesh_dim, self.before.split, self.after.split)

    @property
    def most_received(self) -> int:
        """Largest number of bytes that a rank receives."""
        before, after, mesh_dim = self.before, self.after, self.mesh_dim
        whole = before.shape[self.old]
        sizes = zip(before.sizes(mesh_dim), after.sizes(mesh_dim), strict=True)
        moved = max((whole - own) * size for own, size in sizes)
        largest = list(after.local_shape([0] * len(after.grid)))  # rank 0 has the largest part
        largest[self.old], largest[self.new] = moved, 1
        return prod(largest) * after.itemsize

    @property
    def transposed(self) -> Exchange:
        """The exchange of a gradient."""
        return Exchange(self.after, self.before, self.mesh_dim, self.new, self.old)


@dataclass(frozen=True)
class Problem:
    """A transform along several dimensions.

    Attributes:
        kind: ``"fftn"``, ``"ifftn"``, ``"rfftn"`` or ``"irfftn"``.
        operand: The operand.
        real: Whether the operand is real.
        dims: The dimensions.
        sizes: Their lengths.
    """

    kind: str
    operand: Parts
    real: bool
    dims: tuple[int, ...]
    sizes: tuple[int, ...]

    def ready(self, split: Split, left: frozenset[int]) -> tuple[int, ...]:
        """Return the dimensions, of those left, that can be transformed under a split.

        The last entry of ``dims`` of a real transform is transformed first, and of an inverse real
        transform last.
        """
        held = {dim for dim, ranks in zip(split, self.operand.grid, strict=True) if ranks > 1}
        found = tuple(dim for dim in self.dims if dim in left - held)
        last = self.dims[-1]
        if self.kind == "rfftn" and last in left and last not in found:
            return ()
        if self.kind == "irfftn" and len(found) < len(left):
            return tuple(dim for dim in found if dim != last)
        return found

    def transform(self, parts: Parts, dims: tuple[int, ...]) -> Transform:
        """Return the transform of dimensions that are ready."""
        last = self.dims[-1]
        kind = {"rfftn": "fftn", "irfftn": "ifftn"}.get(self.kind, self.kind)
        if last in dims:
            kind = self.kind
        lengths = dict(zip(self.dims, self.sizes, strict=True))
        shape = [lengths[d] if d in dims else size for d, size in enumerate(parts.shape)]
        if kind == "rfftn":
            shape[last] = lengths[last] // 2 + 1
        sizes = tuple(lengths[dim] for dim in dims)
        after = replace(parts, shape=tuple(shape), itemsize=self._itemsize(kind))
        return Transform(parts, after, kind, dims, sizes)

    def _itemsize(self, kind: str) -> int:
        real = self.operand.itemsize if self.real else self.operand.itemsize // 2
        return real if kind == "irfftn" else 2 * real


def coordinates(grid: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the mesh coordinates of all ranks, in the order of ranks."""
    return list(product(*map(range, grid)))


def schedule(
    function: str, problem: Problem, wanted: Split | None
) -> tuple[Transform | Exchange, ...]:
    """Return the steps with the fewest received bytes; ties by exchanges, then by distance.

    Args:
        function: Name of the function, for errors.
        problem: The transform.
        wanted: The split of the result; None for the one with the fewest bytes.

    Raises:
        FlagError: Every dimension is split, so that none can be exchanged for another.
    """
    operand = problem.operand
    heap: list[tuple[tuple[int, int, int], tuple[tuple[int, int, int], ...]]] = [((0, 0, 0), ())]
    reached = set()
    while heap:
        (received, count, distance), moves = heappop(heap)
        steps, left = _followed(problem, moves)
        parts = steps[-1].after if steps else operand
        if (parts.split, left) in reached:
            continue
        reached.add((parts.split, left))
        if not left and wanted in (None, parts.split):
            return steps
        for mesh_dim, old in enumerate(parts.split):
            for new in set(range(len(parts.shape))) - set(parts.split):
                move = (mesh_dim, old, new)
                more = _exchange(parts, move).most_received
                cost = (received + more, count + 1, distance + abs(old - new))
                heappush(heap, (cost, (*moves, move)))
    raise FlagError(
        f"{function}: x of shape {operand.shape} must have a dimension that is not split, got "
        f"dimensions {operand.split} split; use a mesh of fewer dimensions, or fft for one vector"
    )


def _followed(
    problem: Problem, moves: Sequence[tuple[int, int, int]]
) -> tuple[tuple[Transform | Exchange, ...], frozenset[int]]:
    """Return the steps of a sequence of exchanges, with transforms as early as possible."""
    parts, left = problem.operand, frozenset(problem.dims)
    steps: list[Transform | Exchange] = []
    for move in (None, *moves):
        if move is not None:
            steps.append(_exchange(parts, move))
            parts = steps[-1].after
        dims = problem.ready(parts.split, left)
        if dims:
            steps.append(problem.transform(parts, dims))
            parts, left = steps[-1].after, left - set(dims)
    return tuple(steps), left


def _exchange(parts: Parts, move: tuple[int, int, int]) -> Exchange:
    mesh_dim, old, new = move
    split = list(parts.split)
    split[mesh_dim] = new
    return Exchange(parts, replace(parts, split=tuple(split)), mesh_dim, old, new)
