"""Indices: integers, slices, spans and ellipses, one after another, against a list of bytes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from oracles.memory import Memory, Span, follow, frozen

SHAPE = (6, 4, 10)


def numbered(shape, dtype=np.int32):
    """No two elements alike."""
    return np.arange(1, 1 + np.prod(shape), dtype=dtype).reshape(shape)


@nkisim.jit
def read_view(source, steps, buffer):
    """Returns what a view of ``source`` holds."""
    tensor = source
    if buffer == nl.sbuf:
        tensor = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tensor, src=source)
    view = follow(tensor, steps, nl.ds, None)
    out = nl.ndarray(view.shape, dtype=view.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=view)
    return out


@nkisim.jit
def write_view(source, values, steps, buffer):
    """Returns ``source`` after ``values`` went into a view of it."""
    tensor = nl.ndarray(source.shape, dtype=source.dtype, buffer=buffer)
    nisa.dma_copy(dst=tensor, src=source)
    view = follow(tensor, steps, nl.ds, None)
    nisa.dma_copy(dst=view, src=values)
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tensor)
    return out


@nkisim.jit
def assert_account(source, steps, buffer, shape, offset, pattern):
    """Compares what a view says of itself; a dimension of one element may say any step."""
    tensor = nl.ndarray(source.shape, dtype=source.dtype, buffer=buffer)
    view = follow(tensor, steps, nl.ds, None)
    assert view.shape == shape
    assert view.ndim == len(shape)
    assert view.buffer == buffer
    assert view.dtype == source.dtype
    assert view.offset == offset
    found = view.get_pattern()
    assert len(found) == len(pattern)
    for i in range(len(pattern)):
        assert found[i][1] == pattern[i][1]
        assert pattern[i][0] is None or found[i][0] == pattern[i][0]
    return source


def modelled(shape, dtype, buffer):
    return Memory().tensor(shape, dtype, on_chip=buffer == nl.sbuf)


def assert_like_the_bytes(steps, buffer, shape=SHAPE, dtype=np.int32):
    """Reads and writes through a view do what the table of cells says."""
    steps = frozen(steps)
    data = numbered(shape, dtype)
    model = modelled(shape, dtype, buffer)
    model.write(data)
    view = follow(model, steps, Span, None)

    read = nkisim.simulate(read_view)(data, steps, buffer)
    assert read.shape == view.shape
    np.testing.assert_array_equal(read, view.read())

    values = np.asarray(-numbered(view.shape, dtype))
    written = nkisim.simulate(write_view)(data, values, steps, buffer)
    view.write(values)
    np.testing.assert_array_equal(written, model.read())

    account = (view.shape, view.offset, tuple(view.get_pattern()))
    nkisim.simulate(assert_account)(data, steps, buffer, *account)


ALL = ("slice", None, None, None)
EACH = [
    (("slice", 1, 4, None),),
    (ALL, ("slice", None, None, 2)),
    (ALL, ALL, ("slice", 1, None, 3)),
    (ALL, ALL, ("slice", 1, 8, 3)),
    (ALL, ALL, ("slice", -4, -1, None)),
    (("...",), ("slice", 0, 1, None)),
    (("...",),),
    (ALL, ("...",)),
    (("slice", 2, 3, None), ("...",), ("at", 9)),
    (ALL, ("at", 3)),
    (ALL, ("at", 0), ("at", 9)),
    (ALL, ("ds", 1, 2), ("ds", 4, 6)),
    (ALL, ("slice", None, None, 3), ("slice", None, None, 4)),
    (ALL, ALL, ("slice", 0, 10, 20)),
]


@each_case("buffer", [nl.sbuf, nl.shared_hbm], ids=["sbuf", "hbm"])
@each_case("entries", EACH, ids=str)
def test_one_index(entries, buffer):
    assert_like_the_bytes([("index", *entries)], buffer)


@each_case("buffer", [nl.sbuf, nl.shared_hbm], ids=["sbuf", "hbm"])
@each_case("dtype", [np.uint8, np.int16, np.float32])
def test_an_index_of_an_index(buffer, dtype):
    steps = [
        ("index", ("slice", 1, 6, None), ALL, ("slice", 1, None, 2)),
        ("index", ("slice", 1, 4, None), ("slice", None, None, 3), ("ds", 1, 4)),
        ("index", ("slice", 2, 3, None), ("at", 1), ("slice", None, None, 2)),
    ]
    assert_like_the_bytes(steps, buffer, dtype=dtype)


@each_case(
    ("entries", "shape"),
    [
        ((("at", 2),), (4, 10)),
        ((("at", 2), ("at", 1)), (10,)),
        ((("at", 2), ("at", 1), ("at", 0)), ()),
        ((ALL, ("at", 1)), (6, 10)),
        ((ALL, ALL, ("at", 1)), (6, 4)),
        ((("...",), ("at", 1)), (6, 4)),
    ],
)
def test_integers_drop_dimensions_in_hbm(entries, shape):
    data = numbered(SHAPE)
    got = nkisim.simulate(read_view)(data, (("index", *entries),), nl.shared_hbm)
    assert got.shape == shape
    assert_like_the_bytes([("index", *entries)], nl.shared_hbm)


@each_case(
    ("source", "entries", "shape"),
    [
        ((6, 5), (ALL, ("at", 1)), (6, 1)),
        ((6, 5), (("at", 2),), (1, 5)),
        ((6, 5), (("at", 2), ("at", 1)), (1, 1)),
        (SHAPE, (ALL, ("at", 1), ("at", 2)), (6, 1)),
        (SHAPE, (("at", 3), ("at", 1), ("at", 2)), (1, 1)),
        (SHAPE, (("at", 3), ALL, ("at", 2)), (1, 4)),
        (SHAPE, (("at", 3), ("at", 1)), (1, 10)),
        (SHAPE, (ALL, ("at", 1)), (6, 10)),
    ],
)
def test_on_chip_results_keep_two_dimensions(source, entries, shape):
    data = numbered(source)
    got = nkisim.simulate(read_view)(data, (("index", *entries),), nl.sbuf)
    assert got.shape == shape
    assert_like_the_bytes([("index", *entries)], nl.sbuf, source)


def test_an_integer_may_take_the_partition_dimension_away():
    # As the language guide has it; the first dimension of the result is then a free dimension.
    steps = [("index", ("at", 2), ("...",)), ("index", ("slice", 0, 3, None), ALL)]
    assert_like_the_bytes(steps, nl.sbuf)
    report = nkisim.check(read_view)(numbered(SHAPE), frozen(steps), nl.sbuf)
    assert "S015" in report.codes
    assert report.ok


@nkisim.jit
def written_through_several_views(source):
    tile = nl.ndarray((6, 8), dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    half = tile[:, 4:8]
    evens = tile[:, ::2]
    nisa.dma_copy(dst=half[:, 2:4], src=source[:, 0:2])
    first = nl.ndarray((6, 4), dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=first, src=evens)
    nisa.dma_copy(dst=evens[:, 3:4], src=source[:, 1:2])
    second = nl.ndarray((6, 4), dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=second, src=half)
    return first, second


def test_a_write_shows_in_every_view_made_before():
    data = numbered((6, 8))
    first, second = nkisim.simulate(written_through_several_views)(data)
    want = data.copy()
    want[:, 6:8] = data[:, 0:2]
    np.testing.assert_array_equal(first, want[:, ::2])
    want[:, 6] = data[:, 1]
    np.testing.assert_array_equal(second, want[:, 4:8])


# Any legal sequence


@st.composite
def chains(draw, on_chip):
    """A shape and up to three indices, each legal for the view that the one before it made."""
    rank = draw(st.integers(2 if on_chip else 1, 4))
    shape = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    steps = []
    extents = list(shape)
    for _ in range(draw(st.integers(1, 3))):
        entries = []
        for dim, extent in enumerate(extents):
            kind = draw(st.sampled_from(["slice", "ds", "at", "all"]))
            first = draw(st.integers(0, extent - 1))
            last = draw(st.integers(first + 1, extent))
            if kind == "at":
                entries.append(("at", first))
            elif kind == "ds":
                entries.append(("ds", first, last - first))
            elif kind == "slice":
                # Partitions are taken one after another; the hardware has no step over them.
                step = 1 if on_chip and dim == 0 else draw(st.integers(1, 3))
                negative = draw(st.booleans())
                entries.append(("slice", first - extent if negative else first, last, step))
            else:
                entries.append(ALL)
        while entries and entries[-1] == ALL and draw(st.booleans()):
            entries.pop()
        if entries and draw(st.booleans()):
            runs = [i for i, entry in enumerate(entries) if entry == ALL]
            if runs:
                entries[runs[0]] = ("...",)
                if any(entry == ALL for entry in entries[runs[0] + 1 :]) or len(entries) < len(
                    extents
                ):
                    entries[runs[0]] = ALL
        steps.append(("index", *entries) if entries else ("index", ("...",)))
        model = modelled(shape, np.int32, nl.sbuf if on_chip else nl.shared_hbm)
        extents = list(follow(model, steps, Span, None).shape)
        if not extents:
            break
    return shape, steps


@given(chains(on_chip=True))
def test_any_chain_of_indices_on_chip(chain):
    shape, steps = chain
    assert_like_the_bytes(steps, nl.sbuf, shape)


@given(chains(on_chip=False))
def test_any_chain_of_indices_in_hbm(chain):
    shape, steps = chain
    assert_like_the_bytes(steps, nl.shared_hbm, shape)


# What has no meaning


@each_case("buffer", [nl.sbuf, nl.shared_hbm], ids=["sbuf", "hbm"])
@each_case(
    ("entries", "rule", "words"),
    [
        (
            (ALL, ALL, ("slice", 0, 11, None)),
            "S009",
            "index range [0, 10] exceed dimension size of 10",
        ),
        ((ALL, ("ds", 3, 2)), "S009", "index range [3, 4] exceed dimension size of 4"),
        ((ALL, ("at", 4)), "S009", "index 4 exceed dimension size of 4"),
        ((ALL, ALL, ("slice", None, None, 0)), "S011", "step 0"),
        ((ALL, ALL, ("slice", None, None, -1)), "S011", "step -1"),
        ((ALL, ALL, ALL, ALL), "S012", "3 dimensions"),
        ((("...",), ("...",)), "S012", "2 ellipses"),
        (((("at", "x")),), "S012", "cannot be interpreted as an integer"),
    ],
)
def test_an_index_without_meaning_stops_the_kernel(buffer, entries, rule, words):
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(read_view)(numbered(SHAPE), (("index", *entries),), buffer)
    assert caught.value.rule_id == rule
    assert words in str(caught.value)


def test_a_negative_integer_counts_from_the_end_with_a_finding():
    report = nkisim.check(read_view)(numbered((4, 5)), (("index", ALL, ("at", -2)),), nl.sbuf)
    (finding,) = (f for f in report.findings if f.rule.id == "S010")
    assert (finding.seen, finding.allowed) == ("-2", "0 to 4")
    assert finding.fix == "write shape[1] - 2"
    np.testing.assert_array_equal(report.outputs, numbered((4, 5))[:, 3:4])


@nkisim.jit
def empty_slice(source):
    return source[2:2].shape


def test_an_empty_slice_is_found():
    assert "S014" in nkisim.check(empty_slice)(numbered((4, 5))).codes


@nkisim.jit
def indexed_by_a_range(source):
    out = nl.ndarray((2, 5), dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=source[range(2)])
    return out


def test_a_range_is_no_index():
    with pytest.raises(
        (TypeError, nkisim.NkiValidationError), match="cannot be interpreted as an integer"
    ):
        nkisim.simulate(indexed_by_a_range)(numbered((4, 5)))


@each_case("bounds", [(0.0, 4, 0, 5), (0, 4.0, 0, 5), (0, 4, 0.0, 5), (0, 4, 0, 5.0)])
@each_case("known", [False, True])
def test_whole_floats_are_no_indices_even_after_equal_integers(bounds, known):
    first, last, left, right = bounds

    def kernel(source):
        if known:
            source[0:4, 0:5]
        source[first:last, left:right]

    with pytest.raises(nkisim.NkiValidationError, match="index"):
        nkisim.simulate(kernel)(numbered((6, 10)))


@pytest.mark.parametrize("shape", [(8.0, 4), (8, 4.0)])
def test_whole_floats_in_a_shape_are_found_even_after_equal_integers(shape):
    def kernel(source):
        nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.sbuf)
        nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=source)
        return out

    with pytest.raises(nkisim.NkiValidationError, match="is a float"):
        nkisim.simulate(kernel, strictness="strict")(numbered((6, 10)))


@nkisim.jit
def nothing_of(source, first, stop, buffer):
    """Moves the elements between two positions of each dimension, which are none."""
    tensor = source
    if buffer == nl.sbuf:
        tensor = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tensor, src=source)
    for view in (
        tensor[first:stop],
        tensor[:, first:stop],
        tensor[nl.ds(first, stop - first)],
        tensor[0:1, nl.ds(first, stop - first)],
    ):
        nl.load(view)
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tensor)
    return out


@each_case("buffer", [nl.shared_hbm, nl.sbuf])
@each_case(("first", "stop"), [(0, 0), (4, 4), (3, 1), (5, 4), (9, 2), (10**6, 0)])
def test_an_empty_slice_may_begin_anywhere(first, stop, buffer):
    """It is found, and nothing else happens: where it begins is not an address."""
    source = numbered((4, 4))
    report = nkisim.check(nothing_of)(source, first, stop, buffer)
    assert {"S003", "S014"} <= report.codes
    assert report.stopped == ""
    np.testing.assert_array_equal(report.outputs, source)
