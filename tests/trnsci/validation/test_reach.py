"""The dtypes and levels at which the call of a case reaches its kernel."""

from __future__ import annotations

from each_case import each_case
from trnsci.core.backend.precision import LEVELS
from trnsci.core.counters import counts
from trnsci.validation.running import find_case, reach, reach_text


@each_case(
    "library, kernel, dtypes",
    [
        ("trnblas", "trsm", ["float16", "bfloat16", "float32", "complex64"]),
        ("trntensor", "contract", ["float16", "bfloat16", "float32", "complex64"]),
        ("trnfft", "rfft", ["float16", "bfloat16", "float32", "int64"]),  # of real operands
    ],
)
def test_reached_dtypes_are_those_that_the_operation_declares(library, kernel, dtypes):
    case = find_case(library, kernel)
    before = counts()
    reached = reach(library, case)
    assert not (counts() - before).launches
    assert list(reached) == list(LEVELS)
    assert reached["float32"] == dtypes


def test_a_kernel_that_the_case_launches_itself_is_reached_by_no_operands():
    assert reach("trnrand", find_case("trnrand", "philox_words")) == {}


@each_case(
    "reached, text",
    [
        ({}, "-"),
        ({level: [] for level in LEVELS}, "-"),
        ({level: ["float16", "float32"] for level in LEVELS}, "float16 float32"),
        ({"float32": ["float32"], "doublefloat": []}, "float32, not at doublefloat"),
        (
            {"bfloat16": ["float32"], "float32": ["float32"], "doublefloat": ["float64"]},
            "float32 at bfloat16, float32; float64 at doublefloat",
        ),
    ],
    ids=str,
)
def test_levels_are_named_where_they_differ(reached, text):
    assert reach_text(reached) == text
