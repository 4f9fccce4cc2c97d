"""Schedules of distributed products: which index each mesh dimension splits, and what moves.

C[m, n] is the sum over k of A[m, k] B[k, n]. Along each mesh dimension the computation is split by
one of the three indices:

- by m: ranks have rows of A and of C, and need all of B;
- by n: ranks have columns of B and of C, and need all of A;
- by k: ranks have parts of the sum, which are added by a reduce-scatter or an all-reduce.

On two mesh dimensions, m and n give SUMMA, k with m or n its variants in which A or B does not
move. A schedule is chosen by the bytes that the busiest rank receives, then by its operations and
its memory. What a rank needs of an operand and does not have is received in panels: one broadcast
for each, started while the panel before it is multiplied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise, permutations, product
from math import prod
from typing import Literal

from trnsci.core.distributed.layout import even_offsets, even_sizes
from trnsci.core.distributed.plans import Step, all_reduced

__all__ = ["INDICES", "Move", "Panel", "Schedule", "Split", "moves", "moves_back", "schedule"]

INDICES = {"A": "mk", "B": "kn", "C": "mn"}
"""Indices of the dimensions of each matrix."""
_PARTIAL = "+"
_ORDER = ("slice", "reduce_scatter", "all_to_all", "all_reduce", "all_gather")
"""Kinds of moves, those first that leave less to move."""
_LETTERS = ("m", "n", "k")
_WIDTH = 512
"""Largest width of a panel: a rank holds two of each matrix, and 512 is four tiles of a kernel."""
Split = tuple[str, ...]
"""The index that each mesh dimension splits; empty where a matrix is replicated."""


@dataclass(frozen=True)
class Move:
    """A change of the split of a matrix along one mesh dimension.

    Attributes:
        kind: ``"slice"`` (free), ``"all_gather"``, ``"all_to_all"``, ``"reduce_scatter"`` or
            ``"all_reduce"``.
        matrix: ``"A"``, ``"B"`` or ``"C"``.
        mesh_dim: The mesh dimension.
        old: Split of the matrix before.
        new: Split of the matrix after.
    """

    kind: str
    matrix: str
    mesh_dim: int
    old: Split
    new: Split


@dataclass(frozen=True)
class Panel:
    """A range of the streamed index.

    Attributes:
        start: First element of the range.
        stop: End of the range.
        owners: For each matrix that is streamed, the rank along its mesh dimension that has it.
    """

    start: int
    stop: int
    owners: dict[str, int]


@dataclass(frozen=True)
class Schedule:
    """A distributed product.

    Attributes:
        sizes: m, k and n.
        mesh: Number of ranks along each mesh dimension.
        itemsize: Bytes of an element.
        a: Split of A as given.
        b: Split of B as given.
        c: Split of C as returned.
        by: Index that splits the computation along each mesh dimension.
        before: Moves of A and B before the products.
        streamed: Gathers of A and B in panels, at most one each, all of one index.
        after: Moves of C.
    """

    sizes: tuple[int, int, int]
    mesh: tuple[int, ...]
    itemsize: int
    a: Split
    b: Split
    c: Split
    by: tuple[str, ...]
    before: tuple[Move, ...]
    streamed: tuple[Move, ...]
    after: tuple[Move, ...]

    def size(self, index: str) -> int:
        """Return the size of an index."""
        return self.sizes["mkn".index(index)]

    def parts(self, index: str, mesh_dim: int) -> tuple[int, ...]:
        """Return the size of each rank's part of an index."""
        return even_sizes(self.size(index), self.mesh[mesh_dim])

    def local_shape(self, matrix: str, split: Split, at: Sequence[int]) -> tuple[int, int]:
        """Return the shape of the part of a matrix at the mesh coordinates ``at``."""
        rows, columns = (
            self.parts(index, split.index(index))[at[split.index(index)]]
            if index in split
            else self.size(index)
            for index in INDICES[matrix]
        )
        return rows, columns

    @property
    def streamed_index(self) -> str:
        """The index of the panels; empty if nothing is streamed."""
        return self.streamed[0].old[self.streamed[0].mesh_dim] if self.streamed else ""

    @cached_property
    def panels(self) -> tuple[Panel, ...]:
        """The panels, cut where the owner of A's or of B's panel changes."""
        index = self.streamed_index
        offsets = {
            move.matrix: even_offsets(self.size(index), self.mesh[move.mesh_dim])
            for move in self.streamed
        }
        outer = sorted({cut for each in offsets.values() for cut in each})
        cuts = sorted({cut for a, b in pairwise(outer) for cut in (*range(a, b, _WIDTH), b)})
        return tuple(
            Panel(
                start,
                stop,
                {
                    matrix: max(r for r, first in enumerate(each[:-1]) if first <= start)
                    for matrix, each in offsets.items()
                },
            )
            for start, stop in pairwise(cuts)
        )

    @property
    def multiplied(self) -> tuple[Split, Split, Split]:
        """Splits of A, B and C during the products; a sum over ranks is ``"+"``."""
        a = tuple(letter if letter in "mk" else "" for letter in self.by)
        b = tuple(letter if letter in "kn" else "" for letter in self.by)
        c = tuple(_PARTIAL if letter == "k" else letter for letter in self.by)
        return a, b, c

    # -- costs -------------------------------------------------------------------------------------

    @property
    def coordinates(self) -> Iterator[tuple[int, ...]]:
        """Mesh coordinates of the ranks, by rows."""
        return product(*map(range, self.mesh))

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Collectives and products, with the bytes and operations of each rank."""
        found = [self.step(move) for move in self.before if move.kind != "slice"]
        for move in self.streamed:
            step = self.step(move)
            found.append(
                Step("broadcast", step.what, step.received, len(self.panels), overlapped=True)
            )
        nothing = (0,) * prod(self.mesh)
        found.append(
            Step(
                "compute",
                "products",
                nothing,
                flops=tuple(self._flops()),
                hbm_bytes=tuple(self._touched()),
                launches=max(1, len(self.panels)) if self.streamed else 1,
            )
        )
        found += [self.step(move) for move in self.after if move.kind != "slice"]
        return tuple(found)

    def _touched(self) -> Iterator[int]:
        """Yield the bytes of the operands and the result of each rank's products."""
        for at in self.coordinates:
            shapes = zip("ABC", self.multiplied, strict=True)
            yield self.itemsize * sum(prod(self.local_shape(x, s, at)) for x, s in shapes)

    def _flops(self) -> Iterator[int]:
        a, b, _ = self.multiplied
        for at in self.coordinates:
            rows, depth = self.local_shape("A", a, at)
            yield 2 * rows * depth * self.local_shape("B", b, at)[1]

    def step(self, move: Move) -> Step:
        """Return a move with the bytes that each rank receives."""
        size, counts = self.mesh[move.mesh_dim], []
        for at in self.coordinates:
            old, new = (
                prod(self.local_shape(move.matrix, split, at)) for split in (move.old, move.new)
            )
            if move.kind == "all_gather":
                count = new - old
            elif move.kind == "all_to_all":
                here = at[move.mesh_dim]
                index = move.old[move.mesh_dim]
                own = self.parts(index, move.mesh_dim)[here]
                count = new - (new // self.size(index) * own if new else 0)
            elif move.kind == "reduce_scatter":
                count = (size - 1) * new
            else:
                counts.append(all_reduced(new * self.itemsize, size))
                continue
            counts.append(count * self.itemsize)
        what = f"{move.matrix} along mesh dimension {move.mesh_dim}"
        messages = (size - 1) * (2 if move.kind == "all_reduce" else 1)
        return Step(move.kind, what, tuple(counts), messages)

    @cached_property
    def peak_bytes(self) -> tuple[int, ...]:
        """Bytes of operands, buffers and result of each rank, at most.

        A local product may copy an operand that is conjugated; that is not included.
        """
        return tuple(self.itemsize * self._peak(at) for at in self.coordinates)

    def _peak(self, at: tuple[int, ...]) -> int:
        """Return the largest number of elements that a rank holds at once."""
        held = {name: 0 for name in INDICES}  # beyond the operands of the caller
        given = prod(self.local_shape("A", self.a, at)) + prod(self.local_shape("B", self.b, at))
        peak = given
        for move in self.before:
            old, new = (prod(self.local_shape(move.matrix, s, at)) for s in (move.old, move.new))
            if move.kind != "slice":
                peak = max(peak, given + sum(held.values()) + old + 2 * new)
                held[move.matrix] = new
        a, b, c = self.multiplied
        result = prod(self.local_shape("C", c, at))
        panels = 0
        for move in self.streamed:
            shape = self.local_shape(move.matrix, (a, b)["AB".index(move.matrix)], at)
            place = INDICES[move.matrix].index(self.streamed_index)
            widths = sorted(panel.stop - panel.start for panel in self.panels)
            panels += shape[1 - place] * sum(widths[-2:])
        one = result if self.streamed else 0  # the product of a panel, before it is added
        peak = max(peak, given + sum(held.values()) + panels + result + one)
        for move in self.after:
            old, new = (prod(self.local_shape("C", s, at)) for s in (move.old, move.new))
            peak = max(peak, given + sum(held.values()) + 2 * old + 2 * new)
        return peak

    # -- gradients ---------------------------------------------------------------------------------

    def gradient(self, matrix: Literal["A", "B"]) -> Schedule:
        """Return the schedule of the gradient by A, ``G @ B.mH``, or by B, ``A.mH @ G``."""
        m, k, n = self.sizes
        if matrix == "A":
            names = {"m": "m", "n": "k", "k": "n"}
            sizes, a, b, c = (m, n, k), self.c, self.b, self.a
        else:
            names = {"k": "m", "m": "k", "n": "n"}
            sizes, a, b, c = (k, m, n), self.a, self.c, self.b
        a, b, c = (tuple(names.get(index, "") for index in split) for split in (a, b, c))
        return schedule(sizes, self.mesh, self.itemsize, a, b, c)


@lru_cache(maxsize=256)
def schedule(
    sizes: tuple[int, int, int],
    mesh: tuple[int, ...],
    itemsize: int,
    a: Split,
    b: Split,
    c: Split | None = None,
) -> Schedule:
    """Return the schedule that moves the fewest bytes; C is split as that is best if c is None."""
    found = [
        candidate
        for by in permutations(_LETTERS, len(mesh))
        if (candidate := _split_by(sizes, mesh, itemsize, a, b, c, by)) is not None
    ]
    return min(found, key=_cost)


def _cost(candidate: Schedule) -> tuple[int, int, int]:
    received = [sum(counts) for counts in zip(*(s.received for s in candidate.steps), strict=True)]
    flops = max(max(step.flops) for step in candidate.steps if step.kind == "compute")
    return max(received), flops, max(candidate.peak_bytes)


def _split_by(
    sizes: tuple[int, int, int],
    mesh: tuple[int, ...],
    itemsize: int,
    a: Split,
    b: Split,
    c: Split | None,
    by: tuple[str, ...],
) -> Schedule | None:
    """Return the schedule with a given split of the computation; None if there is none."""
    bare = Schedule(sizes, mesh, itemsize, a, b, (), by, (), (), ())
    inner_a, inner_b, inner_c = bare.multiplied
    if c is None:
        free = [index for index in "mn" if index not in by]
        c = tuple(free.pop(0) if index == _PARTIAL else index for index in inner_c)
    of_a, of_b, of_c = (
        moves("A", a, inner_a, mesh),
        moves("B", b, inner_b, mesh),
        moves("C", inner_c, c, mesh),
    )
    before: list[Move] = []
    streamed: list[Move] = []
    for each in (of_a, of_b):
        last = bool(each) and each[-1].kind == "all_gather"
        before += each[:-1] if last else each
        streamed += each[-1:] if last else []
    if len({move.old[move.mesh_dim] for move in streamed}) > 1:
        return None
    return Schedule(sizes, mesh, itemsize, a, b, c, by, tuple(before), tuple(streamed), tuple(of_c))


def moves(matrix: str, old: Split, new: Split, mesh: Sequence[int]) -> list[Move]:
    """Return moves from one split to another; none along a mesh dimension of one rank."""
    found: list[Move] = []
    now, new = (
        tuple(index if size > 1 else "" for index, size in zip(split, mesh, strict=True))
        for split in (old, new)
    )
    while now != new:
        possible = [
            (_kind(now[dim], new[dim]), dim, new[dim])
            for dim in range(len(now))
            if now[dim] != new[dim] and (not new[dim] or new[dim] not in now)
        ]
        # If two mesh dimensions exchange their indices, one of them is gathered first.
        kind, dim, index = min(
            possible or [("all_gather", len(now) - 1, "")], key=lambda each: _ORDER.index(each[0])
        )
        then = (*now[:dim], index, *now[dim + 1 :])
        found.append(Move(kind, matrix, dim, now, then))
        now = then
    return found


def moves_back(there: Sequence[Move]) -> list[Move]:
    """Return the moves of the gradient of a matrix that was moved."""
    kinds = {"slice": "all_gather", "all_gather": "slice", "all_to_all": "all_to_all"}
    return [Move(kinds[m.kind], m.matrix, m.mesh_dim, m.new, m.old) for m in reversed(there)]


def _kind(old: str, new: str) -> str:
    if old == _PARTIAL:
        return "reduce_scatter" if new else "all_reduce"
    if not old:
        return "slice"
    return "all_to_all" if new else "all_gather"
