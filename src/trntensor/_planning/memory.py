"""Peak memory of a contraction, and slicing to stay within a limit.

A contraction is sliced along some of its indices. Each slice contracts views of the operands;
slices of a summed index are added, those of an index of the result are concatenated. The peak
counts everything allocated at one time: intermediates, copies of operands whose dimensions do not
merge, and the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import prod

from trntensor._planning.contraction_paths import pair_flops
from trntensor._planning.pairs import Unary, groups_of

Steps = Sequence[tuple[int, int, str]]
Slices = tuple[tuple[str, int], ...]
"""Sliced indices, each with the size of its parts."""


Strides = dict[str, int]


def peak_bytes(
    unaries: Sequence[Unary],
    steps: Steps,
    sizes: Mapping[str, int],
    itemsize: int,
    parts: Mapping[str, int] | None = None,
) -> int:
    """Return the peak bytes allocated by one slice, its result included."""
    return _peak(unaries, steps, sizes, itemsize, sizes if parts is None else parts)[0]


def _peak(
    unaries: Sequence[Unary],
    steps: Steps,
    sizes: Mapping[str, int],
    itemsize: int,
    parts: Mapping[str, int],
) -> tuple[int, str]:
    """Return the peak bytes, and the indices of all tensors allocated then."""

    def nbytes(labels: str) -> int:
        return prod(parts[x] for x in labels) * itemsize

    labels = [unary.kept for unary in unaries]
    strides = [_prepared(u, sizes, parts) for u in unaries]
    # Tensors that are neither operands nor views of them.
    made = {at: nbytes(u.kept) for at, u in enumerate(unaries) if u.summed}
    peak = live = sum(made.values())
    where = "".join(labels)
    if not steps:
        return max(peak, nbytes(labels[0])), where
    for i, j, out in steps:
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


def flops_of(unaries: Sequence[Unary], steps: Steps, sizes: Mapping[str, int]) -> int:
    """Return the flops of one slice."""
    labels = [unary.kept for unary in unaries]
    total = sum(prod(sizes[x] for x in set(u.labels)) for u in unaries if u.summed)
    for i, j, out in steps:
        total += pair_flops(labels[i], labels[j], out, sizes)
        labels.append(out)
    return total


def find_slices(
    unaries: Sequence[Unary],
    steps: Steps,
    output: str,
    sizes: Mapping[str, int],
    itemsize: int,
    limit: int,
) -> tuple[Slices, int]:
    """Return slices such that at most ``limit`` bytes are allocated at a time.

    Parts are halved one index at a time, by the fewest added flops per byte saved. Then parts are
    doubled again if later cuts made that possible.

    Returns:
        The slices and their peak bytes. These exceed the limit if the result, with the smallest
        slice, does not fit.
    """
    peak = peak_bytes(unaries, steps, sizes, itemsize)
    if peak <= limit:
        return (), peak
    result = prod(sizes[x] for x in output) * itemsize
    parts = dict(sizes)

    def total(parts: Mapping[str, int]) -> int:
        return result + peak_bytes(unaries, steps, sizes, itemsize, parts)

    def work(parts: Mapping[str, int]) -> int:
        return slice_count(sizes, parts) * flops_of(unaries, steps, parts)

    def cuts(labels: Iterable[str]) -> list[tuple[int, int, str]]:
        found = []
        for label in sorted(labels):
            if parts[label] > 1:
                cut = {**parts, label: -(-parts[label] // 2)}
                need = total(cut)
                found.append((work(cut) * need, need, label))
        return found

    while True:
        peak, where = _peak(unaries, steps, sizes, itemsize, parts)
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
        whole = [{**parts, x: min(2 * parts[x], sizes[x])} for x in sizes if parts[x] < sizes[x]]
        fit = [joined for joined in whole if total(joined) <= limit]
        if not fit:
            break
        parts = min(fit, key=work)
        need = total(parts)
    return tuple((x, parts[x]) for x in sizes if parts[x] < sizes[x]), need


def slice_count(sizes: Mapping[str, int], parts: Mapping[str, int]) -> int:
    """Return the number of slices."""
    return prod(-(-sizes[x] // parts[x]) for x in parts if sizes[x])
