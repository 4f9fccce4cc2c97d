"""Two transposes: inside each partition, and between partitions and the free axis.

Two free axes are exchanged by reading them in another order: an access pattern lists, outermost
first, the step and the count of every loop, so that a copy permutes the axes. Rows and columns of a
matrix are on different axes of the memory; only the Tensor engine (or a DMA) moves data across
partitions, 128 by 128 at a time, through PSUM.
"""

import numpy as np

import nkisim as nki
import nkisim.isa as nisa
import nkisim.language as nl

ROWS = 128
SIDE = 64  # 64 x 64 float32 are 16 KiB of a partition: in and out tile together stay small


@nki.jit
def transpose_free_axes(x):
    """Return ``x`` of shape (P, F1, F2) as (P, F2, F1)."""
    rows, f1, f2 = x.shape
    out = nl.ndarray((rows, f2, f1), dtype=x.dtype, buffer=nl.shared_hbm)
    for r in range(0, rows, ROWS):
        for i in range(0, f1, SIDE):
            for j in range(0, f2, SIDE):
                p, m, n = min(ROWS, rows - r), min(SIDE, f1 - i), min(SIDE, f2 - j)
                tile = nl.ndarray((p, m, n), dtype=x.dtype, buffer=nl.sbuf)
                transposed = nl.ndarray((p, n, m), dtype=x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=tile, src=x[r : r + p, i : i + m, j : j + n])
                # A partition holds m rows of n: step 1 visits columns, step n visits rows.
                columns_first = tile.ap(pattern=[[m * n, p], [1, n], [n, m]])
                nisa.tensor_copy(dst=transposed, src=columns_first)
                nisa.dma_copy(dst=out[r : r + p, j : j + n, i : i + m], src=transposed)
    return out


@nki.jit
def transpose_matrix(x):
    """Return ``x`` of shape (M, N) as (N, M)."""
    rows, cols = x.shape
    out = nl.ndarray((cols, rows), dtype=x.dtype, buffer=nl.shared_hbm)
    for r in range(0, rows, ROWS):
        for c in range(0, cols, ROWS):
            m, n = min(ROWS, rows - r), min(ROWS, cols - c)
            tile = nl.ndarray((m, n), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[r : r + m, c : c + n])
            # A transpose moves bits, so its PSUM tile has the type of the data, not float32.
            transposed = nl.ndarray((n, m), dtype=x.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=transposed, data=tile)
            # DMA cannot read PSUM: the tile leaves through SBUF.
            result = nl.ndarray((n, m), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=transposed)
            nisa.dma_copy(dst=out[c : c + n, r : r + m], src=result)
    return out


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((130, 70, 20), dtype=np.float32)
    run = nki.simulate(transpose_free_axes)
    out = run(x)
    error = np.abs(out - x.transpose(0, 2, 1)).max()
    report = run.report.summary()
    print(f"transpose_free_axes  {out.shape} {out.dtype}  max |error| {error:.1e}  {report}")

    x = rng.standard_normal((200, 300), dtype=np.float32)
    run = nki.simulate(transpose_matrix)
    out = run(x)
    error = np.abs(out - x.T).max()
    report = run.report.summary()
    print(f"transpose_matrix     {out.shape} {out.dtype}  max |error| {error:.1e}  {report}")


if __name__ == "__main__":
    main()
