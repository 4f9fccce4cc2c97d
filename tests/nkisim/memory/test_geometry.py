"""Where views lie, by the definition of strides: every element counted, on small tensors."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.language as nl
from each_case import each_case
from nkisim.arch import GEN3
from nkisim.memory import CoreMemory
from nkisim.memory.psum import AccumulationState
from nkisim.memory.tensor.geometry import _NO_SLICES, _fits
from nkisim.memory.written_map import runs_of

ROWS, COLUMNS, PITCH = 3, 5, 20


def tensor(shape=(ROWS, COLUMNS), dtype=nl.float32, buffer=nl.sbuf, **options):
    """A tensor `view` of a core that runs nothing."""
    return CoreMemory(GEN3, precise=True).allocate(shape, dtype, buffer, "view", **options)


def places(start, shape, strides):
    """The byte of each element of a view."""
    return [
        start + sum(i * s for i, s in zip(at, strides, strict=True))
        for at in itertools.product(*map(range, shape))
    ]


def bytes_of(start, shape, strides, itemsize):
    """All bytes of a view."""
    return {place + i for place in places(start, shape, strides) for i in range(itemsize)}


@st.composite
def views(draw, itemsizes=(1, 2, 4)):
    """A view somewhere, perhaps before the beginning of the memory."""
    itemsize = draw(st.sampled_from(itemsizes))
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    strides = tuple(draw(st.integers(-6, 6)) * itemsize for _ in shape)
    return draw(st.integers(-4, 40)) * itemsize, shape, strides, itemsize


@given(views())
def test_a_view_in_one_block_fits_when_all_its_bytes_do(view):
    start, shape, strides, itemsize = view
    inside = all(0 <= place < 60 for place in bytes_of(*view))
    assert _fits(start, shape, strides, itemsize, 1 << 20, 0, 60) == (inside and start >= 0)


@given(views(itemsizes=(4,)), st.integers(1, 4), st.integers(-2, 2), st.integers(1, 4))
def test_a_view_of_rows_fits_when_it_stays_in_them(view, count, step, rows):
    """Three bytes of a partition's 20 belong to somebody else; no row runs into the next."""
    start, shape, strides, itemsize = view
    used = 16
    whole = (start, (count, *shape), (step * PITCH, *strides), itemsize)
    row, byte = divmod(start, PITCH)
    inside = all(
        0 <= row + i * step < rows and 0 <= place < used and place + itemsize <= used
        for i in range(count)
        for place in places(byte, shape, strides)
    )
    assert _fits(*whole, PITCH, rows, used) == inside


def test_a_view_without_elements_fits_anywhere():
    assert _fits(-100, (0, 4), (PITCH, 4), 4, PITCH, ROWS, 16)
    assert not _fits(-100, (1, 4), (PITCH, 4), 4, PITCH, ROWS, 16)


@each_case("stride", [4, 8, 20])
@each_case("offset", range(16))
@each_case("columns", [1, 3])
def test_rows_behind_a_start(stride, offset, columns):
    """As many rows of a pattern as end inside of the tensor."""
    view = tensor((15,), nl.float32, nl.private_hbm).ap([[1, 1], [1, columns]], offset=offset)
    ends = [4 * offset + stride * row + 4 * columns for row in range(20)]
    assert view.rows_after_start(stride) == sum(end <= 60 for end in ends)


