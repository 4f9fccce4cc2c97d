"""Products of matrices given as real and imaginary parts, shared by all matrix transforms.

Plain products of two complex matrices run on ``complex_gemm`` of trnblas instead.

Layout   the contraction on partitions. A complex right operand is one SBUF panel with the columns
         ``[-B_im | B_re | B_im]``: its first two thirds multiply A_im, its last two A_re, and each
         product gives adjacent real and imaginary columns of the result, in one PSUM bank for up
         to 256 columns. Left parts are stored as rows x contraction and are transposed on
         chip; the rows may be overlapping frames of signals.
Limits   2-D, each extent at least 1; float32, bfloat16 or float16, all operands of one dtype. Edges
         are sliced.
Cost     per 128 rows and 128 of the contraction: ``lefts`` stationary tiles, each with
         ``outs * columns`` moving columns; one negation of B_im for each time it is loaded
Lever    a block of one operand stays in SBUF, sums stay in PSUM across both parts, every stationary
         tile is used for all columns of its group
"""

from __future__ import annotations

from typing import NamedTuple

from trnfft._kernels.parts_tiling import column_step
from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import (
    Tile,
    finish,
    group_starts,
    load_panel,
    new_panel,
    new_totals,
    row_sums,
    transpose_tiles,
)
from trnsci.core.tiles.hardware import TILE
from trnsci.core.tiles.tiling import Blocks, column_tiles


class Frames(NamedTuple):
    """Rows of a left operand that are overlapping frames of signals.

    Attributes:
        hop: Number of samples between the starts of frames.
        per_signal: Number of frames of each signal.
    """

    hop: int
    per_signal: int


class PartsProduct(NamedTuple):
    """A product of operands in parts.

    Two left and two right parts give both parts of the complex product; one left part is a real
    operand. With one output it is ``lefts[0] rights[0] + lefts[1] rights[1]``.

    Attributes:
        outs: One or two results in HBM, rows x columns.
        lefts: One or two parts, rows x contraction, or signals x samples with ``frames``.
        rights: Two parts, contraction x columns.
        frames: Layout of the rows if the left parts are frames, else None.
        packed: Whether the left parts are half a spectrum. Column 0 of the imaginary part is then
            unused; it is replaced by the last column of the real part, if that is beyond the
            contraction, else by zeros.
    """

    outs: list[Tile]
    lefts: list[Tile]
    rights: list[Tile]
    frames: Frames | None = None
    packed: bool = False


def new_outputs(rows: int, columns: int, count: int, dtype: Tile) -> list[Tile]:
    """Return uninitialised results in HBM."""
    outs = []
    for _ in range(count):
        outs.append(nl.ndarray((rows, columns), dtype=dtype, buffer=nl.shared_hbm))
    return outs


def multiply_parts(p: PartsProduct, blocks: Blocks) -> None:
    """Compute a product.

    If a block covers the whole contraction, blocks of one operand are resident and blocks of the
    other are streamed. Otherwise a float32 block of the result is resident and both are streamed.
    """
    rows, columns = p.outs[0].shape
    depth = p.rights[0].shape[0]
    row_step = blocks.row_tiles * TILE
    width = column_step(columns, len(p.outs), blocks.column_tiles)
    # The plan counts the contraction over all left parts, concatenated.
    depth_step = blocks.depth_tiles // len(p.lefts) * TILE
    split = depth_step < depth
    a_stays = blocks.resident == "a"
    row_blocks = (rows + row_step - 1) // row_step
    column_blocks = (columns + width - 1) // width
    outer = row_blocks if a_stays else column_blocks
    inner = column_blocks if a_stays else row_blocks
    lefts, rights = [], []
    for x in range(outer):
        for y in range(inner):
            i, j = (x, y) if a_stays else (y, x)
            m0, m1 = i * row_step, min((i + 1) * row_step, rows)
            n0, n1 = j * width, min((j + 1) * width, columns)
            totals = new_totals(m1 - m0, len(p.outs) * (n1 - n0), split)
            for k0 in range(0, depth, depth_step):
                k1 = min(k0 + depth_step, depth)
                if split or not a_stays or y == 0:
                    lefts = left_panels(p, k0, k1, m0, m1, blocks)
                if split or a_stays or y == 0:
                    rights = right_panels(p, k0, k1, n0, n1, blocks)
                multiply_block(p, lefts, rights, (m0, m1), (n0, n1), (k0, k1), totals, blocks)


def multiply_block(
    p: PartsProduct,
    lefts: list[Tile],
    rights: list[Tile],
    row_range: tuple[int, int],
    column_range: tuple[int, int],
    depth_range: tuple[int, int],
    totals: Tile | None,
    blocks: Blocks,
) -> None:
    """Multiply panels, and store the rows if this is the end of the contraction."""
    m0, m1 = row_range
    n0, n1 = column_range
    k0, k1 = depth_range
    last = k1 == p.rights[0].shape[0]
    extent = len(p.outs) * (n1 - n0)
    tiles = column_tiles(extent)
    for m in range(m0, m1, TILE):
        mw = min(TILE, m1 - m)
        for t in range(0, tiles, blocks.group):
            starts = group_starts(t, min(t + blocks.group, tiles), extent, 0)
            sums = row_sums(lefts, rights, k0, k1, m - m0, mw, starts, totals)
            if last:
                store_parts(p.outs, m, n0, n1, starts, sums)


def left_panels(p: PartsProduct, k0: int, k1: int, m0: int, m1: int, blocks: Blocks) -> list[Tile]:
    """Return a panel with the transposed rows of each left part."""
    panels = []
    for part in range(len(p.lefts)):
        x = p.lefts[part]
        panel = new_panel(x, k0, k1, m0, m1)
        if p.frames is not None or (p.packed and part == 1):
            load_staged(panel, p, x, k0, k1, m0, m1, blocks.stage_tiles)
        else:
            load_panel(panel, x, "columns", k0, k1, m0, m1, blocks.stage_tiles)
        panels.append(panel)
    return panels


