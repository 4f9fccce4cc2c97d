"""MP2 energies: from given integrals, of one pair of orbitals, and of all pairs.

With T[a, b] the integral (ia|jb) of a pair and D = eps_i + eps_j - eps_a - eps_b,

    E(i, j) = sum_ab T[a, b] (2 T[a, b] - T[b, a]) / D[a, b].

D is symmetric in a and b, so elements (a, b) and (b, a) are combined: with S = T^T they add 2 (T^2
+ S^2 - T S) / D, and T^2 + S^2 - T S = (T - S/2)^2 + 3/4 S^2 is a sum of squares, without
cancellation. Only tiles on and above the diagonal are computed; tiles on the diagonal have weight
1. Only pairs i <= j are computed, since E(i, j) = E(j, i).

Layout   a on partitions, 128 at a time; b on the free axis, up to 512 at a time; ragged tiles are
         sliced. Nothing is padded: no 0 * inf can arise where D would be 0
Limits   any numbers of occupied and virtual orbitals. naux up to 5376 in float32, 10,880 in
         16 bits: three transposed panels of 128 virtual orbitals share 128 KiB per partition. T, B
         float32, bfloat16 or float16. Orbital energies, products of B, their squares and sums are
         float32, so they do not overflow the range of float16. The result is (1, 1) float32
Cost     n occupied, t tiles of virtual, k of auxiliary functions: n^2 t^2 / 2 products of k tiles,
         a quarter of the 2 n^2 t^2 of two products for each tile of each ordered pair. Per element
         of a strip about 10 Vector cycles, 6 of them for the reciprocal, and 4 Scalar ones
Lever    products stay on chip (PSUM accumulation, then Scalar and Vector work during the next
         product); transposed panels of B stay in SBUF for a whole group of orbitals

Sums have levels: along a strip, over the strips of a pair, over j, over i, over partitions.
The error of each level grows with its own length only.

The loops over pairs are Python ranges, which the compiler unrolls: in NKI 0.3.0 the index of an
``nl.dynamic_range`` may not be used in an offset, so a device loop could not choose its orbital.
Orbital energies are data, not constants: one program serves all pairs of one shape.
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from trnblas._kernels.energy_panels import (
    Strip,
    Window,
    group_size,
    load_panel,
    multiply_panels,
    row_windows,
    window_strips,
    window_width,
)
from trnblas._kernels.energy_terms import (
    broadcast_rows,
    combine,
    minus_columns,
    minus_rows,
    pair_base,
    store_total,
    value_count,
    weigh,
    window_energies,
    zero_columns,
)
from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import BANK, TILE
from trnsci.core.tiles.tiling import row_tiles


@nki.jit
def mp2_energy(t_flat: Tile, eps_occ_chunk: Tile, eps_occ_full: Tile, eps_vir: Tile) -> Tile:
    """Return the energy of all pairs (i in a chunk, any j), as (1, 1).

    Every element of T is loaded once. Blocks of 512 by 512 on both sides of the diagonal are
    loaded together, in rows of 2 KiB, and the one below is transposed on chip.

    Args:
        t_flat: (ic * nvir, nocc * nvir), element (i nvir + a, j nvir + b) being (ia|jb).
        eps_occ_chunk: Energies of the chunk, ic values.
        eps_occ_full: Energies of all occupied orbitals, nocc values.
        eps_vir: Energies of the virtual orbitals, nvir values.
    """
    out = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    nvir = value_count(eps_vir)
    rows, columns = value_count(eps_occ_chunk), value_count(eps_occ_full)
    eps_i, eps_j = broadcast_rows(eps_occ_chunk), broadcast_rows(eps_occ_full)
    minus_a = minus_columns(eps_vir, 0, nvir)
    minus_b = minus_rows(eps_vir, 0, nvir)
    by_row = zero_columns(rows)
    for i in range(rows):
        by_pair = zero_columns(columns)
        for j in range(columns):
            base = pair_base(minus_a, eps_i, i, eps_j, j)
            slot = by_pair[0:TILE, j : j + 1]
            add_block(slot, t_flat, i * nvir, j * nvir, nvir, base, minus_b)
        nisa.tensor_reduce(dst=by_row[0:TILE, i : i + 1], op=nl.add, data=by_pair, axis=1)
    store_total(out, by_row)
    return out


@nki.jit
def pair_energy(b_i: Tile, b_j: Tile, eps_i: Tile, eps_j: Tile, eps_vir: Tile) -> Tile:
    """Return E(i, j) of one pair with T = b_i b_j^T, as (1, 1).

    Args:
        b_i: (nvir, naux).
        b_j: (nvir, naux), of the type of ``b_i``.
        eps_i: Energy of orbital i, one float32 value in a tensor.
        eps_j: Energy of orbital j.
        eps_vir: Energies of the virtual orbitals, nvir values.
    """
    out = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    nvir, naux = b_i.shape
    first = b_i.reshape((1, nvir, naux))
    second = b_j.reshape((1, nvir, naux))
    of_i, of_j = broadcast_rows(eps_i), broadcast_rows(eps_j)
    width = window_width(nvir, naux, b_i.dtype)
    windows = row_windows(nvir, width)
    by_window = zero_columns(len(windows))
    for w in range(len(windows)):
        window = windows[w]
        minus_a, minus_b = window_energies(eps_vir, window)
        panel_i = load_panel(first, 0, window)
        panel_j = load_panel(second, 0, window)
        strips = window_strips(window)
        parts = zero_columns(len(strips))
        base = pair_base(minus_a, of_i, 0, of_j, 0)
        for s in range(len(strips)):
            slot = parts[0:TILE, s : s + 1]
            add_pair_strip(slot, strips[s], panel_i, panel_j, naux, False, base, minus_b, 1.0)
        nisa.tensor_reduce(dst=by_window[0:TILE, w : w + 1], op=nl.add, data=parts, axis=1)
    store_total(out, by_window)
    return out


@nki.jit
def batched_pair_energy(b: Tile, eps_occ: Tile, eps_vir: Tile) -> Tile:
    """Return the sum of E(i, j) over all ordered pairs of occupied orbitals, as (1, 1).

    Args:
        b: (nocc, nvir, naux).
        eps_occ: Energies of the occupied orbitals, nocc values.
        eps_vir: Energies of the virtual orbitals, nvir values.
    """
    out = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    nvir, naux = b.shape[1], b.shape[2]
    eps = broadcast_rows(eps_occ)
    width = window_width(nvir, naux, b.dtype)
    windows = row_windows(nvir, width)
    by_window = zero_columns(len(windows))
    for w in range(len(windows)):
        add_window(by_window[0:TILE, w : w + 1], b, eps, eps_vir, windows[w])
    store_total(out, by_window)
    return out


def add_block(
    dst: Tile, t_flat: Tile, row: int, column: int, nvir: int, base: Tile, minus_b: Tile
) -> None:
    """Write the sum of the (nvir, nvir) block of T at ``row``, ``column`` to a column."""
    windows = row_windows(nvir, BANK)
    by_window = zero_columns(len(windows))
    for w in range(len(windows)):
        top, height, side, width = windows[w]
        above = load_block(
            t_flat, row + top, column + side, height, height if width == 0 else width
        )
        below = above
        if width > 0:
            below = load_block(t_flat, row + side, column + top, width, height)
        strips = window_strips(windows[w])
        parts = zero_columns(len(strips))
        for s in range(len(strips)):
            add_block_strip(
                parts[0:TILE, s : s + 1],
                strips[s],
                above,
                below,
                height if width > 0 else 0,
                base[0:TILE, top // TILE : row_tiles(nvir)],
                minus_b[0:TILE, side:nvir],
            )
        nisa.tensor_reduce(dst=by_window[0:TILE, w : w + 1], op=nl.add, data=parts, axis=1)
    nisa.tensor_reduce(dst=dst, op=nl.add, data=by_window, axis=1)


def add_window(dst: Tile, b: Tile, eps: Tile, eps_vir: Tile, window: Window) -> None:
    """Write the sum over all pairs of the tiles of one window to a column.

    Panels of a group of orbitals stay in SBUF. Each later orbital is loaded once for the whole
    group.
    """
    nocc = b.shape[0]
    minus_a, minus_b = window_energies(eps_vir, window)
    strips = window_strips(window)
    group = group_size(nocc, window, b)
    by_group = zero_columns((nocc + group - 1) // group)
    for first in range(0, nocc, group):
        last = min(first + group, nocc)
        held = []
        by_orbital = zero_columns(nocc - first)
        for j in range(first, nocc):
            panel_j = load_panel(b, j, window)
            if j < last:
                held.append(panel_j)
            count = min(j + 1, last) - first
            parts = zero_columns(count * len(strips))
            for i in range(first, first + count):
                base = pair_base(minus_a, eps, i, eps, j)
                for s in range(len(strips)):
                    at = (i - first) * len(strips) + s
                    add_pair_strip(
                        parts[0:TILE, at : at + 1],
                        strips[s],
                        held[i - first],
                        panel_j,
                        b.shape[2],
                        i == j,
                        base,
                        minus_b,
                        1.0 if i == j else 2.0,
                    )
            nisa.tensor_reduce(
                dst=by_orbital[0:TILE, j - first : j - first + 1], op=nl.add, data=parts, axis=1
            )
        at = first // group
        nisa.tensor_reduce(dst=by_group[0:TILE, at : at + 1], op=nl.add, data=by_orbital, axis=1)
    nisa.tensor_reduce(dst=dst, op=nl.add, data=by_group, axis=1)


def add_block_strip(
    slot: Tile, strip: Strip, above: Tile, below: Tile, shift: int, base: Tile, minus_b: Tile
) -> None:
    """Write the row sums of one strip of loaded blocks to a column.

    The columns of the two windows are numbered consecutively. ``strip`` is a range of these
    numbers; ``shift`` is the number of the first loaded column.
    """
    row, rows, start, stop, weight = strip
    start, stop = start - shift, stop - shift
    swapped = nl.ndarray((rows, stop - start), dtype=above.dtype, buffer=nl.psum)
    for c in range(start, stop, TILE):
        depth = min(TILE, stop - c)
        nisa.nc_transpose(
            dst=swapped[0:rows, c - start : c - start + depth],
            data=below[0:depth, c // TILE, row : row + rows],
        )
    direct = above[0:rows, row // TILE, start:stop]
    squares = combine(direct, swapped)
    column = base[0:rows, row // TILE : row // TILE + 1]
    weigh(slot[0:rows, 0:1], squares, column, minus_b[0:rows, start:stop], weight)


def add_pair_strip(
    slot: Tile,
    strip: Strip,
    panel_i: Tile,
    panel_j: Tile,
    naux: int,
    same: bool,
    base: Tile,
    minus_b: Tile,
    factor: float,
) -> None:
    """Write ``factor`` times the row sums of one strip of a pair to a column.

    For i = j, T is symmetric and one product is enough. It is also enough for a tile on the
    diagonal, whose transpose is T^T.
    """
    row, rows, start, stop, weight = strip
    product = multiply_panels(panel_i, panel_j, strip, naux)
    direct = nl.ndarray((rows, stop - start), dtype=nl.float32, buffer=nl.sbuf)
    if same:
        nisa.activation(dst=direct, op=nl.square, data=product)
        squares = direct
    else:
        nisa.activation(dst=direct, op=nl.copy, data=product)
        if start == row:
            swapped = nl.ndarray((rows, rows), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_transpose(dst=swapped, data=direct)
        else:
            swapped = multiply_panels(panel_j, panel_i, strip, naux)
        squares = combine(direct, swapped)
    column = base[0:rows, row // TILE : row // TILE + 1]
    weigh(slot[0:rows, 0:1], squares, column, minus_b[0:rows, start:stop], factor * weight)


def load_block(t_flat: Tile, row: int, column: int, height: int, width: int) -> Tile:
    """Return up to 512 by 512 elements of T, 128 rows on partitions, as (128, tiles, columns)."""
    block = nl.ndarray((TILE, row_tiles(height), width), dtype=t_flat.dtype, buffer=nl.sbuf)
    for r in range(0, height, TILE):
        rows = min(TILE, height - r)
        nisa.dma_copy(
            dst=block[0:rows, r // TILE, 0:width],
            src=t_flat[row + r : row + r + rows, column : column + width],
        )
    return block
