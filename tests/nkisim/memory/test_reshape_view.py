"""``reshape`` and ``view``: the same bytes under another shape or type."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from oracles.memory import Memory, Span, follow, frozen

HOST_TYPES = {
    "uint8": np.uint8,
    "int8": np.int8,
    "uint16": np.uint16,
    "int16": np.int16,
    "uint32": np.uint32,
    "int32": np.int32,
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}
NKI_TYPES = {name: getattr(nl, name) for name in HOST_TYPES}
BUFFERS = pytest.mark.parametrize("buffer", [nl.sbuf, nl.shared_hbm], ids=["sbuf", "hbm"])
ALL = ("slice", None, None, None)


def random_bytes(shape, name, seed=0):
    dtype = np.dtype(HOST_TYPES[name])
    count = int(np.prod(shape)) * dtype.itemsize
    drawn = np.random.default_rng(seed).integers(0, 256, count).astype(np.uint8)
    return drawn.view(dtype).reshape(shape)


def bits(array):
    return array.view(f"u{array.dtype.itemsize}")


@nkisim.jit
def read_view(source, steps, buffer, types):
    tensor = nl.ndarray(source.shape, dtype=source.dtype, buffer=buffer)
    nisa.dma_copy(dst=tensor, src=source)
    view = follow(tensor, steps, nl.ds, types)
    out = nl.ndarray(view.shape, dtype=view.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=view)
    return out


@nkisim.jit
def write_view(source, values, steps, buffer, types):
    tensor = nl.ndarray(source.shape, dtype=source.dtype, buffer=buffer)
    nisa.dma_copy(dst=tensor, src=source)
    nisa.dma_copy(dst=follow(tensor, steps, nl.ds, types), src=values)
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tensor)
    return out


def assert_like_the_bytes(shape, name, steps, buffer):
    data = random_bytes(shape, name)
    model = Memory().tensor(shape, data.dtype, on_chip=buffer == nl.sbuf)
    model.write(data)
    view = follow(model, steps, Span, HOST_TYPES)
    got = nkisim.simulate(read_view)(data, frozen(steps), buffer, NKI_TYPES)
    assert got.dtype == view.dtype
    np.testing.assert_array_equal(bits(got), bits(view.read()))

    kind = next(n for n, dtype in HOST_TYPES.items() if np.dtype(dtype) == view.dtype)
    values = random_bytes(view.shape, kind, seed=1)
    written = nkisim.simulate(write_view)(data, values, frozen(steps), buffer, NKI_TYPES)
    view.write(values)
    np.testing.assert_array_equal(bits(written), bits(model.read()))


# reshape


@BUFFERS
@each_case(
    ("old", "new"),
    [
        ((6, 24), (6, 2, 12)),
        ((6, 24), (6, 2, 3, 4)),
        ((6, 4, 3, 2), (6, 24)),
        ((6, 4, 6), (6, 3, 8)),
        ((6, 1), (6, 1, 1)),
        ((6, 24), (6, 24)),
    ],
)
def test_free_dimensions_regroup(old, new, buffer):
    assert_like_the_bytes(old, "int32", [("reshape", new)], buffer)


@pytest.mark.parametrize(
    ("old", "new"),
    [((6, 24), (144,)), ((144,), (12, 12)), ((6, 24), (24, 6)), ((2, 3, 4), (4, 3, 2)), ((1,), ())],
)
def test_hbm_reshapes_freely(old, new):
    assert_like_the_bytes(old, "int32", [("reshape", new)], nl.shared_hbm)


def test_a_reshape_then_an_index_then_a_reshape_back():
    steps = [("reshape", (6, 4, 6)), ("reshape", (6, 24)), ("index", ALL, ("slice", 1, None, 5))]
    assert_like_the_bytes((6, 24), "int16", steps, nl.sbuf)


@BUFFERS
def test_a_slice_of_a_reshape(buffer):
    steps = [
        ("reshape", (6, 4, 6)),
        ("index", ("slice", 1, 5, None), ("at", 2), ("slice", 0, 6, 2)),
    ]
    assert_like_the_bytes((6, 24), "float32", steps, buffer)


@pytest.mark.parametrize(
    ("steps", "buffer", "rule", "words"),
    [
        ([("reshape", (6, 25))], nl.sbuf, "S017", "144"),
        ([("reshape", (6, -1))], nl.shared_hbm, "S017", "-1"),
        (
            [("reshape", (12, 12))],
            nl.sbuf,
            "S018",
            "Partition dim size must be preserved, got 6 -> 12",
        ),
        ([("reshape", (144,))], nl.sbuf, "S018", "got 6 -> 144"),
    ],
)
def test_a_reshape_without_meaning_stops_the_kernel(steps, buffer, rule, words):
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(read_view)(random_bytes((6, 24), "int32"), frozen(steps), buffer, NKI_TYPES)
    assert caught.value.rule_id == rule
    assert words in str(caught.value)


@BUFFERS
def test_a_reshape_of_a_slice_works_with_a_finding(buffer):
    data = random_bytes((6, 24), "int32")
    steps = [("index", ("slice", 1, 4, None), ("slice", 0, 12, None)), ("reshape", (3, 3, 4))]
    report = nkisim.check(read_view)(data, frozen(steps), buffer, NKI_TYPES)
    assert "S016" in report.codes
    np.testing.assert_array_equal(report.outputs, data[1:4, 0:12].reshape(3, 3, 4))


# view


@BUFFERS
@each_case("old", sorted(HOST_TYPES))
@each_case("new", sorted(HOST_TYPES))
def test_the_last_dimension_absorbs_the_change_of_size(old, new, buffer):
    assert_like_the_bytes((5, 3, 8), old, [("view", new)], buffer)


@BUFFERS
@each_case(
    "steps",
    [
        [("view", "uint8"), ("index", ALL, ALL, ("slice", 1, None, 4))],
        [("view", "int16"), ("index", ALL, ("at", 1)), ("index", ALL, ("ds", 3, 4))],
        [("index", ("slice", 1, 4, None), ("at", 2)), ("view", "int16")],
        [("index", ALL, ALL, ("slice", 2, 6, None)), ("view", "uint8")],
        [("view", "uint8"), ("index", ALL, ALL, ("slice", 4, 12, None)), ("view", "int32")],
        [("view", "int16"), ("reshape", (5, 48)), ("view", "float32")],
        [("view", "uint8"), ("reshape", (5, 96)), ("ap", [[96, 5], [4, 24]], 3, None)],
    ],
)
def test_views_of_views(steps, buffer):
    assert_like_the_bytes((5, 3, 8), "int32", steps, buffer)


@pytest.mark.parametrize(
    ("shape", "name", "steps"),
    [
        ((4, 6), "int16", [("view", "float32"), ("view", "uint8"), ("view", "int32")]),
        ((4, 1), "float32", [("view", "float8_e5m2")]),
        ((4, 4), "float8_e5m2", [("view", "float32")]),
    ],
)
def test_sizes_go_up_and_down(shape, name, steps):
    assert_like_the_bytes(shape, name, steps, nl.sbuf)


@each_case(
    ("shape", "name", "steps"),
    [
        ((4, 3), "int16", [("view", "int32")]),
        ((4, 8), "int16", [("index", ALL, ("slice", None, None, 2)), ("view", "int32")]),
        ((4, 8), "int16", [("index", ALL, ("slice", None, None, 2)), ("view", "int8")]),
        ((4, 8), "int16", [("index", ALL, ("slice", 1, 3, None)), ("view", "int32")]),
        ((4, 7), "int16", [("index", ALL, ("slice", 0, 4, None)), ("view", "int32")]),
        ((4, 3, 5), "int16", [("index", ALL, ALL, ("slice", 0, 4, None)), ("view", "int32")]),
    ],
    ids=["odd bytes", "strided up", "strided down", "misaligned", "odd rows", "odd planes"],
)
def test_a_view_that_does_not_fit_stops_the_kernel(shape, name, steps):
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(read_view)(random_bytes(shape, name), frozen(steps), nl.sbuf, NKI_TYPES)
    assert caught.value.rule_id == "S019"


@nkisim.jit
def halves(source):
    """Swaps the two bytes of every int16, through one view of each size."""
    words = nl.ndarray(source.shape, dtype=nl.int16, buffer=nl.sbuf)
    nisa.dma_copy(dst=words, src=source)
    swapped = nl.ndarray(source.shape, dtype=nl.int16, buffer=nl.sbuf)
    small, other = words.view(nl.uint8), swapped.view(nl.uint8)
    nisa.tensor_copy(dst=other[:, 0::2], src=small[:, 1::2], engine=nisa.vector_engine)
    nisa.tensor_copy(dst=other[:, 1::2], src=small[:, 0::2], engine=nisa.vector_engine)
    out = nl.ndarray(source.shape, dtype=nl.int16, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=swapped)
    return out


def test_a_write_through_bytes_is_a_write_of_the_words():
    data = random_bytes((32, 9), "int16")
    report = nkisim.check(halves)(data)
    assert "M001" not in report.codes
    np.testing.assert_array_equal(report.outputs, data.byteswap())


@st.composite
def regroupings(draw):
    """A shape whose free part can be cut and retyped at will."""
    factors = draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=3))
    shape = (draw(st.integers(1, 4)), *factors, 4)
    free = int(np.prod(shape[1:]))
    steps = []
    last, width = 4, 4
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            divisors = [d for d in range(1, free + 1) if free % d == 0]
            inner = draw(st.sampled_from(divisors))
            steps.append(("reshape", (shape[0], free // inner, inner)))
            last = inner
        else:
            fitting = {"uint8": 1, "int16": 2, "int32": 4, "float32": 4, "bfloat16": 2}
            names = [n for n, size in fitting.items() if last * width % size == 0]
            name = draw(st.sampled_from(names))
            steps.append(("view", name))
            free = free * width // fitting[name]
            last = last * width // fitting[name]
            width = fitting[name]
    return shape, steps


@given(regroupings())
def test_any_chain_of_reshapes_and_views(drawn):
    shape, steps = drawn
    assert_like_the_bytes(shape, "int32", steps, nl.sbuf)
    assert_like_the_bytes(shape, "int32", steps, nl.shared_hbm)
