"""Search for a path and slices within a memory limit.

The path with the fewest flops is not always the best one after slicing. So a few paths are sliced,
and the best is searched again with the sizes of its slices until it no longer improves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trnsci.core.errors import ShapeError
from trntensor._planning.contraction_paths import Minimize, Path, find_paths, reordered, steps_of
from trntensor._planning.memory import Slices, find_slices, flops_of, slice_count
from trntensor._planning.pairs import Unary

_ROUNDS = 6


class _Cut(NamedTuple):
    """A path in slices, with its flops and bytes."""

    flops: int
    nbytes: int
    path: Path
    slices: Slices


def fitted(
    function: str,
    unaries: Sequence[Unary],
    output: str,
    sizes: Mapping[str, int],
    itemsize: int,
    minimize: Minimize,
    limit: int,
    paths: Sequence[Path] = (),
) -> tuple[Path, Slices, str]:
    """Return a path, its slices and the search method.

    Args:
        function: Name of the public function, for messages.
        unaries: Preparation of each operand.
        output: The indices of the result.
        sizes: The size of every index.
        itemsize: Bytes of an element.
        minimize: Objective of the path search.
        limit: Maximum bytes allocated at a time.
        paths: Paths given by the caller; else they are searched.

    Raises:
        ShapeError: The limit is too small.
    """
    kept = [unary.kept for unary in unaries]

    def cut(path: Path) -> _Cut:
        steps = steps_of(kept, output, path, sizes)
        slices, nbytes = find_slices(unaries, steps, output, sizes, itemsize, limit)
        parts = {**sizes, **dict(slices)}
        flops = slice_count(sizes, parts) * flops_of(unaries, steps, parts)
        return _Cut(flops, nbytes, path, slices)

    given, found = bool(paths), "given"
    if not given:
        paths, found = find_paths(kept, output, sizes, minimize, itemsize)
    first = cut(paths[0])
    if not first.slices and first.nbytes <= limit:
        return first.path, (), found
    tried = [first]
    if not given:
        if minimize != "size":
            paths = (*paths, *find_paths(kept, output, sizes, "size", itemsize)[0][:1])
        tried += [cut(path) for path in dict.fromkeys(paths) if path != first.path]
    fit = [entry for entry in tried if entry.nbytes <= limit]
    if not fit:
        least = min(entry.nbytes for entry in tried)
        result = itemsize
        for label in output:
            result *= sizes[label]
        raise ShapeError(
            f"{function}: memory_limit must be at least {least:,} bytes, of which the "
            f"result takes {result:,}, got {limit:,}"
        )
    best = min(fit)
    if given:
        return best.path, best.slices, found
    for seed in range(_ROUNDS):
        parts = {**sizes, **dict(best.slices)}
        again = cut(reordered(kept, output, parts, best.path, minimize, itemsize, seed))
        if again.nbytes <= limit:
            best = min(best, again)
    return best.path, best.slices, f"{found}, and again in slices"
