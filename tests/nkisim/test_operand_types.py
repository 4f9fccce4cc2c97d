"""No argument of any instruction, whatever its type, ends in an error of the simulator's own."""

import contextlib
import dataclasses

import numpy as np
import pytest

import nkisim
import nkisim.language as nl
from each_case import each_case
from nkisim import NkiValidationError

from .samples import SAMPLES, run

PACKS = ("float8_e4m3fn_x4", "float4_e2m1fn_x4")
TYPES = (PACKS[0], "bool", "tfloat32")
OTHER_TYPES = (PACKS[1], "int8", "float8_e4m3fn")


def retyped(sample, names, dtype):
    """The sample with some of its tiles of another type, holding small numbers or words."""
    kind = getattr(nl, dtype)
    rng = np.random.default_rng(0)

    def of_type(tile):
        if tile.values is None:
            return dataclasses.replace(tile, dtype=kind)
        high = 2 if dtype == "bool" else 100
        values = rng.integers(0, high, tile.shape).astype(kind.numpy)
        host = values.view(np.dtype(dtype)) if dtype in PACKS else values
        return dataclasses.replace(tile, dtype=kind, values=host)

    tiles = {n: of_type(tile) if n in names else tile for n, tile in sample.tiles.items()}
    return dataclasses.replace(sample, tiles=tiles)


def choices(sample):
    """Each tile by itself, and all of them."""
    return [{name} for name in sample.tiles] + [set(sample.tiles)]


each_sample = each_case("sample", [pytest.param(s, id=s.name) for s in SAMPLES])


@each_case("dtype", TYPES)
@each_sample
def test_a_type_is_computed_or_refused(sample, dtype):
    assert_computed_or_refused(sample, dtype)


@pytest.mark.slow
@each_case("dtype", OTHER_TYPES)
@each_sample
def test_other_types_are_computed_or_refused(sample, dtype):
    assert_computed_or_refused(sample, dtype)


def assert_computed_or_refused(sample, dtype):
    """What ends a check, before anything is computed, ends a simulation at the same place."""
    for names in choices(sample):
        other = retyped(sample, names, dtype)
        if not run(other).outputs:
            continue
        with contextlib.suppress(NkiValidationError):
            run(other, entry=nkisim.simulate)


WRONG = [np.less, "add", 2.5, None, np.ones((2, 2)), 10**30]
FIRST = {sample.instruction: sample for sample in reversed(SAMPLES)}


@each_case("value", WRONG, ids=repr)
@each_case("sample", [pytest.param(s, id=name) for name, s in FIRST.items()])
def test_a_wrong_argument_is_refused_or_means_something(sample, value):
    for name in sample.declaration.parameters:
        with contextlib.suppress(NkiValidationError):
            run(sample, settings={name: value}, entry=nkisim.simulate)
