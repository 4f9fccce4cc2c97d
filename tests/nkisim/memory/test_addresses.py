"""``address=``: tensors that share bytes share them, one byte at a time."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from drawn import examples
from each_case import each_case
from oracles.memory import Memory

HOST = {
    "uint8": np.uint8,
    "int16": np.int16,
    "int32": np.int32,
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
}
UNWRITTEN = {"M001", "M002"}


def bits(array):
    return array.view(f"u{array.dtype.itemsize}")


def random_bytes(shape, name, seed=0):
    dtype = np.dtype(HOST[name])
    count = int(np.prod(shape)) * dtype.itemsize
    drawn = np.random.default_rng(seed).integers(0, 256, count).astype(np.uint8)
    return drawn.view(dtype).reshape(shape)


def stage(source):
    """A tile on the partitions from 0 that holds ``source``."""
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def put(dst, source):
    if dst.buffer == nl.psum:
        nisa.tensor_copy(dst=dst, src=stage(source), engine=nisa.vector_engine)
    else:
        nisa.dma_copy(dst=dst, src=source)


def get(src):
    out = nl.ndarray(src.shape, dtype=src.dtype, buffer=nl.shared_hbm)
    if src.buffer == nl.psum:
        copied = nl.ndarray(src.shape, dtype=src.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copied, src=src, engine=nisa.vector_engine)
        nisa.dma_copy(dst=out, src=copied)
    else:
        nisa.dma_copy(dst=out, src=src)
    return out


@nkisim.jit
def second_over_first(first, second, buffer, first_at, second_at):
    """Writes two placed tensors, one after the other, and reads both back."""
    a = nl.ndarray(first.shape, dtype=first.dtype, buffer=buffer, address=first_at)
    b = nl.ndarray(second.shape, dtype=second.dtype, buffer=buffer, address=second_at)
    put(a, first)
    put(b, second)
    return get(a), get(b)


def assert_like_the_bytes(first, second, buffer, first_at, second_at):
    memory = Memory()
    kwargs = {"on_chip": True}
    a = memory.tensor(first.shape, first.dtype, partition=first_at[0], byte=first_at[1], **kwargs)
    b = memory.tensor(
        second.shape, second.dtype, partition=second_at[0], byte=second_at[1], **kwargs
    )
    a.write(first)
    b.write(second)
    report = nkisim.check(second_over_first)(first, second, buffer, first_at, second_at)
    assert not report.codes & UNWRITTEN
    got_a, got_b = report.outputs
    np.testing.assert_array_equal(bits(got_a), bits(a.read()))
    np.testing.assert_array_equal(bits(got_b), bits(second))
    return not np.array_equal(bits(got_a), bits(first))


@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum], ids=["sbuf", "psum"])
@pytest.mark.parametrize(
    ("first_at", "second_at", "clash"),
    [
        ((0, 0), (0, 0), True),
        ((0, 0), (0, 36), True),
        ((0, 0), (0, 40), False),
        ((0, 400), (0, 380), True),
        ((32, 0), (0, 0), False),
        ((64, 8), (32, 8), False),
        ((96, 100), (96, 96), True),
    ],
)
def test_two_tensors_share_exactly_the_bytes_that_overlap(buffer, first_at, second_at, clash):
    first, second = random_bytes((20, 10), "int32"), random_bytes((30, 7), "int32", 1)
    if clash:
        assert assert_like_the_bytes(first, second, buffer, first_at, second_at)
    else:
        assert not assert_like_the_bytes(first, second, buffer, first_at, second_at)


def test_a_tall_tensor_reaches_the_quadrants_below_it():
    first, second = random_bytes((100, 4), "int32"), random_bytes((32, 4), "int32", 1)
    assert assert_like_the_bytes(first, second, nl.sbuf, (0, 0), (64, 8))


@pytest.mark.parametrize("first", sorted(HOST))
@pytest.mark.parametrize("second", sorted(HOST))
def test_types_of_every_size_overlap_byte_by_byte(first, second):
    a, b = random_bytes((9, 16), first), random_bytes((5, 6), second, 1)
    assert assert_like_the_bytes(a, b, nl.sbuf, (32, 1024), (32, 1028))


@examples(40)
@given(
    st.sampled_from(sorted(HOST)),
    st.sampled_from(sorted(HOST)),
    st.integers(0, 15),
    st.integers(0, 15),
    st.sampled_from([0, 32]),
)
def test_any_two_placements(first, second, first_word, second_word, partition):
    a, b = random_bytes((40, 8), first), random_bytes((3, 5), second, 1)
    assert_like_the_bytes(a, b, nl.sbuf, (0, 4 * first_word), (partition, 4 * second_word))


@nkisim.jit
def written_through_the_neighbour(source):
    pair = nl.ndarray((16, 8), dtype=source.dtype, buffer=nl.sbuf, address=(0, 256))
    left = nl.ndarray((16, 4), dtype=source.dtype, buffer=nl.sbuf, address=(0, 256))
    right = nl.ndarray((16, 4), dtype=source.dtype, buffer=nl.sbuf, address=(0, 272))
    nisa.dma_copy(dst=left, src=source[:, 4:8])
    nisa.dma_copy(dst=right, src=source[:, 0:4])
    return get(pair)


def test_a_tensor_is_written_when_its_bytes_are():
    source = random_bytes((16, 8), "float32")
    report = nkisim.check(written_through_the_neighbour)(source)
    assert not report.codes & UNWRITTEN
    want = np.concatenate([source[:, 4:8], source[:, 0:4]], axis=1)
    np.testing.assert_array_equal(bits(report.outputs), bits(want))


@nkisim.jit
def placed_but_unwritten(source):
    whole = nl.ndarray((16, 8), dtype=source.dtype, buffer=nl.sbuf, address=(0, 256))
    left = nl.ndarray((16, 4), dtype=source.dtype, buffer=nl.sbuf, address=(0, 256))
    nisa.dma_copy(dst=left, src=source)
    return get(whole)


def test_bytes_that_no_tensor_wrote_are_found():
    source = random_bytes((16, 4), "float32")
    report = nkisim.check(placed_but_unwritten)(source)
    (finding,) = [f for f in report.findings if f.rule.id == "M001"]
    assert "64 of 128" in finding.message
    assert "(0, 4)" in finding.seen
    np.testing.assert_array_equal(bits(report.outputs[:, :4]), bits(source))
    assert np.isnan(report.outputs[:, 4:]).all()


@nkisim.jit
def sliced_and_patterned(source, address):
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf, address=address)
    nisa.dma_copy(dst=tile, src=source)
    n = source.shape[1]
    assert tile[2:, 3:].offset == 2 * n + 3
    assert tile.get_pattern()[0][0] == n
    part = tile.ap(pattern=[[n, 4], [2, 3]], offset=2 * n + 1)
    return get(part)


def test_views_count_from_the_tensor_not_from_the_memory():
    source = random_bytes((10, 12), "int32")
    report = nkisim.check(sliced_and_patterned)(source, (64, 4000))
    np.testing.assert_array_equal(report.outputs, source[2:6, 1:7:2])


@nkisim.jit
def free_tensors(source):
    """Tensors without an address never share bytes with a placed one."""
    placed = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf, address=(0, 0))
    other = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=placed, src=source)
    nisa.memset(dst=other, value=0)
    return get(placed), get(other)


def test_the_allocator_keeps_off_placed_tensors():
    source = random_bytes((10, 12), "int32")
    placed, other = nkisim.check(free_tensors)(source).outputs
    np.testing.assert_array_equal(placed, source)
    assert (other == 0).all()


@nkisim.jit
def placed(source, shape, dtype, buffer, address):
    nl.ndarray(shape, dtype=dtype, buffer=buffer, address=address)
    return source


@each_case(
    ("rule", "target", "shape", "dtype", "buffer", "address"),
    [
        ("M014", "gen4", (64, 4), nl.float32, nl.sbuf, (96, 0)),
        ("M014", "gen4", (4, 4), nl.float32, nl.psum, (0, 16384 - 12)),
        ("M014", "gen2", (4, 4), nl.float32, nl.sbuf, (0, 196608 - 12)),
        ("M014", "gen4", (4, 4), nl.float32, nl.sbuf, (0, -4)),
        ("M015", "gen4", (4, 4), nl.float32, nl.sbuf, (0, 2)),
        ("M015", "gen4", (4, 4), nl.float32, nl.sbuf, (16, 0)),
        ("M015", "gen4", (4, 4), nl.bfloat16, nl.psum, (0, 2)),
    ],
)
def test_an_impossible_address_is_found(rule, target, shape, dtype, buffer, address):
    source = np.ones((1, 1), np.float32)
    assert rule in nkisim.check(placed, target=target)(source, shape, dtype, buffer, address).codes


@pytest.mark.parametrize(
    ("target", "shape", "dtype", "buffer", "address"),
    [
        ("gen4", (32, 4), nl.float32, nl.sbuf, (96, 0)),
        ("gen4", (4, 4), nl.float32, nl.psum, (0, 16384 - 16)),
        ("gen4", (4, 4), nl.bfloat16, nl.sbuf, (64, 6)),
        ("gen4", (4, 4), nl.uint8, nl.sbuf, (0, 3)),
    ],
)
def test_the_last_possible_address_is_clean(target, shape, dtype, buffer, address):
    source = np.ones((1, 1), np.float32)
    report = nkisim.check(placed, target=target)(source, shape, dtype, buffer, address)
    assert not report.codes & {"M014", "M015"}
