"""Whole kernels of older releases: right after the upgrade, by 0.3.0 and by later versions."""

import numpy as np
import pytest

import nkisim
from upgraded import upgrade_text, upgraded_result

ROWS, COLUMNS = 128, 64
BETA1 = """\
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


"""
BETA2 = """\
import nki
import nki.isa as nisa
import nki.language as nl


"""

KERNELS = {
    "beta1 scaled sum with index tensors": (
        BETA1
        + '''@nki.jit
def kernel(a, b):
    """Add, then scale."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]  # rows
    i_f = nl.arange(64)[None, :]
    x = nl.load(a[i_p, i_f])
    y = nl.load(b[i_p, i_f])
    z = (x + y) * 0.5  # the mean
    nl.store(out[i_p, i_f], value=z)
    return out
''',
        lambda a, b: (a + b) * 0.5,
    ),
    "beta1 tiled matmul": (
        BETA1
        + """@nki.jit
def kernel(a, b):
    K, M = a.shape
    N = b.shape[1]
    out = nl.ndarray((M, N), dtype=a.dtype, buffer=nl.shared_hbm)
    acc = nl.zeros((M, N), nl.float32, buffer=nl.psum)
    i_k, i_m = nl.mgrid[0:32, 0:M]
    for k in nl.affine_range(K // 32):
        lhs = nl.ndarray((32, nl.par_dim(M)), dtype=a.dtype, buffer=nl.sbuf)
        acc += nl.matmul(nl.load(a[k * 32 + i_k, i_m]), nl.load(b[k * 32:(k + 1) * 32, :]),
                         transpose_x=True)
    res = nl.copy(acc, dtype=out.dtype)
    nl.store(out, value=res)
    return out
""".replace("        lhs = nl.ndarray((32, nl.par_dim(M)), dtype=a.dtype, buffer=nl.sbuf)\n", ""),
        lambda a, b: a.T @ b,
    ),
    "beta1 instructions that return": (
        BETA1
        + """@nki.jit(mode="torchxla")
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray((nl.par_dim(128), 64), dtype=a.dtype, buffer=nl.sbuf)
    x[...] = nl.load(a)
    y = nl.load(b)
    top = nisa.tensor_reduce(np.max, data=x, axis=[1])
    x = nisa.tensor_scalar(x, op0=np.subtract, operand0=top)
    e = nisa.activation(op=nl.exp, data=x)
    prod = nisa.tensor_tensor(e, y, op=np.multiply, dtype=np.float32)
    nl.store(out, value=nisa.tensor_copy(prod))
    return out
""",
        lambda a, b: np.exp(a - a.max(1, keepdims=True)) * b,
    ),
    "beta1 softmax": (
        BETA1
        + """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.hbm)
    ix = nl.mgrid[0:128, 0:64]
    x = nl.load(a[ix.p, ix.x])
    e = nl.exp(x - nl.max(x, axis=1, keepdims=True))
    s = nl.sum(e, axis=1, keepdims=True)
    e *= 1.0 / s
    nl.store(out[ix.p, ix.x], value=e)
    return out
""",
        lambda a, b: (
            np.exp(a - a.max(1, keepdims=True))
            / np.exp(a - a.max(1, keepdims=True)).sum(1, keepdims=True)
        ),
    ),
    "beta1 tail with masks": (
        BETA1
        + """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    n = a.shape[0]
    i_p = nl.arange(48)[:, None]
    i_f = nl.arange(a.shape[1])[None, :]
    for k in nl.affine_range((n + 47) // 48):
        x = nl.load(a[k * 48 + i_p, i_f], mask=(k * 48 + i_p < n))
        y = nl.load(b[k * 48 + i_p, i_f], mask=(i_p + k * 48 < n))
        z = x * x - y / nl.exp(x)
        nl.store(out[k * 48 + i_p, i_f], value=z, mask=(k * 48 + i_p < n))
    return out
""",
        lambda a, b: a * a - b / np.exp(a),
    ),
    "beta1 moved index tensors": (
        BETA1
        + """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for k in nl.affine_range(2):
        off = k * 64
        ix = off + nl.arange(64)[:, None]
        iy = nl.arange(64)[None, :]
        x = nl.load(a[ix, iy])
        y = nl.load(b[ix, iy])
        nl.store(out[ix, iy], value=nl.where(x > y, x, -y))
    return out
""",
        lambda a, b: np.where(a > b, a, -b),
    ),
    "beta1 memset and assignments": (
        BETA1
        + """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    acc = nisa.memset((128, 64), 2.0, np.float32)
    t = nl.ndarray((128, 64), dtype=np.float32, buffer=nl.sbuf)
    t[0:128, 0:32] = 1
    t[0:128, 32:64] = nl.load(b[0:128, 32:64])
    acc += t
    acc[0:128, 0:8] = nl.load(a[0:128, 0:8])
    nl.store(out, acc)
    return out
""",
        lambda a, b: np.hstack([a[:, :8], np.full((ROWS, 24), 3.0), b[:, 32:] + 2]),
    ),
    "beta1 transpose": (
        BETA1
        + """@nki.jit
def kernel(a, b):
    out = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.shared_hbm)
    t = nisa.nc_transpose(nl.load(a))
    s = nisa.tensor_copy(t, engine=nisa.vector_engine)
    nl.store(out, s)
    return out
""",
        lambda a, b: a.T,
    ),
    "beta2 matmul out of PSUM": (
        BETA2
        + """@nki.jit(platform_target="trn2")
def kernel(a, b, *, scale=1.0):
    out = nl.ndarray((64, 64), dtype=a.dtype, buffer="hbm")
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer="sbuf")
    y = nl.ndarray(b.shape, dtype=b.dtype, buffer="sbuf")
    nisa.dma_copy(x, a, None, 0)
    nisa.dma_copy(dst=y, src=b, dge_mode=0)
    acc = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, x, y, False, False, False, (0, 0), (128, 64))
    if scale is not None:
        nisa.dma_copy(dst=out, src=acc)
    return out
""",
        lambda a, b: a.T @ b,
    ),
    "beta2 accumulating DMA": (
        BETA2
        + """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    acc = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    one = nl.ndarray((128, 64), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(one, value=1.0)
    for k in range(2):
        op = None if k == 0 else nl.add
        nisa.dma_copy(dst=acc, src=a if k == 0 else b, dst_rmw_op=op, unique_indices=True)
    nisa.tensor_tensor(acc, acc, one, nl.add)
    nisa.dma_copy(dst=out, src=acc)
    return out
""",
        lambda a, b: a + b + 1,
    ),
    "beta2 reduction over the last dimension": (
        BETA2
        + """@nki.jit(mode="jax")
def kernel(a, b, shape=[8, 8]):
    out = nl.ndarray((128, 16), dtype=a.dtype, buffer=nl.hbm)
    t = nl.ndarray((128, 16, 4), dtype=a.dtype, buffer=nl.sbuf)
    s = nl.ndarray((128, 16), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=a.reshape((128, 16, 4)))
    nisa.tensor_reduce(dst=s, op=nl.add, data=t, axis=1)
    nisa.dma_copy(dst=out, src=s, engine=nisa.dma_engine)
    return out
""",
        lambda a, b: a.reshape(ROWS, 16, 4).sum(2),
    ),
    "beta1 blocks in front of the partition": (
        BETA1
        + """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    held = nl.ndarray((4, nl.par_dim(32), 64), dtype=a.dtype, buffer=nl.sbuf)
    sums = nl.zeros((2, 2, nl.par_dim(32), 1), dtype=a.dtype, buffer=nl.sbuf)
    for k in nl.affine_range(4):
        held[k] = nl.load(a[k * 32:(k + 1) * 32, :])
    for i in nl.affine_range(2):
        for j in nl.affine_range(2):
            sums[i, j, :, :] = nl.sum(held[2 * i + j, 0:32, 0:64], axis=1)
    i_p = nl.arange(32)[:, None]
    i_f = nl.arange(64)[None, :]
    for k in nl.affine_range(4):
        t = held[k, i_p, i_f] + sums[k // 2, k % 2, i_p, 0]
        nl.store(out[32 * k + i_p, i_f], t)
    return out
""",
        lambda a, b: a + a.sum(1, keepdims=True),
    ),
    "beta1 masks next to whole tiles": (
        BETA1
        + """@nki.jit
def kernel(a, b):
    n, m = a.shape
    out = nl.ndarray((n, m), dtype=a.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(96)[:, None]
    i_f = nl.arange(40)[None, :]
    row = nl.load(b[0:1, 0:40])
    for i in nl.affine_range((n + 95) // 96):
        for j in nl.affine_range((m + 39) // 40):
            rows = 96 * i + i_p
            cols = j * 40 + i_f
            x = nl.load(a[rows, cols], mask=(rows < n) & (cols <= m - 1))
            y = nl.add(x, row.broadcast_to((96, 40)), mask=(rows < n))
            y[...] = nl.multiply(y, 2.0, mask=(n > rows))
            nl.store(out[rows, cols], value=y, mask=(rows < n) & (cols < m))
    return out
""",
        lambda a, b: 2 * (a + np.tile(b[:1, :40], (1, 2))[:, :64]),
    ),
    "beta1 masked reduction": (
        BETA1
        + """@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    t = nl.load(a)
    tops = nl.ndarray((nl.par_dim(128), 2), dtype=a.dtype, buffer=nl.sbuf)
    i_p, i_f = nl.mgrid[0:128, 0:48]
    i_o = nl.arange(128)[:, None]
    for j in nl.affine_range(2):
        tops[i_o, j] = nl.max(t[i_p, 48 * j + i_f], axis=1, mask=(48 * j + i_f < 64))
    nl.store(out, nl.max(tops, axis=1))
    return out
""",
        lambda a, b: a.max(1, keepdims=True),
    ),
    "beta1 strides and patterns": (
        BETA1
        + """@nki.jit
def kernel(a, b):
    rows, columns = a.shape
    out = nl.ndarray((rows, columns), dtype=a.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(rows)[:, None, None]
    i_r = nl.arange(4)[None, :, None]
    i_c = nl.arange(16)[None, None, :]
    t = nl.load(a)
    turned = nl.ndarray((rows, columns), dtype=a.dtype, buffer=nl.sbuf)
    turned[i_p, i_c * 4 + i_r] = nl.copy(t[i_p, i_r * 16 + i_c])
    j_p = nl.arange(rows)[:, None]
    even = 2 * nl.arange(32)[None, :]
    odd = even + 1
    nl.store(out[j_p, even], turned[j_p, odd])
    nl.store(out[j_p, odd], turned[j_p, even])
    return out
""",
        lambda a, b: (
            a.reshape(ROWS, 4, 16)
            .transpose(0, 2, 1)
            .reshape(ROWS, 32, 2)[:, :, ::-1]
            .reshape(ROWS, 64)
        ),
    ),
    "beta1 pooling over two axes": (
        BETA1
        + """@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 4, 4), dtype=a.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 8, 8), dtype=a.dtype, buffer=nl.sbuf)
    t[...] = nl.load(a.reshape((128, 8, 8)))
    p, y, i, x, j = nl.mgrid[0:128, 0:4, 0:2, 0:4, 0:2]
    nl.store(out, nl.max(t[p, 2 * y + i, 2 * x + j], axis=[2, 4]))
    return out
""",
        lambda a, b: a.reshape(ROWS, 4, 2, 4, 2).max((2, 4)),
    ),
    "beta1 transposed store": (
        BETA1
        + """@nki.jit
def kernel(a, b):
    out = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(64)[:, None]
    i_f = nl.arange(32)[None, :]
    for k in nl.affine_range(4):
        t = nl.load(b[64 + i_p, 32 * (k % 2) + i_f])
        nl.store(out[32 * (k % 2) + i_f, 64 * (k // 2) + i_p], value=t)
    return out
""",
        lambda a, b: np.hstack([b[64:].T, b[64:].T]),
    ),
    "beta1 zeros in PSUM, whole and in blocks": (
        BETA1
        + """@nki.jit
def kernel(a, b):
    out = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    acc = nl.zeros((2, nl.par_dim(32), 64), dtype=np.float32, buffer=nl.psum)
    i_k, i_n = nl.mgrid[0:64, 0:64]
    i_m = nl.arange(32)[None, :]
    j_k = nl.arange(64)[:, None]
    for m in nl.affine_range(2):
        for k in nl.affine_range(2):
            x = nl.load(a[64 * k + j_k, 32 * m + i_m])
            y = nl.load(b[64 * k + i_k, i_n])
            acc[m, 0:32, 0:64] += nisa.nc_matmul(x, y)
    for m in nl.affine_range(2):
        nl.store(out[32 * m:32 * m + 32, :], nl.copy(acc[m]))
    return out
""",
        lambda a, b: a.T @ b,
    ),
    "beta1 matmul of a tile that is not transposed": (
        BETA1
        + """import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.typing as nt


@nki.profile(working_directory=".")
@ncc.skip_middle_end_transformations
def kernel(a, b):
    out = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray((nl.par_dim(128), 64), dtype=a.dtype, buffer=ncc.sbuf.auto_alloc())
    x[...] = nl.load(a)
    y: nt.tensor[64, 128] = nl.transpose(nl.load(b))
    nl.store(out, nl.matmul(x, y, transpose_x=False))
    return out
""",
        lambda a, b: a @ b.T,
    ),
    "beta1 constants, powers and the transpose of a matmul": (
        BETA1
        + """@nki.jit
def kernel(a, b):
    out = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.shared_hbm)
    one = nl.shared_constant(np.identity(128, dtype=np.int8), dtype=a.dtype)
    unit = nl.load(one)
    x = nl.load(a) ** 2
    turned = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.sbuf)
    turned[...] = nisa.nc_matmul(x, unit)
    nl.store(out, nl.power(turned, 0.5))
    return out
""",
        lambda a, b: np.abs(a).T,
    ),
    "beta2 reduction of tiles whose shapes a helper does not show": (
        BETA2
        + """def last(dst, data):
    nisa.tensor_reduce(dst=dst, op=nl.add, data=data, axis=1)


@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 8), dtype=a.dtype, buffer=nl.shared_hbm)
    if b is not None and nisa.get_nc_version() >= nisa.nc_version.gen2:
        x = nl.ndarray((128, 8, 8), dtype=a.dtype, buffer="sbuf")
        nisa.dma_copy(dst=x, src=a.reshape((128, 8, 8)))
        s = nl.ndarray((128, 8), dtype=a.dtype, buffer=nl.sbuf)
        last(s, x)
        t = nl.ndarray(s.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=t, src=s, dtype=a.dtype)
        nisa.dma_copy(dst=out, src=t)
    return out
""",
        lambda a, b: a.reshape(128, 8, 8).sum(2),
    ),
    "beta2 identity without NumPy": (
        BETA2.replace(
            "import nki.isa as nisa\n", "import nki.isa as nisa\nimport nki.tensor as nt\n"
        )
        + """@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.shared_hbm)
    c = nl.shared_constant(nt.identity(128, dtype=nl.int8), dtype=nl.float32)
    d = nl.shared_constant(nt.zeros((128, 128), dtype=nl.int8) + 1, dtype=nl.float32)
    x = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=c)
    nisa.dma_copy(dst=y, src=d)
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
    nisa.dma_copy(dst=out, src=x)
    return out
""",
        lambda a, b: np.eye(128) + 1,
    ),
    "beta2 constants of nki.tensor": (
        BETA2
        + """import nki.tensor as ntensor
import numpy as np


@nki.jit
def kernel(a, b):
    out = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.shared_hbm)
    one = nl.shared_constant(ntensor.identity(128, dtype=nl.int8), dtype=nl.float32)
    unit = nl.ndarray((128, 128), dtype=nl.float32, buffer="sbuf")
    nisa.dma_copy(dst=unit, src=one)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    acc = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=x, moving=unit)
    nisa.dma_copy(dst=out, src=acc)
    return out
""",
        lambda a, b: a.T,
    ),
}


