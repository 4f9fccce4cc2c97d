"""Whole kernels of Beta 1 with masks, helper functions and several kinds of indices."""

import numpy as np

from each_case import each_case
from nkisim.upgrade import upgrade_text
from upgraded import assert_right_after_upgrade, upgraded_result

HEAD = """\
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


"""
KERNELS = {
    "tiles of helper functions": (
        """def load_tile(t, row, rows=64):
    i_p = nl.arange(rows)[:, None]
    i_f = nl.arange(64)[None, :]
    return nl.load(t[row * rows + i_p, i_f])


def act(x):
    return nisa.activation(np.tanh, x)


@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for r in nl.affine_range(2):
        x = load_tile(a, r)
        y = load_tile(b, r)
        z = act(x + y)
        nl.store(out[r * 64:(r + 1) * 64, :], z)
    return out
""",
        lambda a, b: np.tanh(a + b),
    ),
    "instructions that have dst": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(src=b, dst=y)
    less = nisa.tensor_tensor(x, y, op=np.less, dtype=np.uint8)
    nisa.tensor_copy_predicated(src=y, dst=x, predicate=less)
    nisa.dma_copy(dst=out, src=x)
    return out
""",
        lambda a, b: np.maximum(a, b),
    ),
    "a reduction next to a function": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.load(a)
    s = nl.ndarray((128, 1), dtype=np.float32, buffer=nl.sbuf)
    e = nisa.activation_reduce(op=np.exp, data=x, reduce_op=np.add, reduce_res=s)
    t = nisa.tensor_scalar(s, np.multiply, 2.0)
    nl.store(out, t)
    return out
""",
        lambda a, b: 2 * np.exp(a).sum(1, keepdims=True),
    ),
    "masks on moved index tensors": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    rows, cols = a.shape
    P = 50
    for t in nl.affine_range((rows + P - 1) // P):
        i_p = t * P + nl.arange(P)[:, None]
        i_f = nl.arange(cols)[None, :]
        x = nl.load(a[i_p, i_f], mask=(i_p < rows))
        y = nl.load(b[i_p, i_f], mask=(i_p < rows))
        nl.store(out[i_p, i_f], nl.add(x, y), mask=(i_p < rows))
    return out
""",
        lambda a, b: a + b,
    ),
    "masked both dims": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for p in nl.affine_range(2):
        for f in nl.affine_range(2):
            ip, jf = nl.mgrid[0:100, 0:40]
            m = (p * 100 + ip < 128) & (f * 40 + jf < 64)
            x = nl.load(a[p * 100 + ip, f * 40 + jf], mask=m)
            y = nl.exp(x, mask=m)
            nl.store(out[p * 100 + ip, f * 40 + jf], y, mask=m)
    return out
""",
        lambda a, b: np.exp(a),
    ),
    "masked sum": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    ip = nl.arange(128)[:, None]
    jf = nl.arange(64)[None, :]
    x = nl.load(a[ip, jf])
    s = nl.sum(x[ip, jf], axis=1, keepdims=True, mask=(jf < 10))
    nl.store(out, s)
    return out
