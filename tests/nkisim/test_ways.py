"""Every instruction: simulated and checked to the same bits, with and without compiled loops.

Generated from the samples: what is declared is tested.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import nkisim
import nkisim.language as nl
from comparing import assert_same, assert_same_bits
from each_case import each_case
from pairwise import in_turn

from . import sampling
from .samples import COLUMNS, ROWS, SAMPLES, Sample, Tile, fill, run, whole

each_sample = each_case("sample", [pytest.param(s, id=s.name) for s in SAMPLES])

# -- ways ------------------------------------------------------------------------------------------


@pytest.fixture(params=["numpy", "compiled"])
def arithmetic(request, monkeypatch):
    """Whose arithmetic runs; exact loops are compiled where numba is loaded."""
    if request.param == "compiled":
        pytest.importorskip("numba")
    monkeypatch.setenv("NKISIM_FAST", "0" if request.param == "numpy" else "1")


def checked(sample: Sample) -> dict[str, np.ndarray]:
    """What the sample writes when every tile is widened and computed at once."""
    return run(sample, entry=nkisim.check).outputs


def simulated(sample: Sample) -> dict[str, np.ndarray]:
    return run(sample, entry=nkisim.simulate).outputs


def enlarged(sample: Sample) -> Sample:
    """The sample on four times the partitions and eight times the columns."""

    def larger(tile: Tile) -> Tile:
        repeats = tuple(
            factor if extent == size else 1
            for extent, size, factor in zip(tile.shape, (ROWS, COLUMNS), (4, 8), strict=True)
        )
        shape = tuple(e * r for e, r in zip(tile.shape, repeats, strict=True))
        values = None if tile.values is None else np.tile(tile.values, repeats)
        return dataclasses.replace(tile, shape=shape, values=values)

    return dataclasses.replace(
        sample, tiles={name: larger(tile) for name, tile in sample.tiles.items()}
    )


def of_patterns(sample: Sample) -> Sample:
    """The sample on random bit patterns, among them NaN, infinities and subnormals."""
    rng = np.random.default_rng(0)

    def patterns(tile: Tile) -> Tile:
        if tile.values is None or not tile.dtype.is_float:
            return tile
        bits = rng.bytes(tile.values.nbytes)
        values = np.frombuffer(bits, tile.values.dtype).reshape(tile.shape)
        return dataclasses.replace(tile, values=values)

    return dataclasses.replace(
        sample, tiles={name: patterns(tile) for name, tile in sample.tiles.items()}
    )


@each_sample
def test_simulation_and_check_give_the_same_bits(sample):
    want, got = checked(sample), simulated(sample)
    assert list(got) == list(want)
    for name, output in want.items():
        assert_same_bits(got[name], output)


def filled(sample: Sample) -> Sample:
    """The sample with contents in every tile, also in those that are only written."""

    def full(tile: Tile) -> Tile:
        kind = tile.dtype
        if tile.values is not None or str(kind).endswith("x4"):  # which cannot be loaded
            return tile
        return dataclasses.replace(tile, values=np.zeros(tile.shape, kind.numpy))

    return dataclasses.replace(
        sample, tiles={name: full(tile) for name, tile in sample.tiles.items()}
    )


@pytest.mark.parametrize("sample", [pytest.param(filled(s), id=s.name) for s in SAMPLES])
def test_arguments_that_have_the_callers_bytes_give_the_same_bits(monkeypatch, sample):
    want = simulated(sample)
    given = {n: t.values.copy() for n, t in sample.tiles.items() if t.values is not None}
    monkeypatch.setattr(sampling, "copies", list)  # the kernel gets the very arrays
    for name, output in simulated(sample).items():
        assert_same_bits(output, want[name])
    for name, values in given.items():
        if name not in sample.writes or sample.tiles[name].buffer != "hbm":
            assert_same_bits(sample.tiles[name].values, values)


@pytest.mark.parametrize(
    "sample",
    [pytest.param(enlarged(s), id=s.name) for s in SAMPLES if s.declaration.shortcut is not None],
)
def test_simulation_and_check_give_the_same_bits_on_large_tiles(arithmetic, sample):
    want = checked(sample)
    for name, output in simulated(sample).items():
        assert_same_bits(output, want[name])


@each_case(
    "sample",
    [
        pytest.param(s, id=s.name)
        for s in SAMPLES
        if s.instruction != "rand2"  # it wants a range that is not empty
    ],
)
def test_simulation_and_check_agree_on_what_is_not_a_number(sample):
    # Of a NaN only that it is one is kept: which of two NaNs goes on is the processor's choice.
    odd = of_patterns(sample)
    want = checked(odd)
    for name, output in simulated(odd).items():
        assert_same(output, want[name])


# -- aliases ---------------------------------------------------------------------------------------


def aliases(sample: Sample) -> list[tuple[str, str]]:
    """Pairs of a written and a read tile that can be one."""
    return [
        (written, read)
        for written in sample.writes
        for read in sample.reads
        if written != read
        and sample.tiles[written].buffer == sample.tiles[read].buffer
        and sample.tiles[written].dtype == sample.tiles[read].dtype
    ]


def joined(sample: Sample, written: str, read: str) -> Sample:
    """The sample with the old contents of a tile that is read and written, where it has any."""
    tiles = dict(sample.tiles)
    if tiles[written].values is not None and tiles[written].shape == tiles[read].shape:
        tiles[written] = dataclasses.replace(tiles[written], values=tiles[read].values)
    return dataclasses.replace(sample, tiles=tiles)


def sharing(written: str, read: str, columns: dict[str, int]):
    """Places two operands in one tile, each from its own column; the others apart."""
    made = {}

    def place(name: str, tile: Tile, source: object) -> object:
        if name not in (written, read):
            return whole(name, tile, source)
        if not made:
            width = max(columns.values()) + COLUMNS * 8
            made["tile"] = nl.ndarray((128, width), dtype=tile.dtype, buffer=tile.region)
        rows, width = tile.shape
        view = made["tile"][0:rows, columns[name] : columns[name] + width]
        if name == read:
            fill(view, source)
        return view

    return place


PAIRS = [
    pytest.param(sample, *pair, id=f"{sample.name}-{pair[0]}-{pair[1]}")
    for sample in SAMPLES
    for pair in aliases(sample)
    if sample.tiles[pair[0]].buffer != "hbm"
]


OVERLAPS = [(0, 1), (1, 0), (5, 0), (0, 3)]
"""First columns of the written and the read tile."""


def assert_same_or_found(sample: Sample, written: str, read: str, overlaps) -> None:
    alone = joined(sample, written, read)
    want = run(alone)
    for columns in overlaps:
        shared = dict(zip((written, read), columns, strict=True))
        for entry in (nkisim.check, nkisim.simulate):
            got = run(alone, sharing(written, read, shared), entry=entry)
            if got.findings:
                continue
            for name, output in want.outputs.items():
                if name != read:
                    assert_same_bits(got.outputs[name], output)


@each_case(("sample", "written", "read"), PAIRS)
def test_in_place_equals_apart_or_is_found(sample, written, read):
    assert_same_or_found(sample, written, read, [(0, 0)])


@each_case(("pair", "overlap"), in_turn(PAIRS, OVERLAPS), ids=lambda value: str(value))
def test_an_overlap_equals_apart_or_is_found(pair, overlap):
    assert_same_or_found(*pair.values, [overlap])


@pytest.mark.slow
@each_case(("sample", "written", "read"), PAIRS)
def test_all_overlaps_equal_apart_or_are_found(sample, written, read):
    assert_same_or_found(sample, written, read, OVERLAPS)
