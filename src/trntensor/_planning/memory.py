"""Peak memory of a contraction, and slicing to stay within a limit.

A contraction is sliced along some of its indices. Each slice contracts views of the operands;
slices of a summed index are added, and slices of an index of the result are concatenated. The peak
counts everything allocated at one time: intermediates, copies of operands whose dimensions do not
merge, and the result.

The path with the fewest flops is not always the best one after slicing. So a few paths are sliced,
and the best is searched again with the sizes of its slices until it no longer improves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import NamedTuple

from trnsci.core.errors import ShapeError
from trntensor._planning.contraction_paths import (
    Path,
    Problem,
    find_paths,
    pair_flops,
    reordered,
    steps_of,
)
from trntensor._planning.pairs import Unary, groups_of

Slices = tuple[tuple[str, int], ...]
"""Sliced indices, each with the size of its parts."""

Strides = dict[str, int]
Parts = Mapping[str, int]
"""The size of every index within one slice."""

_ROUNDS = 6


@dataclass(frozen=True)
class Work:
    """The steps of a contraction, in which slices of any size are computed.

    Attributes:
        unaries: Preparation of each operand.
        steps: Pairs of tensor numbers, each with the indices of its result.
        sizes: The size of every index.
        itemsize: Bytes of an element.
    """

    unaries: Sequence[Unary]
    steps: Sequence[tuple[int, int, str]]
    sizes: Mapping[str, int]
    itemsize: int

    def slice_count(self, parts: Parts) -> int:
        """Return the number of slices."""
        return prod(-(-self.sizes[x] // parts[x]) for x in parts if self.sizes[x])

    def flops(self, parts: Parts) -> int:
        """Return the flops of all slices."""
        labels = [unary.kept for unary in self.unaries]
        total = sum(prod(parts[x] for x in set(u.labels)) for u in self.unaries if u.summed)
        for i, j, out in self.steps:
            total += pair_flops(labels[i], labels[j], out, parts)
            labels.append(out)
        return self.slice_count(parts) * total

    def peak(self, parts: Parts) -> tuple[int, str]:
        """Return the peak bytes of one slice with its result, and the indices allocated then."""

        def nbytes(labels: str) -> int:
            return prod(parts[x] for x in labels) * self.itemsize

        labels = [unary.kept for unary in self.unaries]
        strides = [_prepared(u, self.sizes, parts) for u in self.unaries]
        # Tensors with memory of their own: neither operands nor views of operands.
        made = {at: nbytes(u.kept) for at, u in enumerate(self.unaries) if u.summed}
        peak = live = sum(made.values())
        where = "".join(labels)
        if not self.steps:
            return max(peak, nbytes(labels[0])), where
        for i, j, out in self.steps:
            a, b = labels[i], labels[j]
            groups = groups_of(a, b, out, parts)
            copies = 0
            if groups.depth:
                if _copied(strides[i], (groups.batch, groups.rows, groups.depth), parts):
                    copies += nbytes(a)
                if _copied(strides[j], (groups.batch, groups.columns, groups.depth), parts):
                    copies += nbytes(b)
            made[len(labels)] = nbytes(out)
            if live + copies + nbytes(out) >= peak:
                peak = live + copies + nbytes(out)
                where = "".join((a, b, *(labels[at] for at in made if at < len(labels)), out))
            live += nbytes(out) - made.pop(i, 0) - made.pop(j, 0)
            labels.append(out)
            strides.append(_dense(groups.order, parts))
        return peak, where

    def slices(self, output: str, limit: int) -> tuple[Slices, int]:
        """Return slices such that at most ``limit`` bytes are allocated at a time.

        Parts are halved one index at a time, by the fewest added flops per byte saved. Then parts
        are doubled again if later cuts made that possible.

        Returns:
            The slices and their peak bytes. These exceed the limit if the result, with the
            smallest slice, does not fit.
        """
        sizes = self.sizes
        peak, _ = self.peak(sizes)
        if peak <= limit:
            return (), peak
        result = prod(sizes[x] for x in output) * self.itemsize
        parts = dict(sizes)

        def total(parts: Parts) -> int:
            return result + self.peak(parts)[0]

        def cuts(labels: Iterable[str]) -> list[tuple[int, int, str]]:
            found = []
            for label in sorted(labels):
                if parts[label] > 1:
                    cut = {**parts, label: -(-parts[label] // 2)}
                    need = total(cut)
                    found.append((self.flops(cut) * need, need, label))
            return found

        while True:
            peak, where = self.peak(parts)
            need = result + peak
            tried = []
            if need > limit:
                tried = cuts(set(where)) or cuts(parts)
            if not tried:
                break
            better = [entry for entry in tried if entry[1] < need] or tried
            label = min(better)[2]
            parts[label] = -(-parts[label] // 2)
        while need <= limit:
            whole = [
                {**parts, x: min(2 * parts[x], sizes[x])} for x in sizes if parts[x] < sizes[x]
            ]
            fit = [joined for joined in whole if total(joined) <= limit]
            if not fit:
                break
            parts = min(fit, key=self.flops)
            need = total(parts)
        return tuple((x, parts[x]) for x in sizes if parts[x] < sizes[x]), need


def _dense(labels: str, sizes: Mapping[str, int]) -> Strides:
    strides, step = {}, 1
    for label in reversed(labels):
        strides[label] = step
        step *= sizes[label]
    return strides


def _prepared(unary: Unary, sizes: Mapping[str, int], parts: Mapping[str, int]) -> Strides:
    """Return the strides of an operand after its diagonals, slicing and sums."""
    strides = _strides(unary, sizes)
    if not unary.summed:
        return strides
    # torch allocates a sum in the order of the operand's strides.
    order = sorted(unary.kept, key=lambda label: -strides[label])
    return _dense("".join(order), parts)


def _strides(unary: Unary, sizes: Mapping[str, int]) -> Strides:
    """Return the strides of an operand after diagonals and slicing."""
    strides: Strides = {}
    step = 1
    for at in range(len(unary.labels) - 1, -1, -1):
        label = unary.labels[at]
        if at not in unary.dropped:
            here = step if unary.strides is None else unary.strides[at]
            strides[label] = strides.get(label, 0) + here
            step *= sizes[label]
    return strides


def _copied(strides: Strides, groups: tuple[str, str, str], parts: Mapping[str, int]) -> bool:
    """Return whether a matrix product must copy its operand."""
    steps, counts = [], []
    for group in groups:
        real = [x for x in group if parts[x] != 1]
        for outer, inner in pairwise(real):
            if strides[outer] != parts[inner] * strides[inner]:
                return True
        steps.append(strides[real[-1]] if real else 1)
        counts.append(prod(parts[x] for x in real))
    # One dimension of a matrix must be contiguous, and the other step over it.
    (first, second), (rows, columns) = steps[1:], counts[1:]
    by_rows = second == 1 and (rows == 1 or first >= columns)
    by_columns = first == 1 and (columns == 1 or second >= rows)
    return not (by_rows or by_columns)


# -- paths within a limit --------------------------------------------------------------------------


class _Cut(NamedTuple):
    """A path in slices, with its flops and bytes."""

    flops: int
    nbytes: int
    path: Path
    slices: Slices


def fitted(
    function: str, unaries: Sequence[Unary], problem: Problem, limit: int, given: Path | None
) -> tuple[Path, Slices, str]:
    """Return a path, its slices and the search method.

    Args:
        function: Name of the public function, for messages.
        unaries: Preparation of each operand.
        problem: The network of prepared operands.
        limit: Maximum bytes allocated at a time.
        given: The path of the caller; None for a search.

    Raises:
        ShapeError: The limit is too small.
    """
    output, sizes, itemsize = problem.output, dict(problem.extents), problem.itemsize

    def cut(path: Path) -> _Cut:
        work = Work(unaries, steps_of(problem.inputs, output, path, sizes), sizes, itemsize)
        slices, nbytes = work.slices(output, limit)
        return _Cut(work.flops({**sizes, **dict(slices)}), nbytes, path, slices)

    paths, found = find_paths(problem) if given is None else ((given,), "given")
    first = cut(paths[0])
    if not first.slices and first.nbytes <= limit:
        return first.path, (), found
    tried = [first]
    if given is None:
        if problem.minimize != "size":
            paths = (*paths, *find_paths(problem._replace(minimize="size"))[0][:1])
        tried += [cut(path) for path in dict.fromkeys(paths) if path != first.path]
    fit = [entry for entry in tried if entry.nbytes <= limit]
    if not fit:
        least = min(entry.nbytes for entry in tried)
        result = prod(sizes[label] for label in output) * itemsize
        raise ShapeError(
            f"{function}: memory_limit must be at least {least:,} bytes, of which the "
            f"result takes {result:,}, got {limit:,}"
        )
    best = min(fit)
    if given is not None:
        return best.path, best.slices, found
    for seed in range(_ROUNDS):
        parts = problem._replace(extents=tuple({**sizes, **dict(best.slices)}.items()))
        again = cut(reordered(parts, best.path, seed))
        if again.nbytes <= limit:
            best = min(best, again)
    return best.path, best.slices, f"{found}, and again in slices"
