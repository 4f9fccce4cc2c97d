"""Whole kernels of Beta 1: index tensors, instructions that return, masks, outputs, Python."""

import numpy as np

from each_case import each_case
from upgraded import assert_right_after_upgrade

HEAD = """\
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


"""


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


KERNELS = {
    "rebound names in two loops": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for k in nl.affine_range(2):
        i_p = nl.arange(64)[:, None]
        i_f = nl.arange(64)[None, :]
        x = nl.load(a[k * 64 + i_p, i_f])
        nl.store(out[k * 64 + i_p, i_f], value=x)
    for k in nl.affine_range(4):
        i_p = nl.arange(32)[:, None]
        i_f = nl.arange(16)[None, :]
        y = nl.load(b[k * 32 + i_p, i_f + 8])
        nl.store(out[k * 32 + i_p, i_f], value=y)
    return out
""",
        lambda a, b: np.hstack([b[:, 8:24], a[:, 16:]]),
    ),
    "offset changes between": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    off = 0
    i_p = off + nl.arange(64)[:, None]
    i_f = nl.arange(64)[None, :]
    nl.store(out[i_p, i_f], value=nl.load(a[i_p, i_f]))
    off = 64
    i_p = off + nl.arange(64)[:, None]
    nl.store(out[i_p, i_f], value=nl.load(b[i_p, i_f]))
    return out
""",
        lambda a, b: np.vstack([a[:64], b[64:]]),
    ),
    "iota forms": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    ip, jf = nl.mgrid[0:128, 0:64]
    t = nisa.iota(ip * 64 - 2 * jf + 3, dtype=nl.float32)
    u = nl.copy(nisa.iota(nl.arange(64)[None, :], dtype=np.float32))
    nl.store(out[ip, jf], t)
    return out
""",
        lambda a, b: (np.arange(128)[:, None] * 64 - 2 * np.arange(64)[None] + 3).astype("f"),
    ),
    "causal mask": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    i_q = nl.arange(128)[:, None]
    i_k = nl.arange(64)[None, :]
    s = nl.load(a[i_q, i_k])
    nl.store(out, nisa.affine_select(pred=(i_q >= i_k + 4), on_true_tile=s[i_q, i_k],
                                     on_false_value=-1.0, dtype=nl.float32))
    return out
""",
        lambda a, b: np.where(np.arange(128)[:, None] >= np.arange(64)[None] + 4, a, -1),
    ),
    "causal mask in tiles": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    ip, jf = nl.mgrid[0:64, 0:64]
    for q in nl.affine_range(2):
        s = nl.load(a[q * 64 + ip, jf])
        m = nisa.affine_select(pred=(q * 64 + ip > jf), on_true_tile=s, on_false_value=0.0)
        nl.store(out[q * 64 + ip, jf], m)
    return out
""",
        lambda a, b: np.where(np.arange(128)[:, None] > np.arange(64)[None], a, 0),
    ),
    "layernorm bn": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.load(a)
    st = nisa.bn_stats(x, dtype=np.float32)
    mv = nisa.bn_aggr(st, dtype=np.float32)
    mean = mv[:, 0]
    rstd = nl.rsqrt(mv[:, 1] + 1e-5)
    y = nisa.tensor_scalar(x, np.subtract, mv[0:128, 0], op1=np.multiply, operand1=rstd)
    nl.store(out, value=y)
    return out
""",
        lambda a, b: (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5),
    ),
    "rmsnorm vector weights": (
        """@nki.jit
def kernel(a, g):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    ix = nl.arange(128)[:, None]
    iw = nl.arange(1)[:, None]
    iy = nl.arange(a.shape[1])[None, :]
    num_rows = a.shape[0]
    g_tile = nl.load(g.reshape((1, g.shape[0] * g.shape[1]))[iw, iy])
    for i in nl.affine_range(1):
        t = nl.load(a[i * 128 + ix, iy], mask=(i * 128 + ix < num_rows))
        sq = nl.square(t)
        s = nl.sum(sq, axis=[1])
        mean = s / a.shape[1]
        r = nl.rsqrt(mean)
        o = nl.multiply(t, r)
        gb = g_tile.broadcast_to((128, a.shape[1]))
        o[...] = nl.multiply(o, gb, mask=(i * 128 + ix < num_rows))
        nl.store(out[i * 128 + ix, iy], value=o, mask=(i * 128 + ix < num_rows))
    return out
""",
        lambda a, b: a / np.sqrt((a * a).mean(1, keepdims=True)) * b.reshape(-1)[:64],
    ),
    "strided": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(32)[None, :]
    t = nl.load(a)
    e = nisa.tensor_tensor(t[i_p, 2 * i_f], t[i_p, 2 * i_f + 1], op=nl.add)
    nl.store(out[i_p, i_f], value=e)
    return out
""",
        lambda a, b: a[:, ::2] + a[:, 1::2],
    ),
    "mutable output with call": (
        """@nki.jit
