"""Access patterns on parts of tensors, and patterns that leave their tensor."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from tiles import loaded, stored

ROWS, COLUMNS = 8, 24


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@st.composite
def nested(draw):
    """A slice of the tensor, and a pattern that counts inside the slice."""
    top = draw(st.integers(0, ROWS - 1))
    bottom = draw(st.integers(top + 1, ROWS))
    left = draw(st.integers(0, COLUMNS - 1))
    right = draw(st.integers(left + 1, COLUMNS))
    step = draw(st.integers(1, 3))
    width = len(range(left, right, step))
    outer, inner = draw(st.integers(0, width)), draw(st.integers(0, width))
    many, few = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    offset = draw(st.integers(0, width - 1))
    reach = offset + (many - 1) * outer + (few - 1) * inner
    if reach >= width:
        outer = inner = 0
    return (top, bottom, left, right, step), (outer, many), (inner, few), offset


def nested_pattern(x, part, outer, inner, offset, on_chip):
    top, bottom, left, right, step = part
    base = loaded(x) if on_chip else x
    view = base[top:bottom, left:right:step]
    rows, width = view.shape
    patterned = view.ap([[width, rows], list(outer), list(inner)], offset=offset)
    out = nl.ndarray((rows, outer[1], inner[1]), dtype=x.dtype, buffer=nl.sbuf)
    copy = nisa.tensor_copy if on_chip else nisa.dma_copy
    copy(dst=out, src=patterned)
    return stored(out)


@pytest.mark.parametrize("on_chip", [True, False], ids=["sbuf", "hbm"])
@given(nested())
def test_a_pattern_on_a_part_counts_in_that_part(on_chip, drawn):
    part, outer, inner, offset = drawn
    x = numbers(ROWS, COLUMNS)
    top, bottom, left, right, step = part
    flat = x[top:bottom, left:right:step]
    places = (
        offset + outer[0] * np.arange(outer[1])[:, None] + inner[0] * np.arange(inner[1])[None, :]
    )
    report = nkisim.check(nested_pattern)(x, part, outer, inner, offset, on_chip)
    # Rows of a part may begin at any partition, which engines do not like.
    assert report.codes - {"S004", "S023", "L018"} == {"S020"}, str(report)
    np.testing.assert_array_equal(report.outputs, flat[:, places])


def past_its_partitions(x):
    first = nl.ndarray((32, 4), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
    second = nl.ndarray((32, 4), dtype=nl.float32, buffer=nl.sbuf, address=(32, 0))
    for tile in (first, second):
        nisa.dma_copy(dst=tile, src=x)
    return stored(first.ap([[4, 33], [1, 4]]))


def partly_written(x):
    tile = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[:, 0:4], src=x[0:4])
    out = nl.ndarray((4, 9), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=out, src=tile.ap([[8, 4], [1, 9]]))
    return stored(out)


def backwards_past_the_start(x):
    tile = loaded(x)
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    offset = nisa.register_alloc(2)
    view = tile.ap([[4, 32], [-1, 4]], scalar_offset=offset, indirect_dim=1)
    nisa.tensor_copy(dst=out, src=view)
    return stored(out)


def into_the_next_partition(x):
    tile = loaded(x)
    out = nl.ndarray((32, 2), dtype=nl.float32, buffer=nl.sbuf)
    offset = nisa.register_alloc(3)
    view = tile.ap([[4, 32], [1, 2]], scalar_offset=offset, indirect_dim=1)
    nisa.tensor_copy(dst=out, src=view)
    return stored(out)


@each_case("values", [True, False])
@each_case(
    "kernel",
    [past_its_partitions, partly_written, backwards_past_the_start, into_the_next_partition],
)
def test_a_pattern_that_leaves_its_tensor_is_refused(kernel, values):
    with pytest.raises(nkisim.NkiValidationError, match="S021"):
        nkisim.simulate(kernel, values=values)(numbers(32, 4))


def test_a_pattern_may_run_backwards_from_a_dynamic_offset():
    def kernel(x):
        tile = loaded(x)
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
        offset = nisa.register_alloc(3)
        view = tile.ap([[4, 32], [-1, 4]], scalar_offset=offset, indirect_dim=1)
        nisa.tensor_copy(dst=out, src=view)
        return stored(out)

    x = numbers(32, 4)
    np.testing.assert_array_equal(nkisim.simulate(kernel)(x), x[:, ::-1])