""",
        lambda a, b: a[:, :10].sum(1, keepdims=True),
    ),
    "load mask then sum": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray((128, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    ip = nl.arange(128)[:, None]
    jf = nl.arange(80)[None, :]
    x = nl.load(a[ip, jf], mask=(jf < 64))
    s = nl.sum(x, axis=1, keepdims=True, mask=(jf < 64))
    nl.store(out, s)
    return out
""",
        lambda a, b: a.sum(1, keepdims=True),
    ),
    "shifted parts of a tile": (
        """@nki.jit
def kernel(a, b):
    W = a.shape[1]
    K = 3
    out = nl.ndarray((128, W - K + 1), dtype=a.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_w = nl.arange(W - K + 1)[None, :]
    x = nl.load(a)
    acc = nl.zeros((128, W - K + 1), dtype=nl.float32)
    for k in nl.static_range(K):
        acc += x[i_p, i_w + k] * (k + 1.0)
    nl.store(out[i_p, i_w], acc)
    return out
""",
        lambda a, b: a[:, :-2] + 2 * a[:, 1:-1] + 3 * a[:, 2:],
    ),
    "batches": (
        """@nki.jit
def kernel(a, b):
    x3 = a.reshape((2, 64, 64))
    out = nl.ndarray((2, 64, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:64, 0:64]
    for bt in nl.affine_range(2):
        t = nl.load(x3[bt, i_p, i_f])
        nl.store(out[bt, i_p, i_f], value=nl.sqrt(nl.abs(t)))
    return out
""",
        lambda a, b: np.sqrt(np.abs(a)).reshape(2, 64, 64),
    ),
    "positions that are compared": (
        """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.load(a)
    pos = nisa.iota(nl.arange(64)[None, :] + 0 * nl.arange(128)[:, None], dtype=nl.float32)
    y = nl.where(pos < 10.0, x, 0.0)
    nl.store(out, y)
    return out
""",
        lambda a, b: np.where(np.arange(64) < 10, a, 0),
    ),
}


@each_case("name", list(KERNELS))
def test_a_kernel_is_right_after_the_upgrade(name, tmp_path):
    body, expected = KERNELS[name]
    assert_right_after_upgrade(HEAD + body, expected, tmp_path)


ROWS = """@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    i_f = nl.arange(64)[None, :]
    for t in nl.affine_range(2):
        i_p = t * 100 + nl.arange(100)[:, None]
        x = nl.load(a[i_p, i_f], mask=(i_p < 128))
        {}
        nl.store(out[i_p, i_f], y, mask=(i_p < 128))
    return out
"""
FINITE = {
    "root of squares": ("y = nl.rsqrt(nl.square(x))", lambda a: 1 / np.abs(a)),
    "quotient": ("y = 1.0 / x", lambda a: 1 / a),
    "logarithm of a function": ("z = nl.square(x)\n        y = nl.log(z)", lambda a: np.log(a * a)),
    "instruction": ("y = nisa.reciprocal(x)", lambda a: 1 / a),
    "root of a mean": (
        "s = nl.rsqrt(nl.mean(nl.square(x), axis=1, keepdims=True))\n"
        "        y = nl.multiply(x, nl.broadcast_to(s, shape=(100, 64)))",
        lambda a: a / np.sqrt((a * a).mean(1, keepdims=True)),
    ),
}


@each_case("name", list(FINITE))
def test_rows_that_are_masked_stay_finite(name, tmp_path):
    """The rest of a tile is computed, too: no warning of a result that is not finite."""
    body, expected = FINITE[name]
    outcome = upgrade_text(HEAD + ROWS.format(body))
    assert outcome.findings == []
    assert "nl.ones((100, 64)" in outcome.after
    assert any("check that it is finite" in change.review for change in outcome.changes)
    a = np.random.default_rng(0).uniform(0.5, 1.5, (128, 64)).astype(np.float32)
    # Functions of numbers of order 1 in float32: a few units in the last place.
    np.testing.assert_allclose(
        upgraded_result(outcome.after, tmp_path, [a, a]), expected(a), rtol=2e-5, atol=2e-6
    )


def test_columns_that_are_masked_are_zero_for_sums():
    """With zeros an unmasked sum is right; what may not be finite is said."""
    text = HEAD + ROWS.format("y = nl.rsqrt(nl.sum(x, axis=1))")
    text = text.replace("mask=(i_p < 128)", "mask=(i_f < 10)")
    outcome = upgrade_text(text)
    assert "nl.zeros((100, 64)" in outcome.after
    assert any("nl.rsqrt gets the rest" in change.review for change in outcome.changes)
    plain = upgrade_text(HEAD + ROWS.format("y = nl.exp(x)"))
    assert "nl.zeros((100, 64)" in plain.after
    assert not any("finite" in change.review for change in plain.changes)
