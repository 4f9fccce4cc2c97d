"""Predicted device times against published ones."""

import sys
from pathlib import Path

import numpy as np
import pytest

from scripts import loaded

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def calibrate():
    before = list(sys.path)
    yield loaded(ROOT / "tools/calibrate.py")
    sys.path[:] = before


def test_every_fourth_blocking_is_in_order(calibrate):
    found = calibrate.compare(list(calibrate.GRID[::4]))
    assert found.rank >= 0.8
    assert found.error <= 4
    assert found.regret <= 3


@pytest.mark.slow
def test_the_whole_grid(calibrate):
    found = calibrate.compare(list(calibrate.GRID))
    assert found.rank >= 0.8
    assert found.error <= 3
    assert found.regret <= 3


@pytest.mark.slow
def test_bytes_and_transfers_of_the_grid(calibrate):
    for row in calibrate.GRID:
        found, nbytes, transfers = calibrate.grid_prediction(row)
        if row.spills:
            assert found.spill_bytes > 0, row
        else:
            assert found.spill_bytes == 0, row
            assert nbytes / 1e6 == pytest.approx(row.megabytes, abs=0.06), row
            assert transfers == row.transfers, row
        assert nbytes / 1e6 >= 50.3


def test_rank_correlation_is_spearmans(calibrate):
    a = np.array([1.0, 2.0, 3.0, 4.0])
    assert calibrate.rank_correlation(a, a**3) == pytest.approx(1)
    assert calibrate.rank_correlation(a, -a) == pytest.approx(-1)
    # Ranks 1.5, 1.5, 3, 4 against 1, 2, 3, 4.
    tied = np.array([0.0, 0.0, 5.0, 9.0])
    assert calibrate.rank_correlation(a, tied) == pytest.approx(4.5 / np.sqrt(5 * 4.5))


def test_the_page_has_the_present_constants(calibrate):
    text = calibrate.PAGE.read_text(encoding="utf-8")
    assert text.endswith("\n".join(calibrate.constants_table()) + "\n"), (
        "run `python tools/calibrate.py --write`"
    )
