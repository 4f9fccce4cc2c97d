"""Ten right kernels, ten illegal ones, ten that are legal and wrong; ``-s`` prints the seconds."""

import pytest

from .judged import RIGHT, verdict_of
from .mistakes import ILLEGAL, LOGIC, edited
from .references import REFERENCES, ROWS, SHAPES


def shapes_of(name, mistake=""):
    return "x=f32[256,64]" if mistake == "256 partitions" else SHAPES.get(name, ROWS)


def shown(what, verdict):
    kind = verdict.faults[0].kind if verdict.faults else ""
    print(f"{what:<50}{verdict.outcome:<9}{kind:<8}{verdict.seconds:5.1f} s")


@pytest.mark.slow
@pytest.mark.parametrize("name", REFERENCES)
def test_a_right_kernel_passes(name, tmp_path):
    verdict = verdict_of(tmp_path, RIGHT, name, REFERENCES[name], shapes_of(name))
    shown(name, verdict)
    assert (verdict.outcome, verdict.status, verdict.error) == ("right", 0, None), verdict
    assert verdict.latency_us > 0


@pytest.mark.slow
@pytest.mark.parametrize("what", ILLEGAL)
def test_an_illegal_kernel_is_refused(what, tmp_path):
    name = ILLEGAL[what][0]
    text = edited(RIGHT, ILLEGAL[what])
    verdict = verdict_of(tmp_path, text, name, REFERENCES[name], shapes_of(name, what))
    shown(what, verdict)
    assert (verdict.outcome, verdict.status) == ("refused", 1), verdict
    assert not verdict.to_dict()["legal"]["passed"]
    assert verdict.faults[0].kind in {finding["rule"] for finding in verdict.findings}


@pytest.mark.slow
@pytest.mark.parametrize("what", LOGIC)
def test_a_mistake_in_logic_is_wrong(what, tmp_path):
    name = LOGIC[what][0]
    verdict = verdict_of(
        tmp_path, edited(RIGHT, LOGIC[what]), name, REFERENCES[name], shapes_of(name)
    )
    shown(what, verdict)
    assert (verdict.outcome, verdict.status) == ("wrong", 1), verdict
    parts = verdict.to_dict()
    assert parts["legal"]["passed"]
    assert not parts["right"]["passed"]
    worst = verdict.cases[-1].worst
    lines = (tmp_path / "cheat.py").read_text().splitlines()
    assert "nisa.dma_copy(dst=out" in lines[worst["line"] - 1]


def test_one_of_each(tmp_path):
    right = verdict_of(tmp_path, RIGHT, "softmax", REFERENCES["softmax"], ROWS, shapes=False)
    assert right.passed, right
    mistake = LOGIC["softmax without the maximum"]
    wrong = verdict_of(tmp_path, edited(RIGHT, mistake), "softmax", REFERENCES["softmax"], ROWS)
    assert wrong.outcome == "wrong"
    assert "large values" in wrong.error
    illegal = edited(RIGHT, ILLEGAL["an instruction on HBM"])
    assert (
        verdict_of(tmp_path, illegal, "softmax", REFERENCES["softmax"], ROWS).outcome == "refused"
    )
