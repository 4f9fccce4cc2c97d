"""Eight right kernels that go about it in an unusual way."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

WEIGHTS = tuple(map(float, np.linspace(1.0, 2.0, 8)))


@nki.jit
def add_in_transfers(a, b):
    """The sum is made by the DMA engines."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_compute(dst=out, srcs=[a, b], scales=[1.0, 1.0], reduce_op=nl.add)
    return out


@nki.jit
def matmul_columns_first(a, b):
    """The contraction is the innermost loop, columns go from right to left."""
    depth, rows = a.shape
    columns = b.shape[1]
    assert depth % 128 == 0
    assert rows <= 128
    assert columns % 128 == 0
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    for right in range(columns, 0, -128):
        sums = nl.ndarray((rows, 128), dtype=nl.float32, buffer=nl.psum)
        for k in range(depth - 128, -1, -128):
            left = nl.load(a[k : k + 128, :])
            moving = nl.load(b[k : k + 128, right - 128 : right])
            nisa.nc_matmul(dst=sums, stationary=left, moving=moving)
        tile = nl.ndarray((rows, 128), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=sums)
        nisa.dma_copy(dst=out[:, right - 128 : right], src=tile)
    return out


def halves(tile):
    """Return a float32 tile as the sum of two bfloat16 tiles."""
    high = nl.ndarray(tile.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    rest = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
    low = nl.ndarray(tile.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=high, src=tile)
    nisa.tensor_tensor(dst=rest, data1=tile, data2=high, op=nl.subtract)
    nisa.tensor_copy(dst=low, src=rest)
    return high, low


@nki.jit
def matmul_in_halves(a, b):
    """A float32 product of three bfloat16 products."""
    depth, rows = a.shape
    columns = b.shape[1]
    assert depth % 128 == 0
    assert rows <= 128
    assert columns <= 512
    sums = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
    for k in range(0, depth, 128):
        a_high, a_low = halves(nl.load(a[k : k + 128, :]))
        b_high, b_low = halves(nl.load(b[k : k + 128, :]))
        nisa.nc_matmul(dst=sums, stationary=a_high, moving=b_high)
        nisa.nc_matmul(dst=sums, stationary=a_high, moving=b_low)
        nisa.nc_matmul(dst=sums, stationary=a_low, moving=b_high)
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=sums)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def doubled_in_place(x):
    """The argument is written, and returned."""
    assert x.shape[0] <= 128
    nl.store(x, nl.multiply(nl.load(x), 2.0))
    return x


@nki.jit
def powers_of_two(x, count):
    """The number of doublings is loaded from memory."""
    assert x.shape[0] <= 128
    assert count.shape == (1, 1)
    tile, times = nl.load(x), nl.load(count)
    register = nisa.register_alloc()
    nisa.register_load(register, times)
    for _ in nl.dynamic_range(0, register):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def row_sum_by_product(x):
    """The sum over a row is a product with ones."""
    rows, columns = x.shape
    assert rows <= 128
    assert columns <= 128
    turned = nl.ndarray((columns, rows), dtype=x.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=nl.load(x))
    tile = nl.ndarray((columns, rows), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=turned)
    ones = nl.ndarray((columns, 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=tile, moving=ones)
    column = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=column, src=total)
    out = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=column)
    return out


@nki.jit
def scaled_on_two_cores(x):
    """Each core has every second tile of the rows."""
    assert x.shape[0] % 256 == 0
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for tile in range(nl.program_id(0), x.shape[0] // 128, 2):
        rows = slice(128 * tile, 128 * tile + 128)
        nl.store(out[rows, :], nl.multiply(nl.load(x[rows, :]), 0.5))
    return out


@nki.jit
def weighted(x):
    """The weights are constants that Python computes."""
    rows, columns = x.shape
    assert rows <= 128
    tile = nl.load(x)
    for i in range(8):
        first, last = i * columns // 8, (i + 1) * columns // 8
        if last > first:
            part = tile[:, first:last]
            nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=WEIGHTS[i])
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def nkisim_examples():
    x = np.linspace(-1, 1, 128 * 64, dtype=np.float32).reshape(128, 64)
    return [(powers_of_two, (x, np.array([[3]], np.int32)))]
