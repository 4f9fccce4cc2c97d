"""docs/coverage.md is the coverage table of the sources."""

import sys
from pathlib import Path

from trnsci.coverage import lines
from trnsci.coverage.survey import UNREPORTED

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

from gen_coverage import page  # noqa: E402


def test_the_page_is_current_and_every_call_reports_its_path():
    found = lines()
    assert (ROOT / "docs" / "coverage.md").read_text() == page(found), "run tools/gen_coverage.py"
    unreported = [
        line for line in found if any(UNREPORTED in c.reasons for c in line.cells.values())
    ]
    assert not unreported
