"""``ap``: the loop that an access pattern stands for, in HBM, SBUF and PSUM."""

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

NKI_TYPES = {
    "uint8": nl.uint8,
    "int16": nl.int16,
    "int32": nl.int32,
    "float32": nl.float32,
    "bfloat16": nl.bfloat16,
    "float8_e4m3": nl.float8_e4m3,
}
HOST_TYPES = {
    "uint8": np.uint8,
    "int16": np.int16,
    "int32": np.int32,
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3": ml_dtypes.float8_e4m3,
}


def numbered(shape, dtype=np.int32):
    return np.arange(1, 1 + np.prod(shape), dtype=dtype).reshape(shape)


def bits(array):
    return array.view(f"u{array.dtype.itemsize}")


def random_bytes(shape, name, seed=0):
    dtype = np.dtype(HOST_TYPES[name])
    count = int(np.prod(shape)) * dtype.itemsize
    drawn = np.random.default_rng(seed).integers(0, 256, count).astype(np.uint8)
    return drawn.view(dtype).reshape(shape)


@nkisim.jit
def read_view(source, steps, buffer, types):
    tensor = source
    if buffer == nl.sbuf:
        tensor = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tensor, src=source)
    if buffer == nl.psum:
        staged = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=staged, src=source)
        tensor = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.psum)
        nisa.tensor_copy(dst=tensor, src=staged, engine=nisa.vector_engine)
    view = follow(tensor, steps, nl.ds, types)
    if buffer == nl.psum:
        copied = nl.ndarray(view.shape, dtype=view.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copied, src=view, engine=nisa.vector_engine)
        view = copied
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


@nkisim.jit
def assert_account(source, steps, buffer, types, dtype, shape, offset, pattern):
    """Compares what a view says of itself; a dimension of one element may say any step."""
    tensor = nl.ndarray(source.shape, dtype=source.dtype, buffer=buffer)
    view = follow(tensor, steps, nl.ds, types)
    assert view.shape == shape
    assert view.dtype == dtype
    assert view.offset == offset
    found = view.get_pattern()
    assert len(found) == len(pattern)
    for i in range(len(pattern)):
        assert found[i][1] == pattern[i][1]
        assert pattern[i][0] is None or found[i][0] == pattern[i][0]
    return source


def assert_reads_like_the_bytes(data, steps, buffer):
    model = Memory().tensor(data.shape, data.dtype, on_chip=buffer in (nl.sbuf, nl.psum))
    model.write(data)
    want = follow(model, steps, Span, HOST_TYPES)
    got = nkisim.simulate(read_view)(data, frozen(steps), buffer, NKI_TYPES)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(bits(got), bits(want.read()))
    return want


def assert_writes_like_the_bytes(data, steps, buffer):
    model = Memory().tensor(data.shape, data.dtype, on_chip=buffer == nl.sbuf)
    model.write(data)
    view = follow(model, steps, Span, HOST_TYPES)
    name = next(name for name, dtype in HOST_TYPES.items() if np.dtype(dtype) == view.dtype)
    values = random_bytes(view.shape, name, seed=1)
    got = nkisim.simulate(write_view)(data, values, frozen(steps), buffer, NKI_TYPES)
    view.write(values)
    np.testing.assert_array_equal(bits(got), bits(model.read()))


ON_CHIP = [
    ([[24, 8], [1, 24]], 0),
    ([[24, 8], [1, 8]], 8),
    ([[24, 5], [1, 24]], 48),
    ([[24, 8], [2, 12]], 1),
    ([[24, 8], [6, 4], [1, 3]], 2),
    ([[24, 8], [1, 6], [6, 4]], 0),
    ([[24, 8], [12, 2], [1, 3], [3, 4]], 0),
    ([[24, 8], [1, 2], [4, 3], [2, 2], [12, 2]], 0),
    ([[24, 1], [1, 24]], 7 * 24),
    ([[24, 8], [-1, 24]], 23),
]


@each_case("buffer", [nl.sbuf, nl.psum], ids=["sbuf", "psum"])
@each_case(("pattern", "offset"), ON_CHIP)
def test_on_chip(pattern, offset, buffer):
    if buffer == nl.psum and offset // 24 % 32:
        offset %= 24  # the Vector engine reads PSUM from partition 0 here
    assert_reads_like_the_bytes(numbered((8, 24)), [("ap", pattern, offset, None)], buffer)


@each_case(("pattern", "offset"), ON_CHIP)
def test_writes_on_chip(pattern, offset):
    assert_writes_like_the_bytes(numbered((8, 24)), [("ap", pattern, offset, None)], nl.sbuf)


