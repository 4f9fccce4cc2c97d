"""Data of the drawings of a run: element maps, access patterns, memory use over time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

_SIDE = 64
"""Maximum number of cells along each side of a map."""

_MOST_ELEMENTS = 1 << 18


class Bitmap(NamedTuple):
    """A downsampled map of elements: a cell is marked if one of its elements is.

    Attributes:
        shape: Partitions and elements per partition of the tensor.
        cells: Rows of ``0`` and ``1``.
        marked: Meaning of a marked cell.
    """

    shape: tuple[int, int]
    cells: tuple[str, ...]
    marked: str


class Tile(NamedTuple):
    """A tile in use: its name, its bytes per partition, and its first and last instruction."""

    label: str
    nbytes: int
    first: int
    last: int
    place: str


class Occupancy(NamedTuple):
    """Use of a memory over the instructions of a run.

    Attributes:
        memory: ``"sbuf"`` or ``"psum"``.
        limit: Bytes per partition available.
        tiles: The tiles in it.
        where: Core, where there are several.
        kernel: Name of the kernel.
        target: Generation whose limit it is.
    """

    memory: str
    limit: int
    tiles: tuple[Tile, ...]
    where: str = ""
    kernel: str = ""
    target: str = ""


def bitmap(mask: Any, marked: str) -> Bitmap:
    """Return a map of the elements of a tensor for which a mask is true."""
    flat = np.asarray(mask)
    flat = flat.reshape(flat.shape[0], -1) if flat.ndim > 1 else flat.reshape(1, -1)
    rows, columns = flat.shape
    down, right = -(-rows // _SIDE), -(-columns // _SIDE)
    padded = np.zeros((-(-rows // down) * down, -(-columns // right) * right), bool)
    padded[:rows, :columns] = flat
    blocks = padded.reshape(padded.shape[0] // down, down, -1, right)
    coarse: np.ndarray = np.any(blocks, axis=(1, 3))
    cells = tuple("".join("01"[int(cell)] for cell in row) for row in coarse)
    return Bitmap((rows, columns), cells, marked)


def pattern_bitmap(
    shape: tuple[int, ...], pattern: tuple[tuple[int, int], ...], offset: int
) -> Bitmap | None:
    """Return a map of the elements in an access pattern; None for large tensors."""
    rows = shape[0] if shape else 1
    columns = int(np.prod(shape[1:])) if len(shape) > 1 else 1
    touched = int(np.prod([count for _, count in pattern])) if pattern else 0
    if rows * columns > _MOST_ELEMENTS or touched > _MOST_ELEMENTS or not touched:
        return None
    at = np.array(offset)
    for step, count in pattern:
        at = at[..., None] + step * np.arange(count)
    mask = np.zeros(rows * columns, bool)
    mask[at[(at >= 0) & (at < mask.size)]] = True
    return bitmap(mask.reshape(rows, columns), "touched")
