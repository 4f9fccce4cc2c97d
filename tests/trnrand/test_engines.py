"""Words of the engines: published answers, and streams against the definition on every path."""

import numpy as np
import pytest
import torch

import trnrand
from each_case import each_case
from oracles import random123
from oracles.random_words import BLOCKS as VECTORISED
from oracles.random_words import stream_words
from trnrand._stream import arrays, words
from trnrand.engines import ENGINES, philox4x32, threefry4x32

FUNCTIONS = {"philox": philox4x32, "threefry": threefry4x32}
ANSWERS = random123.known_answers()
CPU = torch.device("cpu")


@pytest.fixture(params=["arrays", "compiled", "tensors"])
def path(request, monkeypatch):
    """Makes words with NumPy, with numba, and with torch as on a GPU."""
    if request.param == "compiled":
        pytest.importorskip("numba")
    monkeypatch.setattr(
        "trnrand._stream.numba_loops.compiled_wanted", lambda n: request.param == "compiled"
    )
    if request.param == "tensors":

        def on_tensors(source, first, steps, domain):
            steps = torch.arange(steps) if isinstance(steps, int) else steps
            return words._blocks_on_tensors(source.engine, source.seed, first, steps, domain)

        monkeypatch.setattr(words.Source, "_blocks", on_tensors)
    return request.param


def words_of(engine, seed, first, count, domain=0):
    source = words.Source(engine, seed, first, CPU)
    return words.unsigned(source.words(domain, count)).numpy().astype(np.uint32)


@each_case("answer", ANSWERS, ids=str)
def test_published_answers(answer):
    got = FUNCTIONS[answer.engine](
        torch.tensor(answer.counter), torch.tensor(answer.key), answer.rounds
    )
    assert tuple(got.tolist()) == answer.output


@each_case("answer", ANSWERS, ids=str)
def test_the_oracles_give_the_published_answers(answer):
    assert random123.BLOCKS[answer.engine](answer.counter, answer.key, answer.rounds) == (
        answer.output
    )
    counter = [np.array([word], np.uint64) for word in answer.counter]
    key = sum(word << 32 * i for i, word in enumerate(answer.key))
    found = VECTORISED[answer.engine](counter, key, answer.rounds)
    assert tuple(int(word[0]) for word in found) == answer.output


def test_every_engine_has_published_answers():
    assert {a.engine for a in ANSWERS} == set(ENGINES)
    assert {(a.engine, a.rounds) for a in ANSWERS} >= {("philox", 10), ("threefry", 20)}


def test_the_10000th_word_of_cpp26_philox4x32():
    """The C++ standard states the 10000th value of a default-constructed std::philox4x32."""
    generator = trnrand.Generator(20111115)
    generator.skip(9999)
    assert generator.words(1).tolist() == [1955073260]


# Of the first and last blocks, of one that carries into the second word, and of a random one.
PLACES = [0, 2**32 - 3, 2**64 - 300, 0x1234_5678_9ABC_DEF0]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("place", PLACES)
def test_blocks_are_those_of_python_integers(engine, place, path):
    seed = 0xFEDC_BA98_7654_3210
    source = words.Source(engine, seed, place, CPU)
    got = words.unsigned(source.slots(7, 40, attempt=3)).tolist()
    want = [random123.block(engine, seed, place + i, 7 | 3 << 8) for i in range(40)]
    assert [tuple(words) for words in got] == want


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", [0, 42, 2**64 - 1])
def test_100000_words(engine, seed, path):
    got = words_of(engine, seed, 0, 100_000)
    assert np.array_equal(got, stream_words(engine, seed, 0, 100_000))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_million_words(engine, path):
    start = 2**32 - 1000
    got = words_of(engine, 42, 4 * start, 1_000_000, domain=1)
    assert np.array_equal(got, stream_words(engine, 42, start, 1_000_000, domain=1))


@each_case("first", range(9))
@each_case("count", [0, 1, 2, 3, 4, 5, 17])
def test_words_start_and_end_anywhere(first, count, path):
    whole = stream_words("philox", 5, 0, first + count)
    assert np.array_equal(words_of("philox", 5, first, count), whole[first:])


def test_many_words_start_inside_a_block(path):
    whole = stream_words("philox", 5, 0, 70_003)
    assert np.array_equal(words_of("philox", 5, 3, 70_000), whole[3:])


def test_single_words_of_samples(path):
    source = words.Source("philox", 9, 2**34 - 5, CPU)
    offsets = torch.tensor([0, 3, 4, 5, 6, 1000])
    places = [2**34 - 5 + i for i in offsets.tolist()]
    want = [random123.block("philox", 9, n // 4, 4 | 2 << 8)[n % 4] for n in places]
    assert words.unsigned(source.word_at(4, offsets, 2)).tolist() == want


def test_counters_and_keys_broadcast():
    counter = torch.arange(12).reshape(3, 1, 4)
    key = torch.arange(10).reshape(5, 2)
    got = philox4x32(counter, key)
    assert got.shape == (3, 5, 4)
    assert got[2, 3].tolist() == list(random123.philox((8, 9, 10, 11), (6, 7)))
    assert counter.flatten().tolist() == list(range(12))


@each_case(
    ("counter", "key", "match"),
    [
        (torch.zeros(4), torch.zeros(2, dtype=torch.long), "philox4x32: counter must be"),
        (torch.zeros(3, dtype=torch.long), torch.zeros(2, dtype=torch.long), "counter must have 4"),
        (torch.zeros(4, dtype=torch.long), torch.zeros(4, dtype=torch.long), "key must have 2"),
    ],
)
def test_wrong_counters_and_keys(counter, key, match):
    with pytest.raises(ValueError, match=match):
        philox4x32(counter, key)


@each_case("engine", ENGINES)
@each_case("first", [0, 5, 2**32 - 3, 2**40 + 1, 2**64 - 4])
@each_case("seed", [0, 7, 2**32, 2**64 - 1])
@each_case("count", [0, 4, 6])
def test_blocks_of_arrays_are_those_of_the_definition(engine, first, seed, count):
    """Both halves of seed, index and domain are where the definition has them, past 2**64 too."""
    steps = np.array([0, 1, 2, 3, 9, 6], np.int64)[:count]
    out = np.empty((len(steps), 4), np.uint32)
    domain = 0x8123_4587
    arrays.write_blocks(engine, seed, first, steps, domain, out)
    for row, step in zip(out.tolist(), steps.tolist(), strict=True):
        at = (first + step) % 2**64
        counter = (at % 2**32, at // 2**32, domain, 0)
        key = (seed % 2**32, seed // 2**32, 0, 0)[: ENGINES[engine].key_words]
        rounds = 10 if engine == "philox" else 20
        assert tuple(row) == random123.BLOCKS[engine](counter, key, rounds)
