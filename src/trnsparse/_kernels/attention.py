"""softmax(scale q k^T + bias) v over the blocks of a pattern, all heads in one launch.

Layout   128 queries on partitions; their scores against up to 512 keys fill a PSUM bank, where
         tables are added and the maximum is taken, and from where the exponentials go to SBUF
Reuse    keys (transposed once) and values of a group of heads stay in SBUF while they fit; else
         each section loads its own. Only blocks that some head of the group attends to are loaded
Engines  Tensor for both products and for transposing weights; Scalar for scale, exponential and
         its sum in one pass; Vector for maxima, tables and rescaling
Limits   any number of queries and keys, tails are sliced; any block size; head dimensions from 2
         to 512; float32, bfloat16 or float16; scores, sums and statistics in float32. Weights, at
         most 1, have the dtype of the values: in float16, underflow adds an error of at most
         2^-25. A fully masked row is 0
Cost     per block of 128 by 128: two products and one transpose; DMA bytes of the stored blocks
Lever    one pass with running maxima: a section that raises the maximum of a query rescales the
         sums of earlier sections. Loops contain only the pattern's blocks
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile, transpose_tiles
from trnsci.core.tiles.hardware import TILE
from trnsparse._kernels.attention_pieces import (
    FLOOR,
    HIDDEN,
    Blocks,
    Section,
    add_tables,
    chunks,
    column,
    head_rows,
    load_tables,
    load_transposed,
    row_sections,
    scores_of,
    signed,
)

MOST_WIDTH = 512
"""Largest head dimension: a row of results fills one PSUM bank."""
RESIDENT = 64 * 1024
"""Bytes per partition of a group's keys and values that stay in SBUF."""
LEAST_TOTAL = 1.0e-12
"""Replaces a total weight of zero; any key that is attended to adds at least about 1."""


class KeyCache(NamedTuple):
    """Keys and values of one group in SBUF.

    Attributes:
        keys_t: (128, chunks of d, keys), transposed.
        values: (128, tiles of keys, dv).
        there: Whether each tile of keys has been loaded.
    """

    keys_t: Tile
    values: Tile
    there: list[bool]


class State(NamedTuple):
    """Running statistics per query: maximum, total weight, weighted values."""

    top: Tile
    total: Tile
    mixed: Tile


