"""Arithmetic on small bfloat16 tiles: the bits of float32 arithmetic with one rounding."""

import ml_dtypes
import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case

BF16 = ml_dtypes.bfloat16


def through_float32(name, a, b):
    """The definition: widen, compute, round once (ml_dtypes rounds to nearest even)."""
    with np.errstate(all="ignore"):
        wide = getattr(np, name)(a.astype(np.float32), b.astype(np.float32))
        return wide.astype(BF16)


@each_case("name", ["add", "subtract", "multiply"])
@each_case("shift", [0, 1, 127, 4099, 32640, 32768])
@each_case("width", [8, 512])
def test_small_tiles_are_computed_as_through_float32(name, shift, width):
    every = np.arange(65536, dtype=np.uint16).view(BF16).reshape(-1, width)
    other = np.roll(every.reshape(-1), shift).reshape(every.shape)

    def kernel(x, y):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        height = min(128, 4095 // width)
        for i in range(0, x.shape[0], height):
            rows = slice(i, min(i + height, x.shape[0]))
            a, b = nl.load(x[rows, 0:width]), nl.load(y[rows, 0:width])
            nisa.tensor_tensor(dst=a, data1=a, data2=b, op=getattr(nl, name))
            nl.store(out[rows, 0:width], a)
        return out

    got = nkisim.simulate(kernel)(every, other)
    want = through_float32(name, every, other)
    with np.errstate(invalid="ignore"):
        one_number = ~(np.isnan(every) & np.isnan(other))
    assert got[one_number].tobytes() == want[one_number].tobytes()
    assert np.isnan(got[~one_number].astype(np.float32)).all()
