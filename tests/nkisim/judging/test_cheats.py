"""Cheats do not pass, and unusual kernels that are right do."""

import numpy as np
import pytest

from nkisim.judging import Settings, verdict_on

from .cheats import CHEATS
from .judged import KERNELS, QUICK, RIGHT, verdict_of
from .references import ROWS, matmul

SHAPES = "a=f32[256,64] b=f32[256,128]"

HONEST = {
    "add_in_transfers": (lambda a, b: a + b, "a=f32[128,256] b=f32[128,256]"),
    "matmul_columns_first": (matmul, SHAPES),
    "matmul_in_halves": (matmul, SHAPES),
    "doubled_in_place": (lambda x: 2 * x, ROWS),
    "powers_of_two": (lambda x, count: x * 2.0**count, ""),
    "row_sum_by_product": (lambda x: x.sum(axis=1, keepdims=True), "x=f32[128,96]"),
    "scaled_on_two_cores[2]": (lambda x: 0.5 * x, "x=f32[512,64]"),
    "weighted": (lambda x: x * weights(x.shape[1]), ROWS),
}


def weights(columns):
    counts = np.diff([i * columns // 8 for i in range(9)])
    return np.repeat(np.linspace(1, 2, 8), counts)


def test_there_are_enough_of_both():
    assert len(CHEATS) >= 20
    assert len(HONEST) == 8


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_does_not_pass(name, tmp_path):
    fault, text = CHEATS[name]
    verdict = verdict_of(tmp_path, RIGHT + text, "cheat", matmul, SHAPES)
    assert not verdict.passed
    assert verdict.status == 1
    assert verdict.faults[0].kind == fault, verdict
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cheat.py", "reference.py"]


def test_what_the_cheats_are_made_of_is_right(tmp_path):
    assert verdict_of(tmp_path, RIGHT, "matmul", matmul, SHAPES).passed


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_an_unusual_kernel_passes(name):
    reference, shapes = HONEST[name]
    cases = [shapes] if shapes else []
    verdict = verdict_on(KERNELS / "honest.py", name, reference, Settings(**QUICK), cases)
    assert verdict.passed, verdict
    assert sum(case.counted for case in verdict.cases) >= 9
