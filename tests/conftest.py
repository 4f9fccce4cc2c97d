import gc
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

from scripts import loaded

EXAMPLES = Path(__file__).parents[1] / "examples"

# The same examples in every run and on every worker, no time limit on a loaded machine, and no
# database: a test leaves no files behind.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.register_profile("fewer", settings.get_profile("repeatable"), max_examples=40)


def pytest_configure(config):
    """Try 40 examples of a property, 100 together with the slow tests, where it says no number."""
    settings.load_profile("fewer" if config.option.markexpr == "not slow" else "repeatable")


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
