"""What the random number instructions refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim import NkiFindingWarning, NkiValidationError
from nkisim.isa import dropout, rand2, rand_get_state, rand_set_state, rng, set_rng_seed

from .harness_rng import GPSIMD, VECTOR, new, run, seed_array

# -- what is refused -------------------------------------------------------------------------------


def refused(call: Callable[..., None], rule: str, target: str = "gen4") -> Any:
    """The finding with which ``simulate`` stops at ``call``, which gets a seed tile."""

    def body(seed):
        call(seed)
        return [seed]

    with pytest.raises(NkiValidationError) as caught:
        run(body, seed_array(1), target=target, strictness="simulate")
    assert caught.value.rule_id == rule, str(caught.value)
    assert caught.value.finding.fix
    return caught.value.finding


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3", "bool"])
def test_rng_writes_integers_only(dtype):
    found = refused(lambda seed: rng(new((128, 4), dtype)), "D039")
    assert found.operand == "dst"
    assert dtype in found.message


@pytest.mark.parametrize(("rows", "columns", "dtype"), [(1, 2, "int32"), (2, 1, "int32")])
def test_a_seed_is_one_word(rows, columns, dtype):
    refused(lambda seed: set_rng_seed(nl.zeros((rows, columns), dtype)), "D039")


@pytest.mark.parametrize("dtype", ["int16", "uint8", "bfloat16"])
def test_a_seed_has_32_bits(dtype):
    assert dtype in refused(lambda seed: set_rng_seed(nl.zeros((1, 1), dtype)), "D039").message


def test_a_seed_is_a_tile():
    refused(lambda seed: set_rng_seed(42), "A025")


@each_case("call", [rand_set_state, rand_get_state])
@each_case(
    ("target", "engine", "shape", "dtype"),
    [
        ("gen3", "gpsimd", (128, 24), "uint32"),
        ("gen3", "unknown", (128, 24), "uint32"),
        ("gen4", "gpsimd", (128, 24), "uint32"),
        ("gen4", "vector", (128, 6), "uint32"),
        ("gen4", "vector", (128, 4, 6), "uint32"),
        ("gen4", "unknown", (128, 5), "uint32"),
        ("gen4", "unknown", (128, 6), "int32"),
        ("gen4", "unknown", (128, 24), "float32"),
    ],
)
def test_a_state_has_the_words_of_its_engine(call, target, engine, shape, dtype):
    chosen = getattr(nisa.engine, engine)
    refused(lambda seed: call(nl.zeros(shape, dtype), engine=chosen), "D039", target)


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0), (0, -1), (0.0, math.inf)])
def test_rand2_needs_a_range(low, high):
    # A signature is checked once for all bounds: a legal call must not hide the other.
    def call(seed):
        set_rng_seed(seed)
        rand2(new((128, 4), "float32"), 1.0, 5.0)
        rand2(new((128, 4), "float32"), low, high)

    refused(call, "D039")


def test_rand2_needs_a_range_in_every_partition():
    def call(seed):
        set_rng_seed(seed)
        ends = nl.full((128, 1), 2.0, nl.float32)
        nisa.memset(ends[96:128], 1.0)
        rand2(new((128, 4), "float32"), 1.0, ends)

    assert "partition 96" in refused(call, "D039").seen


@pytest.mark.parametrize("bound", ["min", "max"])
def test_bounds_of_rand2_are_float32(bound):
    def call(seed):
        bounds = {"min": 0.0, "max": 1.0, bound: nl.zeros((128, 1), nl.bfloat16)}
        rand2(new((128, 4), "float32"), **bounds)

    assert refused(call, "D039").operand == bound


@pytest.mark.parametrize("dtype", ["bool", "float8_e4m3fn", "float8_e4m3fn_x4"])
def test_rand2_writes_listed_types(dtype):
    refused(lambda seed: rand2(new((128, 4), dtype), 0.0, 1.0), "D039")


@pytest.mark.parametrize("value", [-0.25, 1.5, 2, math.nan])
def test_a_probability_outside_0_to_1_is_found_and_saturates(value):
    def body(seed, tile):
        first, second = new(tile.shape, "float32"), new(tile.shape, "float32")
        set_rng_seed(seed)
        dropout(first, tile, 0.5)  # legal, and of the same signature
        dropout(second, tile, value)
        return [second]

    report = run(body, seed_array(1), np.ones((128, 8), np.float32))
    (finding,) = report.findings
    assert (finding.rule.id, finding.severity, finding.operand) == ("D038", "error", "prob")
    assert (report.outputs[0] == (0 if value > 1 else 1)).all()


def test_a_probability_is_checked_in_every_partition():
    def body(seed, tile, column):
        dst = new(tile.shape, "float32")
        set_rng_seed(seed)
        dropout(dst, tile, column)
        return [dst]

    prob = np.full((128, 1), 0.5, np.float32)
    data = np.ones((128, 8), np.float32)
    assert not run(body, seed_array(1), data, prob).findings
    prob[[3, 100]] = 25.0
    (finding,) = run(body, seed_array(1), data, prob).findings
    assert finding.rule.id == "D038"
    assert "25" in finding.seen
    assert "2 of 128" in finding.seen
    with pytest.raises(NkiValidationError, match="D038"):
        run(body, seed_array(1), data, prob, strictness="strict")
    with pytest.warns(NkiFindingWarning, match="D038"):
        run(body, seed_array(1), data, prob, strictness="simulate")


@each_case(
    ("data", "prob", "legal"),
    [
        ("int32", "float32", True),
        ("int32", "bfloat16", False),
        ("uint8", "float16", False),
        ("float32", "bfloat16", True),
        ("bfloat16", "float8_e5m2", True),
        ("float32", "int32", False),
        ("int8", "int8", False),
    ],
)
def test_types_of_a_probability(data, prob, legal):
    def body(seed):
        tile, dst = nl.ones((128, 4), data), new((128, 4), data)
        set_rng_seed(seed)
        dropout(dst, tile, nl.zeros((128, 1), prob))
        return [dst]

    report = run(body, seed_array(1))
    assert report.codes == (set() if legal else {"D038"})
    assert (report.outputs[0] == 1).all()


def test_dropout_does_not_convert():
    def call(seed):
        dropout(new((128, 4), "bfloat16"), nl.zeros((128, 4), nl.float32), 0.5)

    refused(call, "D033")


def test_shapes_of_dropout():
    tile = (128, 4)
    refused(lambda s: dropout(new((64, 4), "float32"), nl.zeros(tile, "float32"), 0.5), "S006")
    refused(lambda s: dropout(new((128, 5), "float32"), nl.zeros(tile, "float32"), 0.5), "S007")
    column = (128, 2)
    refused(
        lambda s: dropout(
            new(tile, "float32"), nl.zeros(tile, "float32"), nl.zeros(column, "float32")
        ),
        "S053",
    )


@each_case(
    ("call", "target", "rule"),
    [
        (lambda s: rng(new((128, 4)), engine=GPSIMD), "gen2", "A034"),
        (lambda s: rng(new((128, 4)), engine=nisa.engine.scalar), "gen4", "A034"),
        (lambda s: rng(new((128, 4), buffer=nl.psum), engine=GPSIMD), "gen4", "M022"),
        (lambda s: rng(new((128, 4), buffer=nl.shared_hbm)), "gen4", "M021"),
        (lambda s: rand2(new((128, 4), "float32"), 0.0, 1.0), "gen3", "A033"),
        (lambda s: rand_set_state(nl.zeros((128, 6), "uint32")), "gen2", "A033"),
        (lambda s: rand_get_state(new((128, 6))), "gen2", "A033"),
        (lambda s: rand_get_state(new((128, 24)), engine=VECTOR), "gen3", "A034"),
        (lambda s: rand_set_state(nl.zeros((128, 24), "uint32"), engine=VECTOR), "gen3", "A034"),
        (lambda s: rand_get_state(new((128, 6), buffer=nl.psum)), "gen4", "M022"),
        (lambda s: rand_get_state(new((128, 6), buffer=nl.psum)), "gen3", "M022"),
        (lambda s: rand_set_state(new((128, 24), buffer=nl.psum)), "gen4", "M024"),
    ],
)
def test_engines_memories_and_generations(call, target, rule):
    refused(call, rule, target)


def test_a_state_that_was_never_written_is_found():
    def body(seed):
        rand_set_state(new((128, 6)))
        return [seed]

    assert "M001" in run(body, seed_array(1)).codes
