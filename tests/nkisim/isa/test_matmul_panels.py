"""nc_matmul by compiled loops gives the bits of BLAS, and leaves to BLAS what it cannot."""

import sys

import ml_dtypes
import numba
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from comparing import assert_same_bits
from nkisim.compiled import panels
from nkisim.compiled.helper import helper_for

BF16 = ml_dtypes.bfloat16
NARROW = {
    "bfloat16": BF16,
    "float8_e4m3": ml_dtypes.float8_e4m3,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float16": np.float16,
}


@pytest.fixture(autouse=True)
def possible():
    if not panels.agrees(64, 32, 48):
        pytest.skip("this processor has not the registers, or its BLAS another order")


def both_ways(monkeypatch, kernel, *arguments):
    """Results by BLAS, results with panels, and how many products the panels have computed."""
    agrees, products, results = panels.agrees, [], []

    def counted(multiply):
        def multiplied(*arguments):
            done = multiply(*arguments)
            products.append(done is not False)
            return done

        return multiplied

    def agreed(*size):
        before = len(products)
        found = agrees(*size)
        del products[before:]  # the trial
        return found

    multiplier = panels.bytes_multiplier
    for way in (None, numba):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "numba", way)
            patch.setitem(sys.modules, "torch", None)
            patch.setattr("nkisim.machine.products._PANEL_PRODUCTS", 1)
            patch.setattr(panels, "agrees", agreed)
            for name in ("multiply", "pack_and_multiply"):
                patch.setattr(panels, name, counted(getattr(panels, name)))
            patch.setattr(panels, "bytes_multiplier", lambda: counted(multiplier()))
            results.append(nkisim.simulate(kernel)(*arguments))
    return *results, sum(products)


def draw(seed, shape, dtype=BF16):
    return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(dtype)


def load(source):
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def store(tile):
    copied = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copied, src=tile)
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=copied)
    return out


