"""Matrix product in six stages, from one instruction to the use of all PSUM banks.

The Tensor engine computes ``stationary.T @ moving`` with the contraction on partitions, so the left
matrix comes transposed: ``lhs_t`` is (K, M), ``rhs`` is (K, N), the result (M, N). One instruction
takes 128 partitions, 128 stationary and 512 moving columns; the stages reduce the number of loads
from HBM. Some compilers reject a single moving column: N should be at least 2.

1. ``matmul_one_tile``      everything fits in one instruction
2. ``matmul_tiled``         any size; both operands are loaded for every instruction
3. ``matmul_hoisted``       the left operand is loaded once for a whole row of results
4. ``matmul_blocked_free``  blocks of rows and columns reuse both operands; all of K is in SBUF
5. ``matmul_blocked_all``   K is blocked as well, partial sums are in SBUF: no size is too large
6. ``matmul_psum_banks``    partial sums stay in the eight PSUM banks: no additions outside of PSUM
"""

import ml_dtypes
import numpy as np

import nkisim as nki
import nkisim.isa as nisa
import nkisim.language as nl

K_TILE, M_TILE, N_TILE = 128, 128, 512
K_BLOCK, M_BLOCK, N_BLOCK = 512, 512, 1024
# Two by four result tiles fill the eight banks. A step over 128 rows of K loads 256 + 2048 columns
# for eight products: 228 flop per byte in bfloat16, where gen2 needs 222 to keep its engine busy.
M_BANKS, N_BANKS = 2, 4


@nki.jit
def matmul_one_tile(lhs_t, rhs):
    """Return ``lhs_t.T @ rhs`` for K and M up to 128 and N up to 512."""
    k, m = lhs_t.shape
    n = rhs.shape[1]
    out = nl.ndarray((m, n), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray((k, m), dtype=lhs_t.dtype, buffer=nl.sbuf)
    right = nl.ndarray((k, n), dtype=rhs.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=lhs_t)
    nisa.dma_copy(dst=right, src=rhs)
    product = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=left, moving=right)
    store(out, product)
    return out


