"""Reads of what nobody wrote: found exactly, by byte, in every memory and for every type."""

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

BUFFERS = {"sbuf": "M001", "psum": "M002", "private_hbm": "M005", "shared_hbm": "M005"}
FLOATS = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3": ml_dtypes.float8_e4m3,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}
INTEGERS = {
    "int32": np.int32,
    "uint32": np.uint32,
    "int16": np.int16,
    "uint16": np.uint16,
    "int8": np.int8,
    "uint8": np.uint8,
}
ALL = ("slice", None, None, None)
CODES = set(BUFFERS.values())


def move(dst, src):
    """Copies with the engine that reaches both sides."""
    if dst.buffer == nl.psum or src.buffer == nl.psum:
        nisa.tensor_copy(dst=dst, src=src, engine=nisa.vector_engine)
    else:
        nisa.dma_copy(dst=dst, src=src)


@nkisim.jit
def partly_written(source, dtype, buffer, written, read):
    """Writes ``source`` into one part of a tile and reads another."""
    tile = nl.ndarray((8, 12), dtype=dtype, buffer=buffer, name="tile")
    if written is not None:
        staged = nl.ndarray(source.shape, dtype=dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=staged, src=source)
        move(follow(tile, written, nl.ds, None), staged)
    view = follow(tile, read, nl.ds, None)
    copied = nl.ndarray(view.shape, dtype=dtype, buffer=nl.sbuf)
    move(copied, view)  # the read
    out = nl.ndarray(view.shape, dtype=dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=copied)
    return out


def columns(first, last):
    return [("index", ALL, ("slice", first, last, None))]


@each_case("buffer", sorted(BUFFERS))
@each_case("name", sorted(FLOATS | INTEGERS))
def test_a_tile_that_nobody_wrote(buffer, name):
    source = np.ones((8, 12), (FLOATS | INTEGERS)[name])
    check = nkisim.check(partly_written)
    report = check(source, getattr(nl, name), getattr(nl, buffer), None, ())
    assert report.codes & CODES == {BUFFERS[buffer]}
    (finding,) = [f for f in report.findings if f.rule.id in CODES]
    assert finding.severity == "error"
    assert finding.count == 1
    assert "96" in finding.message
    assert "tile" in finding.message
    assert "(0, 0)" in finding.seen
    assert finding.file == __file__
    if name in FLOATS:
        assert np.isnan(report.outputs.astype(np.float32)).all()
    else:
        np.testing.assert_array_equal(report.outputs, np.full((8, 12), 4))


@each_case("buffer", sorted(BUFFERS))
@each_case("name", ["float32", "int32"])
def test_the_first_element_and_the_count(buffer, name):
    dtype = (FLOATS | INTEGERS)[name]
    source = np.arange(8 * 7).reshape(8, 7).astype(dtype)
    check = nkisim.check(partly_written)
    report = check(
        source,
        getattr(nl, name),
        getattr(nl, buffer),
        frozen(columns(0, 7)),
        frozen(columns(4, 12)),
    )
    (finding,) = [f for f in report.findings if f.rule.id == BUFFERS[buffer]]
    # Columns 4 to 6 of the tile were written: columns 3 to 7 of the view were not.
    assert "40" in finding.message
    assert "64" in finding.message
    assert "(0, 3)" in finding.seen
    np.testing.assert_array_equal(report.outputs[:, :3], source[:, 4:])
    if name in FLOATS:
        assert np.isnan(report.outputs[:, 3:]).all()
    else:
        assert (report.outputs[:, 3:] == 4).all()


@each_case("buffer", sorted(BUFFERS))
@each_case(
    ("written", "read"),
    [
        (columns(0, 7), columns(0, 7)),
        (columns(3, 9), columns(4, 8)),
        ([("index", ALL, ("slice", 1, None, 3))], [("index", ALL, ("slice", 1, None, 6))]),
        ([("index", ("slice", 0, 4, None))], [("index", ("slice", 0, 2, None), ("ds", 5, 1))]),
        ([], []),
    ],
)
def test_the_written_part_may_be_read(buffer, written, read):
    model = Memory().tensor((8, 12), np.float32, on_chip=True)
    shape = follow(model, written, Span, None).shape
    source = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    report = nkisim.check(partly_written)(
        source, nl.float32, getattr(nl, buffer), frozen(written), frozen(read)
    )
    assert not report.codes & CODES
    follow(model, written, Span, None).write(source)
    np.testing.assert_array_equal(report.outputs, follow(model, read, Span, None).read())


@st.composite
def blocks(draw):
    """A rectangle of the tile, with a step along the free dimension."""
    top = draw(st.integers(0, 7))
    bottom = draw(st.integers(top + 1, 8))
    left = draw(st.integers(0, 11))
    right = draw(st.integers(left + 1, 12))
    return ("index", ("slice", top, bottom, None), ("slice", left, right, draw(st.integers(1, 3))))


