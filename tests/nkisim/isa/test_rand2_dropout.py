"""Uniform numbers in a range, and dropout."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim.isa import dropout, rand2, set_rng_seed
from oracles import generators as oracle
from oracles.elementwise import DTYPES, narrow

from .harness_rng import (
    INTEGERS,
    SIGMAS,
    VECTOR,
    assert_uniform,
    new,
    numbers,
    results,
    run,
    seed_array,
)

# -- rand2 -----------------------------------------------------------------------------------------


def uniforms(low: Any, high: Any, count: int = 64, dtype: str = "float32", seed: int = 7) -> Any:
    """Results of rand2 with numbers, or one per partition, as bounds; and the random words."""
    columns = [np.asarray(b, np.float32).reshape(-1, 1) for b in (low, high) if np.ndim(b)]

    def body(seeds, *bounds):
        dst, tiles = new((128, count), dtype), list(bounds)
        set_rng_seed(seeds)
        low_bound = tiles.pop(0) if np.ndim(low) else low
        rand2(dst, min=low_bound, max=tiles.pop(0) if np.ndim(high) else high)
        return [dst]

    return results(body, seed_array(seed), *columns)[0], numbers("gen4", VECTOR, 24, count, seed)


# Ranges that float32 resolves finely, coarsely, or to nothing but the bound itself.
RANGES = [(0.0, 1.0), (-1.0, 1.0), (-3.5, -1.25), (0, 10), (1.0, 1.0 + 2.0**-23)]
RANGES += [(2.0**24, 2.0**24 + 16), (-3e38, 3e38), (0.0, 1e-45), (-1e-45, 0.0)]


@each_case(("low", "high"), RANGES)
def test_rand2_stays_in_its_range(low, high):
    got, _ = uniforms(low, high)
    assert got.min() >= np.float32(low)
    assert got.max() < np.float32(high)


@each_case(("low", "high"), RANGES)
def test_rand2_is_the_point_that_the_word_chooses(low, high):
    # One rounding to float32 is half a unit in the last place; staying below max may cost another
    # half; the float64 roundings before are a 2^-27th of that together.
    got, words = uniforms(low, high, count=8)
    bounds = float(np.float32(low)), float(np.float32(high))
    for value, word in zip(got[::16].ravel(), words[::16].ravel().tolist(), strict=True):
        error = abs(Fraction(float(value)) - oracle.uniform(word, *bounds))
        assert error <= Fraction(float(np.spacing(np.abs(value)))) * (1 + Fraction(1, 2**27))


def test_rand2_between_0_and_1_is_exact_and_uniform():
    got, words = uniforms(0.0, 1.0, count=512)
    assert np.array_equal(got.astype(np.float64) * 2**24, words >> 8)
    assert_uniform((got * 64).astype(np.int64), 64)
    # The mean of n uniform numbers has a standard deviation of 1/sqrt(12 n).
    mean = got.astype(np.float64).mean()
    assert abs(mean - 0.5) < SIGMAS / math.sqrt(12 * got.size)


@pytest.mark.parametrize("which", ["min", "max", "both"])
def test_rand2_with_bounds_per_partition(which):
    low = np.linspace(-4, 4, 128, dtype=np.float32) if which != "max" else -4.0
    high = np.linspace(5, 50, 128, dtype=np.float32) if which != "min" else 5.0
    got, _ = uniforms(low, high)
    low, high = (np.broadcast_to(b, 128) for b in (low, high))
    assert (got >= low[:, None]).all()
    assert (got < high[:, None]).all()
    # Of 64 numbers one lies in the lower and one in the upper half, but for 2 * 2^-64.
    middle = (low + high) / 2
    assert ((got < middle[:, None]).any(axis=1) & (got > middle[:, None]).any(axis=1)).all()


@each_case(
    "dtype",
    [*INTEGERS, "bfloat16", "float16", "float8_e4m3", "float8_e5m2"],
)
def test_rand2_rounds_into_its_destination(dtype):
    got, _ = uniforms(0.0, 100.0, dtype=dtype)
    wide, _ = uniforms(0.0, 100.0)
    want = narrow(wide, DTYPES[dtype])
    assert got.dtype == want.dtype
    assert np.array_equal(got.view(f"u{got.dtype.itemsize}"), want.view(f"u{got.dtype.itemsize}"))


def test_rand2_of_wide_integers_is_coarse_and_legal():
    got, _ = uniforms(0.0, 2.0**31, dtype="int32")
    assert got.min() >= 0
    assert not (got % 2 ** (31 - 24)).any()


@pytest.mark.parametrize("prob", [0.5, np.full(128, 0.5, np.float32)], ids=["number", "column"])
def test_tiles_kept_in_float32_get_the_same_numbers(prob):
    def body(seed, tile, *column):
        dst, uniform = new(tile.shape, tile.dtype), new(tile.shape, "bfloat16")
        set_rng_seed(seed)
        dropout(dst, tile, column[0] if column else prob)
        rand2(uniform, 0.0, 1.0)
        return dst, uniform

    data = np.ones((128, 32), ml_dtypes.bfloat16)
    inputs = [seed_array(7), data, *([prob.reshape(-1, 1)] if np.ndim(prob) else [])]
    exact = results(body, *inputs)
    wide = run(body, *inputs, strictness="simulate", precise_fp=False)
    assert np.array_equal(wide[0].astype(np.float32), exact[0].astype(np.float32))
    assert np.array_equal(wide[1].astype(ml_dtypes.bfloat16), exact[1])


def test_rand2_saturates_and_says_so():
    def body(seed):
        dst = new((128, 64), "uint8")
        set_rng_seed(seed)
        rand2(dst, 0.0, 1000.0)
        return [dst]

    report = run(body, seed_array(7))
    assert report.codes == {"D019"}
    assert report.outputs[0].max() == 255


# -- dropout ---------------------------------------------------------------------------------------


def dropped(data: np.ndarray, prob: Any, seed: int = 7, target: str = "gen4") -> np.ndarray:
    """The result of dropout after a seed; ``prob`` a number, or an array with one per partition."""

    def body(seeds, tile, *column):
        dst = new(tile.shape, tile.dtype)
        set_rng_seed(seeds)
        dropout(dst, tile, prob=column[0] if column else prob)
        return [dst]

    columns = [prob.reshape(-1, 1)] if isinstance(prob, np.ndarray) else []
    return results(body, seed_array(seed), data, *columns, target=target)[0]


def patterns(dtype: Any, count: int) -> np.ndarray:
    """Random bit patterns: NaN, infinities and negative zero come along."""
    dtype = np.dtype(dtype)
    raw = np.random.default_rng(0).integers(0, 256, (128, count * dtype.itemsize), dtype=np.uint8)
    return raw.view(dtype)


@each_case(
    "dtype", [*INTEGERS, *(DTYPES[d] for d in ("float32", "bfloat16", "float16", "float8_e5m2"))]
)
def test_dropout_zeroes_or_keeps_every_bit(dtype):
    data = patterns(dtype, 96)
    got = dropped(data, 0.25)
    bits = f"u{data.dtype.itemsize}"
    words = numbers("gen4", VECTOR, 24, 96)
    want = np.where(words < 2**30, 0, data.view(bits))  # a quarter of 2^32
    assert got.dtype == data.dtype
    assert np.array_equal(got.view(bits), want)


@each_case("target", ["gen2", "gen3", "gen4"])
@each_case("prob", [0.001, 0.1, 0.5, 0.9])
def test_dropout_drops_the_asked_fraction(target, prob):
    data = np.ones((128, 1024), np.float32)
    got = dropped(data, prob, target=target)
    assert set(np.unique(got)) == {0, 1}
    # A binomial count of n trials has a standard deviation of sqrt(n p (1-p)).
    n = data.size
    assert abs((got == 0).sum() - n * prob) < SIGMAS * math.sqrt(n * prob * (1 - prob))


@pytest.mark.parametrize("target", ["gen2", "gen4"])
def test_dropout_of_nothing_and_of_everything(target):
    data = patterns(np.uint32, 700).view(np.float32)
    for none, all_of_it in ((0.0, 1.0), (0, 1)):
        kept = dropped(data, none, target=target)
        assert np.array_equal(kept.view(np.uint32), data.view(np.uint32))
        assert not dropped(data, all_of_it, target=target).view(np.uint32).any()


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_dropout_with_a_probability_per_partition(dtype):
    prob = (np.arange(128) % 5 / 4).astype(dtype)  # 0, 1/4, 1/2, 3/4, 1: exact in each type
    got = dropped(np.ones((128, 2048), np.float32), prob)
    counts, p = (got == 0).sum(axis=1), prob.astype(np.float64)
    assert (np.abs(counts - 2048 * p) <= SIGMAS * np.sqrt(2048 * p * (1 - p))).all()


def test_dropout_in_place_and_in_psum():
    def body(seed, tile):
        set_rng_seed(seed)
        dropout(tile, tile, 0.5)
        moved = new(tile.shape, "float32", nl.psum)
        nisa.tensor_copy(dst=moved, src=tile)
        dst = new(tile.shape, "float32", nl.psum)
        dropout(dst, moved, 0.5)
        return tile, dst

    data = np.ones((128, 32), np.float32)
    once, twice = results(body, seed_array(7), data)
    assert np.array_equal(once, dropped(data, 0.5))
    words = numbers("gen4", VECTOR, 24, 64)
    assert np.array_equal(twice == 0, (words[:, :32] < 2**31) | (words[:, 32:] < 2**31))