@pytest.mark.parametrize("pattern", [[[24, 8], [0, 5], [1, 24]], [[24, 8], [1, 24], [0, 3]]])
def test_step_zero_broadcasts_on_chip(pattern):
    assert_reads_like_the_bytes(numbered((8, 24)), [("ap", pattern, 0, None)], nl.sbuf)


@each_case(
    ("pattern", "offset"),
    [
        ([[1, 192]], 0),
        ([[1, 24], [24, 8]], 0),
        ([[48, 4], [1, 24]], 24),
        ([[0, 3], [7, 5]], 11),
        ([[1, 7], [1, 7]], 100),
        ([[96, 2], [24, 4], [6, 4], [3, 2], [1, 3]], 0),
    ],
)
def test_hbm_has_no_partition_step(pattern, offset):
    assert_reads_like_the_bytes(numbered((8, 24)), [("ap", pattern, offset, None)], nl.shared_hbm)


def test_windows_overlap_when_read():
    steps = [("ap", [[24, 8], [2, 10], [1, 6]], 0, None)]
    assert_reads_like_the_bytes(numbered((8, 24)), steps, nl.sbuf)


@each_case("buffer", [nl.sbuf, nl.shared_hbm], ids=["sbuf", "hbm"])
@each_case(
    ("source", "target", "pattern", "offset"),
    [
        ("int32", "bfloat16", [[48, 8], [1, 48]], 0),
        ("int32", "bfloat16", [[48, 8], [2, 24]], 1),
        ("int32", "uint8", [[96, 8], [4, 24]], 3),
        ("uint8", "float32", [[6, 8], [1, 6]], 0),
        ("uint8", "int16", [[12, 8], [3, 4], [1, 2]], 1),
        ("float32", "int32", [[24, 8], [1, 24]], 0),
        ("bfloat16", "float8_e4m3", [[48, 8], [1, 20]], 5),
    ],
)
def test_a_pattern_counts_elements_of_its_type(source, target, pattern, offset, buffer):
    data = random_bytes((8, 24), source)
    steps = [("ap", pattern, offset, target)]
    assert_reads_like_the_bytes(data, steps, buffer)
    assert_writes_like_the_bytes(data, steps, buffer)


@each_case("buffer", [nl.sbuf, nl.shared_hbm], ids=["sbuf", "hbm"])
@each_case(
    "steps",
    [
        [("ap", [[24, 8], [6, 4], [1, 3]], 2, None), ("index", ("slice", 1, 3, None), ("at", 2))],
        [("ap", [[24, 8], [1, 6], [6, 4]], 0, None), ("index", ("...",), ("slice", 1, 4, 2))],
        [("reshape", (8, 4, 6)), ("ap", [[24, 8], [1, 6], [6, 4]], 0, None)],
    ],
)
def test_patterns_mix_with_the_other_views(steps, buffer):
    want = assert_reads_like_the_bytes(numbered((8, 24)), steps, buffer)
    assert_writes_like_the_bytes(numbered((8, 24)), steps, buffer)
    account = (nl.int32, want.shape, want.offset, tuple(want.get_pattern()))
    nkisim.simulate(assert_account)(
        numbered((8, 24)), frozen(steps), buffer, NKI_TYPES, *frozen(account)
    )


@pytest.mark.parametrize("buffer", [nl.sbuf, nl.shared_hbm], ids=["sbuf", "hbm"])
def test_the_account_of_a_pattern_is_the_pattern(buffer):
    pattern, offset = [[48, 8], [5, 4], [2, 3]], 7
    steps = [("ap", pattern, offset, "int16")]
    account = (nl.int16, (8, 4, 3), offset, pattern)
    nkisim.simulate(assert_account)(
        numbered((8, 24)), frozen(steps), buffer, NKI_TYPES, *frozen(account)
    )


@nkisim.jit
def rebuilt(source):
    """A view of a slice, made again from the slice's own account."""
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    part = tile[2:7, 1::3, 0:4:2]
    again = tile.ap(pattern=part.get_pattern(), offset=part.offset)
    out = nl.ndarray(again.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=again)
    return out


def test_an_account_makes_the_same_view_again():
    data = numbered((8, 7, 5))
    np.testing.assert_array_equal(nkisim.simulate(rebuilt)(data), data[2:7, 1::3, 0:4:2])


