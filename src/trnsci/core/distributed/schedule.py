"""Schedules of distributed contractions: the index that each mesh dimension splits, and the moves.

Along each mesh dimension one index splits the computation. An operand with that index is split by
it, another operand is replicated; a result with that index comes out split, and one without it as
addends, which a reduce-scatter or an all-reduce adds. Indices are chosen by the bytes that the
busiest rank receives, then by its operations, then by its memory.

The product of two matrices is ``mk,kn->mn``: on two mesh dimensions, m and n give SUMMA, k with m
or n its variants in which A or B does not move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product, takewhile
from math import prod

from trnsci.core.distributed.layout import even_sizes
from trnsci.core.distributed.predictions import Step, all_reduced, messages_between

Split = tuple[int | None, ...]
"""The dimension of a tensor that each mesh dimension splits; None where it is replicated."""
_ADDENDS = -1
"""In place of a dimension: ranks hold addends of the whole."""
FREE = ("slice", "replicate")
"""Kinds of moves without communication."""
_ORDER = ("slice", "reduce_scatter", "all_to_all", "all_reduce", "all_gather")
"""Kinds of moves, those first that leave less to move."""


@dataclass(frozen=True)
class Move:
    """A change of the split of a tensor along one mesh dimension.

    Attributes:
        kind: ``"all_gather"``, ``"all_to_all"``, ``"reduce_scatter"`` or ``"all_reduce"``; or,
            without communication, ``"slice"`` or ``"replicate"``: a tensor that every rank has, and
            uses in another way, so that its gradient is the sum of those of the ranks.
        mesh_dim: The mesh dimension.
        old: Split of the tensor before.
        new: Split of the tensor after.
        whole: Whether every rank had the tensor before the first move along the mesh dimension; a
            slice of what was gathered has no gradient to gather.
    """

    kind: str
    mesh_dim: int
    old: Split
    new: Split
    whole: bool = False

    @property
    def dims(self) -> Split:
        """The dimensions that the mesh dimension splits, before and after."""
        return self.old[self.mesh_dim], self.new[self.mesh_dim]


@dataclass(frozen=True)
class Mesh:
    """Ranks of a mesh, and elements of a number of bytes on them."""

    shape: tuple[int, ...]
    itemsize: int

    @cached_property
    def coordinates(self) -> tuple[tuple[int, ...], ...]:
        """Coordinates of every rank."""
        return tuple(product(*map(range, self.shape)))

    def part(self, shape: Sequence[int], split: Split, at: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the part of a tensor on the rank with given coordinates."""
        found = list(shape)
        for mesh_dim, dim in enumerate(split):
            if dim is not None and dim != _ADDENDS:
                found[dim] = even_sizes(shape[dim], self.shape[mesh_dim])[at[mesh_dim]]
        return tuple(found)

    def step(self, move: Move, what: str, shape: Sequence[int]) -> Step:
        """Return a move of a tensor with the bytes that each rank receives."""
        received = tuple(self._received(move, shape, at, self.itemsize) for at in self.coordinates)
        messages = self._messages(move, shape) if any(received) else 0
        return Step(move.kind, f"{what}, mesh dimension {move.mesh_dim}", received, messages)

    def _received(self, move: Move, shape: Sequence[int], at: Sequence[int], size: int) -> int:
        ranks, (gone, come) = self.shape[move.mesh_dim], move.dims
        before, after = (self.part(shape, split, at) for split in (move.old, move.new))
        if move.kind == "all_reduce":
            return all_reduced(prod(after) * size, ranks)
        if move.kind == "reduce_scatter":
            return (ranks - 1) * prod(after) * size
        if move.kind == "all_gather":
            return (prod(after) - prod(before)) * size
        assert gone is not None and come is not None
        kept = [before[dim] if dim == gone else each for dim, each in enumerate(after)]
        return (prod(after) - prod(kept)) * size

    def _messages(self, move: Move, shape: Sequence[int]) -> int:
        """Return the messages of a move: one from each other rank that has something to send."""
        ranks = self.shape[move.mesh_dim]
        if move.kind == "all_reduce":
            return 2 * (ranks - 1)
        senders, receivers = (
            ranks
            if dim is None or dim == _ADDENDS
            else sum(map(bool, even_sizes(shape[dim], ranks)))
            for dim in move.dims
        )
        if move.kind == "reduce_scatter":
            return min(receivers, ranks - 1)
        return messages_between(senders, receivers)


