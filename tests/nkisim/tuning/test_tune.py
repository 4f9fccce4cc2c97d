"""nkisim.tune: what is dropped, how the rest is ranked, and what the winner computes."""

import functools
import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

import nkisim
import nkisim.language as nl
from nkisim.diagnostics import RULES
from nkisim.profiling.result import Doubt
from nkisim.tuning import Dropped, NoneLegalError, Variant
from nkisim.tuning.result import ranked

from ...each_case import each_case
from .tuned_kernels import matrix, product, scaled

SPACE = {"ROWS": [32, 128, 256], "COLUMNS": [128, 512, 1024], "K": [64, 128]}


@functools.cache
def product_tuning():
    return nkisim.tune(product, SPACE)(matrix(256, 256), matrix(256, 1024, seed=1))


def reasons(tuning):
    return {tuple(values.values()): reason for values, reason in tuning.dropped}


def test_every_combination_is_ranked_or_dropped_with_a_reason():
    tuning = product_tuning()
    every = list(itertools.product(*SPACE.values()))
    assert sorted([tuple(v.values.values()) for v in tuning.variants] + list(reasons(tuning))) == (
        sorted(every)
    )
    assert set(reasons(tuning)) == {v for v in every if v[0] > 128 or v[1] > 512}
    for reason in reasons(tuning).values():
        assert reason.split()[0] in RULES
        assert "\n" not in reason


def test_times_are_those_of_the_profile():
    tuning = product_tuning()
    for variant in (tuning.variants[0], tuning.variants[-1]):
        kernel = functools.partial(product, **variant.values)
        found = nkisim.profile(kernel, advice=False)(matrix(256, 256), matrix(256, 1024, seed=1))
        assert (variant.latency_us, variant.interval_us) == (found.latency_us, found.interval_us)
        assert variant.bound_by == found.bound_by


def test_the_simplest_of_the_fastest_comes_first():
    tuning = product_tuning()
    fastest = min(variant.latency_us for variant in tuning.variants)
    ties = [v for v in tuning.variants if v.latency_us <= 1.02 * fastest]
    assert tuning.variants[: tuning.ties] == sorted(
        ties, key=lambda v: (v.instructions, sum(v.used_bytes.values()), v.latency_us)
    )
    assert all(v.latency_us > 1.02 * fastest for v in tuning.variants[tuning.ties :])


def variant(us, instructions=1, used=0):
    return Variant(
        values={"T": us},
        latency_us=us,
        interval_us=(us, us),
        bound_by="dma",
        bound_share=1.0,
        hbm_bytes=0,
        spill_bytes=0,
        used_bytes={"sbuf": used, "psum": 0},
        capacity={"sbuf": 10, "psum": 10},
        instructions=instructions,
    )


def test_groups_of_ties():
    slow, fast, tied = variant(200.0), variant(100.0, 9, 2), variant(101.9, 9, 2)
    simple, small = variant(101.0, 2, 5), variant(101.95, 9, 1)
    assert ranked([slow, fast, tied, simple, small]) == [[simple, small, fast, tied], [slow]]
    # A chain of close times does not make ties of its ends.
    assert [len(g) for g in ranked([variant(100.0), variant(101.5), variant(103.0)])] == [2, 1]


@pytest.mark.parametrize(
    ("space", "reason"),
    [
        ({"COLUMNS": [100, 256]}, "AssertionError: COLUMNS must divide the columns"),
        ({"MISTAKE": ["unwritten", ""]}, "M001 "),
        ({"MISTAKE": ["", "last columns"]}, "M0"),
        ({"BUFFERS": [4096, 1]}, "M0"),  # larger than SBUF
        ({"MISTAKE": ["", "not scaled"]}, "computes something else than the defaults: "),
        ({"MISTAKE": ["not scaled", ""]}, "computes something else than the defaults: "),
    ],
)
def test_variants_with_a_fault_are_dropped(space, reason):
    tuning = nkisim.tune(scaled, {"COLUMNS": [256], **space})(matrix(128, 512))
    assert len(tuning.variants) == 1
    (dropped,) = tuning.dropped
    assert dropped.reason.startswith(reason), dropped.reason


def test_outputs_are_compared_with_those_of_the_defaults():
    same = nkisim.tune(functools.partial(scaled, COLUMNS=64), {"COLUMNS": [256, 512]})(
        matrix(128, 512)
    )
    assert same.best.values == {"COLUMNS": 512}
    assert same.equal_bits
    assert same.agreement == "those of the defaults: all bits are the same"


def test_without_legal_defaults_the_first_legal_variant_is_right():
    tuning = nkisim.tune(scaled, {"COLUMNS": [100, 64, 192]})(matrix(128, 192))  # not 128
    assert {variant.values["COLUMNS"] for variant in tuning.variants} == {64, 192}
    assert tuning.agreement == (
        "those of the first legal variant, COLUMNS=64: all bits are the same"
    )


def doubled(x):
    return x + x


def last_element_tripled(x):
    found = x + x
    found[5, 7] += x[5, 7]
    return found


def test_a_reference_decides_what_is_right():
    x = matrix(128, 256)
    tune = functools.partial(nkisim.tune, scaled, {"COLUMNS": [128], "MISTAKE": ["not scaled", ""]})
    tuning = tune(reference=doubled)(x)
    assert [variant.values["MISTAKE"] for variant in tuning.variants] == [""]
    assert tuning.agreement.startswith("those of the reference: at most 0 ulps off; float32 within")
    assert not tuning.equal_bits
    with pytest.raises(NoneLegalError, match=r"(?s)no variant .* right:.* output 0 at \(5, 7\)"):
        tune(reference=last_element_tripled)(x)
    with pytest.raises(ValueError, match="reference: ZeroDivisionError"):
        tune(reference=lambda x: 1 / 0)(x)