# Warnings are errors in the tests: a deprecated argument counts as a failure, too.
REFUSED = (ImportError, nkisim.NkiValidationError, TypeError, DeprecationWarning)


def operands():
    rng = np.random.default_rng(0)
    return [rng.standard_normal((ROWS, COLUMNS)).astype(np.float32) for _ in range(2)]


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_fails_before_and_is_right_after(name, tmp_path):
    text, expected = KERNELS[name]
    arrays = operands()
    outcome = upgrade_text(text)
    assert outcome.problem == ""
    assert outcome.findings == []
    with pytest.raises(REFUSED):
        upgraded_result(text, tmp_path, arrays)
    result = upgraded_result(outcome.after, tmp_path, arrays)
    np.testing.assert_allclose(result, expected(*arrays), rtol=2e-5, atol=2e-5)
    assert upgrade_text(outcome.after).after == outcome.after


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_of_a_beta_is_right_in_the_newest_version(name, tmp_path):
    text, expected = KERNELS[name]
    arrays = operands()
    outcome = upgrade_text(text, target="0.6.0")
    assert outcome.problem == ""
    assert outcome.findings == []
    result = upgraded_result(outcome.after, tmp_path, arrays, "0.6")
    np.testing.assert_allclose(result, expected(*arrays), rtol=2e-5, atol=2e-5)
    assert upgrade_text(outcome.after, target="0.6.0").after == outcome.after


