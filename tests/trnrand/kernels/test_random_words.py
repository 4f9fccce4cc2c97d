"""Words of the kernels: equal to the engines' definition, bit for bit, on all generations."""

from __future__ import annotations

import numpy as np
import pytest

from comparing import assert_same_bits
from each_case import each_case
from oracles.random_words import BLOCKS, stream_words
from pairwise import pairwise
from trnrand._kernels.byte_products import load_factors, new_words, product
from trnrand._kernels.byte_terms import terms
from trnrand._kernels.operands import drawn_words, first_block, philox_operand, threefry_operand
from trnrand._kernels.samples import COLUMNS, ROWS, TOGETHER
from trnrand._kernels.words import counters
from trnsci.core.nki import nisa, nki, nl

from ...trnblas.kernels.harness_products import run
from .harness_random import ENGINES, GENERATIONS, KEY, kernel, operand

TILE = {engine: 4 * ROWS * columns for engine, columns in COLUMNS.items()}

# Random123's known answers of both engines: counter, key, block, lowest word first.
PI = "243f6a88 85a308d3 13198a2e 03707344"
ONES = " ".join(["ffffffff"] * 4)
ZEROS = " ".join(["00000000"] * 4)
KNOWN = [
    ("philox", ZEROS, ZEROS[:17], "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("philox", ONES, ONES[:17], "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("philox", PI, "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ("threefry", ZEROS, ZEROS, "9c6ca96a e17eae66 fc10ecd4 5256a7d8"),
    ("threefry", ONES, ONES, "2a881696 57012287 f6c7446e a16a6732"),
    (
        "threefry",
        PI,
        "a4093822 299f31d0 082efa98 ec4e6c89",
        "59cd1dbb b8879579 86b5d00c ac8b6d84",
    ),
]


def number(words):
    """Words, lowest first, as one number."""
    return sum(int(word, 16) << 32 * i for i, word in enumerate(words.split()))


def check(engine, count, generation="gen3", **place):
    got = run(kernel(engine), generation, operand(engine, **place), count)
    place = {"key": KEY, "start": 0} | place
    assert_same_bits(got, stream_words(engine, count=count, **place))


@each_case(("engine", "counter", "key", "block"), KNOWN)
def test_definition_gives_the_known_answers(engine, counter, key, block):
    words = [np.array([int(word, 16)], np.uint64) for word in counter.split()]
    got = [int(word[0]) for word in BLOCKS[engine](words, number(key))]
    assert got == [int(word, 16) for word in block.split()]


@each_case("generation", GENERATIONS)
@each_case(("engine", "counter", "key", "block"), KNOWN)
def test_kernels_give_the_known_answers(engine, counter, key, block, generation):
    c = [int(word, 16) for word in counter.split()]
    place = operand(engine, number(key), c[0] | c[1] << 32, c[2], c[3])
    got = run(kernel(engine), generation, place, 4)
    assert_same_bits(got, np.array([int(word, 16) for word in block.split()], np.uint32))


@each_case("generation", GENERATIONS)
@each_case("engine", ENGINES)
def test_1e5_words(engine, generation):
    check(engine, 100_000, generation, domain=7 | 3 << 8, stream=5)


@pytest.mark.slow
@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("engine", ENGINES)
def test_1e6_words_with_a_carry_in_the_last_tile(engine, generation):
    check(engine, 1_000_000, generation, start=2**32 - 249_990)


# Around one block, one block per partition, and the whole tile: ragged ends in the last block, in
# the last row and in the last tile.
COUNTS = [1, 2, 3, 4, 5, 8, 509, 510, 511, 512, 513, 1025, 4 * 130 - 1, 4 * 257]


@each_case("count", COUNTS)
@each_case("engine", ENGINES)
def test_every_ragged_end(engine, count):
    check(engine, count, "gen2")


@each_case("beyond", [-1, 1, 4 * ROWS + 3])
@each_case("engine", ENGINES)
def test_ends_around_a_tile(engine, beyond):
    check(engine, TILE[engine] + beyond)


def test_more_tiles_than_alternate():
    check("philox", TOGETHER["philox"] * TILE["philox"] + 9)


# A carry in the first block, inside a partition, between partitions and in none; all bits of the
# index set, and the index that wraps.
STARTS = [
    2**32 - 1,
    2**32 - 2,
    2**32 - 700,
    2**31 - 5,
    2**31,
    2**32,
    3 * 2**32 - 300,
    2**63 - 1,
    2**64 - 1,
    2**64 - 2**31,
]


@each_case("start", STARTS, ids=hex)
@each_case("engine", ENGINES)
def test_block_index_carries_into_its_high_word(engine, start):
    check(engine, 4 * 1000, start=start)


EXTREME = pairwise(
    [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1], [0, 1, 2**31, 2**32 - 1], [0, 2**32 - 1]
)


@each_case(("key", "domain", "stream"), EXTREME, ids=hex)
@each_case("engine", ENGINES)
def test_keys_domains_and_streams_with_extreme_bits(engine, key, domain, stream):
    check(engine, 4 * 130, key=key, domain=domain, stream=stream)


@pytest.mark.parametrize("engine", ENGINES)
def test_draws_continue_where_the_last_one_ended(engine):
    parts = [run(kernel(engine), "gen3", operand(engine, start=s), 4 * 77) for s in (10, 87)]
    whole = run(kernel(engine), "gen3", operand(engine, start=10), 8 * 77)
    assert_same_bits(np.concatenate(parts), whole)


@pytest.mark.parametrize("engine", ENGINES)
def test_operand_may_be_int32_of_the_same_bits(engine):
    place = operand(engine, start=2**33 - 2)
    got = run(kernel(engine), "gen2", place.view(np.int32), 1000)
    assert_same_bits(got, run(kernel(engine), "gen2", place, 1000))


@each_case("position", [0, 1, 2, 3, 4, 2**33 - 1, 2**66 - 1])
@each_case("count", [1, 2, 3, 4, 5, 6, 1001])
def test_drawn_words_hold_a_request_that_begins_inside_a_block(position, count):
    block, skipped = first_block(position)
    assert 4 * block + skipped == position
    assert 0 <= skipped < 4
    assert skipped + count <= drawn_words(count) < count + 7
    assert drawn_words(count) % 4 == 0


CONSTANTS = (0xD2511F53, 0xCD9E8D57)
TERMS = {constant: terms(constant) for constant in CONSTANTS}


@nki.jit
def all_products(words, constant):
    """High and low words of every word times one constant."""
    rows, columns = words.shape
    high = nl.ndarray(words.shape, dtype=nl.uint32, buffer=nl.shared_hbm)
    low = nl.ndarray(words.shape, dtype=nl.uint32, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, columns), dtype=nl.uint32, buffer=nl.sbuf)
    factor = nl.ndarray((rows, columns), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=words)
    nisa.memset(dst=factor, value=constant)
    lows = new_words(rows, columns)
    found = TERMS[constant]
    highs = product(tile, found, factor, load_factors((found,))[0], lows)
    nisa.dma_copy(dst=high, src=highs)
    nisa.dma_copy(dst=low, src=lows.words)
    return high, low


@each_case("generation", GENERATIONS)
@each_case("constant", CONSTANTS, ids=hex)
def test_products_of_all_64_bits(constant, generation):
    # Every combination of extreme bytes, then random words.
    bytes_ = np.array([0, 1, 0x7F, 0x80, 0xFE, 0xFF], np.uint32)
    extreme = sum(b << (8 * j) for j, b in enumerate(np.meshgrid(*[bytes_] * 4))).ravel()
    words = np.random.default_rng(constant).integers(0, 2**32, (128, 60), np.uint32)
    words.ravel()[: extreme.size] = extreme
    high, low = run(all_products, generation, words, constant)
    want = words.astype(np.uint64) * np.uint64(constant)
    assert_same_bits(high, (want >> np.uint64(32)).astype(np.uint32))
    assert_same_bits(low, want.astype(np.uint32))


@each_case("constant", CONSTANTS, ids=hex)
def test_sums_of_a_product_are_exact(constant):
    found = terms(constant)
    # The sums above 2^32: factors that float16 has, partial sums that float32 has.
    for which in (1, 2):
        factors = [factor for number, _, factor in found if number == which]
        assert all(float(np.float16(factor)) == factor for factor in factors)
        assert 255 * sum(map(abs, factors)) + 2**9 < 2**24  # with K
    # The sum below, in units of 2^32, is off by much less than the half that would change K.
    off = sum(abs(float(np.float16(factor)) - factor) for number, _, factor in found if number == 0)
    assert 255 * off + 2**-15 < 0.25


@nki.jit
def block_indices(start, first):
    """Low and high words of 8 x 16 indices."""
    out = nl.ndarray((2, 8, 16), dtype=nl.uint32, buffer=nl.shared_hbm)
    parameters = nl.ndarray((8, 2), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.dma_copy(dst=parameters, src=start.ap(pattern=[[0, 8], [1, 2]]))
    low, high = counters(parameters, first, 8, 16)
    nisa.dma_copy(dst=out[0], src=low)
    nisa.dma_copy(dst=out[1], src=high)
    return out


@each_case("first", [0, 1, 2**24 + 1, 2**31 - 128])
@each_case("start", [0, 2**31 - 60, 2**31 + 60, 2**32 - 60, 2**32 - 1, 2**64 - 60])
def test_block_indices_far_into_a_launch(start, first):
    words = np.array([[start & 0xFFFFFFFF, start >> 32]], np.uint32)
    low, high = run(block_indices, "gen2", words, first)
    want = [(start + first + i) % 2**64 for i in range(128)]
    assert low.ravel().tolist() == [i & 0xFFFFFFFF for i in want]
    assert high.ravel().tolist() == [i >> 32 for i in want]


@each_case(("make", "key"), [(philox_operand, (0,) * 2), (threefry_operand, (0,) * 4)])
@each_case(
    ("place", "says"),
    [
        ((-1,), r"start must be in \[0, 2\*\*64\), got -1"),
        ((2**64,), r"start must be in \[0, 2\*\*64\)"),
        ((0, 2**32), r"domain must be in \[0, 2\*\*32\), got 4294967296"),
        ((0, 0, -1), r"stream must be in \[0, 2\*\*32\), got -1"),
    ],
)
def test_places_beyond_their_words_are_refused(make, key, place, says):
    with pytest.raises(ValueError, match=f"{make.__name__}: {says}"):
        make(key, *place)


@each_case(("make", "words"), [(philox_operand, 2), (threefry_operand, 4)])
@each_case("key", [(), (0,), (0, 0, 0), (0, 2**32), (0, 0, 0, -1)])
def test_keys_of_other_lengths_are_refused(make, words, key):
    says = f"{make.__name__}: key must be {words} words of 32 bits, got "
    with pytest.raises(ValueError, match=says):
        make(key, 0)
