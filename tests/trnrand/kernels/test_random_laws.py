"""Samples of the kernels against float64 evaluations of the same words."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from scipy import stats

from comparing import assert_same_bits, assert_within
from each_case import each_case
from oracles.random_words import (
    exponential_of,
    normal_of,
    normal_radii,
    stream_words,
    uniform_of,
)
from pairwise import pairwise
from trnrand._kernels.laws import exponentials, normals
from trnrand._paths.torch_path import _exponentials, _normals
from trnsci.core.nki import nisa, nki, nl

from ...trnblas.kernels.harness_products import run
from .harness_random import ENGINES, GENERATIONS, KEY, kernel, operand

KEPT = {
    "float32": (np.dtype(np.float32), 24),
    "bfloat16": (np.dtype(ml_dtypes.bfloat16), 8),
    "float16": (np.dtype(np.float16), 11),
}

# What the polynomials are off by at most, relative to the logarithm and to the sine, is stated
# where they are defined; the angle is in the sine's. Products and the root are rounded once.
ULP = 2.0**-23
LOG, SINE, ROUNDED = 2.2 * ULP / 2, 2.5 * ULP / 2, ULP / 2
# The radius at u = 1 is 2^-50 instead of 0.
LEAST = 2.0**-50


def exponential_tolerance(words):
    return exponential_of(words) * LOG


def normal_tolerance(words):
    """A root halves the relative error of its argument; sines are at most 1."""
    radii = np.repeat(normal_radii(words), 2)
    return radii * (SINE + LOG / 2 + 2 * ROUNDED) + LEAST


def draw(engine, law, count, generation, *arguments, **place):
    """Samples of a kernel and the words that they are made of."""
    got = run(kernel(engine, law), generation, operand(engine, **place), count, *arguments)
    words = stream_words(engine, **({"key": KEY, "start": 0} | place), count=count + count % 2)
    return got, words


@each_case(("engine", "dtype", "generation"), pairwise(list(ENGINES), list(KEPT), GENERATIONS))
def test_uniforms_are_the_top_bits(engine, dtype, generation):
    got, words = draw(engine, "uniform", 20_000, generation, dtype, start=2**32 - 9, domain=1)
    numpy_dtype, kept = KEPT[dtype]
    assert_same_bits(got, uniform_of(words, kept).astype(numpy_dtype))
    assert got.max() < 1


@pytest.mark.parametrize("engine", ENGINES)
def test_uniforms_are_float32_unless_asked(engine):
    got, words = draw(engine, "uniform", 1000, "gen3")
    assert_same_bits(got, uniform_of(words, 24).astype(np.float32))


@each_case("generation", GENERATIONS)
@each_case("engine", ENGINES)
def test_exponentials(engine, generation):
    got, words = draw(engine, "exponential", 20_001, generation, start=3)
    words = words[:20_001]
    assert got.dtype == np.float32
    assert_within(got, exponential_of(words), exponential_tolerance(words))


@each_case("generation", GENERATIONS)
@each_case("engine", ENGINES)
def test_normals(engine, generation):
    got, words = draw(engine, "normal", 20_000, generation, start=3)
    assert got.dtype == np.float32
    assert_within(got, normal_of(words), normal_tolerance(words))


@each_case("count", [1, 2, 3, 4, 511, 513, 1025])
@each_case("engine", ENGINES)
def test_normals_that_end_inside_a_pair(engine, count):
    got, words = draw(engine, "normal", count, "gen2")
    assert_within(got, normal_of(words)[:count], normal_tolerance(words)[:count])


@nki.jit
def of_words(words, law):
    """The samples of given words."""
    out = nl.ndarray(words.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(words.shape, dtype=nl.uint32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=words)
    samples = normals(tile) if law == "normal" else exponentials(tile)
    nisa.dma_copy(dst=out, src=samples)
    return out


# Both ends of the logarithm, of the root and of the sine, quarters of a turn, and words whose
# halves round in float32 only when they are added.
EDGES = [0, 1, 0xFF, 0x100, 0xFFFF, 0x10000, 0x3FFFFFFF, 0x40000000, 0x7FFFFF00, 0x7FFFFFFF]
EDGES += [0x80000000, 0x80000001, 0x800000FF, 0x80000100, 0xBFFFFFFF, 0xC0000000, 0xFEFFFFFF]
EDGES += [0xFFFFFEFF, 0xFFFFFF00, 0xFFFFFF7E, 0xFFFFFF7F, 0xFFFFFF80, 0xFFFFFFFE, 0xFFFFFFFF]


@each_case("generation", GENERATIONS)
def test_normals_of_extreme_words(generation):
    first, second = np.meshgrid(np.array(EDGES, np.uint32), np.array(EDGES, np.uint32))
    words = np.stack([first, second], axis=-1).reshape(-1)
    got = run(of_words, generation, words.reshape(len(EDGES), -1), "normal").reshape(-1)
    assert_within(got, normal_of(words), normal_tolerance(words))
    assert got.max() == np.float32(np.sqrt(64 * np.log(2)))  # 6.66: u = 2^-32 at angle 0


@each_case("generation", GENERATIONS)
def test_exponentials_of_extreme_words(generation):
    words = np.array(EDGES, np.uint32)
    got = run(of_words, generation, words.reshape(2, -1), "exponential").reshape(-1)
    assert_within(got, exponential_of(words), exponential_tolerance(words))
    assert got[0] == 2.0**-25
    assert np.isfinite(got).all()


@each_case("generation", GENERATIONS)
def test_extreme_words_give_the_bits_that_torch_gives(generation):
    words = np.array(EDGES, np.uint32)
    pairs = np.stack(np.meshgrid(words, words), axis=-1).reshape(-1)
    tensor = torch.from_numpy(pairs.view(np.int32))
    for law, convert in (("normal", _normals), ("exponential", _exponentials)):
        got = run(of_words, generation, pairs.reshape(len(words), -1), law).reshape(-1)
        assert_same_bits(got, convert(tensor, torch.float32).numpy())


# A right sampler with another seed would fail one of these 12 at 1e-4 about once in 800.
@each_case("engine", ENGINES)
@each_case(("law", "reference"), [("normal", "norm"), ("exponential", "expon")])
def test_distribution(engine, law, reference):
    got, _ = draw(engine, law, 100_000, "gen3", key=2026)
    assert stats.kstest(got.astype(np.float64), reference).pvalue > 1e-4
    # Neighbours are the sides of a Box-Muller pair, or come from neighbouring words.
    ranks = stats.spearmanr(got[0::2], got[1::2])
    assert ranks.pvalue > 1e-4
    sizes = stats.spearmanr(np.abs(got[0::2]), np.abs(got[1::2]))
    assert sizes.pvalue > 1e-4