@dataclass(frozen=True)
class Schedule:
    """A distributed contraction.

    Attributes:
        terms: Indices of each operand, one letter for each dimension.
        output: Indices of the result.
        shapes: Shapes of the operands.
        mesh: The mesh.
        given: Split of each operand in the call.
        result: Split of the result.
        by: Index that splits the computation along each mesh dimension; empty for none.
    """

    terms: tuple[str, ...]
    output: str
    shapes: tuple[tuple[int, ...], ...]
    mesh: Mesh
    given: tuple[Split, ...]
    result: Split
    by: tuple[str, ...]

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Size of every index."""
        return _sizes(self.terms, self.shapes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return tuple(self.sizes[label] for label in self.output)

    def places(self, operand: int, mesh_dim: int) -> tuple[int, ...]:
        """Return the dimensions of an operand with the index that a mesh dimension splits.

        A dimension of size 1 that broadcasts is none of them. The one that is split already comes
        first; the others, of a diagonal, are sliced.
        """
        label, shape = self.by[mesh_dim], self.shapes[operand]
        if not label:
            return ()
        term, size = self.terms[operand], self.sizes[label]
        found = [at for at, name in enumerate(term) if name == label and shape[at] == size]
        return tuple(sorted(found, key=lambda at: at != self.given[operand][mesh_dim]))

    def needed(self, operand: int) -> Split:
        """Return the split in which an operand is contracted."""
        firsts = (self.places(operand, mesh_dim)[:1] for mesh_dim in range(len(self.by)))
        return tuple(first[0] if first else None for first in firsts)

    @cached_property
    def before(self) -> tuple[tuple[Move, ...], ...]:
        """Moves of each operand."""
        return tuple(map(self._before, range(len(self.shapes))))

    def _before(self, operand: int) -> tuple[Move, ...]:
        given, needed = self.given[operand], self.needed(operand)
        found = moves(given, needed, self.mesh.shape)
        # Slices come first: then there is less to gather, and less to add in the gradient.
        slices = tuple(takewhile(lambda move: move.kind == "slice", found))
        split = slices[-1].new if slices else given
        shared = tuple(
            Move("replicate", at, split, split)
            for at, size in enumerate(self.mesh.shape)
            if size > 1 and self.by[at] and given[at] is None and needed[at] is None
        )
        return (*slices, *shared, *found[len(slices) :])

    @cached_property
    def contracted(self) -> Split:
        """Split of the result of the local contraction."""
        return tuple(
            None if not label else self.output.index(label) if label in self.output else _ADDENDS
            for label in self.by
        )

    @cached_property
    def after(self) -> tuple[Move, ...]:
        """Moves of the result."""
        return moves(self.contracted, self.result, self.mesh.shape)

    def contracted_shapes(self, at: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the operands of a rank's local contraction."""
        found = []
        for operand, shape in enumerate(self.shapes):
            local = list(shape)
            for mesh_dim, size in enumerate(self.mesh.shape):
                for dim in self.places(operand, mesh_dim):
                    local[dim] = even_sizes(shape[dim], size)[at[mesh_dim]]
            found.append(tuple(local))
        return tuple(found)

    def touched(self, at: Sequence[int]) -> int:
        """Return the bytes of the operands and the result of a rank's local contraction."""
        result = self.mesh.part(self.shape, self.contracted, at)
        return self.mesh.itemsize * sum(map(prod, (*self.contracted_shapes(at), result)))

    # -- communication -----------------------------------------------------------------------------

    @cached_property
    def collectives(self) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
        """Collectives before and after the local contraction."""
        before = [
            self.mesh.step(move, f"operand {number}", shape)
            for number, (found, shape) in enumerate(zip(self.before, self.shapes, strict=True))
            for move in found
            if move.kind not in FREE
        ]
        after = [
            self.mesh.step(move, "result", self.shape)
            for move in self.after
            if move.kind not in FREE
        ]
        return tuple(before), tuple(after)

    @cached_property
    def backward(self) -> tuple[Step, ...]:
        """Collectives of the gradients of all operands, by the transpose of each move."""
        found = [self._transposed(move, "result", self.shape) for move in reversed(self.after)]
        for operand, shape in reversed(list(enumerate(self.shapes))):
            name = f"operand {operand}"
            found += [self._transposed(m, name, shape) for m in reversed(self.before[operand])]
        return tuple(step for step in found if step is not None)

    def _transposed(self, move: Move, what: str, shape: Sequence[int]) -> Step | None:
        """Return the step of the gradient of a move; None without communication.

        A rank computes with a gathered operand what no other rank computes, so its gradients are
        added; the gradient of a result that was gathered or added is the same on every rank. The
        gradient of a part of what every rank has is gathered.
        """
        turned = {
            "all_to_all": "all_to_all",
            "reduce_scatter": "all_gather",
            "replicate": "all_reduce",
        }
        if what == "result" or move.whole:
            turned["slice"] = "all_gather"
        if what != "result" and self.by[move.mesh_dim]:
            turned["all_gather"] = "reduce_scatter"
        if move.kind not in turned:
            return None
        back = Move(turned[move.kind], move.mesh_dim, move.new, move.old)
        return self.mesh.step(back, what, shape)

    @cached_property
    def most_received(self) -> int:
        """Bytes that the busiest rank receives."""
        each = [step.received for steps in self.collectives for step in steps]
        return max(map(sum, zip(*each, strict=True)), default=0)

    @property
    def price(self) -> tuple[int, int]:
        """Operations and bytes of the local contraction of the first rank, which has the most."""
        first = (0,) * len(self.by)
        ranks = dict(zip(self.by, self.mesh.shape, strict=True))
        work = prod(-(-size // ranks.get(label, 1)) for label, size in self.sizes.items())
        return work, self.touched(first)


def moves(start: Split, goal: Split, mesh: Sequence[int]) -> tuple[Move, ...]:
    """Return the moves from one split to another; none along a mesh dimension of one rank.

    No dimension is split twice in between.
    """
    state, goal = (
        tuple(dim if size > 1 else None for dim, size in zip(split, mesh, strict=True))
        for split in (start, goal)
    )
    found: list[Move] = []
    while state != goal:
        left = [at for at, dim in enumerate(goal) if state[at] != dim]
        ready = [at for at in left if goal[at] is None or goal[at] not in state]
        # Two mesh dimensions that exchange their dimensions: one is gathered first.
        kinds = {at: _kind(state[at], goal[at]) for at in ready} or {left[-1]: "all_gather"}
        at = min(kinds, key=lambda at: _ORDER.index(kinds[at]))
        then = (*state[:at], goal[at] if ready else None, *state[at + 1 :])
        found.append(Move(kinds[at], at, state, then, start[at] is None))
        state = then
    return tuple(found)


def _kind(old: int | None, new: int | None) -> str:
    if old == _ADDENDS:
        return "all_reduce" if new is None else "reduce_scatter"
    if old is None:
        return "slice"
    return "all_gather" if new is None else "all_to_all"


# -- choice ----------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def schedule(
    terms: tuple[str, ...],
    output: str,
    shapes: tuple[tuple[int, ...], ...],
    mesh: Mesh,
    given: tuple[Split, ...],
    result: Split | None,
) -> Schedule:
    """Return the schedule in which the busiest rank receives the fewest bytes.

    Args:
        terms: Indices of each operand.
        output: Indices of the result.
        shapes: Shapes of the operands.
        mesh: The mesh, with the bytes of an element.
        given: Split of each operand.
        result: Split of the result; None for any.
    """
    sizes = _sizes(terms, shapes)
    found = [
        Schedule(terms, output, shapes, mesh, given, goal, by)
        for by in _candidates(sizes, mesh.shape)
        for goal in [_free_result(output, sizes, mesh.shape, by) if result is None else result]
    ]
    least = min(each.most_received for each in found)
    return min((each for each in found if each.most_received == least), key=lambda s: s.price)


def _sizes(terms: Sequence[str], shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """Return the size of every index; a dimension of size 1 broadcasts."""
    found: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, size in zip(term, shape, strict=True):
            if found.get(label, 1) == 1:
                found[label] = size
    return found


def _candidates(sizes: dict[str, int], mesh: tuple[int, ...]) -> list[tuple[str, ...]]:
    """Return choices of an index for each mesh dimension, none twice.

    An index with fewer elements than ranks, which leaves ranks without work, is a choice only where
    there is no other, and no index only where there are too few of them.
    """
    enough: Callable[[str, int], bool] = lambda label, ranks: sizes[label] >= ranks  # noqa: E731
    for fits in (enough, lambda label, ranks: True):
        options = [[x for x in sizes if fits(x, r)] if r > 1 else [""] for r in mesh]
        found = [by for by in product(*options) if _distinct(by)]
        if found:
            return found
    options = [["", *sizes] if ranks > 1 else [""] for ranks in mesh]
    found = [by for by in product(*options) if _distinct(by)]
    most = max(sum(map(bool, by)) for by in found)
    return [by for by in found if sum(map(bool, by)) == most]


def _distinct(by: Sequence[str]) -> bool:
    chosen = [label for label in by if label]
    return len(chosen) == len(set(chosen))


def _free_result(
    output: str, sizes: dict[str, int], mesh: tuple[int, ...], by: tuple[str, ...]
) -> Split:
    """Return the split of a result that needs the fewest bytes: addends are scattered.

    A mesh dimension of one rank splits the first dimension that is left, as more ranks would.
    """
    found: list[int | None] = [output.index(x) if x and x in output else None for x in by]
    for at, label in enumerate(by):
        if label and label not in output:
            free = [d for d, x in enumerate(output) if d not in found and sizes[x] >= mesh[at]]
            found[at] = max(free, key=lambda d: sizes[output[d]], default=None)
    for at, ranks in enumerate(mesh):
        if ranks == 1:
            found[at] = next((d for d in range(len(output)) if d not in found), None)
    return tuple(found)
