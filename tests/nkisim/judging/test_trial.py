"""How a verdict is made, with children that answer in this process."""

import copy
import json
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import nkisim
from nkisim.judging import (
    Fault,
    Settings,
    Verdict,
    author,
    entry,
    judge,
    replaying,
    trial,
    verdict_on,
)
from nkisim.trials.references import Reference

from ...each_case import each_case
from .judged import QUICK, RIGHT
from .references import softmax

ONE = "@nki.jit\ndef cheat(x, idx=None, factor=2.0):\n"
ASKED = []
"""The messages to the children of the last verdict."""


class Here:
    """A child whose answers are computed in this process."""

    def __init__(self, module, limits, environment):
        self.answer = {"author": author, "replaying": replaying}[module.split(".")[-1]].answer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        author._LOADED.clear()

    def ask(self, message):
        ASKED.append(message)
        return self.answer(copy.deepcopy(message))


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """Returns the verdict on a kernel whose text a test writes."""
    monkeypatch.setattr(trial, "Child", Here)
    monkeypatch.setattr(author.Guard, "begin", lambda _: None)
    monkeypatch.delenv("NKISIM_SOURCE_RULES")
    file = tmp_path / "cheat.py"

    def run(text, reference, *cases, kernel="cheat", **settings):
        file.write_text(RIGHT + text)
        ASKED.clear()
        options = {**QUICK, "hostile": False, "shapes": False, **settings}
        return verdict_on(file, kernel, reference, Settings(**options), cases)

    with ExitStack() as kept:
        monkeypatch.setattr(author, "_KEPT", kept)
        yield run


def doubled(x, idx=None, factor=2.0):
    return factor * x


X = "x=f32[128,8]"
DOUBLED = ONE + "    return stored(nl.multiply(loaded(x), factor), x.dtype)\n"


def test_a_right_kernel_with_advice(judged):
    shapes = "x=f32[128,256]"
    found = judged("", softmax, shapes, kernel="softmax", advice=True, seed=3)
    assert (found.outcome, found.error, found.seed) == ("right", None, 3)
    fast, advice = found.fast, found.advice
    parts = [fast[name] for name in ("fixed_us", "of_shape_us", "of_kernel_us")]
    assert sum(parts) == pytest.approx(found.latency_us)
    assert min(parts) >= 0
    assert fast["of_shape_us"] <= fast["bound_us"]
    assert fast["least_bytes"] == 2 * 128 * 256 * 4
    assert (advice["kind"], advice["rule"]) == ("advice", "P010")
    assert advice["code"].startswith("--- ")
    assert f": to save {advice['gain_us']:.2f} us, " in advice["text"]
    assert judged("", softmax, shapes, kernel="softmax").advice is None


STOPS = ONE + "    assert x.shape[0] < 128, 'few rows'\n    return x\n"
UNLIKE = DOUBLED.replace("factor)", "factor + 1)")
RELU6 = ONE + "    return stored(nl.relu6(loaded(x)), x.dtype)\n"
UNWRITTEN = ONE + "    return stored(nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf), x.dtype)\n"
LARGE = ONE + "    return stored(nl.ndarray((256, 8), x.dtype, buffer=nl.sbuf), x.dtype)\n"
STORE = "    nisa.dma_copy(dst=out, src=tile)"


GATHER = ONE + (
    "    tile = nl.ndarray((idx.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)\n"
    "    pattern = [[x.shape[1], idx.shape[0]], [1, x.shape[1]]]\n"
    "    nisa.dma_copy(dst=tile, src=x.ap(pattern, vector_offset=nl.load(idx)))\n"
    "    return stored(tile, x.dtype)\n"
)
IN_PLACE = """
import nki.typing as nt

@nki.jit
def cheat(x: nt.mutable_tensor):
    nl.store(x, nl.multiply(nl.load(x), 2.0))
    return x
"""
EXAMPLES = """
import numpy as np

def nkisim_examples():
    return [(cheat, {"x": np.ones((128, 8), np.float32), "factor": 3.0})]
"""


