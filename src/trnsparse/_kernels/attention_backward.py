"""Gradients of block-sparse attention by queries, keys, values and bias, in one launch.

With weights P = exp(scale q k^T + bias - logs), D the sum of grad * out over a row and

    dS = P * (grad v^T - D)

the gradients are dq = scale dS k, dk = scale dS^T q, dv = P^T grad and dbias = dS.

Layout   128 queries on partitions, a section of up to 512 keys at once. dq grows in PSUM over the
         blocks of a row; dk and dv grow in SBUF, in float32, over the rows that see a block
Panels   keys with their gradients stay in SBUF, as many as fit; where they are more, queries pass
         by once per panel and dq is carried in HBM
Engines  Tensor for five products and one transpose per block, Scalar for the exponential, Vector
         for dS in one pass out of PSUM and for what grows in SBUF
Limits   as the forward kernel; with a bias, whole blocks (the caller pads)
Cost     per block of 128 by 128 five products, of 128 moving columns or a head dimension each
Lever    P is computed again from the logarithms instead of stored; operands of a group of heads are
         loaded and turned once; loops hold the pattern's blocks and no others
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.gemm_tiles import Tile, transpose_tile
from trnsci.core.hardware import TILE
from trnsci.core.nki import nisa, nki, nl
from trnsparse._kernels.attention import MOST_WIDTH, with_bias
from trnsparse._kernels.attention_pieces import (
    Blocks,
    Piece,
    Section,
    add_tables,
    chunks,
    column,
    head_rows,
    load_tables,
    load_turned,
    piece_numbers,
    row_sections,
    scores_of,
    signed,
)

__all__ = ["attention_backward"]

PANEL_BYTES = 96 * 1024
"""Bytes per partition of the keys of a panel, in the forms that are needed, and their gradients."""


class Operands(NamedTuple):
    """What the kernel reads and writes, in HBM."""

    grad: Tile
    grad_logs: Tile
    q: Tile
    k: Tile
    v: Tile
    out: Tile
    logs: Tile
    bias: Tile | None
    tables: Tile | None
    d_q: Tile
    d_bias: Tile | None
    carried: Tile


class Panel(NamedTuple):
    """Pieces of the keys of a group, in SBUF.

    Attributes:
        first: Number of the first piece.
        pieces: First key and width of each.
        keys: (128, pieces, d).
        keys_t: (128, chunks of d, pieces * 128), turned.
        values_t: (128, chunks of dv, pieces * 128), turned.
        d_keys: (128, pieces, d), what the rows so far have given, over the scale.
        d_values: (128, pieces, dv).
        there: For each piece, whether it has been loaded.
        begun: For each piece, whether its gradients have been begun.
    """

    first: int
    pieces: list[tuple[int, int]]
    keys: Tile
    keys_t: Tile
    values_t: Tile
    d_keys: Tile
    d_values: Tile
    there: list[bool]
    begun: list[bool]


class Queries(NamedTuple):
    """One tile of queries with what belongs to them, in SBUF.

    Attributes:
        rows: (queries, d), times 1, -1 or 0.
        turned: (128, chunks of d, queries).
        grads: (queries, dv).
        grads_t: (128, chunks of dv, queries).
        inner: D of each query.
        shift: Minus the logarithm of each.
    """

    rows: Tile
    turned: Tile
    grads: Tile
    grads_t: Tile
    inner: Tile
    shift: Tile


@nki.jit
def attention_backward(
    grad: Tile,
    grad_logs: Tile,
    q: Tile,
    k: Tile,
    v: Tile,
    out: Tile,
    logs: Tile,
    bias: Tile | None,
    tables: Tile | None,
    blocks: Blocks,
    scale: float,
) -> tuple[Tile, ...]:
    """Return the gradients by queries, keys, values and, where there is one, bias.

    Args:
        grad: Gradient by the attention, (heads, queries, dv).
        grad_logs: Gradient by the logarithms, (heads, queries, 1).
        q: Queries, (heads, queries, d).
        k: Keys, (groups, keys, d).
        v: Values, (groups, keys, dv).
        out: The attention.
        logs: Its logarithms, (heads, queries, 1); very large for a query that sees nothing.
        bias: Blocks that were added, or None; then all blocks are whole.
        tables: What partial blocks hide, or None.
        blocks: The pattern.
        scale: Factor of the scores.
    """
    heads, d = q.shape[0], q.shape[2]
    groups, keys, dv = v.shape
    assert d >= 2 and dv >= 2, "head dimensions of 1 are padded by the caller"
    assert d <= MOST_WIDTH and dv <= MOST_WIDTH, "a row of results must lie in one PSUM bank"
    d_q = nl.ndarray(q.shape, dtype=q.dtype, buffer=nl.shared_hbm)
    d_k = nl.ndarray(k.shape, dtype=k.dtype, buffer=nl.shared_hbm)
    d_v = nl.ndarray(v.shape, dtype=v.dtype, buffer=nl.shared_hbm)
    d_bias = None
    if bias is not None:
        d_bias = nl.ndarray(bias.shape, dtype=bias.dtype, buffer=nl.shared_hbm)
    pieces = piece_numbers(keys, blocks.sizes[1])
    most = pieces_per_panel(d, dv, 4 if k.dtype == nl.float32 else 2)
    carried = None
    if len(pieces) > most:
        carried = nl.ndarray(q.shape, dtype=nl.float32, buffer=nl.private_hbm)
    x = Operands(grad, grad_logs, q, k, v, out, logs, bias, tables, d_q, d_bias, carried)
    table_tiles = load_tables(tables)
    for g in range(groups):
        for first in range(0, len(pieces), most):
            panel = new_panel(x, first, pieces[first : first + most])
            for h in range(g * (heads // groups), (g + 1) * (heads // groups)):
                walk_head(x, panel, h, blocks, table_tiles, scale)
            store_panel(d_k, d_v, g, panel, scale)
    if d_bias is None:
        return d_q, d_k, d_v
    return d_q, d_k, d_v, d_bias


def pieces_per_panel(d: int, dv: int, item: int) -> int:
    """Return how many pieces of keys stay in SBUF with their gradients."""
    turned = TILE * item * (len(chunks(d)) + len(chunks(dv)))
    return max(1, PANEL_BYTES // (4 * (d + dv) + d * item + turned))


def new_panel(x: Operands, first: int, pieces: list[tuple[int, int]]) -> Panel:
    """Return memory for some pieces of the keys of a group."""
    d, dv, count = x.k.shape[2], x.v.shape[2], len(pieces)
    there = []
    begun = []
    for _ in range(count):
        there.append(False)
        begun.append(False)
    return Panel(
        first,
        pieces,
        nl.ndarray((TILE, count, d), dtype=x.k.dtype, buffer=nl.sbuf),
        nl.ndarray((TILE, len(chunks(d)), count * TILE), dtype=x.k.dtype, buffer=nl.sbuf),
        nl.ndarray((TILE, len(chunks(dv)), count * TILE), dtype=x.v.dtype, buffer=nl.sbuf),
        nl.ndarray((TILE, count, d), dtype=nl.float32, buffer=nl.sbuf),
        nl.ndarray((TILE, count, dv), dtype=nl.float32, buffer=nl.sbuf),
        there,
        begun,
    )


def walk_head(
    x: Operands, panel: Panel, h: int, blocks: Blocks, table_tiles: Tile | None, scale: float
) -> None:
    """Add what one head gives to the keys of a panel, and they to its queries."""
    queries, d = x.q.shape[1], x.q.shape[2]
    rows = head_rows(queries, blocks.sizes[0])
    row_count = (queries + blocks.sizes[0] - 1) // blocks.sizes[0]
    g = h * x.k.shape[0] // x.q.shape[0]
    sign, unit = signed(scale)
    for r in range(len(rows)):
        row, first, last, offset = rows[r]
        every = row_sections(blocks, h, row, row_count, x.k.shape[1])
        sections = []
        earlier, later = False, False
        for s in range(len(every)):
            part, before, behind = inside(every[s], panel)
            earlier, later = earlier or before, later or behind
            if part.width > 0:
                sections.append(part)
        if len(sections) == 0:
            # The first panel answers for rows without a block.
            if not earlier and not later and panel.first == 0:
                store_zeros(x.d_q, h, first, last)
            continue
        own = load_queries(x, h, first, last, sign)
        total = nl.ndarray((last - first, d), dtype=nl.float32, buffer=nl.psum)
        for s in range(len(sections)):
            walk_section(x, panel, g, own, total, sections[s], s == 0, table_tiles, offset, unit)
        store_queries(x, h, first, last, total, earlier, later, sign * unit if scale != 0 else 0.0)


def inside(section: Section, panel: Panel) -> tuple[Section, bool, bool]:
    """Return what of a section is in a panel, and whether keys before it or behind it are not."""
    begin = panel.pieces[0][0]
    last = panel.pieces[len(panel.pieces) - 1]
    end = last[0] + last[1]
    pieces = []
    before, behind = False, False
    at = 0
    for i in range(len(section.pieces)):
        piece = section.pieces[i]
        if piece.key < begin:
            before = True
        elif piece.key >= end:
            behind = True
        else:
            place, table = piece.place, piece.table
            pieces.append(Piece(piece.key, piece.width, piece.offset, at, table, place))
            at = at + piece.width
    return Section(pieces, at), before, behind


def load_queries(x: Operands, h: int, first: int, last: int, sign: float) -> Queries:
    """Load a tile of queries, their gradients and statistics."""
    d, dv, count = x.q.shape[2], x.v.shape[2], last - first
    rows = nl.ndarray((count, d), dtype=x.q.dtype, buffer=nl.sbuf)
    grads = nl.ndarray((count, dv), dtype=x.q.dtype, buffer=nl.sbuf)
    outs = nl.ndarray((count, dv), dtype=x.q.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=x.q[h, first:last, 0:d])
    nisa.dma_copy(dst=grads, src=x.grad[h, first:last, 0:dv])
    nisa.dma_copy(dst=outs, src=x.out[h, first:last, 0:dv])
    if sign != 1.0:
        nisa.tensor_scalar(dst=rows, data=rows, op0=nl.multiply, operand0=sign)
    turned = nl.ndarray((TILE, len(chunks(d)), count), dtype=x.q.dtype, buffer=nl.sbuf)
    grads_t = nl.ndarray((TILE, len(chunks(dv)), count), dtype=x.q.dtype, buffer=nl.sbuf)
    load_turned(turned, 0, rows)
    load_turned(grads_t, 0, grads)
    products = nl.ndarray((count, dv), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=products, data1=grads, data2=outs, op=nl.multiply)
    inner, lift, log, shift = column(count), column(count), column(count), column(count)
    nisa.tensor_reduce(dst=inner, op=nl.add, data=products, axis=1)
    nisa.dma_copy(dst=lift, src=x.grad_logs[h, first:last, 0:1])
    nisa.tensor_tensor(dst=inner, data1=inner, data2=lift, op=nl.subtract)
    nisa.dma_copy(dst=log, src=x.logs[h, first:last, 0:1])
    nisa.tensor_scalar(dst=shift, data=log, op0=nl.multiply, operand0=-1.0)
    return Queries(rows, turned, grads, grads_t, inner, shift)


def walk_section(
    x: Operands,
    panel: Panel,
    g: int,
    own: Queries,
    total: Tile,
    section: Section,
    begins: bool,
    table_tiles: Tile | None,
    offset: int,
    unit: float,
) -> None:
    """Add to all gradients what one section of a row gives."""
    runs = section_runs(x, panel, g, section)
    rows, width = own.rows.shape[0], section.width
    scores = scores_of(own.turned, panel.keys_t, runs, width, x.q.shape[2])
    if x.bias is not None:
        scores = with_bias(scores, section, x.bias, offset, unit)
        unit = 1.0
    add_tables(scores, section, x.tables, table_tiles, offset)
    weights = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=weights, op=nl.exp, data=scores, scale=unit, bias=own.shift)
    d_weights = scores_of(own.grads_t, panel.values_t, runs, width, x.v.shape[2])
    d_scores = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=d_scores,
        data=d_weights,
        op0=nl.subtract,
        operand0=own.inner,
        op1=nl.multiply,
        operand1=weights,
    )
    if x.d_bias is not None:
        store_bias(x.d_bias, d_scores, section, offset)
    weights, d_scores = lowered(weights, x.v.dtype), lowered(d_scores, x.k.dtype)
    for i in range(len(section.pieces)):
        piece = section.pieces[i]
        slot = slot_of(panel, piece.key)
        first, last = piece.at, piece.at + piece.width
        turned = nl.ndarray((piece.width, rows), dtype=x.k.dtype, buffer=nl.sbuf)
        transpose_tile(turned, d_scores[0:rows, first:last])
        nisa.nc_matmul(
            dst=total,
            stationary=turned,
            moving=panel.keys[0 : piece.width, slot, 0 : x.k.shape[2]],
            accumulate=(not begins or i > 0),
        )
        add_piece(panel.d_keys, panel.begun[slot], slot, d_scores[0:rows, first:last], own.rows)
        add_piece(panel.d_values, panel.begun[slot], slot, weights[0:rows, first:last], own.grads)
        panel.begun[slot] = True


def slot_of(panel: Panel, key: int) -> int:
    """Return the place of a piece in a panel."""
    for i in range(len(panel.pieces)):
        if panel.pieces[i][0] == key:
            return i
    return -1


def section_runs(x: Operands, panel: Panel, g: int, section: Section) -> list[tuple[int, int, int]]:
    """Return runs of neighbouring columns of a section, loading pieces that are not there yet."""
    runs: list[tuple[int, int, int]] = []
    for i in range(len(section.pieces)):
        piece = section.pieces[i]
        slot = slot_of(panel, piece.key)
        if not panel.there[slot]:
            load_panel_piece(x, panel, g, slot)
            panel.there[slot] = True
        at = slot * TILE
        begun = runs[len(runs) - 1] if len(runs) > 0 else (0, -1, 0)
        if begun[0] + begun[1] == at:
            runs[len(runs) - 1] = (begun[0], begun[1] + piece.width, begun[2])
        else:
            runs.append((at, piece.width, piece.at))
    return runs


def load_panel_piece(x: Operands, panel: Panel, g: int, slot: int) -> None:
    """Load a piece: keys as they are and turned, values turned."""
    key, width = panel.pieces[slot]
    d, dv = x.k.shape[2], x.v.shape[2]
    keys = panel.keys[0:width, slot, 0:d]
    nisa.dma_copy(dst=keys, src=x.k[g, key : key + width, 0:d])
    values = nl.ndarray((width, dv), dtype=x.v.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=values, src=x.v[g, key : key + width, 0:dv])
    load_turned(panel.keys_t, slot * TILE, keys)
    load_turned(panel.values_t, slot * TILE, values)
    if width == 1:
        at = slot * TILE + 1
        for turned in (panel.keys_t, panel.values_t):
            nisa.memset(dst=turned[0:TILE, 0 : turned.shape[1], at : at + 1], value=0.0)


def add_piece(totals: Tile, begun: bool, slot: int, stationary: Tile, moving: Tile) -> None:
    """Add a product, contracted over queries, to the totals of one piece, or begin them with it."""
    width, columns = stationary.shape[1], moving.shape[1]
    product = nl.ndarray((width, columns), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=stationary, moving=moving)
    own = totals[0:width, slot, 0:columns]
    if begun:
        nisa.tensor_tensor(dst=own, data1=own, data2=product, op=nl.add)
    else:
        nisa.tensor_copy(dst=own, src=product)


def lowered(tile: Tile, dtype: object) -> Tile:
    """Return a tile in the type of the operand that it is to be multiplied with."""
    if tile.dtype == dtype:
        return tile
    low = nl.ndarray(tile.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=low, src=tile)
    return low


def store_bias(d_bias: Tile, d_scores: Tile, section: Section, offset: int) -> None:
    """Write the gradients by the bias of a section's blocks."""
    rows = d_scores.shape[0]
    d_scores = lowered(d_scores, d_bias.dtype)
    for i in range(len(section.pieces)):
        piece = section.pieces[i]
        last = piece.offset + piece.width
        nisa.dma_copy(
            dst=d_bias[piece.place, offset : offset + rows, piece.offset : last],
            src=d_scores[0:rows, piece.at : piece.at + piece.width],
        )


