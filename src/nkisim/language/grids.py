"""Grids: views of a tensor as tiles, and as blocks of tiles, from NKI 0.7.0 on.

A grid has no storage of its own and indexing it issues no instruction. ``.data`` is the operand of
an instruction. In HBM, and in a view of a tile, the elements have their logical order. Grids that
``alloc_tiles`` and ``alloc_blocks`` make on chip are one tile of two dimensions, in which the tiles
of the grid lie side by side, row by row: the documentation leaves this order open.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, NoReturn

from nkisim.diagnostics import NkiValidationError, declare, flag
from nkisim.dtypes import DType
from nkisim.machine import current_core
from nkisim.memory import MemoryRegion, NkiTensor, is_on_chip
from nkisim.removed import refuse_argument
from nkisim.spec.signatures import checked_call

GRID = declare(
    "S073",
    "grid-selection",
    "A grid has a shape that its source cannot have, is indexed outside its cells, or a selection "
    "has no single access pattern for .data.",
    "an instruction takes one access pattern per operand",
    meaningless=True,
)


class _GridError(NkiValidationError, ValueError):
    """A shape, an index or a selection that a grid cannot have."""


class _Axis(NamedTuple):
    """The selected cells of one dimension of the source.

    Attributes:
        first: First element.
        stop: End of the last cell, clamped to the source.
        tile: Elements of a tile.
        per_cell: Tiles of a cell.
        step: Distance of the selected cells, in cells.
        consumed: Whether an integer has selected one cell.
    """

    first: int
    stop: int
    tile: int
    per_cell: int = 1
    step: int = 1
    consumed: bool = False

    @property
    def cell(self) -> int:
        return self.tile * self.per_cell

    @property
    def cells(self) -> int:
        return -(-(self.stop - self.first) // (self.cell * self.step))

    @property
    def extent(self) -> int:
        last = self.first + (self.cells - 1) * self.cell * self.step
        return (self.cells - 1) * self.cell + self.stop - last

    @property
    def dense(self) -> bool:
        return self.step == 1 or self.cells == 1

    def at(self, key: Any) -> _Axis:
        """Return the cells that an integer or a slice selects."""
        if type(key) is int and 0 <= key < self.cells:
            picked = range(key, key + 1)
        elif isinstance(key, slice) and len(picked := range(self.cells)[key]) and picked.step > 0:
            pass
        else:
            _refuse(f"index {key!r} of {self.cells} cells", f"0 to {self.cells - 1}, or a slice")
        pitch = self.cell * self.step
        first, last = self.first + picked[0] * pitch, self.first + picked[-1] * pitch
        step = self.step * picked.step
        stop = min(last + self.cell, self.stop)
        return self._replace(first=first, stop=stop, step=step, consumed=type(key) is int)


class NkiGrid:
    """A view of a tensor as cells; made by ``nl.tiles``, ``nl.blocks`` and the allocations.

    Attributes:
        source: The tensor that holds the elements.
        axes: The selection in each dimension of the elements.
        rank: Number of tiled dimensions, the last ones.
        slots: Tiles per dimension of an allocation on chip; empty where the elements have their
            logical order.
    """

    def __init__(
        self, source: NkiTensor, axes: tuple[_Axis, ...], rank: int, slots: tuple[int, ...] = ()
    ) -> None:
        self._source, self._axes, self._rank, self._slots = source, axes, rank, slots

    @property
    def buffer(self) -> MemoryRegion:
        """Memory of the source."""
        return self._source.buffer

    @property
    def dtype(self) -> DType:
        """Dtype of the source."""
        return self._source.dtype

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """Elements of a tile."""
        return tuple(axis.tile for axis in self._axes[-self._rank :])

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells in each dimension that no integer has selected."""
        return tuple(axis.cells for axis in self._axes if not axis.consumed)

    @property
    def element_shape(self) -> tuple[int, ...]:
        """Elements of the selection, without leading dimensions that an integer has selected."""
        leading, tiled = self._axes[: -self._rank], self._axes[-self._rank :]
        return tuple(a.extent for a in (*(a for a in leading if not a.consumed), *tiled))

    @property
    def index_step_elements(self) -> tuple[int, ...]:
        """Elements of the source between neighbouring cells of each dimension of ``shape``."""
        return tuple(a.cell * a.step for a in self._axes if not a.consumed)

    @property
    def is_remainder(self) -> bool:
        """Whether a selected cell is smaller than a whole one; assumed, the page leaves it open."""
        return any(axis.extent % axis.cell for axis in self._axes)

    @property
    def is_data_representable(self) -> bool:
        """Whether one access pattern describes the selection."""
        if not all(axis.dense for axis in self._axes):
            return False
        if not self._slots:
            return True
        several = [i for i, axis in enumerate(self._axes) if axis.extent > axis.tile]
        return not several or (several == [len(self._axes) - 1] and self._rank == 2)

    @property
    def data(self) -> NkiTensor:
        """The selection as the operand of an instruction."""
        if not self.is_data_representable:
            _refuse(
                f".data of a selection with {self.shape} cells of {self.element_shape} elements",
                "cells side by side; on chip tiles of one row",
            )
        leading = len(self._axes) - self._rank
        if not self._slots:
            key = tuple(
                axis.first if axis.consumed and i < leading else slice(axis.first, axis.stop)
                for i, axis in enumerate(self._axes)
            )
            return self._source[key]
        slot, capacity = 0, math.prod(self.tile_shape[1:])
        for axis, count in zip(self._axes, self._slots, strict=True):
            slot = slot * count + axis.first // axis.tile
        rows, columns = self._axes[leading].extent, self._axes[-1].extent
        if self._rank == 2:
            return self._source[0:rows, slot * capacity : slot * capacity + columns]
        tile = self._source[:, slot * capacity : (slot + 1) * capacity]
        key = tuple(slice(0, axis.extent) for axis in self._axes[leading:])
        return tile.reshape(self.tile_shape)[key]

    def __getitem__(self, key: Any) -> Any:
        """Return the grid of the cells that integers and slices select."""
        keys = list(key if isinstance(key, tuple) else (key,))
        if len(keys) > len(self.shape):
            _refuse(f"{len(keys)} indices of shape {self.shape}", f"at most {len(self.shape)}")
        axes = [a if a.consumed or not keys else a.at(keys.pop(0)) for a in self._axes]
        return type(self)(self._source, tuple(axes), self._rank, self._slots)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape} cells of {self.dtype} {self.element_shape})"


