"""The table of tested versions, and what is claimed on its behalf."""

import datetime
import re
import sys
import tomllib
from pathlib import Path

import pytest

from scripts import loaded

ROOT = Path(__file__).parents[2]
TOOL = loaded(ROOT / "tools/tested_versions.py")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REPORT = '<testsuites><testsuite tests="9" skipped="2" failures="1" errors="1"/></testsuites>'


def row(tests, python="3.11.7", torch="none", numpy="2.0.0", scipy="1.13.0", failed="0"):
    return TOOL.Row(tests, python, torch, numpy, scipy, "5", "0", failed, "2026-01-02")


def daily():
    """Return the versions of ``make test`` as a row."""
    pins = dict(
        re.findall(r"^(torch|numpy|scipy)==(.*)$", (ROOT / "constraints.txt").read_text(), re.M)
    )
    return row("make test", "3.11", **pins)


def claims(rows, project, text):
    """Return what classifiers, floors and a page state that the rows do not show."""
    tested = {"{}.{}".format(*TOOL.number(r.python)) for r in rows}
    listed = {c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r":: 3\.\d", c)}
    wrong = [f"classifier {name}" for name in sorted(listed ^ tested)]
    wrong += [f"{r.failed} failed of {r.tests}" for r in rows if r.failed != "0"]
    if min(tested, key=TOOL.number) != project["requires-python"].removeprefix(">="):
        wrong.append(f"requires-python {project['requires-python']}")
    extras = project["optional-dependencies"]
    for requirement in [*project["dependencies"], *extras["torch"], *extras["dev"]]:
        name, _, floor = requirement.partition(">=")
        for oldest in (r for r in rows if r.tests == "all, oldest" and hasattr(r, name)):
            if TOOL.number(getattr(oldest, name)) != TOOL.number(floor):
                wrong.append(f"{requirement}, tested with {getattr(oldest, name)}")
    if TOOL.sentence(rows) not in " ".join(text.split()):
        wrong.append(f"README.md should say: {TOOL.sentence(rows)}")
    return wrong


ROWS = [
    row("make test", torch="2.13.0", numpy="2.4.6", scipy="1.17.1"),
    row("nkisim, 3.12", "3.12.1"),
    row("all, oldest", torch="2.11.0"),
    row("libraries, 2.15", "3.12.1", "2.15.0", "2.5.5", "1.18.1"),
]
CLAIMED = {
    "classifiers": [f"Programming Language :: Python :: {v}" for v in ("3", "3.11", "3.12")],
    "dependencies": ["numpy>=2.0", "rich>=13.0"],
    "optional-dependencies": {"torch": ["scipy>=1.13", "torch>=2.11"], "dev": ["torch>=2.11"]},
    "requires-python": ">=3.11",
}
SENTENCE = (
    "Tested with Python 3.11 to 3.12, torch 2.11 to 2.15, NumPy 2.0 to 2.5 and SciPy 1.13 to 1.18"
)


def test_claims_are_those_of_the_recorded_table():
    rows = [daily(), *TOOL.rows()]
    assert claims(rows, PROJECT, (ROOT / "README.md").read_text()) == []
    assert len(rows) > 1
    for each in rows:
        assert datetime.date.fromisoformat(each.date)
        assert int(each.passed) > 0


NEW = row("nkisim, 3.13", "3.13.0", failed="2")


@pytest.mark.parametrize(
    ("rows", "changed", "said"),
    [
        (ROWS, {}, []),
        ([*ROWS, NEW], {}, ["classifier 3.13", "2 failed of nkisim, 3.13"]),
        (ROWS[1::2], {}, ["classifier 3.11", "requires-python >=3.11"]),
        (ROWS, {"dependencies": ["numpy>=1.26"]}, ["numpy>=1.26, tested with 2.0.0"]),
        (ROWS, {"requires-python": ">=3.10"}, ["requires-python >=3.10"]),
    ],
)
def test_a_claim_that_no_row_shows_is_found(rows, changed, said):
    assert claims(rows, CLAIMED | changed, f"a\n{TOOL.sentence(rows)}.") == said


def test_the_sentence_has_the_ends_of_every_range():
    assert TOOL.sentence(ROWS) == SENTENCE
    assert claims(ROWS, CLAIMED, "nothing") == [f"README.md should say: {SENTENCE}"]


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setattr(TOOL, "PAGE", tmp_path / "versions.md")
    return tmp_path / "versions.md"


def test_a_page_is_read_as_it_was_written(page):
    page.write_text(TOOL.page(ROWS))
    assert sorted(TOOL.rows(), key=str) == sorted(ROWS, key=str)


def test_a_run_replaces_its_row_alone(page, tmp_path):
    page.write_text(TOOL.page([*ROWS, NEW]))
    (tmp_path / "result.xml").write_text(REPORT)
    TOOL.record("3.13", Path(sys.executable), tmp_path / "result.xml")
    (found,) = set(TOOL.rows()) - set(ROWS)
    outcome = (found.tests, found.passed, found.skipped, found.failed)
    assert outcome == ("nkisim, 3.13", "5", "2", "2")
    assert set(ROWS) < set(TOOL.rows())


def test_a_row_that_does_not_exist_is_refused():
    with pytest.raises(SystemExit, match=r"got '2\.16', accepted: 3\.11, .*, oldest, 2\.13"):
        TOOL.main(["2.16"])


def test_without_uv_nothing_is_said_of_the_machine(monkeypatch):
    monkeypatch.setitem(sys.modules, "uv", None)
    with pytest.raises(SystemExit, match="make test-versions"):
        TOOL.main(["3.11"])
