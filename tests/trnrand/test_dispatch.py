"""``trnrand.nki.dispatch``: the engines by their definition."""

import numpy as np
import pytest
import torch

import trnrand
from oracles import random_words
from trnrand.nki import dispatch


def hexadecimal(text):
    return torch.tensor([int(word, 16) for word in text.split()])


def test_known_answers():
    zeros = torch.zeros(4, dtype=torch.int64)
    want = hexadecimal("6627e8d5 e169c58d bc57ac4c 9b00dbd8")
    assert torch.equal(dispatch.philox4x32_reference(zeros, zeros[:2]), want)
    want = hexadecimal("9c6ca96a e17eae66 fc10ecd4 5256a7d8")
    assert torch.equal(dispatch.threefry4x32_reference(zeros, zeros), want)


@pytest.mark.parametrize("engine", ["philox", "threefry"])
def test_uniforms_are_those_of_the_words_and_of_a_generator(engine):
    draw = getattr(dispatch, f"{engine}_uniform_cpu")
    got = draw(100, 42)
    words = random_words.stream_words(engine, 42, 0, 100)
    assert np.array_equal(got.double().numpy(), random_words.uniform_of(words, 24))
    assert torch.equal(draw(60, 42, counter_offset=10), got[40:])
    generator = trnrand.Generator(42, engine=engine)
    assert torch.equal(got, trnrand.uniform(100, generator=generator))


def test_box_muller():
    uniforms = torch.tensor([[1.0, 0.25], [0.5, 0.0], [0.0, 0.5]], dtype=torch.float64)
    z = dispatch.box_muller_cpu(uniforms)
    assert z.shape == uniforms.shape
    radius = np.sqrt(2 * np.log(2))
    # The radius of 1 is 0, an angle of 0 leaves the cosine, and 0 is no infinity.
    np.testing.assert_allclose(z[:2].reshape(-1).numpy(), [0, 0, radius, 0], rtol=1e-15, atol=1e-15)
    assert z.isfinite().all()
    with pytest.raises(AssertionError, match="uniforms must be an even number, got 3"):
        dispatch.box_muller_cpu(torch.rand(3))
