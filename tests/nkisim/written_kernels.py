"""Kernels as an author without the documentation writes them, and what they are meant to compute.

``KERNELS`` holds the text of each with arguments and the meaning, on NumPy arrays.
"""

from typing import NamedTuple

import numpy as np


class Written(NamedTuple):
    """A kernel: its text, its arguments, and the result that its author wants."""

    text: str
    inputs: tuple
    wanted: np.ndarray


def f32(*shape):
    return np.random.default_rng(sum(shape)).uniform(0.5, 1.5, shape).astype(np.float32)


HEAD = """\
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
"""

KERNELS = {}


def written(name, wanted, *inputs):
    """Adds the kernel of a name."""

    def add(text):
        lines = text.strip("\n").splitlines()
        KERNELS[name] = Written(HEAD + "\n".join(lines) + "\n", inputs, wanted(*inputs))

    return add


written("copy_unequal", lambda x: x[:, :128], f32(64, 200))("""
def copy_unequal(x):
    out = nl.ndarray((64, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((64, 128), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.dma_copy(dst=out, src=t)
    return out
""")

written("invented", lambda x, w: np.exp(x * w), f32(64, 128), f32(64, 128))("""
def invented(x, w):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.load(x)
    b = nl.load(w)
    c = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.multiply(c, a, b)
    nisa.exp(dst=c, data=c)
    nl.store(out, c)
    return out
""")

written("many_rows", np.exp, f32(300, 64))("""
def many_rows(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.activation(dst=t, op=nl.exp, data=t)
    nisa.dma_copy(dst=out, src=t)
    return out
""")

written("past_end", np.copy, f32(64, 128))("""
def past_end(x):
    out = nl.ndarray((64, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((64, 128), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t[:, 0:144], src=x[:, 0:144])
    nisa.dma_copy(dst=out, src=t)
    return out
""")

written("reshaped", lambda x: x.reshape(32, 256), f32(64, 128))("""
def reshaped(x):
    out = nl.ndarray((32, 256), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    v = t.reshape((32, 256))
    nisa.dma_copy(dst=out, src=v)
    return out
""")

written("broadcast", np.add, f32(64, 128), f32(64, 1))("""
def broadcast(x, b):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    col = nl.load(b)
    u = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=u, data1=t, data2=col, op=nl.add)
    nl.store(out, u)
    return out
""")

written("row_broadcast", np.add, f32(64, 128), f32(1, 128))("""
def row_broadcast(x, b):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    row = nl.load(b)
    u = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=u, data1=t, data2=row, op=nl.add)
    nl.store(out, u)
    return out
""")

written("flat", np.exp, f32(128))("""
def flat(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((128,), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.activation(dst=t, op=nl.exp, data=t)
    nisa.dma_copy(dst=out, src=t)
    return out
""")

written("in_hbm", np.exp, f32(64, 128))("""
def in_hbm(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.activation(dst=out, op=nl.exp, data=x)
    return out
""")

written("operators", lambda x: np.exp(x + x), f32(64, 128))("""
def operators(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    u = t + t
    v = np.exp(u)
    nl.store(out, v)
    return out
""")

written("compare", lambda x: (x > 1).astype(np.float32), f32(64, 128))("""
def compare(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    m = t > 1.0
    nl.store(out, m)
    return out
""")

written("returned", np.exp, f32(64, 128))("""
def returned(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    y = nisa.activation(op=nl.exp, data=t)
    nl.store(out, y)
    return out
""")

written("from_nothing", np.exp, f32(64, 128))("""
def from_nothing(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    y = nisa.activation(dst=t, op=nl.exp, data=t)
    nl.store(out, y)
    return out
""")

written("product", lambda a, b: a.T @ b, f32(128, 64), f32(128, 96))("""
def product(a, b):
    m = nl.load(a)
    n = nl.load(b)
    out = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.sbuf)
    nisa.nc_matmul(dst=acc, stationary=m, moving=n)
    nl.store(out, acc)
    return out
""")

written("turned", lambda a, b: a.T @ b.T, f32(32, 64), f32(96, 32))("""
def turned(a, b):
    m = nl.load(a)
    n = nl.load(b)
    acc = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=m, moving=n, transpose_moving=True)
    out = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, acc)
    return out
""")

written("rows", np.copy, f32(8, 16))("""
def rows(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    for i in range(t):
        nisa.dma_copy(dst=out[i : i + 1, :], src=t[i : i + 1, :])
    return out
""")

written("from_column", lambda x, b: b - x, f32(64, 128), f32(64, 1))("""
def from_column(x, b):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    col = nl.load(b)
    nisa.tensor_tensor(t, col, t, op=nl.subtract)
    nl.store(out, t)
    return out
""")

written("other_arguments", np.exp, f32(64, 128))("""
def other_arguments(x):
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    nisa.activation(out=t, fn=nl.exp, input=t)
    nl.store(result, t)
    return result
""")

written("scaled", lambda x: 3 * x + 1, f32(64, 128))("""
def scaled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.load(t, x)
    nisa.scale(t, t, 3.0)
    t += 1.0
    nisa.store(out, t)
    return out
""")

written("one_bias", lambda x, b: np.exp(x + b), f32(64, 128), f32(1, 1))("""
def one_bias(x, b):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    one = nl.load(b)
    nisa.activation(dst=t, op=nl.exp, data=t, bias=one)
    nl.store(out, t)
    return out
""")

written("quotient", lambda x, y: x / y, f32(64, 128), f32(64, 128) + 1)("""
def quotient(x, y):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.load(x)
    b = nl.load(y)
    nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.divide)
    nisa.tensor_scalar(dst=a, data=a, op0=nl.divide, operand0=2.0)
    nisa.tensor_scalar(dst=a, data=a, op0=np.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=a)
    return out
""")

