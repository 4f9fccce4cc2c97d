"""docs/coverage.md is the coverage table of the sources."""

import sys
from pathlib import Path

import pytest

from trnsci.coverage import lines, render
from trnsci.coverage.survey import UNREPORTED

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "coverage.md"
PICTURE = ROOT / "docs" / "pictures" / "coverage.svg"
sys.path.append(str(ROOT / "tools"))

from gen_coverage import page, panel, picture  # noqa: E402


def check_reported(found):
    assert not [x for x in found if any(UNREPORTED in c.reasons for c in x.cells.values())]


@pytest.mark.slow
def test_the_page_is_current_and_every_call_reports_its_path():
    found = lines()
    assert PAGE.read_text() == page(found), "run `make docs`"
    assert PICTURE.read_text() == picture(found), "run `make docs`"
    check_reported(found)


def test_the_table_of_one_library_is_current():
    found = lines(["trnblas"])
    table = next(part for part in render(found, "md").split("\n\n") if part.startswith("| "))
    assert table in PAGE.read_text(), "run `make docs`"
    assert panel(found) in PICTURE.read_text(), "run `make docs`"
    check_reported(found)
