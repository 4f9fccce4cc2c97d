"""Verdicts as text and as data."""

from dataclasses import FrozenInstanceError, fields

import pytest

from nkisim.judging.child import Limits
from nkisim.judging.settings import Settings
from nkisim.judging.verdict import CaseResult, Fault, Verdict

from ...each_case import each_case

KINDS = {"dtypes": ("float32", "int8"), "reference_dtypes": ("float32", "int32")}
RIGHT = CaseResult(
    "as given", "x", True, True, ulps=1.25, norm=2e-7, tolerated="within 1e-6", **KINDS
)
OTHER = CaseResult("127 in place of 128", "x", False, False, "refused: 'a'", ulps=99.0)
WORST = {"output": 1, "index": [2, 3], "got": 1.5, "expected": 2.0, "file": "f.py", "line": 9}
WRONG = CaseResult("zeros", "x", True, False, ulps=3e6, norm=0.5, worst=WORST)
TIMES = {"latency_us": 12.5, "interval_us": (10.0, 15.0), "widest": "fixed_us"}
BYTES = {"bound_by": "dma", "bound_share": 0.4, "hbm_bytes": 2048, "least_bytes": 1024}
ADVICE = {"kind": "advice", "text": "load once saves 2.00 us", "code": "- a\n+ b\n"}


def verdict(outcome, **values):
    given = {"kernel": "k", "file": "f.py", "target": "gen3", "nki": "0.3.0", "seed": 7}
    return Verdict(**given, **values, outcome=outcome)


def test_the_text_of_a_right_kernel():
    found = verdict("right", cases=[RIGHT, OTHER], fast=TIMES | BYTES, advice=ADVICE)
    assert str(found).splitlines() == [
        "k on gen3, NKI 0.3.0: right in 1 cases, at most 1.25 ulps from the reference; 12.5 us, "
        "40% of what is possible",
        "  dtypes      float32, int8; the reference's float32, int32",
        "  tolerance   within 1e-6",
        "  right       as given: 1.25 ulps, 2.0e-07 in norm",
        "  not counted 127 in place of 128: refused: 'a'",
        "  time        12.5 us (10.0 us to 15.0 us, most by fixed_us), bound by dma, 40% of the "
        "bound",
        "  bytes       2.0 KiB of HBM, at least 1.0 KiB",
        "  next        load once saves 2.00 us",
        "    - a",
        "    + b",
    ]
    assert (found.error, found.latency_us, found.to_dict()["latency_ms"]) == (None, 12.5, 0.0125)
    found = verdict("right", cases=[RIGHT], advice={**ADVICE, "code": None})
    assert found.summary.endswith("right in 1 cases, at most 1.25 ulps from the reference")
    assert str(found).endswith("next        load once saves 2.00 us\n")
    assert (found.latency_us, found.to_dict()["latency_ms"]) == (None, None)


def test_the_text_of_a_wrong_kernel():
    faults = [Fault("result", "zeros: off", "f.py", 9), *(Fault("input", str(i)) for i in range(9))]
    found = verdict("wrong", cases=[WRONG], faults=faults)
    assert str(found) == (
        "k on gen3, NKI 0.3.0: wrong, result: zeros: off (f.py:9)\n"
        "  input: 0\n  input: 1\n  input: 2\n  input: 3\n  input: 4\n"
        "  WRONG       zeros: 3e+06 ulps, 5.0e-01 in norm\n"
        "    output 1 at [2, 3] is 1.5 and not 2, written at f.py:9\n"
    )
    endless = {**WORST, "got": float("inf"), "expected": float("nan"), "file": ""}
    found = verdict("wrong", cases=[CaseResult("zeros", "", True, False, worst=endless)])
    assert str(found).endswith(" at [2, 3] is inf and not nan\n")
    worst = found.to_dict()["right"]["cases"][0]["worst"]
    assert (worst["got"], worst["expected"], worst["index"]) == ("inf", "nan", [2, 3])
    assert verdict("refused", unheld="why", faults=faults[1:]).error == "input: 0"
    assert verdict("no verdict", unheld="why").error == "why"
    assert str(verdict("nothing")) == "k on gen3, NKI 0.3.0: nothing was judged\n"


@each_case(
    "outcome, kind, legal, right, status",
    [
        ("right", "", True, True, 0),
        ("wrong", "slower", True, True, 1),
        *[("wrong", kind, True, False, 1) for kind in ("stopped", "input", "result")],
        *[("refused", kind, False, False, 1) for kind in ("M001", "import", "memory", "crash")],
        ("time", "time", False, False, 5),
        *[(outcome, "", False, False, n) for outcome, n in (("nothing", 3), ("no verdict", 6))],
    ],
)
def test_what_is_legal_and_right(outcome, kind, legal, right, status):
    found = verdict(outcome, faults=[Fault(kind, "")] if kind else [])
    data = found.to_dict()
    assert (data["legal"]["passed"], data["right"]["passed"]) == (legal, right)
    assert (found.status, data["passed"]) == (status, outcome == "right")
    assert (data["seed"], data["seconds"]) == (7, 0.0)


@each_case("value", [Settings(), Limits(), Fault("time", ""), RIGHT], ids=lambda v: str(type(v)))
def test_what_a_verdict_is_made_of_cannot_change(value):
    with pytest.raises(FrozenInstanceError):
        setattr(value, fields(value)[0].name, "other")
    assert not hasattr(value, "__dict__")


def test_settings_have_names_and_what_is_usual():
    for kind in (Settings, Limits):
        with pytest.raises(TypeError):
            kind("gen3")
    with pytest.raises(AttributeError):
        verdict("right").tolerence = 1
    usual, limits = Settings(), Limits()
    assert (usual.hostile, usual.shapes, usual.advice, usual.nonfinite) == (True, True, True, False)
    assert (limits.seconds, limits.memory, limits.files) == (120.0, 4 << 30, 64)