HEAD = BETA2 + "@nki.jit\ndef kernel(a, b):\n"
ROW = "nl.ndarray((1, 64), dtype=nl.float32, buffer=nl.sbuf)"
COUNT = """\
    out = nl.ndarray((1, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    total = nl.zeros((1, 64), dtype=nl.float32, buffer=nl.sbuf)
    row = nl.ndarray((1, 64), dtype=nl.float32, buffer=nl.sbuf)
    one = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    left = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(one, 1)
    nisa.memset(left, 5)
    r = nisa.register_alloc()
    nisa.register_load(r, left)
"""

# Each kernel is legal in the version that it is for; the upgraded text gives the same bits in 0.6.
LATER = {
    "positions, ranges and engines": (
        "0.3",
        {"MG-401", "MG-403a", "MG-603", "MG-604"},
        """\
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    s = nl.ndarray((128, 1), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(x, a, nisa.oob_mode.error, nisa.dge_mode.unknown)
    for k in nl.sequential_range(2):
        nisa.tensor_scalar_reduce(x, x, nl.multiply, 0.5, nl.add, s, False, f"half{k}")
        nisa.tensor_scalar(dst=x, data=x, op0=nl.subtract, operand0=s, engine=nisa.vector_engine)
    nisa.dma_copy(dst=out, src=x)
    return out
""",
    ),
    "a transpose with an engine that counted for nothing": (
        "0.3",
        {"MG-412"},
        """\
    out = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    p = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.psum)
    y = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.nc_transpose(dst=p, data=x, engine=nisa.engine.vector)
    nisa.tensor_copy(dst=y, src=p)
    nisa.dma_copy(dst=out, src=y)
    return out
""",
    ),
    "sizes of memories": (
        "0.3",
        {"MG-407"},
        """\
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    columns = min(64, nl.tile_size.psum_fmax, nl.tile_size.total_available_sbuf_size // 4)
    x = nl.ndarray((128, columns), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=out, src=x)
    return out
""",
    ),
    "one row of a tile of three dimensions": (
        "0.4",
        {"MG-503"},
        """\
    out = nl.ndarray((4, 8, 8), dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray((128, 8, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a.reshape((128, 8, 8)))
    for k in range(4):
        nisa.dma_copy(dst=out[k], src=x[k])
    return out
""",
    ),
    "a loop with a bound in a register": (
        "0.5",
        {"MG-601"},
        COUNT
        + f"""\
    for i in nl.dynamic_range(1, r, 2):
        t = {ROW}
        nisa.dma_copy(dst=t, src=a.ap([[64, 1], [1, 64]], scalar_offset=i, indirect_dim=0))
        nisa.tensor_tensor(dst=total, data1=total, data2=t, op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out
""",
    ),
    "a loop while a register is not zero": (
        "0.5",
        {"MG-602"},
        COUNT
        + """\
    nisa.dma_copy(dst=row, src=a[0:1, 0:64])
    while r:
        nisa.tensor_tensor(dst=total, data1=total, data2=row, op=nl.add)
        nisa.tensor_tensor(dst=left, data1=left, data2=one, op=nl.subtract)
        nisa.register_load(r, left)
    nisa.dma_copy(dst=out, src=total)
    return out
""",
    ),
}


@pytest.mark.parametrize("name", LATER)
def test_an_upgraded_kernel_gives_the_same_bits(name, tmp_path):
    since, rules, body = LATER[name]
    outcome = upgrade_text(HEAD + body, since, "0.6.0")
    assert outcome.problem == ""
    assert outcome.findings == []
    assert {change.rule for change in outcome.changes} == rules
    arrays = operands()
    before = upgraded_result(HEAD + body, tmp_path, arrays, since)
    after = upgraded_result(outcome.after, tmp_path, arrays, "0.6")
    assert before.dtype == after.dtype
    assert before.tobytes() == after.tobytes()
