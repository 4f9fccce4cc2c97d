"""Marks of written bytes, against a plain map of every byte."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from each_case import each_case
from nkisim.memory.written_map import Marks, runs_of

SIZE = 96


def strided(data, start, shape, strides, itemsize):
    """The bytes of a view, (..., itemsize), by the definition of strides."""
    return np.ndarray((*shape, itemsize), np.uint8, data, start, (*strides, 1))


@st.composite
def views(draw):
    """A view that lies inside of the memory: start, shape, strides, item size."""
    itemsize = draw(st.sampled_from([1, 2, 4]))
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    dense = draw(st.booleans())
    strides, step = [], itemsize
    for extent in reversed(shape):
        strides.append(step if dense else draw(st.integers(0, 12)))
        step *= extent
    strides = tuple(reversed(strides))
    reach = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + itemsize
    if reach > SIZE:
        shape, reach = (1,) * len(shape), itemsize
    return draw(st.integers(0, SIZE - reach)), shape, strides, itemsize


@given(st.lists(st.tuples(views(), st.booleans(), st.integers(0, 2**64 - 1)), max_size=8), views())
def test_equal_to_a_map_of_every_byte(writes, read):
    marks, every = Marks(SIZE), np.zeros(SIZE, np.uint8)
    for view, partly, seed in writes:
        start, shape, strides, itemsize = view
        mask = np.ones(shape, bool)
        if partly:
            mask = np.random.default_rng(seed).random(shape) < 0.5
            marks.add_where(mask, start, strides, itemsize)
        else:
            marks.add(start, runs_of(*view))
        strided(every, *view)[mask] = 1
        assert marks.missing_bytes == SIZE - int(every.sum())
    hidden = ~strided(every, *read).all(axis=-1)
    found = marks.missing(read)
    if hidden.any():
        np.testing.assert_array_equal(found, hidden)
    else:
        assert found is None


def test_long_runs_take_few_marks():
    marks = Marks(1 << 20)
    for row in range(0, 1024, 128):
        for column in range(0, 1024, 512):
            start = row * 1024 + column
            marks.add(start, runs_of(start, (128, 512), (1024, 1), 1))
    assert marks.missing_bytes == 0
    assert marks._marks.size == 2048


def test_before_a_view_came_all_is_missing_or_nothing():
    assert Marks(SIZE).missing_bytes == SIZE
    assert Marks(SIZE, written=True).missing_bytes == 0


@given(st.lists(views(), max_size=8), views())
def test_what_was_written_is_known_when_somebody_asks(writes, read):
    marks, every = Marks(SIZE), np.zeros(SIZE, np.uint8)
    for view in writes:
        marks.add(view[0], runs_of(*view))
        strided(every, *view)[...] = 1
    assert marks.sound(read) == bool(strided(every, *read).all())
    assert marks.missing_bytes == SIZE - int(every.sum())


@each_case("rows", [1, 3, 4])
@each_case(
    "starts", [(0, 8, 16), (16, 0, 8), (0, 8), (0, 8, 8), (0, 4, 16), (0, 12, 16), (0, 16, 8, 4)]
)
def test_parts_side_by_side_are_as_many_bytes_as_they_are(starts, rows):
    size = 24 * rows
    marks, every = Marks(size), np.zeros(size, np.uint8)
    for start in starts:
        view = start, (rows, 4, 2), (24, 2, 1), 1
        marks.add(view[0], runs_of(*view))
        strided(every, *view)[...] = 1
    assert marks.missing_bytes == size - int(every.sum())
    assert marks.sound((0, (size,), (1,), 1)) == bool(every.all())
