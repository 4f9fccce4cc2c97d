"""What is stored where narrow floats are kept wide: float32 as it was computed."""

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from tiles import loaded, stored


@nkisim.jit
def through(x, dtype):
    """The numbers of x, computed into a tile of a dtype and out of it again."""
    narrow = nl.ndarray(x.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=narrow, data=loaded(x), op0=nl.multiply, operand0=1.0)
    wide = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=wide, src=narrow)
    return stored(wide)


@pytest.mark.parametrize(("dtype", "bits"), [(nl.tfloat32, 10), (nl.bfloat16, 7)])
def test_wide_floats_are_not_rounded(dtype, bits):
    x = np.random.default_rng(0).uniform(1, 2, (8, 8)).astype(np.float32)
    np.testing.assert_array_equal(nkisim.simulate(through, precise_fp=False)(x, dtype), x)
    # Between 1 and 2 a significand of so many bits has steps of that size.
    rounded = np.round(x * 2.0**bits) / 2.0**bits
    np.testing.assert_array_equal(nkisim.simulate(through, precise_fp=True)(x, dtype), rounded)
