"""Arithmetic on stored bfloat16: the bits of float32 arithmetic with one rounding, or a refusal."""

import sys

import ml_dtypes
import numpy as np
import pytest
import torch

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.dtypes import (
    BFLOAT16_OPERATIONS,
    BFLOAT16_SMALL,
    bfloat16_arithmetic,
    convert,
    takes_bfloat16,
)

BF16 = ml_dtypes.bfloat16
pytestmark = pytest.mark.usefixtures("quiet_numpy")


@pytest.fixture
def quiet_numpy():
    """As in a run of a kernel."""
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(autouse=True)
def with_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(convert, "_has_vectors", lambda torch: True)


def through_float32(name, a, b):
    """The definition: widen, compute, round once (ml_dtypes rounds to nearest even)."""
    with np.errstate(all="ignore"):
        wide = getattr(np, name)(a.astype(np.float32), b.astype(np.float32))
        return wide.astype(BF16)


def finite_patterns():
    every = np.arange(65536, dtype=np.uint16).view(BF16)
    return every[np.isfinite(every.astype(np.float32))]


@pytest.mark.parametrize("name", BFLOAT16_OPERATIONS)
@pytest.mark.parametrize("shift", [1, 127, 128, 4099, 32640])
def test_every_finite_pattern_meets_another(name, shift):
    a = finite_patterns().reshape(1, -1)
    b = np.roll(a, shift)
    out = np.empty_like(a)
    assert bfloat16_arithmetic(name, a, b, out)
    want = through_float32(name, a, b)
    # A maximum or minimum of zeros of both signs may be either zero.
    same = (out.view(np.uint16) == want.view(np.uint16)) | ((out == 0) & (want == 0))
    assert same.all()


@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
def test_signed_zeros_are_kept(name):
    zeros = np.array([0.0, -0.0], BF16)
    a, b = (g.copy() for g in np.meshgrid(np.repeat(zeros, 100), np.repeat(zeros, 100)))
    out = np.empty_like(a)
    assert bfloat16_arithmetic(name, a, b, out)
    np.testing.assert_array_equal(out.view(np.uint16), through_float32(name, a, b).view(np.uint16))


@pytest.mark.parametrize("name", BFLOAT16_OPERATIONS)
def test_nan_results_of_torch_are_left_to_the_general_way(name):
    a = np.ones(20000, BF16)
    a[17] = np.nan
    assert not bfloat16_arithmetic(name, a, np.ones_like(a), np.empty_like(a))
    a[17] = -np.float32(np.nan)
    assert not bfloat16_arithmetic(name, a, np.ones_like(a), np.empty_like(a))


def test_small_and_strided_arrays_and_a_process_without_torch_are_refused(monkeypatch):
    large = np.ones((256, 256), BF16)
    assert not bfloat16_arithmetic("add", large[:4, :4], large[:4, :4], np.empty((4, 4), BF16))
    turned = np.ones((256, 256), BF16).T[:, ::2]
    assert not bfloat16_arithmetic("add", turned, turned, np.empty(turned.shape, BF16))
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not bfloat16_arithmetic("add", large, large, np.empty_like(large))


def test_which_ufuncs_take_bfloat16():
    """A maximum in float32 is the processor's, one of bfloat16 that of ml_dtypes."""
    names = {name for name in BFLOAT16_OPERATIONS if takes_bfloat16(getattr(np, name))}
    assert names == {"add", "subtract", "multiply"}


@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
@pytest.mark.parametrize("shift", [0, 1, 127, 4099, 32640, 32768])
@pytest.mark.parametrize("width", [8, 512])
def test_small_tiles_are_computed_as_through_float32(name, shift, width):
    every = np.arange(65536, dtype=np.uint16).view(BF16).reshape(-1, width)
    other = np.roll(every.reshape(-1), shift).reshape(every.shape)

    def kernel(x, y):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        height = min(128, (BFLOAT16_SMALL - 1) // width)
        for i in range(0, x.shape[0], height):
            rows = slice(i, min(i + height, x.shape[0]))
            a, b = nl.load(x[rows, 0:width]), nl.load(y[rows, 0:width])
            nisa.tensor_tensor(dst=a, data1=a, data2=b, op=getattr(nl, name))
            nl.store(out[rows, 0:width], a)
        return out

    got = nkisim.simulate(kernel)(every, other)
    want = through_float32(name, every, other)
    one_number = ~(np.isnan(every) & np.isnan(other))
    assert got[one_number].tobytes() == want[one_number].tobytes()
    assert np.isnan(got[~one_number].astype(np.float32)).all()
