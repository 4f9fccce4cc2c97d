"""A small battery on the bits of both engines, in the manner of NIST's and Marsaglia's.

Seeds are fixed; a test fails below a p-value of 1e-4. The streams looked at are that of a seed, the
first words of successive seeds, and the same words of successive domains: neighbours in a counter
or key are what a weak engine would give away.
"""

import numpy as np
import pytest
import torch
from scipy import stats

import trnrand
from each_case import each_case
from trnrand.engines import ENGINES, philox4x32, threefry4x32

SMALLEST_P = 1e-4
SEED = 12345


def one_seed(engine, count):
    return trnrand.Generator(SEED, engine=engine).words(count).numpy()


def many_seeds(engine, count):
    key = torch.zeros(count // 4, ENGINES[engine].key_words, dtype=torch.long)
    key[:, 0] = torch.arange(count // 4)
    return BLOCKS[engine](torch.zeros(4, dtype=torch.long), key).reshape(-1).numpy()


def many_domains(engine, count):
    """The first 1024 blocks of every domain, the third word of a counter."""
    index = torch.arange(count // 4)
    counter = torch.stack([index % 1024, 0 * index, index // 1024, 0 * index], -1)
    key = torch.zeros(ENGINES[engine].key_words, dtype=torch.long)
    key[0] = SEED
    return BLOCKS[engine](counter, key).reshape(-1).numpy()


BLOCKS = {"philox": philox4x32, "threefry": threefry4x32}
STREAMS = [one_seed, many_seeds, many_domains]
FAST = 1 << 18


@pytest.fixture(params=sorted(ENGINES))
def engine(request):
    return request.param


@pytest.fixture(params=STREAMS, ids=lambda f: f.__name__)
def words(request, engine):
    return request.param(engine, FAST)


def bits_of(words):
    return np.unpackbits(words.astype(">u4").view(np.uint8))


def two_sided(z):
    return 2 * stats.norm.sf(abs(z))


def monobit(words):
    bits = bits_of(words)
    return two_sided((2.0 * bits.sum() - bits.size) / bits.size**0.5)


def each_bit(words):
    """Every of the 32 places holds ones half of the time."""
    ones = np.array([((words >> place) & 1).sum() for place in range(32)])
    return stats.chi2.sf((((2.0 * ones - words.size) ** 2) / words.size).sum(), 32)


def runs(words):
    """Changes between neighbouring bits are as many as continuations."""
    changes = np.diff(bits_of(words).astype(np.int8)) != 0
    return two_sided((2.0 * changes.sum() - changes.size) / changes.size**0.5)


def serial_pairs(words):
    """Top bytes of neighbouring words fill all 65536 pairs evenly."""
    top = words >> 24
    pairs = top[0::2] * 256 + top[1::2]
    # Five to a cell at least, as the approximation needs.
    cells = 65536 if pairs.size >= 5 * 65536 else 4096
    return stats.chisquare(np.bincount(pairs * cells // 65536, minlength=cells)).pvalue


def low_bytes(words):
    return stats.chisquare(np.bincount(words & 255, minlength=256)).pvalue


def lagged_bits(words):
    """Words differ from those one block later in half of their bits."""
    differing = np.bitwise_count((words[4:] ^ words[:-4]).astype(np.uint32)).sum()
    trials = 32 * (words.size - 4)
    return two_sided((2.0 * differing - trials) / trials**0.5)


def birthday_spacings(words):
    """512 birthdays in 2**24 days: equal spacings are Poisson with mean 2 (Marsaglia)."""
    days = np.sort((words >> 8)[: words.size // 512 * 512].reshape(-1, 512), axis=1)
    spacings = np.sort(np.diff(days, axis=1), axis=1)
    repeats = (np.diff(spacings, axis=1) == 0).sum(axis=1)
    law = stats.poisson(512**3 / (4 * 2**24))
    expected = law.pmf(np.arange(6)) * repeats.size
    observed = np.bincount(np.minimum(repeats, 6), minlength=7)
    return stats.chisquare(observed, np.append(expected, repeats.size - expected.sum())).pvalue


def matrix_ranks(words):
    """Ranks of random 32 x 32 matrices over two elements have a known law (Marsaglia)."""
    ranks = _ranks(words[: words.size // 32 * 32].reshape(-1, 32).astype(np.uint64))
    chance = np.array([1.0, 1.0, 1.0])
    for lost in range(3):
        product = np.prod(
            [(1 - 2.0 ** (i - 32)) ** 2 / (1 - 2.0 ** (i - 32 + lost)) for i in range(32 - lost)]
        )
        chance[lost] = 2.0 ** (-(lost**2)) * product
    observed = np.array([(ranks == 32).sum(), (ranks == 31).sum(), (ranks <= 30).sum()])
    chance[2] = 1 - chance[:2].sum()
    return stats.chisquare(observed, chance * ranks.size).pvalue


def _ranks(rows):
    """Ranks of many matrices at once, each of 32 rows of 32 bits, by elimination."""
    rows, ranks = rows.copy(), np.zeros(len(rows), np.int64)
    every = np.arange(len(rows))
    for bit in range(32):
        has = (rows >> np.uint64(bit)) & np.uint64(1) == 1
        # A row that was a pivot is zero afterwards, so it cannot be chosen again.
        pivot, found = has.argmax(axis=1), has.any(axis=1)
        pivots = np.where(found, rows[every, pivot], 0).astype(np.uint64)
        rows ^= np.where(has, pivots[:, None], np.uint64(0))
        ranks += found
    return ranks


TESTS = [
    monobit,
    each_bit,
    runs,
    serial_pairs,
    low_bytes,
    lagged_bits,
    birthday_spacings,
    matrix_ranks,
]


@each_case("test", TESTS, ids=lambda f: f.__name__)
def test_bits(test, words):
    assert test(words) > SMALLEST_P


@pytest.mark.slow
@pytest.mark.parametrize("stream", STREAMS, ids=lambda f: f.__name__)
def test_many_bits(stream, engine):
    words = stream(engine, 1 << 22)
    assert not [test.__name__ for test in TESTS if test(words) <= SMALLEST_P]


# A battery that passes everything is none: each of its tests must see a flaw that it is for.
COUNT = np.arange(FAST, dtype=np.int64)
GOOD = one_seed("philox", FAST)
FLAWED = {
    monobit: GOOD | (COUNT % 4 == 0),
    each_bit: GOOD | (COUNT % 16 == 0) << 7,
    runs: GOOD | GOOD >> 1,
    serial_pairs: np.repeat(GOOD[::2], 2),
    low_bytes: COUNT * 2654435769 % 2**32 & ~7,
    lagged_bits: np.repeat(GOOD[:FAST:8].reshape(-1, 4), 8, axis=0).reshape(-1)[:FAST],
    birthday_spacings: COUNT * 2654435769 % 2**32,
    matrix_ranks: GOOD & ~(COUNT % 32 == 5).astype(np.int64) * 0xFFFF,
}


@each_case("test", TESTS, ids=lambda f: f.__name__)
def test_the_battery_sees_flaws(test):
    assert test(FLAWED[test]) < SMALLEST_P
