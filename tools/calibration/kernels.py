"""Kernels whose device times are published, written for NKI 0.3.0."""

from __future__ import annotations

from typing import Any

import nkisim.isa as nisa
import nkisim.language as nl

__all__ = ["blocked_product", "blocked_product_on_two_cores", "one_instruction", "tiled_product"]

_ROWS, _COLUMNS = 128, 512
"""Rows and columns of one product on the Tensor engine."""


def blocked_product(a_t: Any, b: Any, m_tiles: int, n_tiles: int, k_tiles: int) -> Any:
    """Multiply ``a_t.T @ b`` in blocks of so many tiles of 128 x 512 x 128.

    Columns of the result are the outermost loop. Their sums stay in SBUF while the blocks of K
    pass; each block of rows of ``a_t`` is loaded once per block of K.
    """
    depth, height = a_t.shape
    width = b.shape[1]
    out = nl.ndarray((height, width), dtype=a_t.dtype, buffer=nl.shared_hbm)
    _blocks(out, a_t, b, 0, height, (m_tiles, n_tiles, k_tiles), depth)
    return out


def blocked_product_on_two_cores(a_t: Any, b: Any, m_tiles: int, n_tiles: int, k_tiles: int) -> Any:
    """The same with one half of the rows on each core."""
    depth, height = a_t.shape
    out = nl.ndarray((height, b.shape[1]), dtype=a_t.dtype, buffer=nl.shared_hbm)
    half = height // nl.num_programs()
    first = nl.program_id(0) * half
    _blocks(out, a_t, b, first, half, (m_tiles, n_tiles, k_tiles), depth)
    return out


def _blocks(
    out: Any, a_t: Any, b: Any, first: int, height: int, tiles: tuple[int, int, int], depth: int
) -> None:
    m_tiles, n_tiles, k_tiles = tiles
    block_m, block_n = m_tiles * _ROWS, n_tiles * _COLUMNS
    for n in nl.affine_range(b.shape[1] // block_n):
        columns = slice(n * block_n, (n + 1) * block_n)
        sums = []
        for _ in nl.affine_range(height // _ROWS):
            total = nl.ndarray((_ROWS, n_tiles, _COLUMNS), dtype=out.dtype, buffer=nl.sbuf)
            nisa.memset(dst=total, value=0.0)
            sums.append(total)
        for k in nl.sequential_range(depth // (k_tiles * _ROWS)):
            right = nl.ndarray((_ROWS, k_tiles, block_n), dtype=b.dtype, buffer=nl.sbuf)
            for i in range(k_tiles):
                row = (k * k_tiles + i) * _ROWS
                nisa.dma_copy(dst=right[0:_ROWS, i, 0:block_n], src=b[row : row + _ROWS, columns])
            for m in nl.affine_range(height // block_m):
                left = nl.ndarray((_ROWS, k_tiles, block_m), dtype=a_t.dtype, buffer=nl.sbuf)
                start = first + m * block_m
                for i in nl.affine_range(k_tiles):
                    row = (k * k_tiles + i) * _ROWS
                    nisa.dma_copy(
                        dst=left[0:_ROWS, i, 0:block_m],
                        src=a_t[row : row + _ROWS, start : start + block_m],
                    )
                for j in nl.affine_range(n_tiles):
                    for r in nl.affine_range(m_tiles):
                        product = nl.ndarray((_ROWS, _COLUMNS), dtype=nl.float32, buffer=nl.psum)
                        for i in nl.affine_range(k_tiles):
                            nisa.nc_matmul(
                                dst=product,
                                stationary=left[0:_ROWS, i, r * _ROWS : (r + 1) * _ROWS],
                                moving=right[0:_ROWS, i, j * _COLUMNS : (j + 1) * _COLUMNS],
                            )
                        total = sums[m * m_tiles + r]
                        nisa.tensor_tensor(
                            dst=total[0:_ROWS, j, 0:_COLUMNS],
                            data1=total[0:_ROWS, j, 0:_COLUMNS],
                            data2=product,
                            op=nl.add,
                        )
        for m in nl.affine_range(height // _ROWS):
            row = first + m * _ROWS
            nisa.dma_copy(
                dst=out[row : row + _ROWS, columns], src=sums[m].reshape((_ROWS, block_n))
            )


def tiled_product(a_t: Any, b: Any) -> Any:
    """Multiply ``a_t.T @ b`` tile by tile; both tiles are loaded for each product."""
    depth, height = a_t.shape
    width = b.shape[1]
    out = nl.ndarray((height, width), dtype=a_t.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(height // _ROWS):
        for n in nl.affine_range(width // _COLUMNS):
            product = nl.ndarray((_ROWS, _COLUMNS), dtype=nl.float32, buffer=nl.psum)
            rows, columns = (
                slice(m * _ROWS, (m + 1) * _ROWS),
                slice(n * _COLUMNS, (n + 1) * _COLUMNS),
            )
            for k in nl.affine_range(depth // _ROWS):
                left = nl.ndarray((_ROWS, _ROWS), dtype=a_t.dtype, buffer=nl.sbuf)
                right = nl.ndarray((_ROWS, _COLUMNS), dtype=b.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=left, src=a_t[k * _ROWS : (k + 1) * _ROWS, rows])
                nisa.dma_copy(dst=right, src=b[k * _ROWS : (k + 1) * _ROWS, columns])
                nisa.nc_matmul(dst=product, stationary=left, moving=right)
            result = nl.ndarray((_ROWS, _COLUMNS), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=product)
            nisa.dma_copy(dst=out[rows, columns], src=result)
    return out


def one_instruction(call: Any, shape: tuple[int, int], dtype: Any, buffers: tuple[Any, ...]) -> Any:
    """Return a kernel of one instruction on tiles of one shape, each in its buffer."""

    def kernel() -> Any:
        tiles = [nl.ndarray(shape, dtype=dtype, buffer=buffer) for buffer in buffers]
        column = nl.ndarray((shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
        call(*tiles, column)

    return kernel
