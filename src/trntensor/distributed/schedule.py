"""Schedules of distributed contractions: the index that each mesh dimension splits, and the moves.

Along each mesh dimension one index splits the computation. An operand with that index is split by
it, another operand is replicated; a result with that index comes out split, and one without it as
addends, which a reduce-scatter or an all-reduce adds. Indices are chosen by the bytes that the
busiest rank receives, then by its memory, then by its operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product, takewhile
from math import prod

from trnsci.core.distributed.layout import even_sizes
from trnsci.core.distributed.plans import Step, all_reduced
from trntensor._planning.program import make_program
from trntensor._planning.subscripts import Equation, sizes_of

__all__ = ["Move", "Schedule", "Split", "schedule"]

Split = tuple[int | None, ...]
"""The dimension of a tensor that each mesh dimension splits; None where it is replicated."""
_ADDENDS = -1
"""In place of a dimension: ranks hold addends of the whole."""
_FREE = ("slice", "replicate")
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


@dataclass(frozen=True)
class Schedule:
    """A distributed contraction.

    Attributes:
        equation: The indices of operands and result.
        shapes: Shapes of the operands.
        mesh: Number of ranks along each mesh dimension.
        itemsize: Bytes of an element.
        given: Split of each operand in the call.
        result: Split of the result.
        by: Index that splits the computation along each mesh dimension; empty for none.
    """

    equation: Equation
    shapes: tuple[tuple[int, ...], ...]
    mesh: tuple[int, ...]
    itemsize: int
    given: tuple[Split, ...]
    result: Split
    by: tuple[str, ...]

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Size of every index."""
        return sizes_of("einsum", self.equation, self.shapes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return tuple(self.sizes[label] for label in self.equation.output)

    @cached_property
    def coordinates(self) -> tuple[tuple[int, ...], ...]:
        """Coordinates of every rank."""
        return tuple(product(*map(range, self.mesh)))

    def places(self, operand: int, mesh_dim: int) -> tuple[int, ...]:
        """Return the dimensions of an operand with the index that a mesh dimension splits.

        A dimension of size 1 that broadcasts is none of them. The one that is split already comes
        first; the others, of a diagonal, are sliced.
        """
        label, shape = self.by[mesh_dim], self.shapes[operand]
        if not label:
            return ()
        term, size = self.equation.inputs[operand], self.sizes[label]
        found = [at for at, name in enumerate(term) if name == label and shape[at] == size]
        return tuple(sorted(found, key=lambda at: at != self.given[operand][mesh_dim]))

    def needed(self, operand: int) -> Split:
        """Return the split in which an operand is contracted."""
        firsts = (self.places(operand, mesh_dim)[:1] for mesh_dim in range(len(self.mesh)))
        return tuple(first[0] if first else None for first in firsts)

    @cached_property
    def before(self) -> tuple[tuple[Move, ...], ...]:
        """Moves of each operand."""
        return tuple(map(self._before, range(len(self.shapes))))

    def _before(self, operand: int) -> tuple[Move, ...]:
        given, needed = self.given[operand], self.needed(operand)
        moves = _moves(given, needed)
        # Slices come first: then there is less to gather, and less to add in the gradient.
        slices = tuple(takewhile(lambda move: move.kind == "slice", moves))
        split = slices[-1].new if slices else given
        shared = tuple(
            Move("replicate", at, split, split)
            for at, size in enumerate(self.mesh)
            if size > 1 and self.by[at] and given[at] is None and needed[at] is None
        )
        return (*slices, *shared, *moves[len(slices) :])

    @cached_property
    def contracted(self) -> Split:
        """Split of the result of the local contraction."""
        output = self.equation.output
        return tuple(
            None if not label else output.index(label) if label in output else _ADDENDS
            for label in self.by
        )

    @cached_property
    def after(self) -> tuple[Move, ...]:
        """Moves of the result."""
        return _moves(self.contracted, self.result)

    # -- parts -------------------------------------------------------------------------------------

    def part(self, shape: Sequence[int], split: Split, at: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the part of a tensor on the rank with given coordinates."""
        found = list(shape)
        for mesh_dim, dim in enumerate(split):
            if dim is not None and dim != _ADDENDS:
                found[dim] = even_sizes(shape[dim], self.mesh[mesh_dim])[at[mesh_dim]]
        return tuple(found)

    def contracted_shapes(self, at: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the operands of a rank's local contraction."""
        found = []
        for operand, shape in enumerate(self.shapes):
            local = list(self.part(shape, self.needed(operand), at))
            for mesh_dim, size in enumerate(self.mesh):
                for dim in self.places(operand, mesh_dim)[1:]:
                    local[dim] = even_sizes(shape[dim], size)[at[mesh_dim]]
            found.append(tuple(local))
        return tuple(found)

    # -- bytes and memory --------------------------------------------------------------------------

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Steps of the call."""
        before, after = self._collectives
        flops = tuple(
            _local(self.equation, self.contracted_shapes(at), self.itemsize)[0]
            for at in self.coordinates
        )
        touched = tuple(map(self._touched, self.coordinates))
        work = Step("compute", "contraction", (0,) * len(flops), 0, flops, touched)
        return (*before, work, *after)

    @cached_property
    def _collectives(self) -> tuple[list[Step], list[Step]]:
        """Collectives before and after the local contraction."""
        before = [
            self._step(move, f"operand {number}", shape)
            for number, (moves, shape) in enumerate(zip(self.before, self.shapes, strict=True))
            for move in moves
            if move.kind not in _FREE
        ]
        moves = [move for move in self.after if move.kind not in _FREE]
        return before, [self._step(move, "result", self.shape) for move in moves]

    @cached_property
    def backward(self) -> tuple[Step, ...]:
        """Steps of the gradients of all operands, apart from computations."""
        found = [self._transposed(move, "result", self.shape) for move in reversed(self.after)]
        for operand, shape in reversed(list(enumerate(self.shapes))):
            name, moves = f"operand {operand}", self.before[operand]
            found += [self._transposed(move, name, shape) for move in reversed(moves)]
        return tuple(step for step in found if step is not None)

    def received(self, move: Move, shape: Sequence[int], at: Sequence[int]) -> int:
        """Return the elements that a rank receives in a move of a tensor of a given shape."""
        old, new = (prod(self.part(shape, split, at)) for split in (move.old, move.new))
        ranks = self.mesh[move.mesh_dim]
        if move.kind == "all_gather":
            return new - old
        if move.kind == "reduce_scatter":
            return (ranks - 1) * new
        if move.kind == "all_to_all":
            gone, come = move.old[move.mesh_dim], move.new[move.mesh_dim]
            local = list(self.part(shape, move.new, at))
            assert gone is not None and come is not None
            local[gone] = self.part(shape, move.old, at)[gone]
            return new - prod(local)
        return 0

    @cached_property
    def most_received(self) -> int:
        """Bytes that the busiest rank receives."""
        before, after = self._collectives
        each = [step.received for step in (*before, *after)]
        return max(map(sum, zip(*each, strict=True)), default=0)

    @cached_property
    def peak_bytes(self) -> tuple[int, ...]:
        """Bytes of operands, buffers and result of each rank, at most."""
        return tuple(map(self._peak, self.coordinates))

    @cached_property
    def price(self) -> tuple[int, int, int]:
        """Bytes received, memory and operations of the busiest rank."""
        flops = max(flops for step in self.steps for flops in step.flops)
        return self.most_received, max(self.peak_bytes), flops

    def _touched(self, at: tuple[int, ...]) -> int:
        """Return the bytes of the operands and the result of a rank's local contraction."""
        result = self.part(self.shape, self.contracted, at)
        return self.itemsize * sum(map(prod, (*self.contracted_shapes(at), result)))

    def _step(self, move: Move, what: str, shape: Sequence[int]) -> Step:
        ranks = self.mesh[move.mesh_dim]
        if move.kind == "all_reduce":
            received = tuple(
                all_reduced(prod(self.part(shape, move.old, at)) * self.itemsize, ranks)
                for at in self.coordinates
            )
        else:
            received = tuple(
                self.received(move, shape, at) * self.itemsize for at in self.coordinates
            )
        messages = (ranks - 1) * (2 if move.kind == "all_reduce" else 1)
        return Step(move.kind, f"{what}, mesh dimension {move.mesh_dim}", received, messages)

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
        return self._step(Move(turned[move.kind], move.mesh_dim, move.new, move.old), what, shape)

    def _peak(self, at: tuple[int, ...]) -> int:
        """Return the bytes that a rank holds at most.

        A collective holds its operand, what it sends in one contiguous copy, what it receives, and
        the received parts in order.
        """
        held = sum(prod(self.part(s, g, at)) for s, g in zip(self.shapes, self.given, strict=True))
        peak = held
        for shape, moves in zip(self.shapes, self.before, strict=True):
            made = 0  # elements of the operand as moved so far
            for move in moves:
                if move.kind in _FREE:
                    continue
                old, new = (prod(self.part(shape, split, at)) for split in (move.old, move.new))
                peak = max(peak, held + made + old + 2 * new)
                made = new
            held += made
        shapes = self.contracted_shapes(at)
        local = _local(self.equation, shapes, self.itemsize)[1]
        held += sum(map(prod, shapes))  # copies of operands that are not dense, for the gradient
        peak = max(peak * self.itemsize, held * self.itemsize + local)
        for move in self.after:
            old, new = (prod(self.part(self.shape, split, at)) for split in (move.old, move.new))
            peak = max(peak, (held + 2 * old + 2 * new) * self.itemsize)
        return peak


@lru_cache(maxsize=1024)
def _local(
    equation: Equation, shapes: tuple[tuple[int, ...], ...], itemsize: int
) -> tuple[int, int]:
    """Return the operations and the bytes of a local contraction."""
    program = make_program("einsum", equation, shapes, itemsize, "flops", None, None, None)
    return program.flops, program.peak_bytes


def _moves(start: Split, goal: Split) -> tuple[Move, ...]:
    """Return the moves from one split to another; no dimension is split twice in between."""
    state = list(start)
    found: list[Move] = []
    while True:
        left = [at for at, dim in enumerate(goal) if state[at] != dim]
        if not left:
            return tuple(found)
        ready = [
            at
            for at in left
            if goal[at] is None or all(state[o] != goal[at] for o in range(len(goal)) if o != at)
        ]
        # Two mesh dimensions that exchange their dimensions: one is gathered first.
        kinds = {at: _kind(state[at], goal[at]) for at in ready} or {left[0]: "all_gather"}
        at = min(kinds, key=lambda at: _ORDER.index(kinds[at]))
        old = tuple(state)
        state[at] = goal[at] if ready else None
        found.append(Move(kinds[at], at, old, tuple(state), start[at] is None))


def _kind(old: int | None, new: int | None) -> str:
    if old == _ADDENDS:
        return "all_reduce" if new is None else "reduce_scatter"
    if old is None:
        return "slice"
    return "all_gather" if new is None else "all_to_all"


# -- choice ----------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def schedule(
    equation: Equation,
    shapes: tuple[tuple[int, ...], ...],
    mesh: tuple[int, ...],
    itemsize: int,
    given: tuple[Split, ...],
    result: Split | None,
) -> Schedule:
    """Return the schedule in which the busiest rank receives the fewest bytes.

    Args:
        equation: The indices of operands and result.
        shapes: Shapes of the operands.
        mesh: Number of ranks along each mesh dimension.
        itemsize: Bytes of an element.
        given: Split of each operand.
        result: Split of the result; None for any.
    """
    sizes = sizes_of("einsum", equation, shapes)
    found = [
        Schedule(equation, shapes, mesh, itemsize, given, goal, by)
        for by in _candidates(sizes, mesh)
        for goal in [_free_result(equation, sizes, mesh, by) if result is None else result]
    ]
    least = min(each.most_received for each in found)
    return min((each for each in found if each.most_received == least), key=lambda s: s.price)


def _candidates(sizes: dict[str, int], mesh: tuple[int, ...]) -> list[tuple[str, ...]]:
    """Return choices of an index for each mesh dimension, none twice.

    An index with fewer elements than ranks, which leaves ranks without work, is a choice only where
    there is no other, and no index only where there are too few of them.
    """
    for fits in (lambda label, ranks: sizes[label] >= ranks, lambda label, ranks: True):
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
    equation: Equation, sizes: dict[str, int], mesh: tuple[int, ...], by: tuple[str, ...]
) -> Split:
    """Return the split of a result that needs the fewest bytes: addends are scattered."""
    output = equation.output
    found: list[int | None] = [output.index(x) if x and x in output else None for x in by]
    for at, label in enumerate(by):
        if label and label not in output:
            free = [d for d, x in enumerate(output) if d not in found and sizes[x] >= mesh[at]]
            found[at] = max(free, key=lambda d: sizes[output[d]], default=None)
    return tuple(found)
