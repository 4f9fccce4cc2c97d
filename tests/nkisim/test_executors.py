"""A call gives the same bits and findings however it is executed and wherever its operands lie.

``simulate`` takes the fastest way that a call has, ``check`` looks at values and so takes the
instruction's body, and a run without values computes nothing: three executors of one plan.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from comparing import assert_same_bits
from each_case import each_case
from pairwise import in_turn

from .samples import COLUMNS, ROWS, SAMPLES, Sample, Tile, fill, run, whole

# -- where operands lie ----------------------------------------------------------------------------


def placing():
    """Tiles at addresses, one behind the other."""
    ends = {"sbuf": 0, "psum": 0}

    def place(name: str, tile: Tile, source: object) -> object:
        if tile.buffer == "hbm":
            return whole(name, tile, source)
        at = ends[tile.buffer]
        nbytes = math.prod(tile.shape[1:]) * tile.dtype.itemsize
        grain = 2048 if tile.buffer == "psum" else 64
        ends[tile.buffer] = at + -(-nbytes // grain) * grain
        made = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=tile.region, address=(0, at))
        fill(made, source)
        return made

    return place


def slicing():
    """Tiles that are columns of wider ones, of which nothing else is ever written."""

    def place(name: str, tile: Tile, source: object) -> object:
        if tile.buffer == "hbm" or len(tile.shape) != 2:
            return whole(name, tile, source)
        rows, width = tile.shape
        wide = nl.ndarray((rows, width + 8), dtype=tile.dtype, buffer=tile.region)
        view = wide[:, 4 : 4 + width]
        fill(view, source)
        return view

    return place


def halving():
    """Tiles of which only the first half of the columns was written."""

    def place(name: str, tile: Tile, source: object) -> object:
        if tile.buffer == "hbm" or source is None or tile.shape[-1] < 2:
            return whole(name, tile, source)
        made = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=tile.region)
        half = tile.shape[1] // 2
        fill(made[:, 0:half], source[:, 0:half])
        return made

    return place


PLACES = {"apart": lambda: whole, "placed": placing, "slices": slicing, "half": halving}


def said(outcome) -> list[tuple[str, str, int]]:
    """The findings that do not depend on numbers, in order: rule, operand and count."""
    return [(f.rule.id, f.operand, f.count) for f in outcome.findings if not f.rule.on_values]


PARTS = [place for place in PLACES if place != "apart"]


# Tiles that lie apart and those of one other place; the slow test below has all of them.
@each_case("sample, place", [pytest.param(*c, id=c[0].name) for c in in_turn(SAMPLES, PARTS)])
def test_executors_agree(sample: Sample, place: str):
    assert_executors_agree(sample, ("apart", place))


@pytest.mark.slow
@each_case("sample", [pytest.param(s, id=s.name) for s in SAMPLES])
def test_executors_agree_wherever_tiles_lie(sample: Sample):
    assert_executors_agree(sample, tuple(PLACES))


def assert_executors_agree(sample: Sample, places: tuple[str, ...]) -> None:
    apart = {}
    for place in places:
        placed = PLACES[place]
        want = run(sample, placed())
        simulated = run(sample, placed(), entry=nkisim.simulate)
        assert list(simulated.outputs) == list(want.outputs), place
        for name, output in want.outputs.items():
            assert_same_bits(simulated.outputs[name], output)
        assert said(simulated) == said(want), place
        if place == "half":
            continue
        assert said(run(sample, placed(), values=False)) == said(want), place
        if place == "apart":
            apart = want.outputs
        elif not want.findings:
            for name, output in apart.items():
                assert_same_bits(want.outputs[name], output)


# -- sizes that decide between ways ----------------------------------------------------------------

SIZES = [1, 1023, 1024, 1025, 4095, 4096, 4097, 16383, 16384, 16385, 65535, 65536, 65538]
TYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "i32": np.int32}


def shaped(size: int) -> tuple[int, int]:
    """Rows and columns of a tile of this size, as few rows as fit a partition."""
    rows = next(r for r in itertools.count(1) if size % r == 0 and size // r <= 32769)
    return rows, size // rows


def calls(x, y, column):
    """Every kind of element-wise call: two tiles, numbers, columns, in place, and conversions."""
    a, b, c = nl.load(x), nl.load(y), nl.load(column)
    outs = []

    def tile(dtype):
        return nl.ndarray(x.shape, dtype=dtype, buffer=nl.sbuf)

    for dtype in (x.dtype, nl.float32):
        made = [tile(dtype) for _ in range(6)]
        nisa.tensor_tensor(dst=made[0], data1=a, data2=b, op=nl.add)
        nisa.tensor_scalar(
            dst=made[1], data=a, op0=nl.multiply, operand0=c, op1=nl.add, operand1=0.5
        )
        nisa.tensor_scalar(dst=made[2], data=a, op0=nl.subtract, operand0=2, reverse0=True)
        nisa.scalar_tensor_tensor(
            dst=made[3], data=a, op0=nl.subtract, operand0=c, op1=nl.multiply, operand1=b
        )
        nisa.activation(dst=made[4], op=nl.square, data=a, scale=0.25)
        nisa.tensor_copy(dst=made[5], src=a)
        nisa.tensor_tensor(dst=made[5], data1=made[5], data2=b, op=nl.maximum)
        outs += made
    returned = []
    for found in outs:
        out = nl.ndarray(x.shape, dtype=found.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=found)
        returned.append(out)
    return tuple(returned)


# Two of the four types for each size; the slow test below has all of them.
@each_case("size, kind", in_turn(SIZES, ["f32", "i32"]) + in_turn(SIZES, ["bf16", "f16"]))
def test_executors_agree_around_every_size(size, kind):
    assert_agree_at_size(size, kind)


@pytest.mark.slow
@each_case("size", SIZES)
@each_case("kind", TYPES)
def test_executors_agree_on_all_types_around_every_size(size, kind):
    assert_agree_at_size(size, kind)


def assert_agree_at_size(size: int, kind: str) -> None:
    rng = np.random.default_rng(size)
    shape = shaped(size)
    x, y = (rng.integers(-60, 60, shape).astype(TYPES[kind]) for _ in range(2))
    column = rng.integers(-4, 5, (shape[0], 1)).astype(np.float32)
    report = nkisim.check(calls)(x, y, column)
    simulation = nkisim.simulate(calls)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nkisim.NkiFindingWarning)
        outputs = simulation(x, y, column)
    for got, want in zip(outputs, report.outputs, strict=True):
        assert_same_bits(got, want)
    about_calls = [f.rule.id for f in report.findings if f.rule.id[0] not in "LW"]
    assert [
        f.rule.id for f in simulation.report.findings if f.rule.id[0] not in "LW"
    ] == about_calls


# -- every instruction at the sizes that decide ----------------------------------------------------

THRESHOLDS = (1024, 16384, 65536, 131072)
"""Elements from which on some code runs another way: small tiles, blocks, compiled loops."""


def resized(sample: Sample, width: int) -> Sample:
    """The sample with tiles of another width; operands of other widths stay as they are."""

    def wider(tile: Tile) -> Tile:
        shape = tuple(width if extent == COLUMNS else extent for extent in tile.shape)
        if tile.values is None or shape == tile.shape:
            return dataclasses.replace(tile, shape=shape)
        values = np.resize(tile.values, shape)  # repeats the elements, which stay legal
        return dataclasses.replace(tile, shape=shape, values=values)

    pattern = sample.settings.get("pattern")
    settings = dict(sample.settings)
    if pattern is not None:
        settings["pattern"] = [[step, width if n == COLUMNS else n] for step, n in pattern]
    tiles = {name: wider(tile) for name, tile in sample.tiles.items()}
    return dataclasses.replace(sample, tiles=tiles, settings=settings)


def assert_alike(call: Sample, width: int) -> None:
    """Every executor gives the bits and the findings of a check of tiles that lie apart."""
    quick = {"source": False, "detect": ()}  # the kernel is that of the tests
    want = run(call, **quick)
    if {f.severity for f in want.findings} & {"error"}:
        return  # this width is not one of the instruction
    got = run(call, entry=nkisim.simulate)
    assert said(got) == said(want), width
    for name, output in want.outputs.items():
        assert_same_bits(got.outputs[name], output)
    assert said(run(call, values=False, **quick)) == said(want), width
    for place in ("placed", "slices"):
        there = run(call, PLACES[place](), **quick)
        if not there.findings:  # tiles of all widths have no room at addresses
            there = run(call, PLACES[place](), entry=nkisim.simulate)
            for name, output in want.outputs.items():
                assert_same_bits(there.outputs[name], output)


def widths(sample: Sample, thresholds: tuple[int, ...]) -> list[int]:
    """Widths around thresholds; beyond the smallest only if the instruction has another way."""
    declared = sample.declaration
    if not (declared.shortcut or declared.function):
        thresholds = THRESHOLDS[:1]
    return [elements // ROWS + more for elements in thresholds for more in (-1, 0)]


# One threshold and one arithmetic for each; the slow test below has all of them.
@pytest.mark.parametrize(
    ("sample", "threshold", "fast"),
    [
        pytest.param(s, THRESHOLDS[i % len(THRESHOLDS)], str(i // len(THRESHOLDS) % 2), id=s.name)
        for i, s in enumerate(s for s in SAMPLES if s.grid == 1)
    ],
)
def test_executors_agree_around_a_threshold(sample: Sample, threshold: int, fast, monkeypatch):
    monkeypatch.setenv("NKISIM_FAST", fast)
    for width in widths(sample, (threshold,)):
        assert_alike(resized(sample, width), width)


@pytest.mark.slow
@pytest.mark.parametrize("fast", ["1", "0"])
@pytest.mark.parametrize("sample", [pytest.param(s, id=s.name) for s in SAMPLES])
def test_executors_agree_around_every_threshold(sample: Sample, fast, monkeypatch):
    monkeypatch.setenv("NKISIM_FAST", fast)
    for width in widths(sample, THRESHOLDS):
        assert_alike(resized(sample, width), width)
