"""Panels: keys of a group that stay in SBUF with their gradients while queries are streamed.

A panel has as many pieces of the keys as fit, in the layouts that the products need: keys as stored
and transposed, values transposed. A piece is loaded at its first use. Its gradients are initialised
by the first product, so no memory is filled with zeros.
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import TILE
from trnsparse._kernels.attention_pieces import Piece, Section, chunks, load_transposed

PANEL_BYTES = 96 * 1024
"""Bytes per partition of the keys of a panel, in all layouts, and their gradients."""


class Operands(NamedTuple):
    """Inputs and outputs of the kernel, in HBM."""

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
        keys_t: (128, chunks of d, pieces * 128), transposed.
        values_t: (128, chunks of dv, pieces * 128), transposed.
        d_keys: (128, pieces, d), partial sums divided by the scale.
        d_values: (128, pieces, dv).
        there: Whether each piece has been loaded.
        begun: Whether the gradients of each piece have been initialised.
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


def pieces_per_panel(d: int, dv: int, item: int) -> int:
    """Return the number of pieces of keys that fit into SBUF with their gradients."""
    transposed = TILE * item * (len(chunks(d)) + len(chunks(dv)))
    return max(1, PANEL_BYTES // (4 * (d + dv) + d * item + transposed))


def new_panel(x: Operands, first: int, pieces: list[tuple[int, int]]) -> Panel:
    """Return SBUF tiles for some pieces of the keys of a group."""
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


def inside(section: Section, panel: Panel) -> tuple[Section, bool, bool]:
    """Return the pieces of a section whose keys are in a panel, and two flags.

    The flags say whether the section has keys before the panel, and whether it has keys after it.
    """
    begin = panel.pieces[0][0]
    last = panel.pieces[len(panel.pieces) - 1]
    end = last[0] + last[1]
    pieces = []
    before, after = False, False
    at = 0
    for i in range(len(section.pieces)):
        piece = section.pieces[i]
        if piece.key < begin:
            before = True
        elif piece.key >= end:
            after = True
        else:
            place, table = piece.place, piece.table
            pieces.append(Piece(piece.key, piece.width, piece.offset, at, table, place))
            at = at + piece.width
    return Section(pieces, at), before, after


def slot_of(panel: Panel, key: int) -> int:
    """Return the slot of a piece in a panel."""
    for i in range(len(panel.pieces)):
        if panel.pieces[i][0] == key:
            return i
    return -1


def section_runs(x: Operands, panel: Panel, g: int, section: Section) -> list[tuple[int, int, int]]:
    """Return runs of adjacent columns of a section, loading missing pieces."""
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
    """Load a piece: keys as stored and transposed, values transposed."""
    key, width = panel.pieces[slot]
    d, dv = x.k.shape[2], x.v.shape[2]
    keys = panel.keys[0:width, slot, 0:d]
    nisa.dma_copy(dst=keys, src=x.k[g, key : key + width, 0:d])
    values = nl.ndarray((width, dv), dtype=x.v.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=values, src=x.v[g, key : key + width, 0:dv])
    load_transposed(panel.keys_t, slot * TILE, keys)
    load_transposed(panel.values_t, slot * TILE, values)
    if width == 1:
        at = slot * TILE + 1
        for transposed in (panel.keys_t, panel.values_t):
            nisa.memset(dst=transposed[0:TILE, 0 : transposed.shape[1], at : at + 1], value=0.0)


def add_piece(totals: Tile, begun: bool, slot: int, stationary: Tile, moving: Tile) -> None:
    """Add a product, contracted over queries, to the totals of a piece, or initialise them."""
    width, columns = stationary.shape[1], moving.shape[1]
    product = nl.ndarray((width, columns), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=stationary, moving=moving)
    own = totals[0:width, slot, 0:columns]
    if begun:
        nisa.tensor_tensor(dst=own, data1=own, data2=product, op=nl.add)
    else:
        nisa.tensor_copy(dst=own, src=product)


def weight_unit(dtype: Tile) -> float:
    """Return the power of two by which weights in a dtype are multiplied.

    Weights of many keys can be below 2^-14, where float16 numbers are subnormal.
    """
    return 32768.0 if dtype == nl.float16 else 1.0


def store_panel(d_k: Tile, d_v: Tile, g: int, panel: Panel, scale: float) -> None:
    """Write the gradients by the keys and values of a panel."""
    for slot in range(len(panel.pieces)):
        key, width = panel.pieces[slot]
        if not panel.begun[slot]:
            store_zeros(d_k, g, key, key + width)
            store_zeros(d_v, g, key, key + width)
            continue
        # The sign of the scale is already in the queries.
        store_scaled(d_k, g, key, panel.d_keys[0:width, slot, 0 : d_k.shape[2]], abs(scale))
        values = panel.d_values[0:width, slot, 0 : d_v.shape[2]]
        store_scaled(d_v, g, key, values, 1.0 / weight_unit(d_v.dtype))


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
