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


# One type for each tile by itself and for all of them; the slow test below has all of them.
@each_case(("number", "sample"), [pytest.param(i, s, id=s.name) for i, s in enumerate(SAMPLES)])
def test_a_type_is_computed_or_refused(number, sample):
    for more, names in enumerate(choices(sample)):
        assert_computed_or_refused(sample, names, TYPES[(number + more) % len(TYPES)])


@pytest.mark.slow
@each_case("dtype", [*TYPES, *OTHER_TYPES])
@each_sample
def test_every_type_is_computed_or_refused(sample, dtype):
    for names in choices(sample):
        assert_computed_or_refused(sample, names, dtype)


def assert_computed_or_refused(sample, names, dtype):
    """What ends a check, before anything is computed, ends a simulation at the same place."""
    other = retyped(sample, names, dtype)
    if run(other).outputs:
        with contextlib.suppress(NkiValidationError):
            run(other, entry=nkisim.simulate)


WRONG = [np.less, "add", 2.5, None, np.ones((2, 2)), 10**30]
FIRST = {sample.instruction: sample for sample in reversed(SAMPLES)}
PARAMETERS = [
    pytest.param(number, sample, name, id=f"{sample.instruction}-{name}")
    for sample in FIRST.values()
    for number, name in enumerate(sample.declaration.parameters)
]


# Of each parameter every other value; the slow test below has all of them.
@each_case(("number", "sample", "name"), PARAMETERS)
def test_a_wrong_argument_is_refused_or_means_something(number, sample, name):
    assert_refused_or_meant(sample, name, WRONG[number % 2 :: 2])


@pytest.mark.slow
@each_case(("number", "sample", "name"), PARAMETERS)
def test_every_wrong_argument_is_refused_or_means_something(number, sample, name):
    assert_refused_or_meant(sample, name, WRONG)


def assert_refused_or_meant(sample, name, values):
    for value in values:
        with contextlib.suppress(NkiValidationError):
            run(sample, settings={name: value}, entry=nkisim.simulate)