@nki.jit
def attention(
    q: Tile, k: Tile, v: Tile, bias: Tile | None, tables: Tile | None, blocks: Blocks, scale: float
) -> tuple[Tile, Tile]:
    """Return the attention of every head and the logarithms of total weights.

    Args:
        q: Queries, (heads, queries, d).
        k: Keys, (groups, keys, d), where groups divides heads.
        v: Values, (groups, keys, dv).
        bias: Blocks to add to the scores, (blocks of all heads, rows, columns), or None.
        tables: Additive masks of partial blocks, (tables, rows, columns): 0 or ``HIDDEN``; or None.
        blocks: The pattern.
        scale: Factor of the scores, of any sign.

    Returns:
        (heads, queries, dv) and (heads, queries, 1); the logarithm is below ``HIDDEN / 2`` for a
        fully masked query.
    """
    heads, queries, d = q.shape
    groups, keys, dv = v.shape
    assert d >= 2 and dv >= 2, "head dimensions of 1 are padded by the caller"
    assert dv <= MOST_WIDTH, "a row of results must lie in one PSUM bank"
    out = nl.ndarray((heads, queries, dv), dtype=q.dtype, buffer=nl.shared_hbm)
    logs = nl.ndarray((heads, queries, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    table_tiles = load_tables(tables)
    rows = head_rows(queries, blocks.sizes[0])
    row_count = (queries + blocks.sizes[0] - 1) // blocks.sizes[0]
    item = 4 if k.dtype == nl.float32 else 2
    tiles = (keys + TILE - 1) // TILE
    row_bytes = tiles * (TILE * len(chunks(d)) + dv) * item
    resident = blocks.sizes[1] % TILE == 0 and row_bytes <= RESIDENT
    masked = tables is not None or bias is not None
    cache = None
    for h in range(heads):
        g = h * groups // heads
        if resident and h * groups % heads < groups:
            cache = new_cache(k, v, tiles)
        tops = nl.ndarray((TILE, len(rows)), dtype=nl.float32, buffer=nl.sbuf)
        totals = nl.ndarray((TILE, len(rows)), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=tops, value=0.0)
        nisa.memset(dst=totals, value=1.0)
        unit = 1.0 if bias is not None else signed(scale)[1]
        for r in range(len(rows)):
            row, first, last, offset = rows[r]
            sections = row_sections(blocks, h, row, row_count, keys)
            if len(sections) == 0:
                store_nothing(out, h, first, last)
                nisa.memset(dst=totals[0 : last - first, r : r + 1], value=LEAST_TOTAL)
                continue
            q_t = transposed_queries(q, h, first, last, signed(scale)[0])
            state = None
            for s in range(len(sections)):
                section = sections[s]
                if resident:
                    keys_t, values, runs, slots = from_cache(cache, k, v, g, section)
                else:
                    keys_t, values, runs, slots = loaded(k, v, g, section)
                scores = scores_of(q_t, keys_t, runs, section.width, d)
                if bias is not None:
                    scores = with_bias(scores, section, bias, offset, signed(scale)[1])
                add_tables(scores, section, tables, table_tiles, offset)
                state = add_section(state, scores, values, slots, unit, masked)
            store_rows(out, h, first, state, tops[0:TILE, r : r + 1], totals[0:TILE, r : r + 1])
        store_logs(logs, h, rows, tops, totals, unit)
    return out, logs


def new_cache(k: Tile, v: Tile, tiles: int) -> KeyCache:
    """Return SBUF tiles for the keys and values of a group, not yet loaded."""
    parts = len(chunks(k.shape[2]))
    keys_t = nl.ndarray((TILE, parts, tiles * TILE), dtype=k.dtype, buffer=nl.sbuf)
    values = nl.ndarray((TILE, tiles, v.shape[2]), dtype=v.dtype, buffer=nl.sbuf)
    there = []
    for _ in range(tiles):
        there.append(False)
    return KeyCache(keys_t, values, there)


def from_cache(
    cache: KeyCache | None, k: Tile, v: Tile, g: int, section: Section
) -> tuple[Tile, Tile, list[tuple[int, int, int]], list[int]]:
    """Return resident keys and values of a section, loading those that are missing.

    Also return runs of adjacent keys, and the tile of values of each 128 keys.
    """
    assert cache is not None
    runs: list[tuple[int, int, int]] = []
    slots: list[int] = []
    for i in range(len(section.pieces)):
        piece = section.pieces[i]
        tile = piece.key // TILE
        slots.append(tile)
        if not cache.there[tile]:
            load_piece(cache.keys_t, cache.values, k, v, g, piece.key, piece.width, piece.key, tile)
            cache.there[tile] = True
        if len(runs) > 0 and runs[len(runs) - 1][0] + runs[len(runs) - 1][1] == piece.key:
            begun = runs[len(runs) - 1]
            runs[len(runs) - 1] = (begun[0], begun[1] + piece.width, begun[2])
        else:
            runs.append((piece.key, piece.width, piece.at))
    return cache.keys_t, cache.values, runs, slots


def loaded(
    k: Tile, v: Tile, g: int, section: Section
) -> tuple[Tile, Tile, list[tuple[int, int, int]], list[int]]:
    """Return keys and values of a section, loaded into adjacent columns."""
    width = section.width
    parts = chunks(width)
    keys_t = nl.ndarray(
        (TILE, len(chunks(k.shape[2])), max(width, 2)), dtype=k.dtype, buffer=nl.sbuf
    )
    values = nl.ndarray((TILE, len(parts), v.shape[2]), dtype=v.dtype, buffer=nl.sbuf)
    for i in range(len(section.pieces)):
        piece = section.pieces[i]
        load_keys(keys_t, k, g, piece.key, piece.width, piece.at)
        # Values are in tiles of 128 keys; the keys of a piece may cross a tile boundary.
        done = 0
        while done < piece.width:
            at = piece.at + done
            count = min(piece.width - done, TILE - at % TILE)
            nisa.dma_copy(
                dst=values[at % TILE : at % TILE + count, at // TILE, 0 : v.shape[2]],
                src=v[g, piece.key + done : piece.key + done + count, 0 : v.shape[2]],
            )
            done = done + count
    if width == 1:
        nisa.memset(dst=keys_t[0:TILE, 0 : keys_t.shape[1], 1:2], value=0.0)
    slots = []
    for t in range(len(parts)):
        slots.append(t)
    return keys_t, values, [(0, width, 0)], slots


def load_piece(
    keys_t: Tile,
    values: Tile,
    k: Tile,
    v: Tile,
    g: int,
    key: int,
    width: int,
    at: int,
    slot: int,
) -> None:
    """Load keys to columns ``at`` of ``keys_t`` and values to tile ``slot``."""
    load_keys(keys_t, k, g, key, width, at)
    if width == 1:
        nisa.memset(dst=keys_t[0:TILE, 0 : keys_t.shape[1], at + 1 : at + 2], value=0.0)
    dv = v.shape[2]
    nisa.dma_copy(dst=values[0:width, slot, 0:dv], src=v[g, key : key + width, 0:dv])


def load_keys(keys_t: Tile, k: Tile, g: int, key: int, width: int, at: int) -> None:
    """Load keys and write their transpose to the columns of ``keys_t`` from ``at``."""
    rows = nl.ndarray((width, k.shape[2]), dtype=k.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=k[g, key : key + width, 0 : k.shape[2]])
    load_transposed(keys_t, at, rows)


def transposed_queries(q: Tile, h: int, first: int, last: int, sign: float) -> Tile:
    """Return the transposed queries, (128, chunks of d, queries), times 1, -1 or 0."""
    d = q.shape[2]
    rows = nl.ndarray((last - first, d), dtype=q.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=q[h, first:last, 0:d])
    if sign != 1.0:
        nisa.tensor_scalar(dst=rows, data=rows, op0=nl.multiply, operand0=sign)
    transposed = nl.ndarray((TILE, len(chunks(d)), last - first), dtype=q.dtype, buffer=nl.sbuf)
    load_transposed(transposed, 0, rows)
    return transposed


def with_bias(scores: Tile, section: Section, bias: Tile, offset: int, unit: float) -> Tile:
    """Return ``unit * scores`` plus a bias, in SBUF."""
    rows, width = scores.shape
    added = nl.ndarray((rows, width), dtype=bias.dtype, buffer=nl.sbuf)
    for i in range(len(section.pieces)):
        piece = section.pieces[i]
        nisa.dma_copy(
            dst=added[0:rows, piece.at : piece.at + piece.width],
            src=bias[
                piece.place, offset : offset + rows, piece.offset : piece.offset + piece.width
            ],
        )
    summed = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=summed, data=scores, op0=nl.multiply, operand0=unit, op1=nl.add, operand1=added
    )
    return summed


def add_section(
    before: State | None, scores: Tile, values: Tile, slots: list[int], unit: float, masked: bool
) -> State:
    """Return the running statistics after one more section."""
    rows, width = scores.shape
    top = column(rows)
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=scores, axis=1)
    if masked:
        nisa.tensor_scalar(dst=top, data=top, op0=nl.maximum, operand0=FLOOR)
    if before is not None:
        nisa.tensor_tensor(dst=top, data1=top, data2=before.top, op=nl.maximum)
    shift = column(rows)
    nisa.tensor_scalar(dst=shift, data=top, op0=nl.multiply, operand0=-unit)
    # The weights take the type of the values: the Tensor engine does not mix float32 with less.
    weights = nl.ndarray((rows, width), dtype=values.dtype, buffer=nl.sbuf)
    total = column(rows)
    nisa.activation(
        dst=weights,
        op=nl.exp,
        data=scores,
        scale=unit,
        bias=shift,
        reduce_op=nl.add,
        reduce_res=total,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    product = weighted_values(weights, values, slots)
    if before is None:
        mixed = nl.ndarray(product.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=mixed, src=product)
        return State(top, total, mixed)
    shrink = column(rows)
    nisa.activation(dst=shrink, op=nl.exp, data=before.top, scale=unit, bias=shift)
    scale_and_add(before.total, shrink, total)
    scale_and_add(before.mixed, shrink, product)
    return State(top, before.total, before.mixed)


def weighted_values(weights: Tile, values: Tile, slots: list[int]) -> Tile:
    """Return the product of weights and the values in ``slots``, accumulated in PSUM."""
    rows, width = weights.shape
    dv = values.shape[2]
    transposed = nl.ndarray((TILE, len(slots), rows), dtype=weights.dtype, buffer=nl.sbuf)
    transpose_tiles(transposed, 0, 0, weights)
    product = nl.ndarray((rows, dv), dtype=nl.float32, buffer=nl.psum)
    for t in range(len(slots)):
        used = min(TILE, width - t * TILE)
        nisa.nc_matmul(
            dst=product,
            stationary=transposed[0:used, t, 0:rows],
            moving=values[0:used, slots[t], 0:dv],
            accumulate=(t > 0),
        )
    return product


def scale_and_add(tile: Tile, factor: Tile, term: Tile) -> None:
    """Replace ``tile`` by ``tile * factor + term``, with one factor per row."""
    nisa.scalar_tensor_tensor(
        dst=tile, data=tile, op0=nl.multiply, operand0=factor, op1=nl.add, operand1=term
    )


def store_rows(out: Tile, h: int, first: int, state: State | None, top: Tile, total: Tile) -> None:
    """Write weighted values divided by their total weight; keep the statistics in two columns."""
    assert state is not None
    rows, dv = state.mixed.shape
    last = first + rows
    top, total = top[0:rows, 0:1], total[0:rows, 0:1]
    nisa.tensor_copy(dst=top, src=state.top)
    nisa.tensor_scalar(dst=total, data=state.total, op0=nl.maximum, operand0=LEAST_TOTAL)
    share = column(rows)
    nisa.reciprocal(dst=share, data=total)
    result = nl.ndarray((rows, dv), dtype=out.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=result, data=state.mixed, op0=nl.multiply, operand0=share)
    nisa.dma_copy(dst=out[h, first:last, 0:dv], src=result)


def store_logs(
    logs: Tile, h: int, rows: list[tuple[int, int, int, int]], tops: Tile, totals: Tile, unit: float
) -> None:
    """Write the logarithms of the total weights of a head.

    They are taken at once, since Scalar loads a table for them and another for exponentials.
    """
    log = nl.ndarray(tops.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=log, op=nl.log, data=totals)
    nisa.scalar_tensor_tensor(
        dst=log, data=tops, op0=nl.multiply, operand0=unit, op1=nl.add, operand1=log
    )
    # A weight of at least about 1 belongs to the largest score, unless all are hidden.
    nothing = nl.ndarray(tops.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=nothing, data=totals, op0=nl.less, operand0=0.5, op1=nl.multiply, operand1=HIDDEN
    )
    nisa.tensor_tensor(dst=log, data1=log, data2=nothing, op=nl.add)
    for r in range(len(rows)):
        _, first, last, _ = rows[r]
        nisa.dma_copy(dst=logs[h, first:last, 0:1], src=log[0 : last - first, r : r + 1])


def store_nothing(out: Tile, h: int, first: int, last: int) -> None:
    """Write the result of queries without blocks."""
    zeros = nl.ndarray((last - first, out.shape[2]), dtype=out.dtype, buffer=nl.sbuf)
    nisa.memset(dst=zeros, value=0.0)
    nisa.dma_copy(dst=out[h, first:last, 0 : out.shape[2]], src=zeros)
