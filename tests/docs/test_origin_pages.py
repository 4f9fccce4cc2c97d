"""The pages of SciPy and of the CUDA libraries have every routine, and names that exist."""

import importlib
import sys
from collections import Counter
from pathlib import Path

import pytest
import scipy

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

from gen_origins import PAGES, entries, page, resolve  # noqa: E402

PINNED = next(
    line.removeprefix("scipy==").strip()
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line.startswith("scipy==")
)


@pytest.mark.parametrize("origin", PAGES)
def test_the_page_is_current(origin):
    assert (ROOT / "docs" / "guides" / PAGES[origin]).read_text() == page(origin), "run `make docs`"


@pytest.mark.parametrize("origin", PAGES)
def test_each_name_exists_and_each_refusal_has_a_reason(origin):
    for section, found in entries(origin).items():
        routines = Counter(name for entry in found for name in entry.routines)
        assert max(routines.values()) == 1, (section, routines.most_common(1))
        for entry in found:
            assert entry.names or entry.note, entry
            for name in entry.names:
                resolve(name)


@pytest.mark.parametrize("section", entries("scipy"))
def test_the_page_knows_every_routine(section):
    if scipy.__version__ != PINNED:
        pytest.skip(f"the page is of SciPy {PINNED}, this is {scipy.__version__}")
    module = importlib.import_module(section)
    public = {name for name in module.__all__ if callable(getattr(module, name))}
    assert {name for x in entries("scipy")[section] for name in x.routines} == public
