"""Large tiles take faster ways, in blocks of rows or on stored bfloat16; the bits are the same.

``strict`` always computes a tile at once and widened, so it is the reference here.
"""

import ml_dtypes
import numpy as np
import pytest
import torch

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl

assert torch  # loaded, so that the shortcut over its kernels is taken

BF16 = ml_dtypes.bfloat16
TYPES = {"float32": np.float32, "bfloat16": BF16, "float16": np.float16, "int32": np.int32}


def elementwise(a, b, c):
    x, y, z = nl.load(a), nl.load(b), nl.load(c)
    outs = []
    for i in range(4):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        if i == 0:
            nisa.tensor_tensor(dst=t, data1=x, data2=y, op=nl.add, engine=nisa.engine.vector)
        elif i == 1:
            nisa.tensor_scalar(dst=t, data=x, op0=nl.multiply, operand0=z, op1=nl.add, operand1=0.5)
        elif i == 2:
            nisa.scalar_tensor_tensor(
                dst=t, data=x, op0=nl.subtract, operand0=z, op1=nl.multiply, operand1=y
            )
        else:
            nisa.tensor_copy(dst=t, src=x)
            nisa.tensor_tensor(dst=t, data1=t, data2=y, op=nl.maximum, engine=nisa.engine.vector)
        nisa.dma_copy(dst=out, src=t)
        outs.append(out)
    return tuple(outs)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(128, 512), (128, 2048), (127, 1031), (3, 40000), (65, 1009)])
def test_blocks_and_shortcuts_give_the_bits_of_the_general_way(dtype, shape):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape) * 100 for _ in range(2))
    c = rng.standard_normal((shape[0], 1)).astype(np.float32)
    arrays = a.astype(TYPES[dtype]), b.astype(TYPES[dtype]), c
    fast = nkisim.simulate(elementwise)(*arrays)
    slow = nkisim.simulate(elementwise, strictness="strict")(*arrays)
    for got, want in zip(fast, slow, strict=True):
        assert got.dtype == TYPES[dtype]
        assert got.tobytes() == want.tobytes()


def test_nan_in_a_large_tile_keeps_the_general_bits():
    a = np.full((128, 1024), 2.0, BF16)
    a[3, 5], a[100, 1000] = np.nan, -np.float32(np.nan)
    c = np.ones((128, 1), np.float32)
    fast = nkisim.simulate(elementwise)(a, a, c)
    slow = nkisim.simulate(elementwise, strictness="strict")(a, a, c)
    for got, want in zip(fast, slow, strict=True):
        assert got.tobytes() == want.tobytes()


def test_an_overlapping_large_copy_reads_before_it_writes():
    def shifted(x):
        tile = nl.load(x)
        nisa.tensor_copy(dst=tile[:, 1:1024], src=tile[:, 0:1023])
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = np.arange(128 * 1024, dtype=np.float32).reshape(128, 1024)
    with pytest.warns(nkisim.NkiFindingWarning, match="M030"):
        got = nkisim.simulate(shifted)(x)
    np.testing.assert_array_equal(got[:, 1:], x[:, :-1])