def test_a_variant_that_fails_is_never_ranked_and_its_worst_element_is_named():
    space = {"COLUMNS": [128, 256], "MISTAKE": ["", "not scaled"]}
    tuning = nkisim.tune(scaled, space)(matrix(128, 512))
    assert {variant.values["MISTAKE"] for variant in tuning.variants} == {""}
    assert {values["MISTAKE"] for values, _ in tuning.dropped} == {"not scaled"}
    assert all("; output 0 at (" in reason for _, reason in tuning.dropped)


def test_arguments_are_not_written_to():
    def doubled_in_place(x: "nt.mutable_tensor", WIDTH=64):  # noqa: F821
        tile = nl.load(x)
        nl.store(x, nl.add(tile, tile))
        return x

    x = matrix(64, 64)
    before = x.copy()
    nkisim.tune(doubled_in_place, {"WIDTH": [32, 64]})(x)
    assert np.array_equal(x, before)


def test_values_of_the_space_replace_those_of_the_call_and_of_a_partial():
    bound = functools.partial(scaled, COLUMNS=64)
    tuning = nkisim.tune(bound, {"COLUMNS": [128, 512]})(matrix(128, 512), BUFFERS=2)
    assert {v.values["COLUMNS"] for v in tuning.variants} == {128, 512}
    assert "COLUMNS" not in tuning.arguments


def test_processes_give_the_same_result():
    arguments = matrix(128, 512)
    space = {"COLUMNS": [100, 128, 256, 512], "BUFFERS": [1, 4096]}
    alone = nkisim.tune(scaled, space)(arguments)
    calls = []
    several = nkisim.tune(scaled, space, jobs=2, progress=lambda *n: calls.append(n))(arguments)
    assert alone == several
    assert calls == [(n + 1, 8) for n in range(8)]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({}, "space: it is empty; accepted: values of at least one parameter"),
        ([1, 2], "space: got list, accepted: values by parameter"),
        ({"COLUMNS": 128}, "space: values of COLUMNS must be a list, got 128"),
        ({"MISTAKE": "none"}, "space: values of MISTAKE must be a list, got 'none'"),
        ({"COLUMNS": []}, "space: COLUMNS has no values"),
        ({"TILE": [1]}, r"space: scaled has no parameter 'TILE'; it has x, COLUMNS, BUFFERS"),
        ({"COLUMNS": [matrix(1, 1)]}, "space: COLUMNS has a value of type ndarray"),
        ({"COLUMNS": [(1, [2])]}, "space: COLUMNS has a value of type tuple"),
    ],
)
def test_spaces_that_cannot_be_tuned(space, message):
    with pytest.raises(ValueError, match=message):
        nkisim.tune(scaled, space)


def test_a_kernel_without_a_legal_variant():
    with pytest.raises(
        NoneLegalError, match=r"(?s)no variant of scaled is legal and right.*COLUMNS=100"
    ):
        nkisim.tune(scaled, {"COLUMNS": [100, 300]})(matrix(128, 512))


def test_a_kernel_that_no_process_can_import():
    def local(x, T=1):
        return x

    with pytest.raises(ValueError, match="jobs: got 2, but another process cannot import local"):
        nkisim.tune(local, {"T": [1, 2]}, jobs=2)(matrix(4, 4))
    with pytest.raises(ValueError, match="jobs: got 0"):
        nkisim.tune(local, {"T": [1]}, jobs=0)


def test_text_and_data():
    tuning = product_tuning()
    data = json.loads(tuning.to_json())
    assert data["variants"][0]["values"] == tuning.best.values
    assert [Dropped(**d) for d in data["dropped"]] == tuning.dropped
    lines = str(tuning).splitlines()
    assert "18 variants, 10 dropped" in lines[1]
    assert lines[3].split()[:3] == ["ROWS", "COLUMNS", "K"]
    assert lines[4].split()[:3] == [str(v) for v in tuning.best.values.values()]


def doubtful(us, **alternatives):
    """Return a variant with a time and one alternative of each named assumption."""
    doubts = (Doubt(name, "now", {"other": other}) for name, other in alternatives.items())
    return replace(variant(us), assumptions=tuple(doubts))


@each_case(
    "one, other, separable",
    [
        (doubtful(100.0), doubtful(100.0), False),
        (doubtful(100.0), doubtful(101.0), False),  # within the error of a difference
        (doubtful(100.0), doubtful(120.0), True),
        # What both share moves both.
        (doubtful(100.0, a=200.0), doubtful(120.0, a=220.0), True),
        # With the alternative, the order is the other way round.
        (doubtful(100.0, a=200.0), doubtful(120.0), False),
    ],
)
def test_variants_are_separable_if_the_difference_has_one_sign(one, other, separable):
    assert one.is_separable(other) is separable
    assert other.is_separable(one) is separable


def test_variants_that_are_not_separable_from_the_best_are_marked():
    tuning = product_tuning()
    marked = {shown["separable"] for shown in tuning.to_dict()["variants"]}
    assert marked == {v.is_separable(tuning.best) for v in tuning.variants}
    close = [v for v in tuning.variants[1:] if not v.is_separable(tuning.best)]
    assert (f"not separable from the first line ({len(close)})" in str(tuning)) is bool(close)