class NkiTileGrid(NkiGrid):
    """A grid whose cells are tiles."""


class NkiBlockGrid(NkiGrid):
    """A grid whose cells are blocks of tiles."""

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Tiles of a block."""
        return tuple(axis.per_cell for axis in self._axes[-self._rank :])


def _refuse(why: str, allowed: str) -> NoReturn:
    flag(
        GRID,
        f"{why} is not possible; accepted: {allowed}",
        operand="grid",
        seen=why,
        allowed=allowed,
        fix="select fewer cells, or other shapes",
        error=_GridError,
    )
    raise AssertionError("unreachable: S073 always raises")


def _shape(name: str, argument: str, shape: Any, least: int, most: int) -> tuple[int, ...]:
    """Return a shape that is a tuple of positive integers, with a rank in a range."""
    if type(shape) is not tuple or any(type(extent) is not int for extent in shape):
        fix = f"pass a tuple for {argument}"
        refuse_argument(name, argument, shape, "a tuple of integers", fix, got=repr(shape))
    if min(shape, default=0) < 1 or not least <= len(shape) <= most:
        _refuse(f"{name}: {argument}={shape}", f"{least} to {most} extents of at least 1")
    return shape


def _grid(name: str, source: Any, tile_shape: Any, per_cell: Any) -> tuple[Any, ...]:
    """Return the arguments of a grid over a tensor or over the selection of a grid."""
    if isinstance(source, NkiGrid):
        if tile_shape is not None and tile_shape != source.tile_shape:
            _refuse(f"{name}: tile_shape={tile_shape} of {source!r}", f"{source.tile_shape}")
        rank, axes = source._rank, [a._replace(consumed=False) for a in source._axes]
        if not all(axis.dense for axis in axes):
            _refuse(f"{name} of the strided selection {source!r}", "cells side by side")
        leading = [a for a, old in zip(axes, source._axes, strict=True) if old.consumed]
        axes = [
            a._replace(consumed=i < len(axes) - rank and a in leading) for i, a in enumerate(axes)
        ]
        tensor, slots = source._source, source._slots
    else:
        tensor, slots = _tensor(name, source), ()
        tile = _shape(name, "tile_shape", tile_shape, 2, tensor.ndim)
        rank = len(tile)
        whole = (*(1,) * (tensor.ndim - rank), *tile)
        axes = [_Axis(0, n, t) for n, t in zip(tensor.shape, whole, strict=True)]
    counts = (1,) * rank
    if per_cell is not None:
        counts = _shape(name, "block_shape", per_cell, rank, rank)
    sizes = (*(1,) * (len(axes) - rank), *counts)
    axes = [a._replace(per_cell=n, step=1) for a, n in zip(axes, sizes, strict=True)]
    return tensor, tuple(axes), rank, slots


def _tensor(name: str, source: Any) -> NkiTensor:
    if not isinstance(source, NkiTensor):
        allowed = "an NkiTensor, an NkiTileGrid or an NkiBlockGrid"
        wanted = "a tensor or a grid"
        refuse_argument(name, "source", source, allowed, "pass a tensor", wanted=wanted)
    return source


@checked_call("nl.tiles")
def tiles(source: Any, *, tile_shape: Any = None) -> NkiTileGrid:
    """Return a view of a tensor, or of the selection of a grid, as tiles.

    Args:
        source: Tensor or grid.
        tile_shape: Elements of a tile in the last dimensions; None takes that of a grid.
    """
    return NkiTileGrid(*_grid("nl.tiles", source, tile_shape, None))


@checked_call("nl.blocks")
def blocks(source: Any, *, tile_shape: Any = None, block_shape: Any) -> NkiBlockGrid:
    """Return a view of a tensor, or of the selection of a grid, as blocks of tiles.

    Args:
        source: Tensor or grid.
        tile_shape: Elements of a tile in the last dimensions; None takes that of a grid.
        block_shape: Tiles of a block in each of these dimensions.
    """
    return NkiBlockGrid(*_grid("nl.blocks", source, tile_shape, block_shape))


@checked_call("nl.alloc_tiles")
def alloc_tiles(
    *,
    tile_shape: Any,
    element_shape: Any,
    buffer: MemoryRegion,
    dtype: Any,
    address: Any = None,
    name: str = "",
) -> NkiTileGrid:
    """Return a grid of tiles over one new tensor, whose contents are undefined.

    Args:
        tile_shape: Elements of a tile.
        element_shape: Elements of the grid.
        buffer: ``nl.sbuf``, ``nl.psum``, ``nl.shared_hbm`` or ``nl.private_hbm``.
        dtype: A dtype of ``nki.language``.
        address: Place of the tensor, as in ``nl.ndarray``.
        name: For messages.
    """
    given = ("nl.alloc_tiles", tile_shape, None, element_shape, buffer, dtype, address, name)
    return NkiTileGrid(*_allocated(*given))


@checked_call("nl.alloc_blocks")
def alloc_blocks(
    *,
    tile_shape: Any,
    block_shape: Any,
    element_shape: Any,
    buffer: MemoryRegion,
    dtype: Any,
    address: Any = None,
    name: str = "",
) -> NkiBlockGrid:
    """Return a grid of blocks over one new tensor, whose contents are undefined.

    Args:
        tile_shape: Elements of a tile.
        block_shape: Tiles of a block.
        element_shape: Elements of the grid.
        buffer: ``nl.sbuf``, ``nl.psum``, ``nl.shared_hbm`` or ``nl.private_hbm``.
        dtype: A dtype of ``nki.language``.
        address: Place of the tensor, as in ``nl.ndarray``.
        name: For messages.
    """
    given = ("nl.alloc_blocks", tile_shape, block_shape, element_shape, buffer, dtype)
    return NkiBlockGrid(*_allocated(*given, address, name))


def _allocated(
    where: str,
    tile_shape: Any,
    block_shape: Any,
    element_shape: Any,
    buffer: Any,
    dtype: Any,
    address: Any,
    name: str,
) -> tuple[Any, ...]:
    """Return the arguments of a grid over a new tensor."""
    elements = _shape(where, "element_shape", element_shape, 2, 5)
    tile = _shape(where, "tile_shape", tile_shape, 2, len(elements))
    rank, memory = len(tile), current_core(where).memory
    counts = (1,) * rank
    if block_shape is not None:
        counts = _shape(where, "block_shape", block_shape, rank, rank)
    leading = len(elements) - rank
    axes = tuple(
        _Axis(0, n, t, c)
        for n, t, c in zip(
            elements, (*(1,) * leading, *tile), (*(1,) * leading, *counts), strict=True
        )
    )
    on_chip = isinstance(buffer, MemoryRegion) and is_on_chip(buffer)
    slots = tuple(-(-axis.stop // axis.tile) for axis in axes) if on_chip else ()
    shape = (tile[0], math.prod(slots) * math.prod(tile[1:])) if on_chip else elements
    return memory.allocate(shape, dtype, buffer, name, address, where=where), axes, rank, slots


def like_grid(grid: NkiGrid, dtype: Any, buffer: Any, name: str, axes: Any, address: Any) -> Any:
    """Return a new grid of the kind, tile shape, block shape and extents of ``grid``."""
    shape, tile = grid.element_shape, grid.tile_shape
    if axes is not None:
        shape = tuple(shape[axis] for axis in axes)
        tile = tuple(tile[axis] for axis in axes)
    dtype, buffer = dtype or grid.dtype, buffer or grid.buffer
    counts = grid.block_shape if isinstance(grid, NkiBlockGrid) else None
    made = type(grid)(
        *_allocated("nl.empty_like", tile, counts, shape, buffer, dtype, address, name)
    )
    kept = [a.consumed for a in grid._axes][-len(shape) :]
    return made[tuple(0 if consumed else slice(None) for consumed in kept)]
