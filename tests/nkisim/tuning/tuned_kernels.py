"""Kernels with parameters to tune, and what is wrong with some of their variants."""

import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl


@nkisim.jit
def scaled(x, COLUMNS=128, BUFFERS=1, MISTAKE=""):
    """Return 2 * x, by COLUMNS columns at a time."""
    rows, columns = x.shape
    assert columns % COLUMNS == 0, "COLUMNS must divide the columns"
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, columns, COLUMNS):
        if MISTAKE == "last columns" and start:
            break
        tile = nl.ndarray((rows, COLUMNS * BUFFERS), dtype=x.dtype, buffer=nl.sbuf)
        part = tile[:, :COLUMNS]
        if MISTAKE != "unwritten":
            nisa.dma_copy(dst=part, src=x[:, start : start + COLUMNS])
        if MISTAKE != "not scaled":
            nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[:, start : start + COLUMNS], src=part)
    return out


@nkisim.jit
def product(a, b, ROWS=128, COLUMNS=512, K=128):
    """Return a.T @ b, by tiles of ROWS x COLUMNS and K rows of both operands at a time."""
    depth, m = a.shape
    n = b.shape[1]
    out = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(0, m, ROWS):
        for j in range(0, n, COLUMNS):
            acc = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
            for k in range(0, depth, K):
                lhs = nl.ndarray((K, ROWS), dtype=a.dtype, buffer=nl.sbuf)
                rhs = nl.ndarray((K, COLUMNS), dtype=b.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=lhs, src=a[k : k + K, i : i + ROWS])
                nisa.dma_copy(dst=rhs, src=b[k : k + K, j : j + COLUMNS])
                nisa.nc_matmul(dst=acc, stationary=lhs, moving=rhs, accumulate=k > 0)
            tile = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=tile, src=acc)
            nisa.dma_copy(dst=out[i : i + ROWS, j : j + COLUMNS], src=tile)
    return out


def matrix(rows, columns, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
