"""When a fill that stands for minus infinity is taken down, and what is said of its NaN."""

from types import SimpleNamespace

import numpy as np
import pytest

import nkisim.language as nl
from nkisim.diagnostics import RECORDER, Place, Recorder
from nkisim.machine.calls.provenance import check_finite, note_mask_fill
from nkisim.machine.core import CORE

# The middle between the largest bfloat16 and what would come next rounds to infinity.
EDGE = np.float32((2 - 2**-8) * 2.0**127)
ABOVE = np.nextafter(-EDGE, np.float32(0))


def fills(arguments=(), result=None, dtype=nl.bfloat16, precise=True, before=()):
    core = SimpleNamespace(mask_fills=list(before))
    dst = SimpleNamespace(dtype=dtype, origin=SimpleNamespace(precise=precise))
    note_mask_fill(core, arguments, result, dst)
    return len(core.mask_fills)


def row(*values):
    return np.float32([[1, *values]])


def test_the_lowest_numbers_are_fills():
    assert fills(result=row(-EDGE)) == 1
    assert fills(result=row(ABOVE)) == 0
    assert fills(arguments=(float(-EDGE),)) == 1
    assert fills(arguments=(float(ABOVE),)) == 0
    assert fills(arguments=(1.0, -3.4e38, 2.0), result=row(0)) == 1


def test_infinity_is_none():
    assert fills(result=row(-np.inf)) == 0
    assert fills(arguments=(-np.inf,)) == 0
    assert fills(result=row(-np.inf, -3.4e38)) == 1


@pytest.mark.parametrize("dtype", [nl.float32, nl.float8_e5m2, nl.int32], ids=str)
def test_only_the_narrow_types_of_scores_count(dtype):
    assert fills(result=row(-3.4e38), dtype=dtype) == 0
    assert fills(result=row(-3.4e38), dtype=nl.float16) == 1
    assert fills(result=row(-3.4e38), precise=False) == 0


def test_the_first_is_enough():
    assert fills(result=row(-3.4e38), before=("here",)) == 1


def test_other_results_are_not_looked_at():
    assert fills(result=None) == 0
    assert fills(result=np.float32([])) == 0
    assert fills(result=np.float64([-3.4e38])) == 0


@pytest.fixture
def told():
    """What was found, and a core on which a fill became minus infinity."""
    recorder = Recorder("check")
    core = SimpleNamespace(mask_fills=[Place("file.py", 3)])
    tokens = RECORDER.set(recorder), CORE.set(core)
    yield lambda: [(f.rule.id, f.message, f.seen, f.notes) for f in recorder.findings]
    RECORDER.reset(tokens[0])
    CORE.reset(tokens[1])


def test_rows_with_nan_are_counted(told):
    infinite = np.full((3, 4), -np.inf, np.float32)
    result = np.zeros((3, 4), np.float32)
    result[1, 2:] = result[2, 0] = np.nan
    check_finite("exp", [infinite], result)
    text = "exp makes nan from infinities that the fill of a mask became"
    note = "the fill became -inf at file.py:3"
    assert told() == [("D031", text, "nan at (1, 2); 2 rows have NaN", (note,))]


def test_finite_numbers_owe_nothing_to_a_mask(told):
    check_finite("exp", [np.ones((3, 4), np.float32), 2.0], np.float32([[1, np.inf]]))
    assert told() == [("D042", "exp makes inf from finite inputs", "inf at (0, 1)", ())]


def test_lists_of_inputs_count_too(told):
    nan, result = np.float32([[np.nan]]), np.float32([[np.inf]])
    check_finite("dma_compute", [[nan, nan]], result)
    check_finite("dma_compute", [[nan]], (None, np.float32([[1.0]]), result))
    assert told() == []
    check_finite("dma_compute", [[np.float32([[1.0]])]], (None, np.float32([[1.0]]), result))
    assert [rule for rule, *_ in told()] == ["D042"]
