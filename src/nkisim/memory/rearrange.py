"""Patterns of ``rearrange``: names of dimensions, split, reordered and merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def grouping(
    shape: Sequence[int], source: Sequence[Any], target: Sequence[Any], sizes: Mapping[str, int]
) -> tuple[list[list[int]], tuple[int, ...], list[tuple[int, int]]]:
    """Return the parts of each old dimension, the order of the parts, and first and last of groups.

    Extents that ``sizes`` does not name are -1; a dimension with one name is one part.

    Raises:
        ValueError: The patterns do not describe the shape, or have not the same names.
    """
    old, new = _groups("src_pattern", source), _groups("dst_pattern", target)
    names = [name for group in old for name in group]
    wanted = [name for group in new for name in group]
    if len(old) != len(shape):
        raise ValueError(f"src_pattern {source} has {len(old)} entries for shape {tuple(shape)}")
    if len(set(names)) != len(names) or sorted(names) != sorted(wanted):
        raise ValueError(f"src_pattern {source} and dst_pattern {target} differ in their names")
    unknown = sorted(set(sizes) - set(names))
    if unknown:
        raise ValueError(f"fixed_sizes names {unknown[0]!r}, which is not in {source}")
    split = []
    for dim, group in enumerate(old):
        extents = [int(sizes.get(name, -1)) for name in group]
        if extents.count(-1) > 1:
            raise ValueError(f"fixed_sizes leaves out more than one extent of {group}")
        if len(group) == 1 and extents[0] not in (-1, shape[dim]):
            raise ValueError(f"fixed_sizes has {group[0]}={extents[0]} for extent {shape[dim]}")
        split.append(extents)
    order = tuple(names.index(name) for name in wanted)
    ends, count = [], 0
    for group in new:
        ends.append((count, count + len(group) - 1))
        count += len(group)
    return split, order, ends


def _groups(argument: str, pattern: Sequence[Any]) -> list[list[str]]:
    """Return the names of each entry of a pattern."""
    groups = []
    for entry in pattern:
        group = [*entry] if isinstance(entry, (tuple, list)) else [entry]
        if not group or not all(isinstance(name, str) for name in group):
            raise ValueError(f"{argument} has {entry!r}, neither a name nor a tuple of names")
        groups.append(group)
    return groups
