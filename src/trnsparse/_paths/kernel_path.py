"""Kernel launches: from the arguments of an operation to one call of its kernel.

Each function has the name of its operation, takes a launcher and the operation's arguments, and
launches one kernel once. Block patterns are compile-time constants: a kernel's loops contain only
the stored blocks. Importing this module imports NKI.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from trnsci.core.backend.launch import Launcher
from trnsci.core.numbers.conversions import dtype_name
from trnsci.core.tiles.hardware import BANK, TILE
from trnsparse._attention.pattern import Pattern, pattern_of
from trnsparse._kernels.attention import attention as attention_kernel
from trnsparse._kernels.attention_backward import attention_backward as attention_backward_kernel
from trnsparse._kernels.attention_pieces import HIDDEN, Blocks
from trnsparse._kernels.bsr_cg import bsr_cg as cg_kernel
from trnsparse._kernels.bsr_spmm import BlockRows
from trnsparse._kernels.bsr_spmm import bsr_spmm as bsr_kernel
from trnsparse._kernels.screened_spmm import screened_spmm as screened_kernel
from trnsparse._kernels.sddmm import bsr_sddmm as bsr_sddmm_kernel
from trnsparse._kernels.sddmm import sddmm as sddmm_kernel
from trnsparse._kernels.spmm import spmm_one_hot as one_hot_kernel
from trnsparse._kernels.spmm import spmm_segments as segments_kernel
from trnsparse._kernels.tiled_spmm import tiled_spmm as tiled_kernel
from trnsparse._products.row_order import (
    chunk_columns,
    chunk_counts,
    in_order,
    plan_rows,
    segment_order,
    tile_starts,
)

# -- products --------------------------------------------------------------------------------------


def spmm(
    launch: Launcher, values: Tensor, row_ptrs: Tensor, col_indices: Tensor, b: Tensor
) -> Tensor:
    pointers = _numbers(row_ptrs)
    rows, width = len(pointers) - 1, b.shape[1]
    b = _several_columns(b)
    segments = plan_rows(pointers, width, dtype_name(b.dtype)).kernel == "segments"
    if segments:
        order, place, slots = segment_order(pointers)
        counts = np.array([count for group in slots for count in group], np.int64)
        at = torch.from_numpy(place[chunk_columns(counts)]).to(values.device)
        places = None
        if not in_order(pointers):
            numbers = chunk_counts(np.array([0, rows]))
            places = _unsigned(torch.from_numpy(order[chunk_columns(numbers)]))
        operands = values[at], _unsigned(col_indices[at]), places
        result = launch(segments_kernel, *operands, b, slots, rows)
    else:
        starts = tile_starts(pointers)
        entries = chunk_columns(chunk_counts(starts))
        at = torch.from_numpy(entries).to(values.device)
        local = np.repeat(np.arange(rows) % TILE, np.diff(pointers)).astype(np.float32)
        operands = values[at], torch.from_numpy(local[entries]), _unsigned(col_indices[at])
        result = launch(one_hot_kernel, *operands, b, tuple(starts.tolist()), rows)
    return _columns(result, width)


def tiled_spmm(
    launch: Launcher,
    tiles: Tensor,
    tile_ptrs: Tensor,
    tile_columns: Tensor,
    b: Tensor,
    rows: int,
) -> Tensor:
    starts, columns = _numbers(tile_ptrs), _numbers(tile_columns)
    pattern = BlockRows(tuple(starts.tolist()), tuple(columns.tolist()))
    return _columns(
        launch(tiled_kernel, tiles, _several_columns(b), pattern, int(rows)), b.shape[1]
    )


def bsr_spmm(
    launch: Launcher,
    blocks: Tensor,
    block_row_ptrs: Tensor,
    block_col_indices: Tensor,
    b: Tensor,
    rows: int,
) -> Tensor:
    starts, columns = _numbers(block_row_ptrs), _numbers(block_col_indices)
    pattern = BlockRows(tuple(starts.tolist()), tuple(columns.tolist()))
    return _columns(launch(bsr_kernel, blocks, _several_columns(b), pattern, int(rows)), b.shape[1])


def sddmm(launch: Launcher, row_ptrs: Tensor, col_indices: Tensor, c: Tensor, d: Tensor) -> Tensor:
    pointers = _numbers(row_ptrs)
    rows = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
    at = chunk_columns(chunk_counts(pointers[[0, -1]]))
    index = _unsigned(torch.from_numpy(rows[at])), _unsigned(col_indices[torch.from_numpy(at)])
    return launch(sddmm_kernel, c, d, *index).mT.reshape(-1)[: len(rows)].clone()


def bsr_sddmm(
    launch: Launcher,
    block_row_ptrs: Tensor,
    block_col_indices: Tensor,
    c: Tensor,
    d: Tensor,
    size: int,
) -> Tensor:
    starts, columns = _numbers(block_row_ptrs), _numbers(block_col_indices)
    pattern = BlockRows(tuple(starts.tolist()), tuple(columns.tolist()))
    whole = (functional.pad(x, (0, 0, 0, -x.shape[0] % size)) for x in (c, d))
    return launch(bsr_sddmm_kernel, *whole, pattern, int(size))


def bsr_cg(
    launch: Launcher,
    blocks: Tensor,
    block_row_ptrs: Tensor,
    block_col_indices: Tensor,
    b: Tensor,
    x: Tensor,
    tol: float,
    most: int,
) -> tuple[Tensor, Tensor, Tensor]:
    starts, columns = _numbers(block_row_ptrs), _numbers(block_col_indices)
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    grid, size = len(starts) - 1, blocks.shape[-1]
    (length, sides), missing = b.shape, grid * size - b.shape[0]
    entries: list[list[tuple[int, int]]] = [[] for _ in range(grid)]
    for block, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        entries[column].append((block, row))
    if missing:
        # Elements of a block outside of the matrix must have no effect.
        inside = torch.arange(size, device=blocks.device) < size - missing
        last = torch.from_numpy(rows == grid - 1).to(blocks.device)
        right = torch.from_numpy(columns == grid - 1).to(blocks.device)
        kept = (inside | ~last[:, None])[:, :, None] & (inside | ~right[:, None])[:, None, :]
        blocks = torch.where(kept, blocks, 0.0)
    limits = b.float().square().sum(0, keepdim=True) * (tol * tol)
    more = max(2 - sides, 0)  # some compilers reject a single moving column
    operands = (functional.pad(v, (0, more, 0, missing)) for v in (b, x))
    found, steps, squares = launch(
        cg_kernel,
        blocks,
        *operands,
        functional.pad(limits, (0, more)),
        tuple(tuple(column) for column in entries),
        int(most),
    )
    return found[:length, :sides].clone(), steps[0, :sides].clone(), squares[0, :sides].clone()


def screened_spmm(
    launch: Launcher,
    a: Tensor,
    row_bounds: Tensor,
    col_bounds: Tensor,
    b: Tensor,
    cutoff: float,
) -> Tensor:
    # As in torch's comparison, the number takes the dtype of the tensor.
    limit = float(torch.tensor(cutoff, dtype=row_bounds.dtype))
    kept = _kept_tiles(row_bounds, col_bounds, limit)
    bounds = row_bounds.unsqueeze(1), col_bounds.unsqueeze(0)
    result = launch(screened_kernel, a, *bounds, _several_columns(b), limit, kept)
    return _columns(result, b.shape[1])


def _kept_tiles(
    rows: Tensor, columns: Tensor, cutoff: float
) -> tuple[tuple[tuple[int, bool], ...], ...]:
    """Return for each 128 rows the tiles of columns with bounds above, and whether all are."""
    greatest, least = [], []
    for bounds in (rows, columns):
        tiles = torch.split(bounds.detach().cpu(), TILE)
        greatest.append(torch.stack([tile.nan_to_num(nan=-1.0).max() for tile in tiles]))
        least.append(torch.stack([tile.nan_to_num(nan=-1.0).min() for tile in tiles]))
    some = (torch.outer(*greatest) > cutoff).tolist()
    every = (torch.outer(*least) > cutoff) & torch.outer(*(x >= 0 for x in least))
    whole = every.tolist()
    return tuple(
        tuple((j, whole[i][j]) for j in range(len(row)) if row[j]) for i, row in enumerate(some)
    )


def _numbers(tensor: Tensor) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = tensor.detach().cpu().to(torch.int64).numpy()
    return found


def _unsigned(numbers: Tensor) -> Tensor:
    """Return indices in the dtype of indirect DMA."""
    return numbers.to(torch.int32).view(torch.uint32)


def _several_columns(b: Tensor) -> Tensor:
    """Return a dense operand whose last bank has more than one column, padded with zeros.

    Some compilers reject a single moving column.
    """
    return functional.pad(b, (0, 1)) if b.shape[1] % BANK == 1 else b


def _columns(result: Tensor, width: int) -> Tensor:
    return result if result.shape[1] == width else result[:, :width].clone()


# -- attention -------------------------------------------------------------------------------------


def attention(
    launch: Launcher,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    tables: Tensor | None,
    pattern: Sequence[int],
    scale: float,
) -> tuple[Tensor, Tensor]:
    found = pattern_of(pattern)
    queries, width = q.shape[1], v.shape[2]
    bias = _of_every_head(bias, found)
    q, k, v = (_whole(x, *sides) for x, sides in zip((q, k, v), _sides(bias, found), strict=True))
    out, logs = launch(attention_kernel, q, k, v, bias, tables, _blocks(found), float(scale))
    logs = logs[:, :queries, 0]
    return _part(out, queries, width), torch.where(logs < HIDDEN / 2, -torch.inf, logs)


def attention_backward(
    launch: Launcher,
    grad: Tensor,
    grad_logs: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    logs: Tensor,
    bias: Tensor | None,
    tables: Tensor | None,
    pattern: Sequence[int],
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    found = pattern_of(pattern)
    shapes = q.shape, k.shape, v.shape
    shared = None if bias is None else bias.shape[0]
    bias = _of_every_head(bias, found)
    sides = _sides(bias, found)
    q, k, v = (_whole(x, *side) for x, side in zip((q, k, v), sides, strict=True))
    grad, out = _whole(grad, *sides[0]), _whole(out, *sides[0])
    # For a fully masked query every weight is 0: exp(s - 3e38).
    logs = torch.where(logs == -torch.inf, -HIDDEN, logs).float()
    columns = [
        functional.pad(x.float(), (0, q.shape[1] - x.shape[1])).unsqueeze(-1)
        for x in (grad_logs, logs)
    ]
    operands = grad, columns[0], q, k, v, out, columns[1], bias, tables
    results = launch(attention_backward_kernel, *operands, _blocks(found), float(scale))
    three = [_part(x, *shape[1:]) for x, shape in zip(results[:3], shapes, strict=True)]
    by_bias = q.new_empty(0) if bias is None else results[3]
    if shared is not None and shared != by_bias.shape[0]:
        by_bias = by_bias.reshape(len(found.own), shared, *found.sizes).sum(0)
    return three[0], three[1], three[2], by_bias


def _blocks(found: Pattern) -> Blocks:
    return Blocks(found.sizes, found.own, found.starts, found.columns, found.which, found.packed)


def _of_every_head(bias: Tensor | None, found: Pattern) -> Tensor | None:
    """Return the blocks of a bias that heads share, repeated for each head."""
    blocks = found.packed[-1]
    if bias is None or bias.shape[0] == blocks:
        return bias
    return bias.repeat(len(found.own), 1, 1)


def _sides(bias: Tensor | None, found: Pattern) -> list[tuple[int, int]]:
    """Return the minimum length and width of queries, keys and values for the kernels.

    The gradient by a bias is written in whole blocks; keys past the end are masked by the tables of
    the last column of blocks. Some compilers reject a single moving column.
    """
    if bias is None:
        return [(0, 2)] * 3
    rows, columns = (size * count for size, count in zip(found.sizes, found.grid, strict=True))
    return [(rows, 2), (columns, 2), (columns, 2)]


def _whole(x: Tensor, length: int, width: int) -> Tensor:
    """Return (heads, length, width), padded with zeros."""
    missing = max(length - x.shape[1], 0), max(width - x.shape[2], 0)
    return functional.pad(x, (0, missing[1], 0, missing[0])) if any(missing) else x


def _part(x: Tensor, length: int, width: int) -> Tensor:
    """Return ``x`` without the padding of ``_whole``; a copy, because views break forward mode."""
    return x if x.shape[1:] == (length, width) else x[:, :length, :width].clone()
