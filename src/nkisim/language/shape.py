"""Changes of shape: broadcast_to, expand_dims, transpose, gather_flattened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nkisim.diagnostics import declare, flag
from nkisim.isa import dma_copy, nc_n_gather, nc_transpose, tensor_copy
from nkisim.language.tiles import converted, fresh, need_tile, result_dtype
from nkisim.machine import current_core
from nkisim.memory import MemoryRegion, NkiTensor
from nkisim.spec.signatures import checked_call

BROADCAST_SHAPE = declare(
    "S063",
    "broadcast-shape",
    "nl.broadcast_to would expand a dimension that is not 1, or change the rank.",
    "only dimensions of extent 1 can be repeated",
    meaningless=True,
)


@checked_call("nl.broadcast_to")
def broadcast_to(x: Any, shape: Sequence[int], dtype: Any = None) -> NkiTensor:
    """Return a tile of ``shape`` that repeats ``x`` along its dimensions of extent 1."""
    tile = need_tile("broadcast_to", "x", x)
    target = tuple(int(extent) for extent in shape)
    fits = len(target) == len(tile.shape) and all(
        a in (1, b) for a, b in zip(tile.shape, target, strict=True)
    )
    if not fits:
        flag(
            BROADCAST_SHAPE,
            f"nl.broadcast_to cannot expand {tile.shape} to {target}",
            instruction="nl.broadcast_to",
            operand="shape",
            seen=f"{tile.shape} to {target}",
            allowed="the same rank, with extents equal or 1",
            fix="reshape the tile to the rank of the target first",
        )
    return converted(expand_tile(tile, target), dtype, "nl.broadcast_to")


def expand_tile(tile: NkiTensor, shape: tuple[int, ...]) -> NkiTensor:
    """Return a tile of ``shape`` in SBUF with ``tile`` repeated along dimensions of extent 1.

    Partitions are repeated by a DMA with stride 0, free dimensions by a stride-0 read.
    """
    if tile.shape == shape:
        return tile
    if tile.buffer is MemoryRegion.psum:
        staged = fresh(tile.shape, tile.dtype)
        tensor_copy(staged, tile)
        return expand_tile(staged, shape)
    view, out = tile.repeated(shape), fresh(shape, tile.dtype)
    if shape[0] != tile.shape[0]:
        dma_copy(out, view)
    else:
        tensor_copy(out, view)
    return out


@checked_call("nl.expand_dims")
def expand_dims(x: Any, axis: int) -> NkiTensor:
    """Return a view of ``x`` with a dimension of extent 1 inserted at ``axis``."""
    tile = need_tile("expand_dims", "x", x)
    ndim = len(tile.shape) + 1
    position = axis + ndim if axis < 0 else axis
    if not 0 < position < ndim:
        raise ValueError(
            f"nl.expand_dims: axis {axis} is not a free axis of a tile with {ndim} dimensions"
        )
    return tile.with_axis(position)


@checked_call("nl.transpose")
def transpose(x: Any, dtype: Any = None) -> NkiTensor:
    """Return the transposed tile, in PSUM, since the Tensor engine writes there."""
    tile = need_tile("transpose", "x", x)
    memory = current_core("nl.transpose").memory
    shape = (tile.free_size, tile.shape[0])
    kind = result_dtype(dtype, tile)
    source = tile
    if kind != tile.dtype:
        source = fresh(tile.shape, kind)
        tensor_copy(source, tile)
    out = memory.allocate(shape, kind, MemoryRegion.psum, where="nl.transpose")
    nc_transpose(out, source)
    return out


@checked_call("nl.gather_flattened")
def gather_flattened(data: Any, indices: Any, axis: int = 0, dtype: Any = None) -> NkiTensor:
    """Return the elements that ``indices`` select from each partition's flattened data."""
    source, index = (
        need_tile("gather_flattened", name, value)
        for name, value in (("data", data), ("indices", indices))
    )
    out = fresh(index.shape, source.dtype)
    nc_n_gather(out, source, index)
    return converted(out, dtype, "dtype")
