"""Random numbers: the generators against their recurrences, and the instructions that draw."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from operator import xor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.diagnostics import NkiFindingWarning, NkiValidationError
from nkisim.isa.generators import Lfsr, Xorwow, expand_seed
from nkisim.isa.rng import dropout, rand2, rand_get_state, rand_set_state, rng, set_rng_seed
from oracles import generators as oracle
from oracles.elementwise import DTYPES, narrow

VECTOR, GPSIMD = nisa.engine.vector, nisa.engine.gpsimd
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]
# Generation, engine, and words of state in a lane of it.
STREAMS = [
    ("gen2", VECTOR, 1),
    ("gen3", VECTOR, 1),
    ("gen3", GPSIMD, 6),
    ("gen4", GPSIMD, 6),
    ("gen4", VECTOR, 24),
]
WITH_STATE = STREAMS[2:]
# Chance for a good generator to fail; seeds are fixed, so a test fails always or never.
RARE = 1e-6
SIGMAS = 6  # the chance to be further off is 2e-9

each_stream = pytest.mark.parametrize(("target", "engine", "words"), STREAMS)
each_state = pytest.mark.parametrize(("target", "engine", "words"), WITH_STATE)


def run(body: Callable[..., Any], *arrays: Any, target: str = "gen4", **options: Any) -> Any:
    """The report of a kernel that loads the arrays, runs ``body`` and stores the tiles it returns.

    Findings about the source are left out: the kernel is a closure, which a compiler would refuse.
    """

    def kernel(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        outputs = []
        for tile in body(*[nl.load(array) for array in inputs]):
            if tile.buffer == nl.psum:
                staged = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
                nisa.tensor_copy(dst=staged, src=tile)
                tile = staged
            out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out, src=tile)
            outputs.append(out)
        return tuple(outputs)

    if options:
        return nkisim.simulate(kernel, target=target, **options)(arrays)
    report = nkisim.check(kernel, target=target)(arrays)
    report.findings = [f for f in report.findings if f.rule.id[0] != "L"]
    return report


def results(body: Callable[..., Any], *arrays: Any, target: str = "gen4") -> list[np.ndarray]:
    """The tiles that ``body`` returns, from a run without findings."""
    report = run(body, *arrays, target=target)
    assert not report.findings, str(report)
    return list(report.outputs)


def new(shape: tuple[int, ...], dtype: str = "uint32", buffer: Any = nl.sbuf) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


def seed_array(seed: int) -> np.ndarray:
    return np.array([[seed]], np.uint32)


def states(words: int, lanes: int = 128) -> np.ndarray:
    """Random states."""
    bits = np.random.default_rng(0).integers(0, 2**32, (lanes, words), dtype=np.uint64)
    return bits.astype(np.uint32)


def numbers(
    target: str, engine: Any, words: int, count: int, seed: int = 7, dtype: str = "uint32"
) -> np.ndarray:
    """Numbers of all lanes of a seeded engine; the seed is a word, or makes a state."""
    by_word = engine is VECTOR
    given_seed = seed_array(seed) if by_word else expand_seed(seed, 128 * words).reshape(128, words)

    def body(seeds):
        dst = new((128, count), dtype)
        if by_word:
            set_rng_seed(seeds)
        else:
            rand_set_state(seeds, engine=engine)
        rng(dst, engine=engine)
        return [dst]

    return results(body, given_seed, target=target)[0]


# -- the generators --------------------------------------------------------------------------------


def test_xorwow_worked_by_hand():
    # From x = 1 and zeros: t = 1, so v = 1 ^ 2 = 3. Then x = 0 four times and v ^ v<<4 gives 0x33,
    # 0x303, 0x3333, 0x30003. Then x = 3: t = 3, t ^ t<<1 = 5, v = 0x30003 ^ 0x300030 ^ 5, which is
    # 0x330036. The counter adds 362437 for every number so far.
    shifted = [0x3, 0x33, 0x303, 0x3333, 0x30003, 0x330036]
    want = [v + 362437 * k for k, v in enumerate(shifted, 1)]
    generator, lane = Xorwow(), np.array([5])
    generator.set_state(lane, np.array([[1, 0, 0, 0, 0, 0]], np.uint32))
    assert generator.draw(lane, 6).tolist() == [want]
    assert generator.get_state(lane).tolist() == [[*shifted[1:], 6 * 362437]]
    assert oracle.Lane([1, 0, 0, 0, 0, 0]).draw(6) == want


def test_xorshift_worked_by_hand():
    # 1 ^ 1<<13 = 0x2001; >>17 leaves nothing of it; 0x2001 ^ 0x2001<<5 = 0x42021.
    # Then bits 0, 5, 13, 18 and, 13 to the left, 13, 18, 26, 31 leave 0, 5, 26, 31; 17 to the right
    # adds 9 and 14; 5 to the left are 5, 10, 14, 19, 31: what remains is 0, 9, 10, 19, 26.
    second = sum(1 << bit for bit in (0, 9, 10, 19, 26))
    generator, lane = Lfsr(), np.array([9])
    generator.set_state(lane, np.array([[1]], np.uint32))
    assert generator.draw(lane, 2).tolist() == [[0x42021, second]]
    assert oracle.Lane([1]).draw(2) == [0x42021, second]


def test_seeds_are_expanded_by_splitmix64():
    # The numbers that Rosetta Code lists for the seed 1234567.
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert oracle.splitmix64(1234567, 5) == published
    assert expand_seed(1234567, 5).tolist() == [z >> 32 for z in published]
    for seed in (0, 1, 2**31, 2**32 - 1):
        assert expand_seed(seed, 40).tolist() == oracle.seed_words(seed, 40)


def test_the_shift_register_has_the_full_period():
    # The step is a 32 x 32 matrix over the field of two elements; its columns are the images of
    # single bits. Its order is 2^32 - 1 if that power of it is the identity and none is whose
    # exponent is 2^32 - 1 divided by a prime.
    def image(a, bits):
        return functools.reduce(xor, (a[i] for i in range(32) if bits >> i & 1), 0)

    def times(a, b):
        return [image(a, column) for column in b]

    def power(a, exponent):
        result = [1 << i for i in range(32)]
        while exponent:
            if exponent & 1:
                result = times(a, result)
            a, exponent = times(a, a), exponent >> 1
        return result

    identity = [1 << i for i in range(32)]
    step = [oracle.xorshift32(bit) for bit in identity]
    full = 2**32 - 1
    assert power(step, full) == identity
    primes = [3, 5, 17, 257, 65537]
    assert math.prod(primes) == full
    for prime in primes:
        assert power(step, full // prime) != identity


@pytest.mark.parametrize("words", [1, 6, 24])
@settings(max_examples=25)
@given(data=st.data())
def test_a_generator_draws_what_the_recurrence_says(words, data):
    generator = Lfsr() if words == 1 else Xorwow(words // 6)
    word = st.integers(1, 2**32 - 1)
    lanes = data.draw(st.lists(st.integers(0, 127), min_size=1, max_size=3, unique=True))
    state = data.draw(
        st.lists(
            st.lists(word, min_size=words, max_size=words),
            min_size=len(lanes),
            max_size=len(lanes),
        )
    )
    generator.set_state(np.array(lanes), np.array(state, np.uint32))
    want = [oracle.Lane(row) for row in state]
    for count in data.draw(st.lists(st.sampled_from([0, 1, 3, 4, 5, 6, 11]), max_size=4)):
        got = generator.draw(np.array(lanes), count)
        assert got.dtype == np.uint32
        assert got.tolist() == [lane.draw(count) for lane in want]
    assert generator.get_state(np.array(lanes)).tolist() == [lane.words for lane in want]


def test_no_lane_starts_from_zeros():
    seed, lane = 5200627, 35
    assert oracle.seed_words(seed, 128)[lane] == 0
    generator = Lfsr()
    generator.seed(seed)
    assert generator.get_state(np.arange(128)).all()


# -- rng -------------------------------------------------------------------------------------------


@each_stream
def test_rng_draws_32_bits_per_element_from_the_lanes_of_its_partitions(target, engine, words):
    got = numbers(target, engine, words, 13, seed=42)
    for lane in (0, 1, 77, 127):
        assert got[lane].tolist() == oracle.seeded_lane(42, lane, words).draw(13)


@each_stream
def test_every_lane_has_its_own_stream(target, engine, words):
    # A pair of lanes that agrees in 4 numbers by chance: 8128 pairs / 2^128.
    got = numbers(target, engine, words, 4)
    assert len({tuple(row) for row in got.tolist()}) == 128


@each_stream
def test_a_seed_repeats_its_numbers_and_another_does_not(target, engine, words):
    first = numbers(target, engine, words, 16, seed=1)
    assert np.array_equal(first, numbers(target, engine, words, 16, seed=1))
    # 2048 pairs of words, equal with a chance of 2^-32 each.
    assert not (first == numbers(target, engine, words, 16, seed=2)).any()


@pytest.mark.parametrize("dtype", INTEGERS)
@each_stream
def test_narrow_types_keep_the_low_bits(target, engine, words, dtype):
    word = numbers(target, engine, words, 9)
    got = numbers(target, engine, words, 9, dtype=dtype)
    assert got.dtype == np.dtype(dtype)
    kept = np.uint32(2 ** (8 * got.dtype.itemsize) - 1)
    assert np.array_equal(got.view(f"u{got.dtype.itemsize}"), word & kept)


@pytest.mark.parametrize("target", ["gen2", "gen3", "gen4"])
def test_rng_goes_on_where_it_stopped(target):
    def body(seed):
        parts = [new((128, 8)), new((128, 2, 4)), new((128, 8))]
        set_rng_seed(seed)
        for part in parts:
            rng(part)
        return parts

    parts = results(body, seed_array(7), target=target)
    words = 24 if target == "gen4" else 1
    flat = np.hstack([part.reshape(128, 8) for part in parts])
    assert np.array_equal(flat, numbers(target, VECTOR, words, 24))


def test_rng_on_some_partitions_moves_only_their_lanes():
    def body(seed):
        whole = new((128, 8))
        set_rng_seed(seed)
        rng(whole[32:64])
        rng(whole[0:32])
        rng(whole[64:128])
        after = new((128, 8))
        rng(after)
        return [whole, after]

    whole, after = results(body, seed_array(7))
    want = numbers("gen4", VECTOR, 24, 16)
    assert np.array_equal(np.hstack([whole, after]), want)


def test_rng_writes_psum():
    def body(seed):
        dst = new((128, 16), "int32", nl.psum)
        set_rng_seed(seed)
        rng(dst)
        return [dst]

    got = results(body, seed_array(7))[0]
    assert np.array_equal(got.view(np.uint32), numbers("gen4", VECTOR, 24, 16))


@pytest.mark.parametrize("target", ["gen2", "gen3", "gen4"])
def test_rng_without_an_engine_is_the_vector_engine(target):
    def body(seed):
        either, vector = new((128, 8)), new((128, 8))
        set_rng_seed(seed)
        rng(either)
        set_rng_seed(seed)
        rng(vector, engine=VECTOR)
        return either, vector

    either, vector = results(body, seed_array(5), target=target)
    assert np.array_equal(either, vector)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32"])
def test_the_bits_of_any_32_bit_word_are_a_seed(dtype):
    def body(seed):
        dst = new((128, 4))
        set_rng_seed(seed)
        rng(dst)
        return [dst]

    got = results(body, seed_array(0xC0490FDB).view(dtype))[0]
    assert np.array_equal(got, numbers("gen4", VECTOR, 24, 4, seed=0xC0490FDB))


# -- are they random -------------------------------------------------------------------------------


def assert_uniform(cells: np.ndarray, size: int) -> None:
    """Cells 0 to ``size`` - 1 are equally likely, and not suspiciously even."""
    statistic = oracle.chi_square(np.bincount(cells.ravel(), minlength=size).tolist())
    tail = oracle.chi_square_tail(statistic, size - 1)
    assert RARE < tail < 1 - RARE, f"chi-square {statistic:.1f}, tail {tail:.3g}"


def test_the_chi_square_tail():
    # With two degrees of freedom it is exp(-x/2); with one, both tails of the normal distribution.
    assert oracle.chi_square_tail(3.0, 2) == pytest.approx(math.exp(-1.5), rel=1e-15)
    assert oracle.chi_square_tail(4.0, 1) == pytest.approx(math.erfc(math.sqrt(2)), rel=1e-15)
    # Printed tables: 5 percent beyond 124.342 with 100 degrees, beyond 11.070 with 5; the last
    # printed digit is half a unit wide, which moves the tail by less than 1e-4 of itself.
    assert oracle.chi_square_tail(124.342, 100) == pytest.approx(0.05, rel=1e-3)
    assert oracle.chi_square_tail(11.070, 5) == pytest.approx(0.05, rel=1e-3)


@each_stream
def test_bytes_and_bins_are_uniform(target, engine, words):
    got = numbers(target, engine, words, 512)
    for shift in (0, 8, 16, 24):
        assert_uniform(got >> shift & 255, 256)
    assert_uniform(got >> 26, 64)
    assert_uniform(got & 63, 64)
    # Pairs: neighbours in time, and the same moment in neighbouring lanes.
    high = got >> 29
    assert_uniform(8 * high[:, :-1:2] + high[:, 1::2], 64)
    assert_uniform(8 * high[:-1:2] + high[1::2], 64)


@each_stream
def test_numbers_are_not_correlated(target, engine, words):
    # The coefficient of n independent pairs has a standard deviation of 1/sqrt(n).
    got = numbers(target, engine, words, 130) / 2.0**32
    for lag in (1, 2, 4):
        a, b = got[:, :-lag].ravel().tolist(), got[:, lag:].ravel().tolist()
        assert abs(oracle.correlation(a, b)) < SIGMAS / math.sqrt(len(a))
    a, b = got[:-1].ravel().tolist(), got[1:].ravel().tolist()
    assert abs(oracle.correlation(a, b)) < SIGMAS / math.sqrt(len(a))


# -- states ----------------------------------------------------------------------------------------


@each_state
def test_a_state_comes_back_as_it_was_set(target, engine, words):
    def body(state):
        back = new(state.shape)
        rand_set_state(state, engine=engine)
        rand_get_state(back, engine=engine)
        return [back]

    state = states(words)
    assert np.array_equal(results(body, state, target=target)[0], state)


@each_state
def test_a_saved_state_repeats_the_numbers(target, engine, words):
    def body(state):
        before, first, again = new((128, 5)), new((128, 11)), new((128, 11))
        saved = new(state.shape)
        rand_set_state(state, engine=engine)
        rng(before, engine=engine)
        rand_get_state(saved, engine=engine)
        rng(first, engine=engine)
        rand_set_state(saved, engine=engine)
        rng(again, engine=engine)
        return before, saved, first, again

    state = states(words)
    before, saved, first, again = results(body, state, target=target)
    assert np.array_equal(first, again)
    assert not np.array_equal(before, first[:, :5])
    lane = oracle.Lane(state[127].tolist())
    assert before[127].tolist() == lane.draw(5)
    assert saved[127].tolist() == lane.words
    assert first[127].tolist() == lane.draw(11)


@each_state
def test_a_state_belongs_to_the_lanes_of_its_partitions(target, engine, words):
    def body(state, other):
        back, dst = new(state.shape), new((128, 6))
        rand_set_state(state, engine=engine)
        rand_set_state(other[64:96], engine=engine)
        rand_get_state(back[32:64], engine=engine)
        rand_get_state(back[64:128], engine=engine)
        nisa.tensor_copy(dst=back[0:32], src=state[0:32])
        rng(dst, engine=engine)
        return back, dst

    state, other = states(words), states(words)[::-1].copy()
    back, dst = results(body, state, other, target=target)
    want = state.copy()
    want[64:96] = other[64:96]
    assert np.array_equal(back, want)
    for lane in (63, 64, 95, 96):
        assert dst[lane].tolist() == oracle.Lane(want[lane].tolist()).draw(6)


@pytest.mark.parametrize(("target", "words"), [("gen3", 6), ("gen4", 6), ("gen4", 24)])
def test_the_size_of_a_state_tells_its_engine(target, words):
    engine = VECTOR if words == 24 else GPSIMD

    def body(state):
        dst, back = new((128, 4)), new(state.shape)
        rand_set_state(state)
        rng(dst, engine=engine)
        rand_get_state(back)
        return dst, back

    state = states(words)
    dst, back = results(body, state, target=target)
    lane = oracle.Lane(state[3].tolist())
    assert dst[3].tolist() == lane.draw(4)
    assert back[3].tolist() == lane.words


def test_the_state_of_the_vector_engine_goes_to_psum():
    def body(state):
        back = new(state.shape, buffer=nl.psum)
        rand_set_state(state)
        rand_get_state(back)
        return [back]

    state = states(24)
    assert np.array_equal(results(body, state)[0], state)


def test_a_seed_gives_the_vector_engine_a_state():
    def body(seed):
        state = new((128, 24))
        set_rng_seed(seed)
        rand_get_state(state)
        return [state]

    state = results(body, seed_array(11))[0]
    assert state.ravel().tolist() == oracle.seed_words(11, 128 * 24)


def test_a_state_at_a_dynamic_offset():
    def body(state, which):
        dst = new((1, 4))
        rand_set_state(state.ap([[24, 1], [1, 6]], scalar_offset=which, indirect_dim=1))
        rng(dst, engine=GPSIMD)
        return [dst]

    state = states(24, lanes=1)
    got = results(body, state, np.array([[12]], np.int32))[0]
    assert got[0].tolist() == oracle.Lane(state[0, 12:18].tolist()).draw(4)


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


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_rand2_stays_in_its_range(low, high):
    got, _ = uniforms(low, high)
    assert got.min() >= np.float32(low)
    assert got.max() < np.float32(high)


@pytest.mark.parametrize(("low", "high"), RANGES)
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("target", ["gen2", "gen3", "gen4"])
@pytest.mark.parametrize("prob", [0.001, 0.1, 0.5, 0.9])
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


# -- engines without a seed ------------------------------------------------------------------------


@each_stream
def test_an_engine_without_a_seed_is_reported_once(target, engine, words):
    def body():
        first, second = new((128, 16)), new((128, 16))
        rng(first, engine=engine)
        rng(second, engine=engine)
        return first, second

    report = run(body, target=target)
    (finding,) = report.findings
    assert (finding.rule.id, finding.severity, finding.count) == ("R012", "warning", 1)
    assert engine.name in finding.message
    assert finding.file == __file__
    again = run(body, target=target)
    assert again.codes == {"R012"}
    for a, b in zip(report.outputs, again.outputs, strict=True):
        assert np.array_equal(a, b)


def test_each_engine_without_a_seed_is_reported_and_has_its_own_numbers():
    def body():
        vector, gpsimd = new((128, 16)), new((128, 16))
        rng(vector, engine=VECTOR)
        rng(gpsimd, engine=GPSIMD)
        return vector, gpsimd

    for target in ("gen3", "gen4"):
        report = run(body, target=target)
        assert [f.rule.id for f in report.findings] == ["R012", "R012"]
        assert not (report.outputs[0] == report.outputs[1]).any()


def test_a_seed_on_another_engine_does_not_count():
    def body(seed):
        dst = new((128, 16))
        set_rng_seed(seed)
        rng(dst, engine=GPSIMD)
        return [dst]

    (finding,) = run(body, seed_array(1)).findings
    assert finding.rule.id == "R012"
    assert "only the vector engine" in finding.seen


def test_lanes_without_a_state_are_reported():
    def body(state):
        inside, outside = new((32, 4)), new((64, 4))
        rand_set_state(state, engine=GPSIMD)
        rng(inside, engine=GPSIMD)
        rng(outside, engine=GPSIMD)
        return inside, outside

    (finding,) = run(body, states(6, lanes=32)).findings
    assert finding.rule.id == "R012"
    assert "32 of 64" in finding.seen


@pytest.mark.parametrize("draw", ["rand2", "dropout", "rand_get_state"])
def test_every_use_of_an_engine_without_a_seed_is_reported(draw):
    def body(tile):
        dst = new((128, 24), "uint32" if draw == "rand_get_state" else "float32")
        if draw == "rand2":
            rand2(dst, 0.0, 1.0)
        elif draw == "dropout":
            dropout(dst, tile, 0.5)
        else:
            rand_get_state(dst)
        return [dst]

    report = run(body, np.ones((128, 24), np.float32))
    assert report.codes == {"R012"}
    assert report.ok


def test_a_run_does_not_inherit_the_seed_of_another():
    seeded = numbers("gen4", VECTOR, 24, 4)

    def body():
        dst = new((128, 4))
        rng(dst)
        return [dst]

    report = run(body)
    assert report.codes == {"R012"}
    assert not (report.outputs[0] == seeded).any()


# -- what is refused -------------------------------------------------------------------------------


def refused(call: Callable[..., None], rule: str, target: str = "gen4") -> Any:
    """The finding with which ``simulate`` stops at ``call``, which gets a seed tile."""

    def body(seed):
        call(seed)
        return [seed]

    with pytest.raises(NkiValidationError) as caught:
        run(body, seed_array(1), target=target, strictness="simulate")
    assert caught.value.rule_id == rule, str(caught.value)
    assert caught.value.finding.fix
    return caught.value.finding


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3", "bool"])
def test_rng_writes_integers_only(dtype):
    found = refused(lambda seed: rng(new((128, 4), dtype)), "D039")
    assert found.operand == "dst"
    assert dtype in found.message


@pytest.mark.parametrize(("rows", "columns", "dtype"), [(1, 2, "int32"), (2, 1, "int32")])
def test_a_seed_is_one_word(rows, columns, dtype):
    refused(lambda seed: set_rng_seed(nl.zeros((rows, columns), dtype)), "D039")


@pytest.mark.parametrize("dtype", ["int16", "uint8", "bfloat16"])
def test_a_seed_has_32_bits(dtype):
    assert dtype in refused(lambda seed: set_rng_seed(nl.zeros((1, 1), dtype)), "D039").message


def test_a_seed_is_a_tile():
    refused(lambda seed: set_rng_seed(42), "A025")


@pytest.mark.parametrize("call", [rand_set_state, rand_get_state])
@pytest.mark.parametrize(
    ("target", "engine", "shape", "dtype"),
    [
        ("gen3", "gpsimd", (128, 24), "uint32"),
        ("gen3", "unknown", (128, 24), "uint32"),
        ("gen4", "gpsimd", (128, 24), "uint32"),
        ("gen4", "vector", (128, 6), "uint32"),
        ("gen4", "vector", (128, 4, 6), "uint32"),
        ("gen4", "unknown", (128, 5), "uint32"),
        ("gen4", "unknown", (128, 6), "int32"),
        ("gen4", "unknown", (128, 24), "float32"),
    ],
)
def test_a_state_has_the_words_of_its_engine(call, target, engine, shape, dtype):
    chosen = getattr(nisa.engine, engine)
    refused(lambda seed: call(nl.zeros(shape, dtype), engine=chosen), "D039", target)


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0), (0, -1), (0.0, math.inf)])
def test_rand2_needs_a_range(low, high):
    # A signature is checked once for all bounds: a legal call must not hide the other.
    def call(seed):
        set_rng_seed(seed)
        rand2(new((128, 4), "float32"), 1.0, 5.0)
        rand2(new((128, 4), "float32"), low, high)

    refused(call, "D039")


def test_rand2_needs_a_range_in_every_partition():
    def call(seed):
        set_rng_seed(seed)
        ends = nl.full((128, 1), 2.0, nl.float32)
        nisa.memset(ends[96:128], 1.0)
        rand2(new((128, 4), "float32"), 1.0, ends)

    assert "partition 96" in refused(call, "D039").seen


@pytest.mark.parametrize("bound", ["min", "max"])
def test_bounds_of_rand2_are_float32(bound):
    def call(seed):
        bounds = {"min": 0.0, "max": 1.0, bound: nl.zeros((128, 1), nl.bfloat16)}
        rand2(new((128, 4), "float32"), **bounds)

    assert refused(call, "D039").operand == bound


@pytest.mark.parametrize("dtype", ["bool", "float8_e4m3fn", "float8_e4m3fn_x4"])
def test_rand2_writes_listed_types(dtype):
    refused(lambda seed: rand2(new((128, 4), dtype), 0.0, 1.0), "D039")


@pytest.mark.parametrize("value", [-0.25, 1.5, 2, math.nan])
def test_a_probability_outside_0_to_1_is_found_and_saturates(value):
    def body(seed, tile):
        first, second = new(tile.shape, "float32"), new(tile.shape, "float32")
        set_rng_seed(seed)
        dropout(first, tile, 0.5)  # legal, and of the same signature
        dropout(second, tile, value)
        return [second]

    report = run(body, seed_array(1), np.ones((128, 8), np.float32))
    (finding,) = report.findings
    assert (finding.rule.id, finding.severity, finding.operand) == ("D038", "error", "prob")
    assert (report.outputs[0] == (0 if value > 1 else 1)).all()


def test_a_probability_is_checked_in_every_partition():
    def body(seed, tile, column):
        dst = new(tile.shape, "float32")
        set_rng_seed(seed)
        dropout(dst, tile, column)
        return [dst]

    prob = np.full((128, 1), 0.5, np.float32)
    data = np.ones((128, 8), np.float32)
    assert not run(body, seed_array(1), data, prob).findings
    prob[[3, 100]] = 25.0
    (finding,) = run(body, seed_array(1), data, prob).findings
    assert finding.rule.id == "D038"
    assert "25" in finding.seen
    assert "2 of 128" in finding.seen
    with pytest.raises(NkiValidationError, match="D038"):
        run(body, seed_array(1), data, prob, strictness="strict")
    with pytest.warns(NkiFindingWarning, match="D038"):
        run(body, seed_array(1), data, prob, strictness="simulate")


@pytest.mark.parametrize(
    ("data", "prob", "legal"),
    [
        ("int32", "float32", True),
        ("int32", "bfloat16", False),
        ("uint8", "float16", False),
        ("float32", "bfloat16", True),
        ("bfloat16", "float8_e5m2", True),
        ("float32", "int32", False),
        ("int8", "int8", False),
    ],
)
def test_types_of_a_probability(data, prob, legal):
    def body(seed):
        tile, dst = nl.ones((128, 4), data), new((128, 4), data)
        set_rng_seed(seed)
        dropout(dst, tile, nl.zeros((128, 1), prob))
        return [dst]

    report = run(body, seed_array(1))
    assert report.codes == (set() if legal else {"D038"})
    assert (report.outputs[0] == 1).all()


def test_dropout_does_not_convert():
    def call(seed):
        dropout(new((128, 4), "bfloat16"), nl.zeros((128, 4), nl.float32), 0.5)

    refused(call, "D033")


def test_shapes_of_dropout():
    tile = (128, 4)
    refused(lambda s: dropout(new((64, 4), "float32"), nl.zeros(tile, "float32"), 0.5), "S006")
    refused(lambda s: dropout(new((128, 5), "float32"), nl.zeros(tile, "float32"), 0.5), "S007")
    column = (128, 2)
    refused(
        lambda s: dropout(
            new(tile, "float32"), nl.zeros(tile, "float32"), nl.zeros(column, "float32")
        ),
        "S053",
    )


@pytest.mark.parametrize(
    ("call", "target", "rule"),
    [
        (lambda s: rng(new((128, 4)), engine=GPSIMD), "gen2", "A034"),
        (lambda s: rng(new((128, 4)), engine=nisa.engine.scalar), "gen4", "A034"),
        (lambda s: rng(new((128, 4), buffer=nl.psum), engine=GPSIMD), "gen4", "M022"),
        (lambda s: rng(new((128, 4), buffer=nl.shared_hbm)), "gen4", "M021"),
        (lambda s: rand2(new((128, 4), "float32"), 0.0, 1.0), "gen3", "A033"),
        (lambda s: rand_set_state(nl.zeros((128, 6), "uint32")), "gen2", "A033"),
        (lambda s: rand_get_state(new((128, 6))), "gen2", "A033"),
        (lambda s: rand_get_state(new((128, 24)), engine=VECTOR), "gen3", "A034"),
        (lambda s: rand_set_state(nl.zeros((128, 24), "uint32"), engine=VECTOR), "gen3", "A034"),
        (lambda s: rand_get_state(new((128, 6), buffer=nl.psum)), "gen4", "M022"),
        (lambda s: rand_get_state(new((128, 6), buffer=nl.psum)), "gen3", "M022"),
        (lambda s: rand_set_state(new((128, 24), buffer=nl.psum)), "gen4", "M024"),
    ],
)
def test_engines_memories_and_generations(call, target, rule):
    refused(call, rule, target)


def test_a_state_that_was_never_written_is_found():
    def body(seed):
        rand_set_state(new((128, 6)))
        return [seed]

    assert "M001" in run(body, seed_array(1)).codes
