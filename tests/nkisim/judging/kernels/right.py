"""Ten right kernels."""

import nki
import nki.isa as nisa
import nki.language as nl


def loaded(source, dtype=None):
    tile = nl.ndarray(source.shape, dtype=dtype or source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def stored(tile, dtype):
    out = nl.ndarray(tile.shape, dtype=dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def scale(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for first in range(0, x.shape[0], 128):
        rows = slice(first, min(first + 128, x.shape[0]))
        nl.store(out[rows, :], nl.multiply(nl.load(x[rows, :]), 1.5))
    return out


@nki.jit
def add(a, b):
    assert a.shape == b.shape
    assert a.shape[0] <= 128
    return stored(nl.add(loaded(a), loaded(b)), a.dtype)


@nki.jit
def relu(x):
    assert x.shape[0] <= 128
    return stored(nl.maximum(loaded(x), 0.0), x.dtype)


@nki.jit
def row_sum(x):
    assert x.shape[0] <= 128
    total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=loaded(x), axis=1)
    return stored(total, nl.float32)


@nki.jit
def softmax(x):
    rows, columns = x.shape
    assert rows <= 128
    tile = loaded(x, nl.float32)
    most = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=most, op=nl.maximum, data=tile, axis=1, negate=True)
    powers = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=powers, op=nl.exp, data=tile, bias=most)
    nisa.tensor_reduce(dst=total, op=nl.add, data=powers, axis=1)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=powers, data=powers, op0=nl.multiply, operand0=total)
    return stored(powers, nl.float32)


@nki.jit
def rms_norm(x):
    rows, columns = x.shape
    assert rows <= 128
    tile = loaded(x, nl.float32)
    squares = nl.multiply(tile, tile)
    mean = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=mean, op=nl.add, data=squares, axis=1)
    nisa.tensor_scalar(
        dst=mean, data=mean, op0=nl.multiply, operand0=1.0 / columns, op1=nl.add, operand1=1e-5
    )
    root = nl.rsqrt(mean)
    made = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=made, data=tile, op0=nl.multiply, operand0=root)
    return stored(made, nl.float32)


def product(a, b, dtype):
    depth, rows = a.shape
    columns = b.shape[1]
    assert depth % 128 == 0
    assert rows <= 128
    assert columns <= 512
    sums = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
    for k in range(0, depth, 128):
        nisa.nc_matmul(
            dst=sums, stationary=loaded(a[k : k + 128, :]), moving=loaded(b[k : k + 128, :])
        )
    tile = nl.ndarray((rows, columns), dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=sums)
    return tile


@nki.jit
def matmul(a, b):
    return stored(product(a, b, a.dtype), a.dtype)


@nki.jit
def matmul_relu(a, b):
    return stored(nl.maximum(product(a, b, nl.float32), 0.0), nl.float32)


@nki.jit
def transpose(x):
    rows, columns = x.shape
    assert rows <= 128
    assert columns <= 128
    turned = nl.ndarray((columns, rows), dtype=x.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=loaded(x))
    tile = nl.ndarray((columns, rows), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=turned)
    return stored(tile, x.dtype)


@nki.jit
def attention(q, k, v):
    """Flash attention of q[d, m], k[d, n] and v[n, d] in blocks of 128 keys."""
    depth, rows = q.shape
    count = k.shape[1]
    assert depth <= 128
    assert rows <= 128
    assert count % 128 == 0
    queries = loaded(q)
    most = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    sums = nl.ndarray((rows, depth), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=most, value=-3.0e38)
    nisa.memset(dst=total, value=0.0)
    nisa.memset(dst=sums, value=0.0)
    for first in range(0, count, 128):
        scores = nl.ndarray((rows, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=scores, stationary=queries, moving=loaded(k[:, first : first + 128]))
        higher = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=higher, op=nl.maximum, data=scores, axis=1)
        nisa.tensor_tensor(dst=higher, data1=higher, data2=most, op=nl.maximum)
        powers = nl.ndarray((rows, 128), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=powers, data=scores, op0=nl.subtract, operand0=higher)
        nisa.activation(dst=powers, op=nl.exp, data=powers)
        shrink = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=shrink, data1=most, data2=higher, op=nl.subtract)
        nisa.activation(dst=shrink, op=nl.exp, data=shrink)
        part = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=part, op=nl.add, data=powers, axis=1)
        nisa.tensor_tensor(dst=total, data1=total, data2=shrink, op=nl.multiply)
        nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)
        turned = nl.ndarray((128, rows), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=powers)
        weights = nl.ndarray((128, rows), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=weights, src=turned)
        block = nl.ndarray((rows, depth), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=block, stationary=weights, moving=loaded(v[first : first + 128, :]))
        nisa.tensor_scalar(dst=sums, data=sums, op0=nl.multiply, operand0=shrink)
        nisa.tensor_tensor(dst=sums, data1=sums, data2=block, op=nl.add)
        nisa.tensor_copy(dst=most, src=higher)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=sums, data=sums, op0=nl.multiply, operand0=total)
    return stored(sums, nl.float32)
