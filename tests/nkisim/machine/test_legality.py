"""Whether a pattern visits an element twice, against the list of all addresses."""

from itertools import product
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nkisim.machine.calls.legality import _revisits


def view(shape, strides, itemsize):
    size = 1
    for extent in shape:
        size *= extent
    form = SimpleNamespace(strides=strides)
    return SimpleNamespace(shape=shape, form=form, itemsize=itemsize, size=size, indirection=None)


def visits_twice(shape, strides, itemsize):
    """By definition: some byte belongs to two elements."""
    starts = [
        sum(i * stride for i, stride in zip(index, strides, strict=True))
        for index in product(*map(range, shape))
    ]
    touched = [start + byte for start in starts for byte in range(itemsize)]
    return len(set(touched)) < len(touched)


dimensions = st.lists(st.tuples(st.integers(1, 4), st.integers(-6, 6)), min_size=1, max_size=3)


@given(dimensions, st.sampled_from([1, 2, 4]))
@example([(2, 2), (3, 1)], 4)  # rows of three elements, of which the third is the next one's first
@example([(2, 3), (3, 1)], 4)
@example([(3, 2), (2, 3)], 4)  # interleaved, and apart
def test_patterns_against_their_addresses(dims, itemsize):
    shape = tuple(extent for extent, _ in dims)
    strides = tuple(step * itemsize for _, step in dims)
    assert _revisits(view(shape, strides, itemsize)) == visits_twice(shape, strides, itemsize)


@pytest.mark.parametrize("kind", ["vector", "scalar"])
def test_rows_chosen_by_an_index_are_not_compared(kind):
    repeated = view((2, 3), (0, 4), 4)
    repeated.indirection = SimpleNamespace(kind=kind)
    assert _revisits(repeated) == (kind != "vector")