@nki.jit
def matmul_tiled(lhs_t, rhs):
    """Return ``lhs_t.T @ rhs``; three loops over tiles, the innermost accumulates in PSUM."""
    depth, rows = lhs_t.shape
    cols = rhs.shape[1]
    out = nl.ndarray((rows, cols), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    width = even_width(cols, N_TILE)
    for m in range(0, rows, M_TILE):
        for n in range(0, cols, width):
            mw, nw = min(M_TILE, rows - m), min(width, cols - n)
            product = nl.ndarray((mw, nw), dtype=nl.float32, buffer=nl.psum)
            for k in range(0, depth, K_TILE):
                kw = min(K_TILE, depth - k)
                left = nl.ndarray((kw, mw), dtype=lhs_t.dtype, buffer=nl.sbuf)
                right = nl.ndarray((kw, nw), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=left, src=lhs_t[k : k + kw, m : m + mw])
                nisa.dma_copy(dst=right, src=rhs[k : k + kw, n : n + nw])
                nisa.nc_matmul(dst=product, stationary=left, moving=right, accumulate=(k > 0))
            store(out[m : m + mw, n : n + nw], product)
    return out


@nki.jit
def matmul_hoisted(lhs_t, rhs):
    """Return ``lhs_t.T @ rhs``; loads of the left operand are hoisted out of the column loop."""
    depth, rows = lhs_t.shape
    cols = rhs.shape[1]
    out = nl.ndarray((rows, cols), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    width = even_width(cols, N_TILE)
    for m in range(0, rows, M_TILE):
        mw = min(M_TILE, rows - m)
        left = load_panel(lhs_t, 0, depth, m, mw)
        for n in range(0, cols, width):
            nw = min(width, cols - n)
            right = load_panel(rhs, 0, depth, n, nw)
            product = multiply_panels(left, right, depth, 0, mw, 0, nw)
            store(out[m : m + mw, n : n + nw], product)
    return out


@nki.jit
def matmul_blocked_free(lhs_t, rhs):
    """Return ``lhs_t.T @ rhs``; each load is used for a block of 4 by 2 result tiles.

    The panels hold all of K: in float32 it may be up to about 3600.
    """
    depth, rows = lhs_t.shape
    cols = rhs.shape[1]
    out = nl.ndarray((rows, cols), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    block = even_width(cols, N_BLOCK)
    width = even_width(block, N_TILE)
    for m in range(0, rows, M_BLOCK):
        mb = min(M_BLOCK, rows - m)
        left = load_panel(lhs_t, 0, depth, m, mb)
        for n in range(0, cols, block):
            nb = min(block, cols - n)
            right = load_panel(rhs, 0, depth, n, nb)
            for i in range(0, mb, M_TILE):
                for j in range(0, nb, width):
                    mw, nw = min(M_TILE, mb - i), min(width, nb - j)
                    product = multiply_panels(left, right, depth, i, mw, j, nw)
                    store(out[m + i : m + i + mw, n + j : n + j + nw], product)
    return out


@nki.jit
def matmul_blocked_all(lhs_t, rhs):
    """Return ``lhs_t.T @ rhs``; blocks of K are summed in float32 in SBUF."""
    depth, rows = lhs_t.shape
    cols = rhs.shape[1]
    out = nl.ndarray((rows, cols), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    block = even_width(cols, N_BLOCK)
    width = even_width(block, N_TILE)
    for m in range(0, rows, M_BLOCK):
        for n in range(0, cols, block):
            mb, nb = min(M_BLOCK, rows - m), min(block, cols - n)
            tiles = (mb + M_TILE - 1) // M_TILE
            sums = nl.ndarray((M_TILE, tiles, nb), dtype=nl.float32, buffer=nl.sbuf)
            for k in range(0, depth, K_BLOCK):
                kb = min(K_BLOCK, depth - k)
                left = load_panel(lhs_t, k, k + kb, m, mb)
                right = load_panel(rhs, k, k + kb, n, nb)
                for i in range(tiles):
                    for j in range(0, nb, width):
                        mw, nw = min(M_TILE, mb - i * M_TILE), min(width, nb - j)
                        product = multiply_panels(left, right, kb, i * M_TILE, mw, j, nw)
                        part = sums[0:mw, i, j : j + nw]
                        if k == 0:
                            nisa.tensor_copy(dst=part, src=product)
                        else:
                            nisa.tensor_tensor(dst=part, data1=part, data2=product, op=nl.add)
            for i in range(tiles):
                mw = min(M_TILE, mb - i * M_TILE)
                top = m + i * M_TILE
                store(out[top : top + mw, n : n + nb], sums[0:mw, i, 0:nb])
    return out


@nki.jit
def matmul_psum_banks(lhs_t, rhs):
    """Return ``lhs_t.T @ rhs``; a block of results accumulates in all PSUM banks over K.

    Four products in a row share their stationary operand, so the engine loads it once for them.
    """
    depth, rows = lhs_t.shape
    cols = rhs.shape[1]
    out = nl.ndarray((rows, cols), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    block = even_width(cols, N_BANKS * N_TILE)
    width = even_width(block, N_TILE)
    for m in range(0, rows, M_BANKS * M_TILE):
        for n in range(0, cols, block):
            mb, nb = min(M_BANKS * M_TILE, rows - m), min(block, cols - n)
            banks = []
            for i in range(0, mb, M_TILE):
                for j in range(0, nb, width):
                    shape = (min(M_TILE, mb - i), min(width, nb - j))
                    banks.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum))
            for k in range(0, depth, K_TILE):
                kw = min(K_TILE, depth - k)
                left = nl.ndarray((kw, mb), dtype=lhs_t.dtype, buffer=nl.sbuf)
                right = nl.ndarray((kw, nb), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=left, src=lhs_t[k : k + kw, m : m + mb])
                nisa.dma_copy(dst=right, src=rhs[k : k + kw, n : n + nb])
                bank = 0
                for i in range(0, mb, M_TILE):
                    for j in range(0, nb, width):
                        nisa.nc_matmul(
                            dst=banks[bank],
                            stationary=left[0:kw, i : min(i + M_TILE, mb)],
                            moving=right[0:kw, j : min(j + width, nb)],
                            accumulate=(k > 0),
                        )
                        bank += 1
            bank = 0
            for i in range(0, mb, M_TILE):
                for j in range(0, nb, width):
                    mw, nw = min(M_TILE, mb - i), min(width, nb - j)
                    store(out[m + i : m + i + mw, n + j : n + j + nw], banks[bank])
                    bank += 1
    return out


def even_width(extent, limit):
    """Return the width of the fewest nearly equal tiles: 513 columns are 257 and 256."""
    tiles = (extent + limit - 1) // limit
    return (extent + tiles - 1) // tiles


def load_panel(x, first, last, c, width):
    """Return rows ``first`` to ``last`` of ``width`` columns of ``x``: 128 rows, tiles, columns."""
    tiles = (last - first + K_TILE - 1) // K_TILE
    panel = nl.ndarray((K_TILE, tiles, width), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(tiles):
        k = first + i * K_TILE
        kw = min(K_TILE, last - k)
        nisa.dma_copy(dst=panel[0:kw, i, 0:width], src=x[k : k + kw, c : c + width])
    return panel


def multiply_panels(left, right, depth, m, mw, n, nw):
    """Return a PSUM tile with the product of ``mw`` left and ``nw`` right columns of two panels."""
    product = nl.ndarray((mw, nw), dtype=nl.float32, buffer=nl.psum)
    for i in range(left.shape[1]):
        kw = min(K_TILE, depth - i * K_TILE)
        nisa.nc_matmul(
            dst=product,
            stationary=left[0:kw, i, m : m + mw],
            moving=right[0:kw, i, n : n + nw],
            accumulate=(i > 0),
        )
    return product


def store(out, tile):
    """Copy a tile to ``out`` in HBM, rounding it to its type; DMA alone could not read PSUM."""
    rounded = nl.ndarray(tile.shape, dtype=out.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=rounded, src=tile)
    nisa.dma_copy(dst=out, src=rounded)


STAGES = (
    matmul_one_tile,
    matmul_tiled,
    matmul_hoisted,
    matmul_blocked_free,
    matmul_blocked_all,
    matmul_psum_banks,
)


def main() -> None:
    rng = np.random.default_rng(0)
    lhs_t = rng.standard_normal((600, 700)).astype(ml_dtypes.bfloat16)
    rhs = rng.standard_normal((600, 1300)).astype(ml_dtypes.bfloat16)
    for stage, kernel in enumerate(STAGES, start=1):
        a, b = (lhs_t[:128, :128], rhs[:128, :512]) if stage == 1 else (lhs_t, rhs)
        run = nki.simulate(kernel)
        out = run(a, b)
        error = np.abs(out.astype(np.float64) - a.astype(np.float64).T @ b.astype(np.float64)).max()
        name, report = kernel.__name__, run.report.summary()
        print(f"{stage} {name:20} {out.shape} {out.dtype}  max |error| {error:.1e}  {report}")


if __name__ == "__main__":
    main()
