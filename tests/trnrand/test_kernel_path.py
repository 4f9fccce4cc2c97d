"""The public functions on the simulator: one launch, and the numbers that torch gives."""

import numpy as np
import pytest
import torch

import trnrand
from each_case import each_case
from oracles import random_words
from pairwise import pairwise
from required import requiring
from trnsci.core import explain
from trnsci.core.counters import counts
from trnsci.core.testing import launched, refusals_expected, strict_simulation

ENGINES = ("philox", "threefry")
SEED = 0xDEADBEEF_12345678


@pytest.fixture(autouse=True)
def on_simulator():
    """A kernel that fails raises; nothing is computed by torch in its place."""
    with requiring("trnrand"), trnrand.backend("simulator"):
        yield


def generator(engine, position=0):
    made = trnrand.Generator(SEED, engine=engine)
    made.skip(position)
    return made


def on_torch(function, engine, *size, position=0, **options):
    with trnrand.backend("pytorch"):
        return function(*size, generator=generator(engine, position), **options)


@each_case(
    ("position", "dtype", "engine"),
    pairwise([0, 1, 7, 2**34 + 3], [torch.float32, torch.bfloat16, torch.float16], ENGINES),
)
def test_uniforms_are_equal_to_the_bit(engine, dtype, position):
    before = counts()
    got = trnrand.uniform(3, 700, dtype=dtype, generator=generator(engine, position))
    assert dict((counts() - before).launches) == {f"{engine}_uniform": 1}
    assert torch.equal(
        got, on_torch(trnrand.uniform, engine, 3, 700, dtype=dtype, position=position)
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_affine_uniforms_are_equal_to_the_bit(engine):
    options = {"low": -2.0, "high": 5.0}
    with launched(f"{engine}_uniform"):
        got = trnrand.uniform(1000, generator=generator(engine), **options)
    assert torch.equal(got, on_torch(trnrand.uniform, engine, 1000, **options))


@each_case("engine", ENGINES)
@each_case("position", [0, 1, 2, 3, 5])
def test_normals_and_exponentials_are_equal_to_the_bit(engine, position):
    with launched(f"{engine}_normal", f"{engine}_exponential"):
        normals = trnrand.normal(9999, mean=1.0, std=2.0, generator=generator(engine, position))
        exponentials = trnrand.exponential(9999, rate=3.0, generator=generator(engine, position))
    want = on_torch(trnrand.normal, engine, 9999, mean=1.0, std=2.0, position=position)
    assert torch.equal(normals, want)
    want = on_torch(trnrand.exponential, engine, 9999, rate=3.0, position=position)
    assert torch.equal(exponentials, want)


@each_case("generation", ["gen2", "gen3", "gen4"])
@each_case("engine", ENGINES)
def test_draws_are_clean_on_every_generation(engine, generation):
    with strict_simulation(generation):
        got = trnrand.uniform(5000, generator=generator(engine))
        trnrand.normal(5000, generator=generator(engine))
        trnrand.exponential(5000, generator=generator(engine))
    assert torch.equal(got, on_torch(trnrand.uniform, engine, 5000))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_million_words_are_equal_on_every_path(engine):
    count = 1_000_000
    with launched(f"{engine}_uniform"):
        got = trnrand.uniform(count, generator=generator(engine))
    assert torch.equal(got, on_torch(trnrand.uniform, engine, count))


def test_a_stream_goes_on_where_it_stopped():
    whole = trnrand.uniform(100, generator=generator("philox"))
    one = generator("philox")
    parts = [trnrand.uniform(n, generator=one) for n in (1, 5, 30, 64)]
    assert torch.equal(torch.cat(parts), whole)


@pytest.mark.parametrize("world", [2, 3])
def test_ranks_together_are_one_stream(world):
    whole = trnrand.normal(60, generator=generator("philox"))
    parts = [
        trnrand.normal(60 // world, generator=generator("philox").partition(rank, world))
        for rank in range(world)
    ]
    assert torch.equal(torch.cat(parts), whole)


def test_a_buffer_is_filled_where_it_is():
    buffer = torch.empty(50, 3)
    address = buffer.data_ptr()
    with launched("philox_normal"):
        trnrand.normal_into(buffer, generator=generator("philox"))
    assert buffer.data_ptr() == address
    assert torch.equal(buffer, trnrand.normal(50, 3, generator=generator("philox")))


@refusals_expected()
def test_float64_and_other_laws_are_the_same_on_every_backend():
    with requiring("trnrand", level=""):
        before = counts()
        double = trnrand.uniform(100, dtype=torch.float64, generator=generator("philox"))
        gamma = trnrand.gamma(100, shape=2.0, generator=generator("philox"))
        assert not (counts() - before).launches, "these have no kernel"
        assert torch.equal(double, on_torch(trnrand.uniform, "philox", 100, dtype=torch.float64))
        assert torch.equal(gamma, on_torch(trnrand.gamma, "philox", 100, shape=2.0))


def test_the_words_are_those_of_the_definition():
    got = trnrand.uniform(400, generator=trnrand.Generator(7))
    words = random_words.stream_words("philox", 7, 0, 400)
    assert np.array_equal(got.numpy().astype(np.float64), random_words.uniform_of(words, 24))


def test_explain_names_the_path():
    found = explain(trnrand.uniform, 1000)
    assert found.path == "simulator"