@pytest.mark.parametrize(
    ("text", "outcome", "kind", "part", "advice", "cases"),
    [
        (STOPS, "wrong", "stopped", "few rows", "cheat.py:{line}: 'AssertionError: few rows", 0),
        (RELU6, "refused", "A025", "relu6", "write nl.minimum(nl.relu(a), 6.0)", 0),
        (UNWRITTEN, "refused", "M001", STORE, "line {line}: write the whole tile first", 1),
        (LARGE, "refused", "S001", "(256, 8)", "line {line}: tile the first dimension", 1),
        (UNLIKE, "wrong", "result", STORE, "cheat.py:{line}: as given: 1024 elements", 1),
        ("1 / 0\n" + DOUBLED, "refused", "import", "1 / 0", "ZeroDivisionError", 0),
        ("oh, def", "refused", "X002", "oh, def", "the file cannot be parsed", 0),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_wrong_is_said_with_its_place(text, outcome, kind, part, advice, cases, judged):
    found = judged(text, doubled, X, X, advice=True)
    line = (RIGHT + text).partition(part)[0].count("\n") + 1
    assert (found.outcome, len(found.cases), found.fast) == (outcome, cases, None)
    assert [(fault.kind, fault.line) for fault in found.faults] == [(kind, line)]
    assert advice.format(line=line) in found.advice["text"]
    assert found.advice["code"].strip() == (
        "return stored(nl.minimum(nl.relu(loaded(x)), 6.0), x.dtype)" if kind == "A025" else ""
    )
    notes = {"M001": found.error, "S001": found.error, "result": ""}
    assert [(c.passed, c.note) for c in found.cases] == [(False, notes.get(kind))] * cases


def test_several_calls_with_other_shapes(judged):
    """Each has its own programs and its own shapes; some of these are not counted."""

    def reference(x):
        return 2 * x if x.shape[1] > 1 else json.loads("y" * 300)

    text = DOUBLED.replace("    return", "    assert x.shape[0] > 1, 'rows'\n    return")
    wide = np.random.default_rng(0).uniform(-1, 1, (4, 6)).astype(np.float32)
    found = judged(text, reference, X, (wide,), shapes=True, hostile=True, seed=0)
    assert found.passed, found
    first, second = (message for message in ASKED if message.get("thorough"))
    assert np.array_equal(first["args"], [wide])
    assert second["kwargs"]["x"].shape == (128, 8)
    assert len(found.programs) == len({c.arguments for c in found.cases if "rows" not in c.note})
    assert [m["files"] for m in ASKED if "files" in m] == [[found.file]]
    notes = [case.note for case in found.cases if not case.counted]
    assert any(note.startswith("refused: 'AssertionError: rows at") for note in notes)
    refused = [note for note in notes if "reference" in note]
    assert {note[:28] for note in refused} == {"the reference refuses it: JS"}
    assert max(map(len, notes)) <= 200


def test_an_index_that_another_shape_has_not_is_not_counted(judged):
    idx = np.random.default_rng(0).permutation(128).astype(np.uint32).reshape(128, 1)
    given = {"x": np.ones((128, 8), np.float32), "idx": idx}
    found = judged(GATHER, lambda x, idx: x[idx[:, 0].astype(int) % len(x)], given, shapes=True)
    assert found.passed, found
    assert any("refused: 'M036" in case.note and not case.counted for case in found.cases)


def test_a_seed_is_drawn_unless_it_is_given(judged):
    seeds = [judged(DOUBLED, doubled, X, seed=seed).seed for seed in (0, None, None)]
    assert (seeds[0], len(set(seeds))) == (0, 3)


def test_where_arguments_come_from(judged):
    found = judged(DOUBLED, doubled)
    assert (found.outcome, found.seed) == ("nothing", 1)
    assert 'no arguments: give --shapes "x=' in found.advice["text"]
    found = judged(DOUBLED + EXAMPLES, doubled)
    assert (found.passed, found.cases[0].arguments) == (True, "x=float32[128,8], factor=3.0")
    x = np.ones((4, 2), np.float32)
    for case in ((x, None, 3.0), {"x": x, "factor": 3.0}, "x=f32[4,2] factor=3.0"):
        found = judged(DOUBLED + EXAMPLES, doubled, case)
        assert found.passed, found
        assert {"[4,2]" in c.arguments and "3.0" in c.arguments for c in found.cases} == {True}
    assert judged(DOUBLED, doubled, "", X).outcome == "nothing"
    with pytest.raises(TypeError, match="case: got list; accepted: a tuple or a dict"):
        judged(DOUBLED, doubled, [x])
    with pytest.raises(ValueError, match="reference: ZeroDivisionError"):
        judged(DOUBLED, lambda x: 1 / 0, X)


def test_kernels_are_named(judged, tmp_path):
    with pytest.raises(ValueError, match=r"kernel: name one of cheat.py: scale, add, relu"):
        judged("", doubled, kernel=None)
    file = tmp_path / "one.py"
    file.write_text("import nki\nimport nki.language as nl\n" + ONE + "    return x\n")
    assert judge(f"{file}", doubled)().kernel == "cheat"
    file.write_text("x = 1\n")
    with pytest.raises(ValueError, match=r"kernel: name one of one.py: none with @nki.jit"):
        judge(f"{file}::", doubled)()


def test_functions_are_judged_in_their_file(monkeypatch):
    given = []
    monkeypatch.setattr(entry, "verdict_on", lambda *call: given.append(call))
    for kernel, name in ((doubled, "doubled"), (nkisim.jit(doubled)[2], "doubled[2]")):
        judge(kernel, doubled, seconds=3, seed=5)(X)
        file, found, reference, settings, cases = given.pop()
        assert (file, found, reference, cases) == (Path(__file__), name, doubled, (X,))
        assert (settings.limits.seconds, settings.seed) == (3, 5)
    for kernel in (lambda x: x, partial(doubled, factor=3.0), eval("lambda x: x", {})):
        with pytest.raises(ValueError, match="is no function of a file"):
            judge(kernel, doubled)


def test_an_argument_may_change_if_it_is_returned(judged):
    other = IN_PLACE.replace("return x", "return stored(loaded(x), x.dtype)")
    assert judged(IN_PLACE, doubled, X).passed
    assert [fault.kind for fault in judged(other, doubled, X).faults] == ["input"]
    assert judged(other.replace("2.0", "1.0"), lambda x: x, X).passed


@each_case(
    "kinds, unheld, outcome",
    [
        ((), "", "nothing"),
        *[(kinds, "why", "no verdict") for kinds in ((), ("M001",))],
        (("M001", "time"), "why", "time"),
        (("input", "result", "stopped"), "", "wrong"),
        (("result", "M001"), "", "refused"),
    ],
)
def test_the_outcome_of_faults(kinds, unheld, outcome):
    found = Verdict(kernel="k", file="f.py", target="gen3", nki="0.3.0", seed=0, unheld=unheld)
    found.faults = [Fault(kind, "text") for kind in kinds]
    trial.Trial(found, Settings(), Reference(doubled)).decide()
    advice = {"kind": "fault", "text": "text", "code": ""} if kinds else None
    assert (found.outcome, found.advice) == (outcome, advice)
