"""Two contractions in one launch, with the intermediate t in SBUF.

    t[k, l, r] = sum_d x[d, k, l] y[d, r]          out[l, r, n] = sum_k t[k, l, r] c[k, n]

Layout   the first product takes x as the stationary operand, 128 of k at a time for each l, so t
         has k on partitions. The second product contracts over k. Its moving operand is t if the
         last dimension of the result is r or l, else t is its stationary operand
Limits   float32 or 16 bits, all operands of one dtype, extents at least 1; y, c and t of one block
         of l fit in SBUF (``chain_block``). d is not the last dimension of x
Cost     the products of both contractions; every operand is read once, t never leaves the chip
Lever    fusion: the intermediate is not written to HBM; y and c stay in SBUF; several l share a
         PSUM bank and one copy out of it, and fill the moving operand of the second product
"""

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile, load_panel, moving_columns, new_panel
from trnsci.core.tiles.hardware import BANK, TILE
from trnsci.core.tiles.tiling import row_tiles

_STAGE_TILES = 4


class Extents(NamedTuple):
    """Sizes of the index groups, and their strides in x and in the result.

    Attributes:
        d, k, l, r, n: The sizes.
        block: Number of l computed at a time.
        x_d, x_k, x_l: Strides in x, in elements.
        out_l, out_r, out_n: Strides in the result, in elements.
        t_moves: Whether t is the moving operand of the second product.
    """

    d: int
    k: int
    l: int  # noqa: E741
    r: int
    n: int
    block: int
    x_d: int
    x_k: int
    x_l: int
    out_l: int
    out_r: int
    out_n: int
    t_moves: bool


@nki.jit
def chain(
    x: Tile,
    y: Tile,
    c: Tile,
    shape: tuple[int, ...],
    y_layout: str,
    c_layout: str,
    e: Extents,
) -> Tile:
    """Return the result in ``shape``, in the dtype of ``x``.

    Args:
        x: Tensor with one dimension for each of d, k and l.
        y: (d, r), or (r, d) with the layout ``"columns"``.
        c: (k, n), or (n, k) with the layout ``"columns"``.
        shape: Shape of the result.
        y_layout: ``"rows"`` or ``"columns"``: d first or last in ``y``.
        c_layout: ``"rows"`` or ``"columns"``: k first or last in ``c``.
        e: Sizes and strides.
    """
    out = nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm)
    right = new_panel(y, 0, e.d, 0, e.r)
    load_panel(right, y, y_layout, 0, e.d, 0, e.r, _STAGE_TILES)
    last = new_panel(c, 0, e.k, 0, e.n)
    load_panel(last, c, c_layout, 0, e.k, 0, e.n, _STAGE_TILES)
    for l0 in range(0, e.l, e.block):
        lw = min(e.block, e.l - l0)
        t = nl.ndarray((TILE, row_tiles(e.k), lw, e.r), dtype=x.dtype, buffer=nl.sbuf)
        for k0 in range(0, e.k, TILE):
            first_product(t, x, right, k0, l0, lw, e)
        panel = t.reshape((TILE, row_tiles(e.k), lw * e.r))
        if e.t_moves:
            with_moving_t(out, panel, last, l0, lw, e)
        else:
            with_stationary_t(out, panel, last, l0, lw, e)
    return out


