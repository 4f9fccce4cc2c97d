"""How far ahead samples of small draws are made, seen at the calls of the function that draws."""

from __future__ import annotations

import pytest
import torch

import trnrand
from trnrand import Generator
from trnrand._ahead import drawn_ahead


class Draw:
    """Uniforms, and how many were asked for at once."""

    def __init__(self):
        self.asked = []

    def __call__(self, *size, generator, **options):
        self.asked.append(size)
        return trnrand.uniform(*size, generator=generator, **options)


@pytest.fixture
def draw():
    return Draw()


def test_a_stream_that_goes_on_gets_four_times_as_many_up_to_4096(draw):
    generator = Generator(7)
    assert drawn_ahead(draw, (1,), generator, {}) is None  # a first call is made by itself
    generator.seek(1)
    for _ in range(10_000):
        assert drawn_ahead(draw, (1,), generator, {}) is not None
    assert draw.asked == [(64,), (256,), (1024,), (4096,), (4096,), (4096,)]
    assert generator.offset == 10_001


@pytest.mark.parametrize(
    ("size", "made"),
    [
        ((64,), True),
        ((65,), False),
        ((8, 8), True),
        (([8, 8],), True),
        ((torch.Size([5]),), True),
        ((5, 13), False),
        ((), False),
        ((0,), False),
        ((2, 0), False),
        ((-1,), False),
        ((True,), False),
        ((1.0,), False),
    ],
)
def test_sizes_that_are_made_ahead(draw, size, made):
    generator = Generator(7)
    drawn_ahead(draw, size, generator, {})
    count = 1
    for n in size[0] if size and not isinstance(size[0], (int, float)) else size:
        count *= n
    generator.seek(max(0, int(count)))  # as the call that was made by itself would
    found = drawn_ahead(draw, size, generator, {})
    assert (found is not None) is made
    if made:
        assert found.shape == torch.empty(*size).shape
        assert draw.asked == [(64,)]


@pytest.mark.parametrize(
    ("options", "made"),
    [
        ({"low": 0.5}, True),
        ({"dtype": torch.float64}, True),
        ({"high": torch.tensor(2.0)}, False),
        ({"out": None}, True),
    ],
)
def test_options_that_cannot_change(draw, options, made):
    generator = Generator(7)
    drawn_ahead(draw, (2,), generator, options)
    generator.seek(2)
    assert (drawn_ahead(draw, (2,), generator, options) is not None) is made


def test_samples_are_taken_up_to_the_last_that_was_made(draw):
    generator = Generator(7)
    drawn_ahead(draw, (1,), generator, {})
    generator.seek(1)
    for count in (60, 4):  # all of the first 64
        drawn_ahead(draw, (count,), generator, {})
    assert draw.asked == [(64,)]
    drawn_ahead(draw, (1,), generator, {})
    assert draw.asked == [(64,), (256,)]
    # Back to where they begin, and before that: a call by itself.
    generator.seek(65)
    assert drawn_ahead(draw, (1,), generator, {}) is not None
    generator.seek(64)
    assert drawn_ahead(draw, (1,), generator, {}) is None
    assert draw.asked == [(64,), (256,)]


def test_sixteen_kinds_of_calls_are_remembered(draw):
    generator = Generator(7)
    for i in range(16):
        drawn_ahead(draw, (1,), generator, {"high": 1.0 + i})
    assert len(generator._ahead) == 16
    drawn_ahead(draw, (1,), generator, {"high": 99.0})
    assert len(generator._ahead) == 1


def test_parts_of_a_stream_and_its_far_end_are_drawn_by_themselves(draw):
    shared = Generator(1, partition_rank=1, partition_size=2)
    far = Generator(1)
    far.seek(2**64 - 100)
    for generator in (shared, far):
        for _ in range(3):
            assert drawn_ahead(draw, (1,), generator, {}) is None
    assert draw.asked == []