def kern(a, b, out):
    ip, jf = nl.mgrid[0:128, 0:64]
    x = nl.load(a[ip, jf])
    y = nl.load(b[ip, jf])
    nl.store(out[ip, jf], value=nisa.tensor_tensor(x, y, np.multiply))


def launch(a, b):
    out = np.zeros_like(a)
    nki.simulate_kernel(kern, a, b, out)
    return out
""",
        lambda a, b: a * b,
    ),
    "nested instruction calls": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.load(a)
    m = nisa.tensor_reduce(np.max, x, axis=(1,), negate=True)
    e = nisa.activation(np.exp, x, bias=m, scale=1.0)
    s = nisa.reciprocal(nisa.tensor_reduce(np.add, e, axis=(1,)))
    nl.store(out, value=nisa.tensor_scalar(e, np.multiply, s))
    return out
""",
        lambda a, b: softmax(a),
    ),
    "helper trace": (
        """@nki.trace
def scaled(t, f):
    return nl.multiply(t, f)


@nki.baremetal
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.load(a)
    nl.store(out, scaled(x, 3.0))
    return out
""",
        lambda a, b: 3 * a,
    ),
    "comprehension tiles": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    parts = [nl.load(t[0:128, 0:32]) for t in (a, b)]
    nl.store(out[0:128, 0:32], parts[0])
    nl.store(out[0:128, 32:64], parts[1])
    return out
""",
        lambda a, b: np.hstack([a[:, :32], b[:, :32]]),
    ),
    "named mask": (
        """@nki.jit
def kernel(a, b):
    n, m = a.shape
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(100)[:, None]
    i_f = nl.arange(m)[None, :]
    for t in nl.affine_range(2):
        ok = (t * 100 + i_p < n)
        x = nl.load(a[t * 100 + i_p, i_f], mask=ok)
        y = nisa.tensor_scalar(x, np.multiply, 2.0, mask=ok)
        nl.store(out[t * 100 + i_p, i_f], value=y, mask=ok)
    return out
""",
        lambda a, b: 2 * a,
    ),
    "masked isa subscripted": (
        """@nki.jit
def kernel(a, b):
    n, m = a.shape
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    ip, jf = nl.mgrid[0:96, 0:64]
    for t in nl.affine_range(2):
        x = nl.load(a[t * 96 + ip, jf], mask=(t * 96 + ip < n))
        y = nisa.activation(np.square, x[ip, jf], mask=(t * 96 + ip < n))
        nl.store(out[t * 96 + ip, jf], value=y[ip, jf], mask=(t * 96 + ip < n))
    return out
""",
        lambda a, b: a * a,
    ),
    "from imports": (
        """from neuronxcc.nki.language import load, store, arange


@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    i = arange(128)[:, None]
    j = arange(64)[None, :]
    store(out[i, j], load(a[i, j]) - load(b[i, j]))
    return out
""",
        lambda a, b: a - b,
    ),
    "3d index": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 8), dtype=a.dtype, buffer=nl.shared_hbm)
    x3 = a.reshape((128, 8, 8))
    i0 = nl.arange(128)[:, None, None]
    i1 = nl.arange(8)[None, :, None]
    i2 = nl.arange(8)[None, None, :]
    t = nl.load(x3[i0, i1, i2])
    s = nisa.tensor_reduce(np.add, t[i0, i1, i2], axis=[2])
    nl.store(out, s)
    return out
""",
        lambda a, b: a.reshape(128, 8, 8).sum(2),
    ),
    "select and compare": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x, y = nl.load(a), nl.load(b)
    c = nisa.tensor_tensor(x, y, op=np.greater)
    d = nisa.scalar_tensor_tensor(data=x, op0=np.multiply, operand0=2.0, op1=np.add, operand1=y)
    nl.store(out, value=nl.where(c, d, y))
    return out
""",
        lambda a, b: np.where(a > b, 2 * a + b, b),
    ),
    "in place update": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    acc = nl.zeros((128, 64), dtype=np.float32)
    for k in nl.sequential_range(3):
        acc[...] = nisa.tensor_tensor(acc, nl.load(a), op=np.add)
        acc[:, 0:32] = nl.add(acc[:, 0:32], 1.0)
    acc = nisa.tensor_scalar(acc, np.add, 0.5)
    nl.store(out, acc)
    return out
""",
        lambda a, b: np.hstack([3 * a[:, :32] + 3.5, 3 * a[:, 32:] + 0.5]),
    ),
    "double name assign": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    i_pa = i_pb = nl.arange(128)[:, None]
    i_f = nl.arange(64)[None, :]
    t = nl.load(a[i_pa, i_f])
    u = nl.load(b[i_pb, i_f])
    r = nisa.tensor_tensor(t[i_pa, i_f], u[i_pb, i_f], nl.maximum, dtype=nl.float32)
    nl.store(out[i_pa, i_f], r[i_pa, i_f])
    return out