def load_staged(
    panel: Tile, p: PartsProduct, x: Tile, k0: int, k1: int, r0: int, r1: int, stage_tiles: int
) -> None:
    """Fill a panel with rows ``r0`` to ``r1`` of frames or a packed spectrum, staged in SBUF."""
    step = stage_tiles * TILE
    for r in range(r0, r1, TILE):
        rw = min(TILE, r1 - r)
        for k in range(k0, k1, step):
            staged = nl.ndarray((rw, min(step, k1 - k)), dtype=x.dtype, buffer=nl.sbuf)
            if p.frames is not None:
                stage_frames(staged, x, p.frames, r, k)
            else:
                stage_packed(staged, p, r, k)
            transpose_tiles(panel, (k - k0) // TILE, r - r0, staged)


def stage_frames(staged: Tile, x: Tile, frames: Frames, r: int, k: int) -> None:
    """Load frames from frame ``r`` on, each from its sample ``k`` on.

    A DMA reads the frames of one signal as overlapping rows, so no copy of them exists in HBM;
    frames of several short signals share a tile.
    """
    rw, kw = staged.shape
    length, count = x.shape[1], frames.per_signal
    for s in range(r // count, (r + rw - 1) // count + 1):
        first, end = max(r, s * count), min(r + rw, (s + 1) * count)
        offset = s * length + (first - s * count) * frames.hop + k
        nisa.dma_copy(
            dst=staged[first - r : end - r, 0:kw],
            src=x.ap(pattern=[[frames.hop, end - first], [1, kw]], offset=offset),
        )


def stage_packed(staged: Tile, p: PartsProduct, r: int, k: int) -> None:
    """Load rows of the imaginary part from column ``k`` on; replace its unused column 0.

    Column 0 becomes the column of the real part beyond the contraction, or zeros without one.
    """
    rw, kw = staged.shape
    real, imaginary = p.lefts
    first = 1 if k == 0 else 0
    if first < kw:
        nisa.dma_copy(dst=staged[0:rw, first:kw], src=imaginary[r : r + rw, k + first : k + kw])
    if k == 0:
        depth = p.rights[0].shape[0]
        if depth < real.shape[1]:
            nisa.dma_copy(dst=staged[0:rw, 0:1], src=real[r : r + rw, depth : depth + 1])
        else:
            nisa.memset(dst=staged[0:rw, 0:1], value=0.0)


def right_panels(p: PartsProduct, k0: int, k1: int, n0: int, n1: int, blocks: Blocks) -> list[Tile]:
    """Return the right panel of each left part, in reverse order."""
    w, tiles = n1 - n0, (k1 - k0 + TILE - 1) // TILE
    if len(p.outs) == 1:
        separate = []
        for x in range(len(p.rights)):
            part = p.rights[len(p.rights) - 1 - x]
            panel = new_panel(part, k0, k1, n0, n1)
            load_panel(panel, part, "rows", k0, k1, n0, n1, blocks.stage_tiles)
            separate.append(panel)
        return separate
    skipped = len(p.lefts) - 1  # a real left operand does not need the negated part
    shape = (TILE, tiles, (skipped + 2) * w)
    panel = nl.ndarray(shape, dtype=p.rights[0].dtype, buffer=nl.sbuf)
    for x in range(2):
        c = (skipped + x) * w
        part = panel[0:TILE, 0:tiles, c : c + w]
        load_panel(part, p.rights[x], "rows", k0, k1, n0, n1, blocks.stage_tiles)
    if skipped == 0:
        return [panel]
    negate(panel, 0, 2 * w, w, k1 - k0)
    return [panel[0:TILE, 0:tiles, 0 : 2 * w], panel[0:TILE, 0:tiles, w : 3 * w]]


def negate(panel: Tile, to: int, at: int, width: int, depth: int) -> None:
    """Write ``width`` negated columns of a panel, from column ``at``, to column ``to``."""
    whole = depth // TILE
    if whole > 0:
        nisa.tensor_scalar(
            dst=panel[0:TILE, 0:whole, to : to + width],
            data=panel[0:TILE, 0:whole, at : at + width],
            op0=nl.multiply,
            operand0=-1.0,
        )
    if depth > whole * TILE:
        kw = depth - whole * TILE
        nisa.tensor_scalar(
            dst=panel[0:kw, whole, to : to + width],
            data=panel[0:kw, whole, at : at + width],
            op0=nl.multiply,
            operand0=-1.0,
        )


def store_parts(
    outs: list[Tile], m: int, n0: int, n1: int, starts: list[int], sums: list[Tile]
) -> None:
    """Store adjacent column ranges of some rows with one DMA per part.

    ``starts`` are offsets in the concatenation of columns ``n0`` to ``n1`` of all parts.
    """
    mw, w = sums[0].shape[0], n1 - n0
    first, last = starts[0], starts[len(starts) - 1]
    row = nl.ndarray((mw, last - first), dtype=outs[0].dtype, buffer=nl.sbuf)
    for j in range(len(sums)):
        run = row[0:mw, starts[j] - first : starts[j + 1] - first]
        finish(run, sums[j], 1.0, 0.0, False)
    for x in range(len(outs)):
        c0, c1 = max(first, x * w), min(last, (x + 1) * w)
        if c0 < c1:
            nisa.dma_copy(
                dst=outs[x][m : m + mw, n0 + c0 - x * w : n0 + c1 - x * w],
                src=row[0:mw, c0 - first : c1 - first],
            )
