"""The generators against their recurrences, and whether what they draw looks random."""

from __future__ import annotations

import functools
import math
from operator import xor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn import examples
from nkisim.isa.random.generators import Lfsr, Xorwow, expand_seed
from oracles import generators as oracle

from .harness_rng import SIGMAS, assert_uniform, each_stream, numbers

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
@examples(25)
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


# -- are they random -------------------------------------------------------------------------------


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