@st.composite
def on_chip_patterns(draw):
    """A tensor and a pattern that stays inside its rows."""
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 40))
    first_row = draw(st.integers(0, rows - 1))
    offset = draw(st.integers(0, columns - 1))
    room = columns - 1 - offset
    pattern = [[columns, draw(st.integers(1, rows - first_row))]]
    for _ in range(draw(st.integers(1, 4))):
        step = draw(st.integers(0, 7))
        count = draw(st.integers(1, 4 if step == 0 else min(4, 1 + room // step)))
        room -= step * (count - 1)
        pattern.append([step, count])
    return (rows, columns), pattern, first_row * columns + offset


@given(on_chip_patterns())
def test_any_pattern_inside_the_rows(drawn):
    shape, pattern, offset = drawn
    assert_reads_like_the_bytes(numbered(shape), [("ap", pattern, offset, None)], nl.sbuf)


# What has no meaning


@each_case(
    ("steps", "rule"),
    [
        ([("ap", [[24, 8], [1, 25]], 0, None)], "S021"),
        ([("ap", [[24, 8], [1, 24]], 1, None)], "S021"),
        ([("ap", [[24, 8], [1, 24]], 24, None)], "S021"),
        ([("ap", [[24, 8], [-1, 2]], 0, None)], "S021"),
        ([("ap", [[24, 7], [-1, 2]], 24, None)], "S021"),
        ([("ap", [[24, 9], [1, 24]], 0, None)], "S021"),
        ([("ap", [[48, 4], [1, 24]], 0, None)], "S022"),
        ([("ap", [[1, 8], [24, 8]], 0, None)], "S022"),
        ([("ap", [], 0, None)], "S022"),
        ([("ap", [[24, 8], [1, 24]], 0, "int16")], "S027"),
    ],
)
def test_a_pattern_without_meaning_stops_the_kernel(steps, rule):
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(read_view)(numbered((8, 24)), frozen(steps), nl.sbuf, NKI_TYPES)
    assert caught.value.rule_id == rule


def one_of(source, offset):
    """Read what an empty pattern in HBM names: one element."""
    tile = nl.ndarray((1, 1), dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source.ap([], offset=offset))
    out = nl.ndarray((1, 1), dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@pytest.mark.parametrize("offset", [0, 100, 191])
def test_an_empty_pattern_in_hbm_is_one_element(offset):
    data = numbered((8, 24))
    assert nkisim.simulate(one_of)(data, offset).item() == data.flat[offset]


@pytest.mark.parametrize("offset", [192, -1])
def test_an_empty_pattern_outside_stops_the_kernel(offset):
    with pytest.raises(nkisim.NkiValidationError, match=rf"elements \[{offset}, {offset}\]"):
        nkisim.simulate(one_of)(numbered((8, 24)), offset)


@nkisim.jit
def unused_pattern(source):
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    tile.ap(pattern=[[24, 8], [1, 100]])
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_a_pattern_is_judged_when_it_is_used():
    data = numbered((8, 24))
    np.testing.assert_array_equal(nkisim.simulate(unused_pattern)(data), data)


def tile_of(shape, dtype=nl.uint32, buffer=nl.sbuf):
    def make():
        tile = nl.ndarray(shape, dtype=dtype, buffer=buffer)
        nisa.memset(dst=tile, value=0)
        return tile

    return make


@each_case("on_chip", [False, True])
@each_case(
    ("kind", "offset", "dim", "legal"),
    [
        ("scalar", tile_of((1, 1)), 0, "both"),
        ("scalar", tile_of((1, 1)), 1, "both"),
        ("scalar", tile_of((1, 1)), 2, ""),
        ("scalar", tile_of((1, 1)), -1, ""),
        ("scalar", tile_of((1, 2)), 0, ""),
        ("scalar", tile_of((2, 1)), 0, ""),
        ("scalar", tile_of((1, 1), buffer=nl.psum), 0, ""),
        ("scalar", lambda: 1.0, 0, ""),
        ("vector", tile_of((16, 1)), 0, "hbm"),
        ("vector", tile_of((16, 1)), 1, ""),
        ("vector", tile_of((15, 1)), 0, ""),
        ("vector", tile_of((16, 1), nl.float32), 0, ""),
        ("vector", tile_of((16, 1), buffer=nl.psum), 0, ""),
        ("vector", lambda: 1, 0, ""),
    ],
)
def test_what_an_offset_may_be(kind, offset, dim, legal, on_chip):
    def kernel(x):
        table = x
        if on_chip:
            table = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=table, src=x)
        view = table.ap([[8, 16], [1, 8]], indirect_dim=dim, **{f"{kind}_offset": offset()})
        picked = nl.ndarray((16, 8), dtype=x.dtype, buffer=nl.sbuf)
        (nisa.tensor_copy if on_chip else nisa.dma_copy)(dst=picked, src=view)
        out = nl.ndarray((16, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=picked)
        return out

    x = np.arange(128, dtype=np.float32).reshape(16, 8)
    run = nkisim.simulate(kernel)
    if legal in ("hbm", "both")[on_chip:]:
        wanted = x if kind == "scalar" else np.repeat(x[:1], 16, axis=0)
        np.testing.assert_array_equal(run(x), wanted)
    else:
        with pytest.raises(nkisim.NkiValidationError, match="S025"):
            run(x)