@nkisim.jit
def summed(a, b, accumulate):
    left, right = load(a), load(b)
    total = nl.ndarray((left.shape[1], right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    for flag in accumulate:
        nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=flag)
    return store(total)


@pytest.mark.parametrize("name", NARROW)
def test_types_of_fewer_bits_than_float32_give_the_same_bits(monkeypatch, name):
    a, b = draw(1, (64, 33), NARROW[name]), draw(2, (64, 47), NARROW[name])
    want, got, products = both_ways(monkeypatch, summed, a, b, (False, True))
    assert_same_bits(got, want)
    assert products == 2


@pytest.mark.parametrize("accumulate", [(False,), (None,), (None, None), (False, True, None, True)])
def test_every_way_to_accumulate_gives_the_same_bits(monkeypatch, accumulate):
    a, b = draw(3, (128, 128)), draw(4, (128, 64))
    want, got, products = both_ways(monkeypatch, summed, a, b, accumulate)
    assert_same_bits(got, want)
    assert products == len(accumulate)


def test_float32_is_for_blas_where_nobody_helps(monkeypatch):
    """Nothing is compiled, or tried, for a product that is BLAS's anyway."""
    monkeypatch.setattr(panels, "agrees", None)
    a, b = draw(5, (64, 32), np.float32), draw(6, (64, 48), np.float32)
    want, got, products = both_ways(monkeypatch, summed, a, b, (False,))
    assert_same_bits(got, want)
    assert products == 0


@pytest.fixture
def helped(monkeypatch):
    """Every product is large enough for two threads, and there are two."""
    monkeypatch.setattr("nkisim.compiled.helper._WORTH_WAKING", 1)
    if not helper_for(1) or not panels.agrees(64, 33, 47, False):
        pytest.skip("no second thread, or a BLAS that has another order for float32")


@pytest.mark.usefixtures("helped")
@pytest.mark.parametrize("accumulate", [(False,), (None, None), (False, True, None, True)])
def test_float32_of_two_threads_gives_the_same_bits(monkeypatch, accumulate):
    a, b = draw(5, (64, 33), np.float32), draw(6, (64, 47), np.float32)
    want, got, products = both_ways(monkeypatch, summed, a, b, accumulate)
    assert_same_bits(got, want)
    assert products == len(accumulate)


@pytest.mark.usefixtures("helped")
def test_slices_and_strides_of_float32_give_the_same_bits(monkeypatch):
    @nkisim.jit
    def kernel(a, b):
        left, right = load(a), load(b)
        total = nl.ndarray((32, 40), dtype=nl.float32, buffer=nl.psum)
        part = left[0:64, 8:40]
        nisa.nc_matmul(dst=total, stationary=part, moving=right[0:64, 0:40], accumulate=False)
        nisa.nc_matmul(dst=total, stationary=part, moving=right[0:64, 56:96], accumulate=True)
        every_other = right.ap(pattern=[[96, 64], [2, 40]], offset=3)
        nisa.nc_matmul(dst=total, stationary=part, moving=every_other, accumulate=True)
        return store(total)

    a, b = draw(11, (64, 64), np.float32), draw(12, (64, 96), np.float32)
    want, got, products = both_ways(monkeypatch, kernel, a, b)
    assert_same_bits(got, want)
    assert products == 2  # BLAS has the one with other strides


@pytest.mark.usefixtures("helped")
@pytest.mark.filterwarnings("ignore::nkisim.NkiFindingWarning")
@pytest.mark.parametrize("hint", ["is_stationary_onezero", "is_moving_onezero"])
def test_float32_that_a_hint_rounds_is_for_blas(monkeypatch, hint):
    @nkisim.jit
    def kernel(a, b):
        left, right = load(a), load(b)
        total = nl.ndarray((33, 47), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=False, **{hint: True})
        return store(total)

    a, b = draw(5, (64, 33), np.float32), draw(6, (64, 47), np.float32)
    want, got, products = both_ways(monkeypatch, kernel, a, b)
    assert_same_bits(got, want)
    assert products == 0


@pytest.mark.usefixtures("helped")
def test_narrow_types_that_are_kept_as_float32_are_for_blas(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    a, b = draw(5, (64, 33)), draw(6, (64, 47))
    want, got, products = both_ways(monkeypatch, summed, a, b, (False, True))
    assert_same_bits(got, want)
    assert products == 0


@pytest.mark.parametrize("special", [np.nan, -np.nan, np.inf, -np.inf])
def test_special_values_are_for_blas(monkeypatch, special):
    a, b = draw(7, (64, 32)), draw(8, (64, 48))
    a[3, 5], b[9, 40] = special, np.nan
    want, got, products = both_ways(monkeypatch, summed, a, b, (False, True))
    assert_same_bits(got, want)
    assert products == 0


def test_overflow_and_subnormal_sums_give_the_same_bits(monkeypatch):
    a, b = (draw(seed, (64, 32)).astype(np.float32) for seed in (9, 10))
    for x in (a, b):
        x[:, ::3] *= 2.0**100
        x[:, 1::3] *= 2.0**-70
        x[::5] *= 0
    want, got, products = both_ways(monkeypatch, summed, a.astype(BF16), b.astype(BF16), (False,))
    assert np.isinf(want).any()
    assert ((want != 0) & (np.abs(want) < 2.0**-126)).any()
    assert_same_bits(got, want)
    assert products == 1


def test_slices_strides_and_tiles_that_change_give_the_same_bits(monkeypatch):
    @nkisim.jit
    def kernel(a, b):
        left, right = load(a), load(b)
        total = nl.ndarray((32, 40), dtype=nl.float32, buffer=nl.psum)
        part = left[0:64, 8:40]
        nisa.nc_matmul(dst=total, stationary=part, moving=right[0:64, 0:40], accumulate=False)
        every_other = right.ap(pattern=[[96, 64], [2, 40]], offset=3)
        nisa.nc_matmul(dst=total, stationary=part, moving=every_other, accumulate=True)
        nisa.dma_copy(dst=left, src=b[0:64, 0:64])
        nisa.nc_matmul(dst=total, stationary=part, moving=every_other, accumulate=True)
        return store(total)

    want, got, products = both_ways(monkeypatch, kernel, draw(11, (64, 64)), draw(12, (64, 96)))
    assert_same_bits(got, want)
    assert products == 3


def test_a_tile_times_itself_is_for_blas(monkeypatch):
    @nkisim.jit
    def kernel(a):
        tile = load(a)
        total = nl.ndarray((40, 40), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=tile, moving=tile)
        return store(total)

    want, got, products = both_ways(monkeypatch, kernel, draw(13, (64, 40)))
    assert_same_bits(got, want)
    assert products == 0


def test_sums_that_go_on_are_followed_like_any_other(monkeypatch):
    @nkisim.jit
    def kernel(a, b):
        left, right = load(a), load(b)
        total = nl.ndarray((40, 48), dtype=nl.float32, buffer=nl.psum)
        for step in range(3):
            nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=step > 0)
        first = store(total)
        nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=True)
        return first, store(total)

    arrays = draw(14, (64, 40)), draw(15, (64, 48))
    with pytest.warns(nkisim.NkiFindingWarning, match="M042"):
        wants, gots, products = both_ways(monkeypatch, kernel, *arrays)
    for want, got in zip(wants, gots, strict=True):
        assert_same_bits(got, want)
    assert products == 4


def test_lives_reach_to_the_last_sum(monkeypatch):
    @nkisim.jit
    def kernel(a, b):
        left, right = load(a), load(b)
        total = nl.ndarray((40, 48), dtype=nl.float32, buffer=nl.psum)
        for step in range(3):
            nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=step > 0)
        lives.append([t.life.last_use for t in (left, right, total)])
        return store(total)

    lives = []
    _, _, products = both_ways(monkeypatch, kernel, draw(16, (64, 40)), draw(17, (64, 48)))
    assert lives[0] == lives[1] == [5, 5, 5]
    assert products == 3


def test_a_stationary_tile_gives_the_same_bits_however_often_it_is_used(monkeypatch):
    @nkisim.jit
    def kernel(a, b):
        left, right = load(a), load(b)
        total = nl.ndarray((40, 48), dtype=nl.float32, buffer=nl.psum)
        for step in range(6):
            nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=step > 0)
            if step == 4:
                nisa.dma_copy(dst=left, src=b[0:64, 0:40])
        return store(total)

    want, got, products = both_ways(monkeypatch, kernel, draw(18, (64, 40)), draw(19, (64, 48)))
    assert_same_bits(got, want)
    assert products == 6