def first_product(t: Tile, x: Tile, right: Tile, k0: int, l0: int, lw: int, e: Extents) -> None:
    """Compute 128 rows of t for a block of l."""
    kw = min(TILE, e.k - k0)
    # The contiguous dimension in HBM is contiguous in the tile.
    k_dense = e.x_k < e.x_l
    inner = (lw, kw) if k_dense else (kw, lw)
    steps = (e.x_l, e.x_k) if k_dense else (e.x_k, e.x_l)
    left_shape = (TILE, row_tiles(e.d), inner[0], inner[1])
    left = nl.ndarray(left_shape, dtype=x.dtype, buffer=nl.sbuf)
    for d0 in range(0, e.d, TILE):
        dw = min(TILE, e.d - d0)
        pattern = [[e.x_d, dw], [steps[0], inner[0]], [steps[1], inner[1]]]
        nisa.dma_copy(
            dst=left[0:dw, d0 // TILE, 0 : inner[0], 0 : inner[1]],
            src=x.ap(pattern=pattern, offset=d0 * e.x_d + k0 * e.x_k + l0 * e.x_l),
        )
    together = max(1, BANK // max(e.r, 2))
    for g0 in range(0, lw, together):
        gw = min(together, lw - g0)
        for r0 in range(0, e.r, BANK):
            rw = min(BANK, e.r - r0)
            bank = nl.ndarray((kw, gw, max(rw, 2)), dtype=nl.float32, buffer=nl.psum)
            for g in range(gw):
                for d0 in range(0, e.d, TILE):
                    dw = min(TILE, e.d - d0)
                    if k_dense:
                        stationary = left[0:dw, d0 // TILE, g0 + g, 0:kw]
                    else:
                        stationary = left[0:dw, d0 // TILE, 0:kw, g0 + g]
                    nisa.nc_matmul(
                        dst=bank[0:kw, g, 0 : max(rw, 2)],
                        stationary=stationary,
                        moving=moving_columns(right, dw, d0 // TILE, r0, r0 + rw),
                        accumulate=d0 > 0,
                    )
            nisa.tensor_copy(
                dst=t[0:kw, k0 // TILE, g0 : g0 + gw, r0 : r0 + rw], src=bank[0:kw, 0:gw, 0:rw]
            )


def with_moving_t(out: Tile, t: Tile, last: Tile, l0: int, lw: int, e: Extents) -> None:
    """Multiply with n on partitions, and store (n, r, l) or (n, l, r), the layout of ``out``."""
    width = lw * e.r
    r_dense = e.out_r < e.out_l
    for n0 in range(0, e.n, TILE):
        nw = min(TILE, e.n - n0)
        flat = nl.ndarray((nw, width), dtype=out.dtype, buffer=nl.sbuf)
        for f0 in range(0, width, BANK):
            fw = min(BANK, width - f0)
            bank = nl.ndarray((nw, max(fw, 2)), dtype=nl.float32, buffer=nl.psum)
            for k0 in range(0, e.k, TILE):
                kw = min(TILE, e.k - k0)
                nisa.nc_matmul(
                    dst=bank,
                    stationary=last[0:kw, k0 // TILE, n0 : n0 + nw],
                    moving=moving_columns(t, kw, k0 // TILE, f0, f0 + fw),
                    accumulate=k0 > 0,
                )
            nisa.tensor_copy(dst=flat[0:nw, f0 : f0 + fw], src=bank[0:nw, 0:fw])
        offset = n0 * e.out_n + l0 * e.out_l
        if r_dense:
            pattern = [[e.out_n, nw], [e.out_l, lw], [e.out_r, e.r]]
            ready = flat.reshape((nw, lw, e.r))
        else:
            pattern = [[e.out_n, nw], [e.out_r, e.r], [e.out_l, lw]]
            ready = nl.ndarray((nw, e.r, lw), dtype=out.dtype, buffer=nl.sbuf)
            permuted = flat.ap(pattern=[[width, nw], [1, e.r], [e.r, lw]])
            nisa.tensor_copy(dst=ready, src=permuted)
        nisa.dma_copy(dst=out.ap(pattern=pattern, offset=offset), src=ready)


def with_stationary_t(out: Tile, t: Tile, last: Tile, l0: int, lw: int, e: Extents) -> None:
    """Multiply with r on partitions, or with l if there is one r, and store rows of n."""
    single = e.r == 1
    rows = lw if single else e.r
    step = e.out_l if single else e.out_r
    for g in range(1 if single else lw):
        for m0 in range(0, rows, TILE):
            mw = min(TILE, rows - m0)
            at = g * e.r + m0
            row = nl.ndarray((mw, e.n), dtype=out.dtype, buffer=nl.sbuf)
            for n0 in range(0, e.n, BANK):
                nw = min(BANK, e.n - n0)
                bank = nl.ndarray((mw, max(nw, 2)), dtype=nl.float32, buffer=nl.psum)
                for k0 in range(0, e.k, TILE):
                    kw = min(TILE, e.k - k0)
                    nisa.nc_matmul(
                        dst=bank,
                        stationary=t[0:kw, k0 // TILE, at : at + mw],
                        moving=moving_columns(last, kw, k0 // TILE, n0, n0 + nw),
                        accumulate=k0 > 0,
                    )
                nisa.tensor_copy(dst=row[0:mw, n0 : n0 + nw], src=bank[0:mw, 0:nw])
            offset = (l0 + g) * e.out_l + m0 * step
            pattern = [[step, mw], [e.out_n, e.n]]
            nisa.dma_copy(dst=out.ap(pattern=pattern, offset=offset), src=row)
