"""Cheats and forgeries gain nothing, and unusual kernels that are right pass."""

import json

import numpy as np
import pytest

import nkisim
from nkisim.judging import Settings, verdict_on

from .cheats import CHEATS, SLOWER
from .forgeries import AS_IT_IS, FORGERIES, HONEST, NO_VERDICT
from .judged import KERNELS, QUICK, RIGHT, verdict_of
from .references import ROWS, matmul

SHAPES = "a=f32[256,64] b=f32[256,128]"
QUICKER = {"hostile": False, "shapes": False}
#: Cheats that other shapes or hostile values find.
ELSEWHERE = (
    "a cache between calls",
    "right at the given shapes",
    "large values clamped",
    "a narrower type inside",
)

UNUSUAL = {
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
    assert len(FORGERIES) >= 30
    assert len(UNUSUAL) == 8


@pytest.fixture(scope="module")
def true(tmp_path_factory):
    """Verdict on the kernel that cheats and forgeries pretend to be."""
    folder = tmp_path_factory.mktemp("honest")
    return verdict_of(folder, RIGHT + AS_IT_IS, "cheat", matmul, SHAPES, **QUICKER)


def results(verdict):
    """What the program of a verdict computes for values that are drawn here."""
    rng = np.random.default_rng(5)
    a, b = (rng.uniform(-1, 1, (256, n)).astype(np.float32) for n in (64, 128))
    (program,) = verdict.programs.values()
    return nkisim.simulate(nkisim.Program.load(program))(a=a, b=b)


# One of each fate, and those whose forged answers the parent reads; the others are slow.
FAST = (
    "a cache between calls",
    "an output that may hold the answer",
    "the input changed",
    "values read while tracing",
    "a shell",
    "an answer of no time",
    "the run replaced",
    "functions of a later version",
    "smaller arguments than asked for",
    "findings that are no errors",
    "results that are remembered",
)
ALL = CHEATS | FORGERIES
NAMES = [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in ALL]


@pytest.mark.parametrize("name", NAMES)
def test_a_cheat_gains_nothing(name, true, tmp_path):
    fate, text = ALL[name]
    limits = {"seconds": 8.0} if fate == "time" else {}
    shapes = [] if "nkisim_examples" in text else [SHAPES]
    options = {} if name in ELSEWHERE else QUICKER
    verdict = verdict_of(tmp_path, RIGHT + text, "cheat", matmul, *shapes, limits=limits, **options)
    json.loads(verdict.to_json())
    if fate in (HONEST, SLOWER):
        assert verdict.passed, verdict
        assert verdict.cases[0].arguments == true.cases[0].arguments
        if fate == HONEST:
            assert verdict.fast == true.fast
            assert np.array_equal(results(verdict), results(true))
        else:
            assert verdict.latency_us >= true.latency_us
    else:
        assert verdict.fast is None
        if fate == NO_VERDICT:
            assert (verdict.outcome, verdict.status) == (NO_VERDICT, 6), verdict
            assert verdict.unheld
        else:
            assert verdict.faults[0].kind == fate, verdict
            assert verdict.status == (5 if fate == "time" else 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cheat.py", "reference.py"]


@pytest.mark.slow
@pytest.mark.parametrize("name", UNUSUAL)
def test_an_unusual_kernel_passes(name):
    reference, shapes = UNUSUAL[name]
    cases = [shapes] if shapes else []
    verdict = verdict_on(KERNELS / "honest.py", name, reference, Settings(**QUICK), cases)
    assert verdict.passed, verdict
    assert sum(case.counted for case in verdict.cases) >= 9
