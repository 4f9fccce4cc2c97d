"""Gradients of block-sparse attention by queries, keys, values and bias, in one launch.

With weights P = exp(scale q k^T + bias - logs), D the sum of grad * out over a row and

    dS = P * (grad v^T - D)

the gradients are dq = scale dS k, dk = scale dS^T q, dv = P^T grad and dbias = dS.

Layout   128 queries on partitions, a section of up to 512 keys at once. dq accumulates in PSUM over
         the blocks of a row; dk and dv in SBUF, in float32, over the rows with a block
Panels   a panel is as many keys, with their gradients, as fit in SBUF. For each panel all queries
         are loaded again, and dq is summed in HBM
Engines  Tensor for five products and one transpose per block, Scalar for the exponential, Vector
         for dS in one pass out of PSUM and for accumulation in SBUF
Limits   as the forward kernel; with a bias, whole blocks (the caller pads). P and dS enter
         products in the dtype of the operands. In float16 P is scaled by 2^15 before, and a |dS|
         above 65504 becomes infinite
Cost     per block of 128 by 128 five products, of 128 moving columns or a head dimension each
Lever    P is recomputed from the logarithms instead of stored; operands of a group of heads are
         loaded and transposed once; loops contain only the pattern's blocks
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile, transpose_tile
from trnsci.core.tiles.hardware import TILE
from trnsparse._kernels.attention import MOST_WIDTH, with_bias
from trnsparse._kernels.attention_panel import (
    Operands,
    Panel,
    add_piece,
    inside,
    new_panel,
    pieces_per_panel,
    section_runs,
    slot_of,
    store_panel,
    store_zeros,
    weight_unit,
)
from trnsparse._kernels.attention_pieces import (
    Blocks,
    Section,
    add_tables,
    chunks,
    column,
    head_rows,
    load_tables,
    load_transposed,
    piece_numbers,
    row_sections,
    scores_of,
    signed,
)


class Queries(NamedTuple):
    """One tile of queries with its gradients and statistics, in SBUF.

    Attributes:
        rows: (queries, d), times 1, -1 or 0.
        transposed: (128, chunks of d, queries).
        grads: (queries, dv).
        grads_t: (128, chunks of dv, queries).
        inner: D of each query.
        shift: Minus the logarithm of each.
    """

    rows: Tile
    transposed: Tile
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
        logs: Its logarithms, (heads, queries, 1); very large for a fully masked query.
        bias: Blocks that were added, or None; then all blocks are whole.
        tables: Additive masks of partial blocks, or None.
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


def walk_head(
    x: Operands, panel: Panel, h: int, blocks: Blocks, table_tiles: Tile | None, scale: float
) -> None:
    """Add the contributions of one head to the gradients of a panel's keys and of its queries."""
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
            part, before, after = inside(every[s], panel)
            earlier, later = earlier or before, later or after
            if part.width > 0:
                sections.append(part)
        if len(sections) == 0:
            # The first panel writes the rows without a block.
            if not earlier and not later and panel.first == 0:
                store_zeros(x.d_q, h, first, last)
            continue
        own = load_queries(x, h, first, last, sign)
        total = nl.ndarray((last - first, d), dtype=nl.float32, buffer=nl.psum)
        for s in range(len(sections)):
            walk_section(x, panel, g, own, total, sections[s], s == 0, table_tiles, offset, unit)
        store_queries(x, h, first, last, total, earlier, later, sign * unit if scale != 0 else 0.0)


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
    transposed = nl.ndarray((TILE, len(chunks(d)), count), dtype=x.q.dtype, buffer=nl.sbuf)
    grads_t = nl.ndarray((TILE, len(chunks(dv)), count), dtype=x.q.dtype, buffer=nl.sbuf)
    load_transposed(transposed, 0, rows)
    load_transposed(grads_t, 0, grads)
    products = nl.ndarray((count, dv), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=products, data1=grads, data2=outs, op=nl.multiply)
    inner, lift, log, shift = column(count), column(count), column(count), column(count)
    nisa.tensor_reduce(dst=inner, op=nl.add, data=products, axis=1)
    nisa.dma_copy(dst=lift, src=x.grad_logs[h, first:last, 0:1])
    nisa.tensor_tensor(dst=inner, data1=inner, data2=lift, op=nl.subtract)
    nisa.dma_copy(dst=log, src=x.logs[h, first:last, 0:1])
    nisa.tensor_scalar(dst=shift, data=log, op0=nl.multiply, operand0=-1.0)
    return Queries(rows, transposed, grads, grads_t, inner, shift)


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
    """Add the contribution of one section of a row to all gradients."""
    runs = section_runs(x, panel, g, section)
    rows, width = own.rows.shape[0], section.width
    scores = scores_of(own.transposed, panel.keys_t, runs, width, x.q.shape[2])
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
    weights = lowered(weights, x.v.dtype, weight_unit(x.v.dtype))
    d_scores = lowered(d_scores, x.k.dtype, 1.0)
    for i in range(len(section.pieces)):
        piece = section.pieces[i]
        slot = slot_of(panel, piece.key)
        first, last = piece.at, piece.at + piece.width
        transposed = nl.ndarray((piece.width, rows), dtype=x.k.dtype, buffer=nl.sbuf)
        transpose_tile(transposed, d_scores[0:rows, first:last])
        nisa.nc_matmul(
            dst=total,
            stationary=transposed,
            moving=panel.keys[0 : piece.width, slot, 0 : x.k.shape[2]],
            accumulate=(not begins or i > 0),
        )
        add_piece(panel.d_keys, panel.begun[slot], slot, d_scores[0:rows, first:last], own.rows)
        add_piece(panel.d_values, panel.begun[slot], slot, weights[0:rows, first:last], own.grads)
        panel.begun[slot] = True


def lowered(tile: Tile, dtype: object, factor: float) -> Tile:
    """Return ``factor * tile`` in ``dtype``; a tile that has this dtype is returned unchanged."""
    if tile.dtype == dtype:
        return tile
    low = nl.ndarray(tile.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=low, data=tile, op0=nl.multiply, operand0=factor)
    return low


def store_bias(d_bias: Tile, d_scores: Tile, section: Section, offset: int) -> None:
    """Write the gradients by the bias of a section's blocks."""
    rows = d_scores.shape[0]
    d_scores = lowered(d_scores, d_bias.dtype, 1.0)
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
    """Write the gradient by some queries, or its partial sum over the panels so far."""
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
