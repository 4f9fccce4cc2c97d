"""Operators that read each element once: copies, elementwise functions, stencils, tables.

A *flat* kernel halves its elements between the cores and moves them in chunks of 128 x 1024; the
rest is one chunk of 128 x q and one of 1 x r. Of a kernel over *rows*, tiles of 128 rows are shared
by the cores, the first half on core 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import nkisim.isa as nisa
import nkisim.language as nl

P = 128
"""Partitions of a tile."""

BLOCK = 1024
"""Columns of a block."""


def sbuf(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a new tile in SBUF."""
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def hbm(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a new result in HBM."""
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def share(count: int) -> range:
    """Return the part of ``range(count)`` that belongs to the running core."""
    core, cores = nl.program_id(0), nl.num_programs()
    return range(-(-count * core // cores), -(-count * (core + 1) // cores))


def blocks(extent: int, size: int) -> Iterator[slice]:
    """Yield slices of ``size``; the last one may be smaller."""
    for first in range(0, extent, size):
        yield slice(first, min(first + size, extent))


def row_tiles(rows: int) -> Iterator[slice]:
    """Yield the tiles of 128 rows of the running core."""
    for tile in share(-(-rows // P)):
        yield slice(tile * P, min((tile + 1) * P, rows))


def length(part: slice) -> int:
    """Return the extent of a slice."""
    return int(part.stop - part.start)


class Chunk(NamedTuple):
    """Consecutive elements of a flat tensor as rows of a tile."""

    first: int
    rows: int
    columns: int

    def of(self, tensor: Any, wider: int = 1) -> Any:
        """Return the chunk of a tensor, of one with ``wider`` times as many elements."""
        columns = wider * self.columns
        return tensor.ap([[columns, self.rows], [1, columns]], offset=wider * self.first)


def chunks(count: int, columns: int = BLOCK) -> Iterator[Chunk]:
    """Yield the chunks of the running core."""
    mine = share(count)
    first = mine.start
    while first < mine.stop:
        left = mine.stop - first
        width = min(columns, left // P)
        chunk = Chunk(first, P, width) if width else Chunk(first, 1, left)
        yield chunk
        first += chunk.rows * chunk.columns


def loaded(source: Any, dtype: Any = None) -> Any:
    """Load a new tile."""
    tile = sbuf(source.shape, source.dtype if dtype is None else dtype)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def matrix_copy(x: Any, columns: int = BLOCK) -> Any:
    """Copy."""
    out = hbm(x.shape, x.dtype)
    for chunk in chunks(x.shape[0], columns):
        nisa.dma_copy(dst=chunk.of(out), src=loaded(chunk.of(x)))
    return out


def _scaled(x: Any, op: Any, operand: float, columns: int) -> Any:
    out = hbm(x.shape, x.dtype)
    for chunk in chunks(x.shape[0], columns):
        tile = loaded(chunk.of(x))
        nisa.tensor_scalar(dst=tile, data=tile, op0=op, operand0=operand)
        nisa.dma_copy(dst=chunk.of(out), src=tile)
    return out


def relu(x: Any, columns: int = BLOCK) -> Any:
    """max(x, 0)."""
    return _scaled(x, nl.maximum, 0.0, columns)


def mul2(x: Any) -> Any:
    """2 x."""
    return _scaled(x, nl.multiply, 2.0, BLOCK)


def dropout(x: Any, mask: Any) -> Any:
    """1.25 x mask."""
    out = hbm(x.shape, x.dtype)
    for chunk in chunks(x.shape[0]):
        tile, kept = loaded(chunk.of(x)), loaded(chunk.of(mask))
        nisa.scalar_tensor_tensor(
            dst=tile, data=tile, op0=nl.multiply, operand0=1.25, op1=nl.multiply, operand1=kept
        )
        nisa.dma_copy(dst=chunk.of(out), src=tile)
    return out


def fused_activation(x: Any, gate: Any, bias: Any) -> Any:
    """silu(x gate + bias)."""
    out = hbm(x.shape, x.dtype)
    for chunk in chunks(x.shape[0]):
        tile, factor, term = (loaded(chunk.of(t)) for t in (x, gate, bias))
        nisa.tensor_tensor(dst=tile, data1=tile, data2=factor, op=nl.multiply)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=term, op=nl.add)
        nisa.activation(dst=tile, op=nl.silu, data=tile)
        nisa.dma_copy(dst=chunk.of(out), src=tile)
    return out


def interleave(a: Any, b: Any) -> Any:
    """a[0], b[0], a[1], b[1], ..."""
    out = hbm((2 * a.shape[0],), a.dtype)
    for chunk in chunks(a.shape[0]):
        both = sbuf((chunk.rows, 2 * chunk.columns), a.dtype)
        operands = loaded(chunk.of(a)), loaded(chunk.of(b))
        for first, operand in enumerate(operands):
            nisa.tensor_copy(dst=both[:, first : 2 * chunk.columns : 2], src=operand)
        nisa.dma_copy(dst=chunk.of(out, 2), src=both)
    return out


def vector_add(a: Any, b: Any, columns: int = 16 * BLOCK) -> Any:
    """a + b of operands of 128 rows, whose columns are shared by the cores."""
    out = hbm(a.shape, a.dtype)
    mine = share(a.shape[1])
    for part in blocks(len(mine), columns):
        at = slice(mine.start + part.start, mine.start + part.stop)
        left, right = loaded(a[:, at]), loaded(b[:, at])
        total = sbuf(left.shape, a.dtype)
        nisa.tensor_tensor(dst=total, data1=left, data2=right, op=nl.add)
        nisa.dma_copy(dst=out[:, at], src=total)
    return out


def dequantize_rowwise(x: Any, scales: Any) -> Any:
    """x scale / 127, of int8 with one scale for each row; a partition has consecutive rows."""
    rows, columns = x.shape
    cores = nl.num_programs()
    each = rows // (P * cores)
    out = hbm(x.shape, nl.float16)
    first = nl.program_id(0) * (rows // cores)
    scale = loaded(scales.ap([[each, P], [1, each]], offset=first))
    nisa.tensor_scalar(dst=scale, data=scale, op0=nl.multiply, operand0=1 / 127)
    for part in blocks(columns, 512):
        width = length(part)
        pattern = [[each * columns, P], [columns, each], [1, width]]
        at = first * columns + part.start
        tile = loaded(x.ap(pattern, offset=at))
        result = sbuf((P, each, width), nl.float16)
        repeated = scale.ap([[each, P], [1, each], [0, width]])
        nisa.tensor_tensor(dst=result, data1=tile, data2=repeated, op=nl.multiply)
        nisa.dma_copy(dst=out.ap(pattern, offset=at), src=result)
    return out


def rope(x: Any, cos: Any, sin: Any) -> Any:
    """Rotate the halves of each head of 128 columns by angles of its row."""
    rows, columns = x.shape
    heads, half = 16, P // 2
    out = hbm(x.shape, x.dtype)
    for tile in row_tiles(rows):
        count = length(tile)
        tables = [loaded(table[tile]) for table in (cos, sin)]
        cosine, sine = (t.ap([[half, count], [0, heads], [1, half]]) for t in tables)
        for part in blocks(columns, heads * P):
            q = loaded(x[tile, part])
            rotated = sbuf(q.shape, q.dtype)
            step = [[heads * P, count], [P, heads], [1, half]]
            one, two = (q.ap(step, offset=side) for side in (0, half))
            for side, a, b, op in ((0, one, two, nl.subtract), (half, two, one, nl.add)):
                left, right = (sbuf((count, heads, half), nl.float32) for _ in range(2))
                nisa.tensor_tensor(dst=left, data1=a, data2=cosine, op=nl.multiply)
                nisa.tensor_tensor(dst=right, data1=b, data2=sine, op=nl.multiply)
                into = rotated.ap(step, offset=side)
                nisa.tensor_tensor(dst=into, data1=left, data2=right, op=op)
            nisa.dma_copy(dst=out[tile, part], src=rotated)
    return out


def gaussian_blur(x: Any, weights: Any) -> Any:
    """Correlate an image with 7 x 7 weights; outside the image is 0."""
    out = hbm(x.shape, x.dtype)
    constants = sbuf((P, 49), nl.float32)
    nisa.tensor_copy(dst=constants, src=loaded(weights.ap([[0, P], [1, 49]])))
    for tile in row_tiles(x.shape[0]):
        count = length(tile)
        for part in blocks(x.shape[1], BLOCK):
            width = length(part)
            total = sbuf((count, width), nl.float32)
            for k in range(49):
                if k % 7 == 0:
                    row = tile.start + k // 7 - 3
                    window = _window(x, row, count, part.start - 3, width + 6)
                dst = sbuf((count, width), x.dtype) if k == 48 else total
                terms: dict[str, Any] = {"op1": nl.add, "operand1": total}
                add = nisa.scalar_tensor_tensor if k else nisa.tensor_scalar
                add(
                    dst=dst,
                    data=window[:, k % 7 : k % 7 + width],
                    op0=nl.multiply,
                    operand0=constants[0:count, k : k + 1],
                    **(terms if k else {}),
                )
            nisa.dma_copy(dst=out[tile, part], src=dst)
    return out


def _window(x: Any, row: int, rows: int, column: int, columns: int) -> Any:
    """Load a part of an image that may reach over its border."""
    tile = sbuf((rows, columns), x.dtype)
    top, left = max(0, -row), max(0, -column)
    bottom = min(rows, x.shape[0] - row)
    right = min(columns, x.shape[1] - column)
    if (top, left, bottom, right) != (0, 0, rows, columns):
        nisa.memset(dst=tile, value=0.0)
    nisa.dma_copy(
        dst=tile[top:bottom, left:right],
        src=x[row + top : row + bottom, column + left : column + right],
    )
    return tile


def jacobi_stencil_2d(x: Any, columns: int = BLOCK) -> Any:
    """Mean of the four neighbours of each inner element; the border is copied."""
    rows, width = x.shape
    out = hbm(x.shape, x.dtype)
    for tile in row_tiles(rows - 2):
        for part in blocks(width - 2, columns):
            _jacobi_block(out, x, tile.start + 1, length(tile), part)
    if nl.program_id(0) == 0:
        for row in (0, rows - 1):
            nisa.dma_copy(dst=out[row : row + 1], src=x[row : row + 1])
    return out


def _jacobi_block(out: Any, x: Any, first: int, count: int, part: slice) -> None:
    """Compute the columns ``part``, counted from column 1, of ``count`` rows from ``first`` on."""
    width = length(part)
    every = slice(part.start, part.stop + 2)
    centre = loaded(x[first : first + count, every])
    up, down = sbuf(centre.shape, x.dtype), sbuf(centre.shape, x.dtype)
    nisa.dma_copy(dst=up[0:1], src=x[first - 1 : first, every])
    if count > 1:
        nisa.dma_copy(dst=up[1:count], src=centre[0 : count - 1])
        nisa.dma_copy(dst=down[0 : count - 1], src=centre[1:count])
    nisa.dma_copy(dst=down[count - 1 : count], src=x[first + count : first + count + 1, every])
    total = sbuf((count, width), nl.float32)
    nisa.tensor_tensor(
        dst=total, data1=up[:, 1 : 1 + width], data2=down[:, 1 : 1 + width], op=nl.add
    )
    for side in (0, 2):
        nisa.tensor_tensor(dst=total, data1=total, data2=centre[:, side : side + width], op=nl.add)
    before, after = int(part.start == 0), int(part.stop == x.shape[1] - 2)
    result = sbuf((count, before + width + after), x.dtype)
    inner = result[:, before : before + width]
    nisa.tensor_scalar(dst=inner, data=total, op0=nl.multiply, operand0=0.25)
    for border, column in ((before, 0), (after, width + 1)):
        if border:
            at = column + before - 1
            nisa.tensor_copy(dst=result[:, at : at + 1], src=centre[:, column : column + 1])
    target = slice(part.start + 1 - before, part.stop + 1 + after)
    nisa.dma_copy(dst=out[first : first + count, target], src=result)