def store_queries(
    x: Operands,
    h: int,
    first: int,
    last: int,
    total: Tile,
    earlier: bool,
    later: bool,
    scale: float,
) -> None:
    """Write the gradient by some queries, or what of it the panels so far have given."""
    count, d = total.shape
    if earlier:
        before = nl.ndarray((count, d), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=before, src=x.carried[h, first:last, 0:d])
        nisa.tensor_tensor(dst=before, data1=before, data2=total, op=nl.add)
        total = before
    if later:
        whole = nl.ndarray((count, d), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=whole, src=total)
        nisa.dma_copy(dst=x.carried[h, first:last, 0:d], src=whole)
        return
    result = nl.ndarray((count, d), dtype=x.d_q.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=result, data=total, op0=nl.multiply, operand0=scale)
    nisa.dma_copy(dst=x.d_q[h, first:last, 0:d], src=result)


def store_panel(d_k: Tile, d_v: Tile, g: int, panel: Panel, scale: float) -> None:
    """Write the gradients by the keys and values of a panel."""
    for slot in range(len(panel.pieces)):
        key, width = panel.pieces[slot]
        if not panel.begun[slot]:
            store_zeros(d_k, g, key, key + width)
            store_zeros(d_v, g, key, key + width)
            continue
        # Queries had the sign of the scale already.
        store_scaled(d_k, g, key, panel.d_keys[0:width, slot, 0 : d_k.shape[2]], abs(scale))
        store_scaled(d_v, g, key, panel.d_values[0:width, slot, 0 : d_v.shape[2]], 1.0)


def store_scaled(out: Tile, g: int, first: int, totals: Tile, scale: float) -> None:
    """Write totals times a factor."""
    rows, columns = totals.shape
    result = nl.ndarray((rows, columns), dtype=out.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=result, data=totals, op0=nl.multiply, operand0=scale)
    nisa.dma_copy(dst=out[g, first : first + rows, 0:columns], src=result)


def store_zeros(out: Tile, h: int, first: int, last: int) -> None:
    """Write zeros to some rows."""
    zeros = nl.ndarray((last - first, out.shape[2]), dtype=out.dtype, buffer=nl.sbuf)
    nisa.memset(dst=zeros, value=0.0)
    nisa.dma_copy(dst=out[h, first:last, 0 : out.shape[2]], src=zeros)
