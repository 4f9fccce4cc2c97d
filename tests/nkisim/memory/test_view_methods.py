"""View methods of later NKI versions: NumPy's views of the same data, and what they refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim import NkiValidationError

from .harness_views import follow, numbered, shape_after

METHODS = ["permute", "broadcast", "expand_dim", "squeeze_dim", "reshape_dim"]
METHODS += ["flatten_dims", "slice", "select"]


@nkisim.jit
def read_view(source, steps, buffer):
    tensor = nl.ndarray(source.shape, dtype=source.dtype, buffer=buffer)
    nisa.dma_copy(dst=tensor, src=source)
    view = follow(tensor, steps)
    out = nl.ndarray(view.shape, dtype=view.dtype, buffer=nl.shared_hbm)
    if buffer == nl.sbuf:
        dense = nl.ndarray(view.shape, dtype=view.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=dense, src=view)
        nisa.dma_copy(dst=out, src=dense)
    else:
        nisa.dma_copy(dst=out, src=view)
    return out


@nkisim.jit
def write_view(source, values, steps, buffer):
    tensor = nl.ndarray(source.shape, dtype=source.dtype, buffer=buffer)
    nisa.dma_copy(dst=tensor, src=source)
    nisa.dma_copy(dst=follow(tensor, steps), src=values)
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tensor)
    return out


# NumPy's views


def drawn_step(draw, view, on_chip):
    """One step that is legal, and the same step on NumPy's view; None where there is none."""
    first = int(on_chip)
    free = range(first, view.ndim)
    method = draw(st.sampled_from(METHODS))
    if method == "permute":
        order = (*range(first), *draw(st.permutations(free)))
        return ("permute", order), view.transpose(order)
    if method == "expand_dim" and view.ndim < 5:
        dim = draw(st.integers(first, view.ndim))
        return ("expand_dim", dim), np.expand_dims(view, dim)
    dim = draw(st.sampled_from(free))
    extent = view.shape[dim]
    if method == "broadcast" and extent == 1:
        size = draw(st.integers(1, 3))
        shape = (*view.shape[:dim], size, *view.shape[dim + 1 :])
        return ("broadcast", dim, size), np.broadcast_to(view, shape)
    if method == "squeeze_dim" and extent == 1 and view.ndim > 2:
        return ("squeeze_dim", dim), view.squeeze(dim)
    if method == "reshape_dim" and view.ndim < 5:
        part = draw(st.sampled_from([n for n in range(1, extent + 1) if extent % n == 0]))
        parts = draw(st.sampled_from([(part, extent // part), (part, -1), (-1, extent // part)]))
        shape = (*view.shape[:dim], part, extent // part, *view.shape[dim + 1 :])
        return ("reshape_dim", dim, parts), view.reshape(shape, copy=False)
    if method == "flatten_dims":
        last = draw(st.integers(dim, view.ndim - 1))
        shape = (*view.shape[:dim], -1, *view.shape[last + 1 :])
        if (view.ndim - (last - dim)) < 2:
            return None
        try:
            return ("flatten_dims", dim, last), view.reshape(shape, copy=False)
        except ValueError:
            return None
    if method == "slice":
        start = draw(st.integers(0, extent - 1))
        end, step = draw(st.integers(start + 1, extent)), draw(st.integers(1, 3))
        return ("slice", dim, start, end, step), view[
            (*(slice(None),) * dim, slice(start, end, step))
        ]
    if method == "select" and view.ndim > 2:
        index = draw(st.integers(0, extent - 1))
        return ("select", dim, index), view[(*(slice(None),) * dim, index)]
    return None


@st.composite
def chains(draw):
    on_chip = draw(st.booleans())
    rank = draw(st.integers(2, 4))
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=rank, max_size=rank)))
    data = numbered(shape)
    view, steps = data, []
    for _ in range(draw(st.integers(1, 5))):
        step = drawn_step(draw, view, on_chip)
        if step is not None:
            steps.append(step[0])
            view = step[1]
    return on_chip, data, steps, view


@given(chains())
def test_chains_of_views_are_numpys(chain):
    on_chip, data, steps, view = chain
    buffer = nl.sbuf if on_chip else nl.shared_hbm
    run = nkisim.simulate(read_view, nki="0.6")
    np.testing.assert_array_equal(run(data, tuple(steps), buffer), view)
    assert not {f.rule.id for f in run.report.findings} & {"S015", "S016", "S017", "S020"}


@given(chains())
def test_writes_through_views_are_numpys(chain):
    on_chip, data, steps, view = chain
    if "broadcast" in {step[0] for step in steps}:
        return
    buffer = nl.sbuf if on_chip else nl.shared_hbm
    values = -numbered(view.shape)
    written = nkisim.simulate(write_view, nki="0.5")(data, values, tuple(steps), buffer)
    places = follow_numpy(np.arange(data.size).reshape(data.shape), steps)
    expected = data.copy()
    expected.reshape(-1)[places.reshape(-1)] = values.reshape(-1)
    np.testing.assert_array_equal(written, expected)


def follow_numpy(array, steps):
    """The steps on an array whose elements are their own places; copies do not matter."""
    for method, *rest in steps:
        shape = array.shape
        if method == "permute":
            array = array.transpose(rest[0])
        elif method == "expand_dim":
            array = np.expand_dims(array, rest[0])
        elif method == "squeeze_dim":
            array = array.squeeze(rest[0])
        elif method == "reshape_dim":
            array = array.reshape(*shape[: rest[0]], *rest[1], *shape[rest[0] + 1 :])
        elif method == "flatten_dims":
            array = array.reshape(*shape[: rest[0]], -1, *shape[rest[1] + 1 :])
        elif method == "slice":
            array = array[(*(slice(None),) * rest[0], slice(*rest[1:]))]
        else:
            array = array[(*(slice(None),) * rest[0], rest[1])]
    return array


@each_case(
    "source, target, sizes, expected",
    [
        (("p", ("h", "w")), ("p", "w", "h"), {"h": 4}, lambda x: x.reshape(8, 4, 6).swapaxes(1, 2)),
        (("p", ("h", "w")), ("p", "h", "w"), {"w": 4}, lambda x: x.reshape(8, 6, 4)),
        (
            ("p", ("a", "b", "c")),
            ("p", ("a", "b"), "c"),
            {"a": 2, "b": 3},
            lambda x: x.reshape(8, 6, 4),
        ),
        (("p", "f"), ("p", "f"), None, lambda x: x),
        ((("p",), "f"), ("p", ("f",)), {"p": 8}, lambda x: x),
    ],
)
@pytest.mark.parametrize("buffer", [nl.sbuf, nl.shared_hbm], ids=["sbuf", "hbm"])
def test_rearrange_splits_reorders_and_merges(buffer, source, target, sizes, expected):
    data = numbered((8, 24))
    got = nkisim.simulate(read_view, nki="0.6")(
        data, (("rearrange", source, target, sizes),), buffer
    )
    np.testing.assert_array_equal(got, expected(data))


def test_rearrange_moves_the_first_dimension_in_hbm():
    data = numbered((4, 6))
    steps = (("rearrange", (("a", "b"), "c"), ("b", "c", "a"), {"a": 2}),)
    got = nkisim.simulate(read_view, nki="0.6")(data, steps, nl.shared_hbm)
    np.testing.assert_array_equal(got, data.reshape(2, 2, 6).transpose(1, 2, 0))


# dynamic offsets


@nkisim.jit
def dynamic_select(data, index, dim, steps):
    tile = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=index)
    view = data.select(dim, tile)
    assert view.is_indirect()
    assert not data.is_indirect()
    view = follow(view, steps)
    out = nl.ndarray(view.shape, dtype=data.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=view)
    return out


@each_case("dim, position", [(0, 0), (0, 3), (1, 4), (2, 1)])
def test_select_by_a_tile_takes_the_element_that_it_holds(dim, position):
    data = numbered((4, 5, 6))
    index = np.array([[position]], np.int32)
    got = nkisim.simulate(dynamic_select, nki="0.6")(data, index, dim, ())
    np.testing.assert_array_equal(got, data.take(position, dim))
    steps = (("slice", 1, 1, 4), ("permute", (1, 0)))
    got = nkisim.simulate(dynamic_select, nki="0.6")(data, index, dim, steps)
    np.testing.assert_array_equal(got, data.take(position, dim)[:, 1:4].T)


def test_select_by_a_register():
    def kernel(x):
        register = nisa.register_alloc(2)
        tile = nl.ndarray((4, 6), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.select(1, register))
        out = nl.ndarray((4, 6), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    data = numbered((4, 5, 6))
    np.testing.assert_array_equal(nkisim.simulate(kernel, nki="0.6")(data), data[:, 2])


def test_select_out_of_bounds_is_found_when_the_view_is_used():
    with pytest.raises(NkiValidationError) as caught:
        nkisim.simulate(dynamic_select, nki="0.6")(
            numbered((4, 5, 6)), np.array([[5]], np.int32), 1, ()
        )
    assert caught.value.finding.rule.id == "M036"


@nkisim.jit
def gather(table, indices, steps):
    tile = nl.ndarray(indices.shape, dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=indices)
    view = follow(table.vector_select(0, tile), steps)
    out = nl.ndarray(view.shape, dtype=table.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=out, src=view)
    stored = nl.ndarray(view.shape, dtype=table.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=stored, src=out)
    return stored


@each_case(
    "steps, expected",
    [
        ((), lambda x: x),
        ((("slice", 1, 1, 3),), lambda x: x[:, 1:3]),
        ((("select", 2, 1),), lambda x: x[:, :, 1]),
        ((("permute", (0, 2, 1)),), lambda x: x.transpose(0, 2, 1)),
        ((("reshape", (7, 12)),), lambda x: x.reshape(7, 12)),
        ((("flatten_dims", 1, 2),), lambda x: x.reshape(7, 12)),
        ((("expand_dim", 1), ("squeeze_dim", 1)), lambda x: x),
        ((("__getitem__", (..., slice(0, 2))),), lambda x: x[..., 0:2]),
    ],
)
def test_vector_select_gathers_rows(steps, expected):
    table = numbered((9, 3, 4))
    indices = np.array([[8], [0], [3], [3], [1], [7], [2]], np.int32)
    run = nkisim.simulate(gather, nki="0.6")
    np.testing.assert_array_equal(run(table, indices, steps), expected(table[indices[:, 0]]))
    assert "S020" not in {f.rule.id for f in run.report.findings}


@each_case(
    "steps, rule",
    [
        ((("permute", (1, 0, 2)),), "S018"),
        ((("expand_dim", 0),), "S018"),
        ((("squeeze_dim", 0),), "S018"),
        ((("reshape_dim", 0, (7, 1)),), "S018"),
        ((("flatten_dims", 0, 1),), "S018"),
        ((("reshape", (21, 4)),), "S018"),
        ((("slice", 0, 1, 3),), "S020"),
        ((("view", nl.float32),), "S020"),
    ],
)
def test_rows_of_a_gather_stay(steps, rule):
    table, indices = numbered((9, 3, 4)), np.zeros((7, 1), np.int32)
    with pytest.raises(NkiValidationError) as caught:
        nkisim.simulate(gather, nki="0.6", strictness="strict")(table, indices, steps)
    assert caught.value.finding.rule.id == rule


def offset_rule(buffer, method, *arguments, shape=(1, 1), dtype=nl.int32):
    """The rule that a second or wrong dynamic offset violates."""

    def kernel(x):
        tensor = nl.ndarray((4, 5, 6), dtype=nl.float32, buffer=buffer)
        tile = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
        given = [tile if argument == "tile" else argument for argument in arguments]
        if method == "twice":
            tensor.select(1, tile).select(0, tile)
        else:
            getattr(tensor, method)(*given)
        return x

    with pytest.raises(NkiValidationError) as caught:
        nkisim.simulate(kernel, nki="0.6")(np.ones((2, 2), np.float32))
    return caught.value.finding.rule.id


def test_dynamic_offsets_that_are_refused():
    assert offset_rule(nl.shared_hbm, "twice") == "S025"
    assert offset_rule(nl.sbuf, "select", 0, "tile") == "S018"
    assert offset_rule(nl.shared_hbm, "select", 0, "tile", shape=(2, 1)) == "S025"
    assert offset_rule(nl.shared_hbm, "select", 0, "first") == "S025"
    assert offset_rule(nl.shared_hbm, "vector_select", 1, "tile") == "S025"
    assert offset_rule(nl.sbuf, "vector_select", 0, "tile") == "S025"
    assert offset_rule(nl.shared_hbm, "vector_select", 0, "tile", shape=(4, 2)) == "S025"
    assert offset_rule(nl.shared_hbm, "vector_select", 0, "tile", dtype=nl.float32) == "S025"


# what is refused


@each_case(
    "steps, rule",
    [
        ([("permute", (1, 0, 2))], "S018"),
        ([("permute", (0, 1))], "A025"),
        ([("permute", (0, 1, 1))], "A025"),
        ([("permute", (0, 1, "2"))], "A025"),
        ([("broadcast", 0, 4)], "S018"),
        ([("broadcast", 2, 4)], "A025"),
        ([("broadcast", 1, 0)], "A025"),
        ([("broadcast", 3, 4)], "A025"),
        ([("expand_dim", 0)], "S018"),
        ([("expand_dim", 4)], "A025"),
        ([("expand_dim", -1)], "A025"),
        ([("squeeze_dim", 0)], "S018"),
        ([("squeeze_dim", 2)], "S017"),
        ([("squeeze_dim", 1), ("select", 1, 0), ("squeeze_dim", 1)], "S002"),
        ([("reshape_dim", 0, (2, 4))], "S018"),
        ([("reshape_dim", 2, (2, 4))], "S017"),
        ([("reshape_dim", 2, (-1, -1))], "S017"),
        ([("reshape_dim", 2, (-1, 4))], "S017"),
        ([("flatten_dims", 0, 1)], "S018"),
        ([("flatten_dims", 2, 1)], "A025"),
        ([("reshape_dim", 2, (2, 3)), ("permute", (0, 1, 3, 2)), ("flatten_dims", 2, 3)], "S017"),
        ([("reshape_dim", 2, (2, 3)), ("permute", (0, 1, 3, 2)), ("reshape", (8, 6))], "S017"),
        ([("slice", 2, 0, 4), ("reshape_dim", 2, (2, 2)), ("reshape", (8, 5))], "S017"),
        ([("reshape", (4, 12))], "S018"),
        ([("slice", 2, 4, 4)], "S014"),
        ([("slice", 2, 0, 7)], "S009"),
        ([("slice", 2, -2, 6)], "S009"),
        ([("slice", 2, 0, 6, 0)], "S011"),
        ([("slice", 2, 0.5, 6)], "A025"),
        ([("select", 2, 6)], "S009"),
        ([("select", 2, -1)], "S009"),
        ([("rearrange", ("a", "b"), ("a", "b"))], "A025"),
        ([("rearrange", ("a", "b", "c"), ("a", "b", "d"))], "A025"),
        ([("rearrange", ("a", "b", ("c", "d")), ("a", "b", "c", "d"))], "A025"),
        ([("rearrange", ("a", "b", "c"), ("a", "b", "c"), {"d": 2})], "A025"),
        ([("rearrange", ("a", "b", "c"), ("a", "b", "c"), {"c": 2})], "A025"),
        ([("rearrange", ("a", "b", 3), ("a", "b", 3))], "A025"),
        ([("rearrange", ("a", "b", "c"), ("b", "a", "c"))], "S018"),
        ([("rearrange", ("a", "b", "c"), (("a", "b"), "c"))], "S018"),
        ([("rearrange", ("a", "b", ("c", "d")), ("a", "b", "c", "d"), {"c": 4})], "S017"),
    ],
)
def test_constraints_on_chip(steps, rule):
    def kernel(x):
        follow(nl.ndarray((8, 1, 6), dtype=nl.float32, buffer=nl.sbuf), steps)
        return x

    with pytest.raises(NkiValidationError) as caught:
        nkisim.simulate(kernel, nki="0.6", strictness="strict")(np.ones((2, 2), np.float32))
    assert caught.value.finding.rule.id == rule


def test_hbm_has_no_partition_dimension():
    steps = [("permute", (1, 0, 2)), ("squeeze_dim", 0), ("expand_dim", 0), ("broadcast", 0, 3)]
    assert shape_after((8, 1, 6), steps, nl.shared_hbm) == (3, 8, 6)
    assert shape_after((8, 1, 6), [("flatten_dims", 0, 2)], nl.shared_hbm) == (48,)
    assert shape_after((8, 1, 6), [("reshape_dim", 0, (2, -1))], nl.shared_hbm) == (2, 4, 1, 6)


def test_a_dimension_0_on_chip_may_be_split_into_itself():
    assert shape_after((8, 6), [("reshape_dim", 0, (8,))]) == (8, 6)
    assert shape_after((8, 6), [("select", 0, 3)]) == (1, 6)
    assert shape_after((8, 6), [("select", 1, 3)]) == (8, 1)