""",
        lambda a, b: np.maximum(a, b),
    ),
    "psum overwritten in loop isa": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    ps = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    for k in nl.sequential_range(2):
        x = nl.load(a[k * 64:(k + 1) * 64, 0:64])
        y = nl.load(b[k * 64:(k + 1) * 64, 0:64])
        ps[...] = nisa.nc_matmul(x, y)
        nl.store(out[k * 64:(k + 1) * 64, 0:64], value=ps)
    return out
""",
        lambda a, b: np.vstack([a[:64].T @ b[:64], a[64:].T @ b[64:]]),
    ),
    "psum overwritten in loop nl": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    ps = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    for k in nl.sequential_range(2):
        x = nl.load(a[k * 64:(k + 1) * 64, 0:64])
        y = nl.load(b[k * 64:(k + 1) * 64, 0:64])
        ps[...] = nl.matmul(x, y, transpose_x=True)
        nl.store(out[k * 64:(k + 1) * 64, 0:64], value=ps)
    return out
""",
        lambda a, b: np.vstack([a[:64].T @ b[:64], a[64:].T @ b[64:]]),
    ),
    "matmul not transposed": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.load(a[0:64, 0:64])
    y = nl.load(b[0:64, 0:64])
    nl.store(out, value=nl.matmul(x, y))
    return out
""",
        lambda a, b: a[:64] @ b[:64],
    ),
    "attention like": (
        """@nki.jit
def kernel(q, k):
    out = nl.ndarray((64, 64), dtype=q.dtype, buffer=nl.shared_hbm)
    qt = nl.load(q[0:32, 0:64])
    kt = nl.load(k[0:32, 0:64])
    s_psum = nisa.nc_matmul(qt, kt)
    s = nisa.tensor_scalar(s_psum, np.multiply, 0.125)
    neg = nisa.tensor_reduce(np.max, s, axis=1, negate=True)
    e = nisa.activation(op=np.exp, data=s, bias=neg, scale=1.0)
    r = nisa.tensor_reduce(np.add, e, axis=1)
    inv = nisa.reciprocal(r)
    p = e * inv
    nl.store(out, value=p)
    return out
""",
        lambda a, b: softmax(a[:32].T @ b[:32] * 0.125),
    ),
    "conditional static": (
        """@nki.jit
def kernel(a, b, scale=None, flag=True):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.load(a)
    if flag:
        x = nisa.tensor_scalar(x, np.multiply, 2.0)
    if scale is not None:
        x = nl.multiply(x, scale)
    nl.store(out, x)
    return out
""",
        lambda a, b: 2 * a,
    ),
    "loop carried": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    run = nl.load(b)
    best = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
    best[...] = nl.copy(run)
    for i in nl.sequential_range(3):
        run = nisa.tensor_tensor(run, nl.load(a), op=np.add)
        best[...] = nl.maximum(best, run)
    nl.store(out, best)
    return out
""",
        lambda a, b: np.maximum.reduce([b, b + a, b + 2 * a, b + 3 * a]),
    ),
    "subtract reverse & pow": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.load(a)
    y = 1.0 - x ** 2
    z = 2 / (1.0 + nl.exp(-x))
    w = y - z
    w -= 0.5
    nl.store(out, w)
    return out
""",
        lambda a, b: 1 - a**2 - 2 / (1 + np.exp(-a)) - 0.5,
    ),
    "sum keepdims row": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(64)[None, :]
    x = nl.load(a[i_p, i_f])
    s = nl.sum(x[i_p, i_f], axis=1, keepdims=True)
    m = nl.mean(x, axis=1)
    nl.store(out[i_p, 0], value=s - m)
    return out
""",
        lambda a, b: (a.sum(1) - a.mean(1))[:, None],
    ),
    "index shift minus": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 60), dtype=a.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(4, 64)[None, :]
    t = nl.load(a)
    d = nisa.tensor_tensor(t[i_p, i_f], t[i_p, i_f - 4], op=np.subtract)
    nl.store(out[i_p, i_f - 4], d)
    return out
""",
        lambda a, b: a[:, 4:] - a[:, :-4],
    ),
    "multiple outputs tuple": (
        """@nki.jit
def kern(a, b, o1, o2):
    'Write the sum and the difference.'
    x = nl.load(a)
    y = nl.load(b)
    nl.store(o1, x + y)  # first
    for i in nl.affine_range(1):
        nl.store(o2[0:128, 0:64], x - y)


def launch(a, b):
    o1, o2 = np.zeros_like(a), np.zeros_like(a)
    kern(a, b, o1, o2)
    return o1 * o2
""",
        lambda a, b: (a + b) * (a - b),
    ),
}


@each_case("name", list(KERNELS))
def test_a_kernel_is_right_after_the_upgrade(name, tmp_path):
    body, expected = KERNELS[name]
    assert_right_after_upgrade(HEAD + body, expected, tmp_path)
