import gc
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

import drawn
import each_case
from scripts import loaded

SKIPPED_CASES = "skipped cases"
EXAMPLES = Path(__file__).parents[1] / "examples"

# The same examples in every run and on every worker, no time limit on a loaded machine, and no
# database: a test leaves no files behind.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.register_profile("fewer", settings.get_profile("repeatable"), max_examples=40)


def pytest_addoption(parser):
    """Add ``--case``, which selects cases of ``each_case`` by a part of their names."""
    parser.addoption("--case", default="", metavar="NAME", help="run cases with NAME in their name")


def pytest_configure(config):
    """Try 40 examples of a property, 100 together with the slow tests, where it says no number."""
    fewer = config.option.markexpr == "not slow"
    settings.load_profile("fewer" if fewer else "repeatable")
    drawn.SHARE = 0.5 if fewer else 1.0
    each_case.SELECTED = config.getoption("--case")


def pytest_fixture_setup(fixturedef, request):
    """Refuse a fixture by which the cases of ``each_case`` would share a folder."""
    test = getattr(request.node, "function", None)
    each_case.refuse_shared_folder(test, fixturedef.argname, fixturedef.argnames)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Record the cases that a test skips although it runs others."""
    each_case.SKIPPED.clear()
    try:
        return (yield)
    finally:
        if each_case.SKIPPED:
            item.user_properties.append((SKIPPED_CASES, len(each_case.SKIPPED)))


def pytest_terminal_summary(terminalreporter):
    """Show how many cases were skipped in tests that were not."""
    reports = [r for r in terminalreporter.getreports("passed") if r.when == "call"]
    found = [n for r in reports for name, n in r.user_properties if name == SKIPPED_CASES]
    if found:
        terminalreporter.write_line(f"{sum(found)} {SKIPPED_CASES} in {len(found)} tests")


# What numba kept of a module is not to be trusted after a change of another that it uses, so tests
# compile anew, once for all workers. The folder goes when the process does that made it.
# ``tools/check`` names a folder for the sources of today.
if "NUMBA_CACHE_DIR" not in os.environ:
    _compiled = TemporaryDirectory()
    os.environ["NUMBA_CACHE_DIR"] = _compiled.name


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep the collector of garbage away from the tests: they live on, millions of objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def every_cause_is_new():
    """Warn about each fallback and refusal in every test, whatever the tests before it did."""
    reports = sys.modules.get("trnsci.core.backend.fallback")
    if reports is not None:
        reports.forget_causes()


@pytest.fixture
def load_example(monkeypatch):
    """A function from the name of a script to its module; neighbours import as for Python."""
    monkeypatch.syspath_prepend(EXAMPLES)
    before = set(sys.modules)
    yield lambda name: loaded(EXAMPLES / name)
    # The neighbours are forgotten: tests share sys.modules, and "softmax" is a common name.
    for path in EXAMPLES.glob("*.py"):
        if path.stem not in before:
            sys.modules.pop(path.stem, None)