@nkisim.jit
def several_blocks(source, written, read):
    tile = nl.ndarray((8, 12), dtype=source.dtype, buffer=nl.sbuf)
    for block in written:
        view = follow(tile, [block], nl.ds, None)
        part = follow(source, [block], nl.ds, None)
        nisa.dma_copy(dst=view, src=part)
    view = follow(tile, [read], nl.ds, None)
    out = nl.ndarray(view.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=view)
    return out


@given(st.lists(blocks(), max_size=5), blocks(), st.sampled_from([np.float32, np.int16]))
def test_any_blocks_written_and_read(written, read, dtype):
    source = np.arange(10, 106).reshape(8, 12).astype(dtype)
    model = Memory().tensor((8, 12), dtype, on_chip=True)
    for block in written:
        rows, cols = (slice(*entry[1:]) for entry in block[1:])
        follow(model, [block], Span, None).write(source[rows, cols])
    view = follow(model, [read], Span, None)
    report = nkisim.check(several_blocks)(source, tuple(written), read)
    missing = view.unwritten()
    assert ("M001" in report.codes) == bool(missing.any())
    if missing.any():
        (finding,) = [f for f in report.findings if f.rule.id == "M001"]
        first = tuple(int(i) for i in np.argwhere(missing)[0])
        assert str(first) in finding.seen
        assert f"{missing.sum()} of {missing.size}" in finding.message
    rows, cols = (slice(*entry[1:]) for entry in read[1:])
    want = source[rows, cols].copy()
    want[missing] = np.nan if dtype == np.float32 else 4
    np.testing.assert_array_equal(report.outputs, want)


@nkisim.jit
def overlapping_windows(source):
    # The pattern has as many elements as the tile, but visits only columns 0 to 4.
    tile = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile.ap(pattern=[[8, 4], [1, 2], [1, 4]]), src=source)
    out = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_a_pattern_that_revisits_elements_does_not_fill_the_tile():
    report = nkisim.check(overlapping_windows)(np.ones((4, 2, 4), np.float32))
    assert "M001" in report.codes
    assert np.isnan(report.outputs[:, 5:]).all()
    assert (report.outputs[:, :5] == 1).all()


@nkisim.jit
def half_of_each_word(source):
    words = nl.ndarray((4, 6), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=words.view(nl.int16)[:, 0::2], src=source)
    low = nl.ndarray((4, 6), dtype=nl.int16, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=low, src=words.view(nl.int16)[:, 0::2])
    out = nl.ndarray((4, 6), dtype=nl.int32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=words)
    again = nl.ndarray((4, 6), dtype=nl.int16, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=again, src=words.view(nl.int16)[:, 0::2])
    return low, out, again


def test_half_an_element_is_not_written():
    source = np.arange(24, dtype=np.int16).reshape(4, 6)
    report = nkisim.check(half_of_each_word)(source)
    (finding,) = [f for f in report.findings if f.rule.id == "M001"]
    assert "24 of 24" in finding.message
    low, out, again = report.outputs
    np.testing.assert_array_equal(low, source)
    assert (out == 4).all()
    # To read a word does not write its lower half.
    np.testing.assert_array_equal(again, source)


@nkisim.jit
def unwritten_outputs(source):
    floats = nl.ndarray((4, 6), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    integers = nl.ndarray((4, 6), dtype=nl.uint8, buffer=nl.shared_hbm)
    tile = nl.ndarray((2, 6), dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    nisa.dma_copy(dst=floats[0:2, :], src=tile)
    nisa.dma_copy(dst=integers[:, 0:3], src=tile)
    return floats, integers


def test_unwritten_output_elements_come_back_as_sentinels():
    source = np.ones((2, 6), np.float32)
    report = nkisim.check(unwritten_outputs)(source)
    floats, integers = report.outputs
    assert "M006" in report.codes
    assert np.isnan(floats[2:].astype(np.float32)).all()
    assert (floats[:2].astype(np.float32) == 1).all()
    assert (integers[:, 3:] == 4).all()
    assert (integers[:, :3] == 1).all()


@nkisim.jit
def in_a_loop(source):
    out = nl.ndarray((4, 8), dtype=source.dtype, buffer=nl.shared_hbm)
    for i in range(4):
        tile = nl.ndarray((4, 2), dtype=source.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile[:, 0:1], src=source[:, i : i + 1])
        nisa.dma_copy(dst=out[:, 2 * i : 2 * i + 2], src=tile)  # here
    return out


def test_one_line_is_one_finding_with_a_count():
    report = nkisim.check(in_a_loop)(np.ones((4, 4), np.float32))
    (finding,) = [f for f in report.findings if f.rule.id == "M001"]
    assert finding.count == 4
    with open(__file__) as text:
        here = [n for n, line in enumerate(text, 1) if line.rstrip().endswith("# here")]
    assert [finding.line] == here


def test_simulate_computes_and_warns_and_strict_stops():
    arguments = (np.ones((8, 12), np.float32), nl.float32, nl.sbuf, None, ())
    sim = nkisim.simulate(partly_written)
    with pytest.warns(nkisim.NkiFindingWarning):
        out = sim(*arguments)
    assert np.isnan(out).all()
    assert "M001" in sim.report.codes
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(partly_written, strictness="strict")(*arguments)
    assert caught.value.rule_id == "M001"
