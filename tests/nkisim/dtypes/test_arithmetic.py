"""Arithmetic on stored bfloat16: the bits of float32 arithmetic with one rounding, or a refusal."""

import sys

import ml_dtypes
import numba
import numpy as np
import pytest
import torch

from nkisim.dtypes import BFLOAT16_OPERATIONS, arithmetic, bfloat16_arithmetic, encode
from nkisim.dtypes import bfloat16 as stored_bfloat16

BF16 = ml_dtypes.bfloat16
pytestmark = pytest.mark.usefixtures("quiet_numpy")
MODULES = {"numba": numba, "torch": torch}


@pytest.fixture
def quiet_numpy():
    """As in a run of a kernel."""
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(params=sorted(MODULES))
def loaded(request, monkeypatch):
    """Show one of the two modules that can compute, and hide the other."""
    for name, module in MODULES.items():
        monkeypatch.setitem(sys.modules, name, module if name == request.param else None)
    return request.param


@pytest.fixture
def with_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "numba", None)


@pytest.fixture
def with_numba(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", numba)
    monkeypatch.setitem(sys.modules, "torch", None)


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
def test_every_finite_pattern_meets_another(name, shift, loaded):
    a = finite_patterns().reshape(1, -1)
    b = np.roll(a, shift)
    out = np.empty_like(a)
    assert bfloat16_arithmetic(name, a, b, out)
    want = through_float32(name, a, b)
    # A maximum or minimum of zeros of both signs may be either zero.
    same = (out.view(np.uint16) == want.view(np.uint16)) | ((out == 0) & (want == 0))
    assert same.all()


@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
def test_signed_zeros_are_kept(name, loaded):
    zeros = np.array([0.0, -0.0], BF16)
    a, b = (g.copy() for g in np.meshgrid(np.repeat(zeros, 100), np.repeat(zeros, 100)))
    out = np.empty_like(a)
    assert bfloat16_arithmetic(name, a, b, out)
    np.testing.assert_array_equal(out.view(np.uint16), through_float32(name, a, b).view(np.uint16))


@pytest.mark.usefixtures("with_torch")
@pytest.mark.parametrize("name", BFLOAT16_OPERATIONS)
def test_nan_results_of_torch_are_left_to_the_general_way(name):
    a = np.ones(20000, BF16)
    a[17] = np.nan
    assert not bfloat16_arithmetic(name, a, np.ones_like(a), np.empty_like(a))
    a[17] = -np.float32(np.nan)
    assert not bfloat16_arithmetic(name, a, np.ones_like(a), np.empty_like(a))


@pytest.mark.usefixtures("with_torch")
def test_small_and_strided_arrays_and_a_process_without_torch_are_refused(monkeypatch):
    large = np.ones((256, 256), BF16)
    assert not bfloat16_arithmetic("add", large[:4, :4], large[:4, :4], np.empty((4, 4), BF16))
    turned = np.ones((256, 256), BF16).T[:, ::2]
    assert not bfloat16_arithmetic("add", turned, turned, np.empty(turned.shape, BF16))
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not bfloat16_arithmetic("add", large, large, np.empty_like(large))


@pytest.mark.usefixtures("with_numba")
@pytest.mark.parametrize("name", BFLOAT16_OPERATIONS)
def test_numba_keeps_the_sign_of_every_nan(name):
    every = np.arange(65536, dtype=np.uint16).view(BF16).reshape(1, -1)
    for shift in (0, 1, 64, 32704, 32768):
        other, out = np.roll(every, shift), np.empty_like(every)
        assert bfloat16_arithmetic(name, every, other, out)
        want = through_float32(name, every, other)
        nan = np.isnan(want.astype(np.float32))
        np.testing.assert_array_equal(out.view(np.uint16)[nan], want.view(np.uint16)[nan])


@pytest.mark.usefixtures("with_numba")
def test_numba_takes_rows_that_are_apart():
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((130, 90)).astype(BF16) for _ in range(2))
    out = np.zeros((65, 270), BF16)
    view = out[:, 90:180]
    assert bfloat16_arithmetic("subtract", a[::2], b[1::2], view)
    np.testing.assert_array_equal(
        view.view(np.uint16), through_float32("subtract", a[::2], b[1::2]).view(np.uint16)
    )
    assert not out[:, :90].any()
    assert not out[:, 180:].any()


@pytest.mark.usefixtures("with_numba")
def test_strided_rows_are_left_to_the_general_way():
    dense, wide = np.ones((64, 64), BF16), np.ones((64, 128), BF16)
    for a, b, out in [
        (dense, dense, wide[:, ::2]),
        (dense.T, dense.T, dense.copy()),
        (wide[:, ::2], dense, dense.copy()),
    ]:
        assert not bfloat16_arithmetic("add", a, b, out)


@pytest.mark.usefixtures("with_numba")
def test_numba_rounds_every_upper_half_like_numpy():
    upper = np.arange(65536, dtype=np.uint32) << 16
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    values = (upper | lower[:, None]).view(np.float32)
    with np.errstate(all="ignore"):
        want = values.astype(BF16).view(np.uint16)
        np.testing.assert_array_equal(encode(values, stored_bfloat16).view(np.uint16), want)


@pytest.mark.usefixtures("with_numba")
def test_a_numba_that_computes_otherwise_is_not_used(monkeypatch):
    monkeypatch.setattr(arithmetic, "_compiled", lambda name: None)
    large = np.ones((256, 256), BF16)
    assert not bfloat16_arithmetic("add", large, large, np.empty_like(large))