@given(views())
def test_runs_are_the_bytes_of_a_view(view):
    runs = runs_of(*view)
    assert runs.nbytes == math.prod(view[1]) * view[3]
    assert view[0] % runs.unit == 0
    grains = places(view[0] // runs.unit, runs.extents, runs.steps)
    # Overlapping elements count as often as they lie there; a grain may hold several elements.
    assert sorted(grain * runs.unit + i for grain in grains for i in range(runs.unit)) == sorted(
        place + i for place in places(*view[:3]) for i in range(view[3])
    )
    assert runs.dense == (len(runs.extents) == 1)
    if runs.dense:
        assert runs.extents == (runs.nbytes // runs.unit,)


def test_a_view_without_elements_has_no_runs():
    assert runs_of(8, (2, 0), (16, 4), 4) == (0, (), (), 0, True, None)


@pytest.mark.parametrize(
    ("shape", "strides", "extents"),
    [
        ((4, 5), (20, 4), (1,)),
        ((4, 3), (20, 4), (4, 3)),
        ((4, 1), (20, 4), (4, 1)),
        ((4, 1, 5), (20, 99, 4), (1,)),
        ((2, 2, 5), (60, 20, 4), (2, 2)),
    ],
)
def test_dense_dimensions_are_one_run(shape, strides, extents):
    assert runs_of(0, shape, strides, 4).extents == extents


class Owner:
    """Stands for an allocation."""


@st.composite
def psum_regions(draw):
    """A view of 8 rows of 64 bytes."""
    row, column = draw(st.integers(0, 7)), draw(st.integers(0, 15))
    rows, columns = draw(st.integers(1, 8 - row)), draw(st.integers(1, 16 - column))
    return row * 64 + column * 4, (rows, columns), (64, 4), 4


@given(psum_regions(), psum_regions())
def test_groups_that_share_bytes_interrupt_each_other(one, other):
    state, owner, writer = AccumulationState(64), Owner(), Owner()
    state.open(owner, one)
    shared = bool(bytes_of(*one) & bytes_of(*other))
    state.write(writer, other)
    assert state.interrupted(owner, one) == shared
    assert state.unread(owner, one) == (not shared)
    assert state.opened(owner, one) is True  # another tensor's groups are its own
    state.read(other)
    assert state.evicted(owner, one) == shared


@given(psum_regions(), psum_regions())
def test_what_an_owner_writes_closes_its_groups(one, other):
    state, owner = AccumulationState(64), Owner()
    state.open(owner, one)
    state.write(owner, other)
    shared = bytes_of(*one) & bytes_of(*other)
    mask = np.array([place not in shared for place in places(*one[:3])]).reshape(one[1])
    found = state.opened(owner, one)
    np.testing.assert_array_equal(np.broadcast_to(found, one[1]), mask)
    assert isinstance(found, bool) == (mask.all() or not mask.any())


def test_a_group_that_goes_on_is_whole_again():
    state, owner, writer = AccumulationState(64), Owner(), Owner()
    region = (0, (8, 4), (64, 4), 4)
    state.open(owner, region)
    assert (state.goes_on(owner, region), state.goes_on(writer, region)) == (True, False)
    state.read(region)
    assert not state.goes_on(owner, region)
    state.write(writer, region)
    assert (state.interrupted(owner, region), state.evicted(owner, region)) == (True, True)
    assert not state.unread(owner, region)
    state.open(owner, region)
    assert (state.interrupted(owner, region), state.evicted(owner, region)) == (False, False)
    assert state.unread(owner, region)
    assert not state.unread(writer, region)


# Indices


def words(call):
    with pytest.raises(nkisim.NkiValidationError) as caught:
        call()
    finding = caught.value.finding
    return finding.rule.id, finding.message, finding.seen, finding.allowed


@pytest.mark.parametrize("step", [None, 1, 2, 3, 7])
def test_every_slice(step):
    """Negative bounds count from the end, once; nothing is clipped."""
    view = tensor()
    for start, stop in itertools.product([None, *range(-7, 8)], repeat=2):
        first = 0 if start is None else start + COLUMNS * (start < 0)
        last = COLUMNS if stop is None else stop + COLUMNS * (stop < 0)
        index = (slice(None), slice(start, stop, step))
        if first < 0 or last < 0 or last > COLUMNS:
            text = f"index range [{first}, {last - 1}] exceed dimension size of {COLUMNS}"
            message = f"Out-of-bound access for tensor `view` on dimension 1: {text}"
            assert words(lambda at=index: view[at]) == (
                "S009",
                message,
                f"{first}:{last}",
                f"0:{COLUMNS}",
            )
            continue
        count = len(range(first, last, step or 1))
        part = view[index]
        assert part.shape == (ROWS, count)
        assert part.start == 4 * first
        assert part.form.strides == (PITCH, 4 * (step or 1))


def test_every_span():
    view = tensor()
    for first, size in itertools.product(range(-2, 7), range(7)):
        index = (slice(None), nl.ds(first, size))
        if first < 0 or first + size > COLUMNS:
            text = f"index range [{first}, {first + size - 1}] exceed dimension size of {COLUMNS}"
            assert words(lambda at=index: view[at])[1].endswith(text)
            continue
        assert (view[index].shape, view[index].start) == ((ROWS, size), 4 * first)


def test_every_integer():
    view = tensor()
    for dim, at in itertools.product(range(2), range(-8, 8)):
        extent = view.shape[dim]
        index = (slice(None),) * dim + (at,)
        place = at + extent if at < 0 else at
        if not 0 <= place < extent:
            text = f"on dimension {dim}: index {place} exceed dimension size of {extent}"
            assert words(lambda at=index: view[at])[1:] == (
                f"Out-of-bound access for tensor `view` {text}",
                str(place),
                f"0 to {extent - 1}",
            )
            continue
        part = view[index]
        assert part.shape == ((1, COLUMNS), (ROWS, 1))[dim]
        assert part.start == place * (PITCH, 4)[dim]
        assert part.form.strides == (PITCH, 4)


@pytest.mark.parametrize("plane", range(-1, 3))
def test_a_plane_of_three_dimensions(plane):
    view = tensor((4, 2, 6))
    if plane == 2:
        text = "index 2 exceed dimension size of 2"
        assert words(lambda: view[0:4, plane, 0:6])[1].endswith(text)
        return
    part = view[1:3, plane, 2:5]
    assert part.shape == (2, 3)
    assert part.start == 48 + 24 * (plane % 2) + 8
    assert part.form.strides == (48, 4)
    again = view[1:3, plane, 2:5]
    assert again.region == part.region


@pytest.mark.parametrize("bounds", [(0, 4, 0, 5), (0, 3, 0, 6), (-4, 3, 0, 5), (0, 3, 0, -6)])
def test_bounds_outside_are_refused_also_after_legal_ones(bounds):
    view = tensor()
    view[0:3, 0:5]
    top, bottom, left, right = bounds
    assert words(lambda: view[top:bottom, left:right])[0] == "S009"


def test_many_different_slices():
    """More than are kept."""
    view = tensor((8, 64))
    for _ in range(2):
        for left, right in itertools.combinations(range(0, 64, 2), 2):
            part = view[2:7, left:right]
            assert (part.shape, part.start) == ((5, right - left), 512 + 4 * left)


def test_equal_tiles_have_slices_of_their_own():
    """Tiles that were written keep their slices; those that are being written need not."""
    assert not _NO_SLICES
    tiles = [tensor((4, 6)), tensor((4, 6)), tensor((4, 6))]
    for tile in tiles[:2]:
        tile._storage.mark_written(tile.start, tile.runs)
    for tile in tiles:
        assert tile[1:3, 0:4].life is tile.life
        assert (tile[1:3, 0:4] is tile[1:3, 0:4]) is tile._storage.complete
    assert not _NO_SLICES


@pytest.mark.parametrize(
    ("index", "shown"),
    [
        ((0, 0, 0), "3 indices"),
        ((..., 0, 0, 0), "3 indices"),
        ((..., ...), "0 indices and 2 ellipses"),
        ((..., 0, ...), "1 indices and 2 ellipses"),
    ],
)
def test_too_many_indices(index, shown):
    view = tensor()
    rule, message, _, allowed = words(lambda: view[index])
    assert rule == "S012"
    assert message == f"tensor `view` has 2 dimensions, indexed with {shown}"
    assert allowed == "at most 2 indices and one ellipsis"


def test_a_pattern_of_elements_that_no_row_holds():
    """Two bytes of a row are no float32."""
    view = tensor((4, 2), nl.uint8).ap([[0, 4], [1, 1]], offset=0, dtype=nl.float32)
    rule, message, *_ = words(view.check_bounds)
    assert rule == "S021"
    assert message == (
        "access pattern of tensor `view` touches elements [0, 0], but the tensor has 2 (0 per row)"
    )


def test_equal_steps_in_both_dimensions():
    part = tensor((6, 8))[0:5:2, 1:8:2]
    assert (part.shape, part.start, part.form.strides) == ((3, 4), 4, (64, 8))


def test_rows_that_an_index_tile_names_keep_their_number():
    """An offset for all rows leaves a reshape free, as in any tensor in HBM."""
    table = tensor((6, 8), buffer=nl.private_hbm)
    offset, rows = tensor((1, 1), nl.int32), tensor((6, 1), nl.int32)
    pattern = [[8, 6], [1, 8]]
    moved = table.ap(pattern, scalar_offset=offset).reshape((12, 4))
    assert (moved.shape, moved.indirection.kind) == ((12, 4), "scalar")
    picked = table.ap(pattern, vector_offset=rows)
    assert picked.reshape((6, 2, 4)).shape == (6, 2, 4)
    rule, message, *_ = words(lambda: picked.reshape((12, 4)))
    assert (rule, message) == ("S018", "Partition dim size must be preserved, got 6 -> 12")