written("rows_from_one", lambda x: np.exp(x[1:33]), f32(64, 128))("""
def rows_from_one(x):
    out = nl.ndarray((32, 128), dtype=np.float32, buffer=nl.shared_hbm)
    t = nl.load(x)
    u = nl.ndarray((64, 128), dtype=nl.float32, buffer="sbuf")
    nisa.activation(dst=u[5:37], op=nl.exp, data=t[1:33])
    nisa.dma_copy(dst=out, src=u[5:37])
    return out
""")

written("summed_over_k", lambda a, b: a.T @ b, f32(256, 64), f32(256, 128))("""
def summed_over_k(a, b):
    acc = nl.zeros((64, 128), dtype=nl.float32, buffer=nl.psum)
    for k in range(0, 256, 128):
        nisa.nc_matmul(acc, nl.load(a[k : k + 128]), nl.load(b[k : k + 128]), accumulate=True)
    return acc
""")

written("last_sum", lambda a, b: 2 * (a.T @ b), f32(256, 64), f32(256, 128))("""
def last_sum(a, b):
    out = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.private_hbm)
    acc = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(2):
        ta, tb = nl.load(a[k * 128 : k * 128 + 128]), nl.load(b[k * 128 : k * 128 + 128])
        nisa.nc_matmul(dst=acc, stationary=ta, moving=tb, accumulate=False)
    total = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=total, src=acc, engine=nisa.engine.gpsimd)
    total += total
    nisa.dma_copy(dst=out, src=total)
    return out
""")

written("rest_of_rows", lambda x: x.sum(1, keepdims=True), f32(64, 100))("""
def rest_of_rows(x):
    tile = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.zeros((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    part = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    for c in range(0, x.shape[1], 64):
        w = min(64, x.shape[1] - c)
        nisa.dma_copy(dst=tile[:, 0:w], src=x[:, c : c + w])
        nisa.tensor_reduce(dst=part, op=nl.add, data=tile, axis=1)
        nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)
    return total
""")

written("wide_product", lambda a, b: a.T @ b, f32(64, 32), f32(64, 1300))("""
def wide_product(a, b):
    m, n = nl.load(a), nl.load(b)
    acc = nl.ndarray((32, 1300), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=m, moving=n)
    total = nl.ndarray((32, 1300), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=total, src=acc)
    return total
""")

written("rows_times_columns", lambda a, b: a @ b, f32(32, 64), f32(64, 96))("""
def rows_times_columns(a, b):
    m = nl.load(a)
    n = nl.load(b)
    acc = nl.ndarray((32, 96), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, m, n)
    return acc
""")

written("columns_times_rows", lambda a, b: a.T @ b.T, f32(64, 32), f32(96, 64))("""
def columns_times_rows(a, b):
    m = nl.load(a)
    n = nl.load(b)
    acc = nl.ndarray((32, 96), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=m, moving=n)
    return acc
""")

written("rows_times_rows", lambda a, b: a @ b.T, f32(32, 64), f32(96, 64))("""
def rows_times_rows(a, b):
    m = nl.load(a)
    n = nl.load(b)
    acc = nl.ndarray((32, 96), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=m, moving=n)
    return acc
""")

written("running_sum", lambda a: a.sum(0), f32(4, 64, 32))("""
def running_sum(a):
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(4):
        nisa.tensor_tensor(dst=total, data1=total, data2=nl.load(a[i]), op=nl.add)
    return total
""")

written("running_product", lambda a: a.prod(0), f32(4, 64, 32))("""
def running_product(a):
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(4):
        nisa.tensor_tensor(total, nl.load(a[i]), total, op=nl.multiply)
    return total
""")

written("sum_of_part", lambda a: np.exp(a).sum(1, keepdims=True), f32(64, 100))("""
def sum_of_part(a):
    tile = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[:, 0:100], src=a)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
    return total
""")

written("lost_tail", lambda a: np.exp(a), f32(64, 100))("""
def lost_tail(a):
    out = nl.ndarray((64, 100), dtype=a.dtype, buffer=nl.shared_hbm)
    for c in range(100 // 32):
        t = nl.load(a[:, c * 32 : (c + 1) * 32])
        u = nl.exp(t)
        nl.store(out[:, c * 32 : (c + 1) * 32], u)
    return out
""")

written("lost_rows", np.copy, f32(300, 64))("""
def lost_rows(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for r in nl.affine_range(a.shape[0] // 128):
        nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=a[r * 128 : r * 128 + 128])
    return out
""")

written("in_any_order", lambda a: a.sum(0), f32(4, 64, 32))("""
def in_any_order(a):
    total = nl.zeros((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    for i in nl.affine_range(4):
        nisa.tensor_tensor(dst=total, data1=total, data2=nl.load(a[i]), op=nl.add)
    return total
""")

written("long_rows", lambda a: 2 * np.exp(a), f32(2, 70000))("""
def long_rows(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=a)
    nisa.activation(dst=t, op=nl.exp, data=t)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=t)
    return out
""")

written("long_rows_loaded", lambda a, b: np.exp(a + b), f32(2, 70000), f32(2, 1))("""
def long_rows_loaded(a, b):
    col = nl.load(b)
    t = nl.load(a)
    nisa.tensor_scalar(t, t, nl.add, col)
    u = nl.exp(t)
    out = nl.ndarray((2, a.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, u)
    return out
""")

written("left_half", lambda a: a, f32(64, 32))("""
def left_half(a):
    out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[:, 0:32], src=a)
    return out[:, 0:32]
""")

written("nothing_returned", np.copy, f32(64, 32))("""
def nothing_returned(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    for r in range(0, 64, 32):
        nisa.dma_copy(dst=out[r : r + 32], src=a[r : r + 32])  # a block
""")
