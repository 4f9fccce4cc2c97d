"""``pytest --nkisim``: ``import nki`` in tests resolves to nkisim; findings can fail the run.

pytest loads this module in every run of an environment with nkisim installed, so it does nothing
and does not import the simulator unless the option is given.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator
from contextlib import ExitStack
from typing import Any

import pytest

_LEDGER = pytest.StashKey[Any]()
_MISSING = re.compile("No module named '(nki|torch_neuronx|torch_xla)'")
_HINT = (
    "`import nki` and `import torch_neuronx` resolve to nkisim with pytest --nkisim; for all runs "
    'of a project, put addopts = "--nkisim" under [tool.pytest.ini_options] in pyproject.toml'
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--nkisim`` and its options; ``--strict`` alone is pytest's own option."""
    group = parser.getgroup("nkisim")
    group.addoption(
        "--nkisim",
        action="store_true",
        default=False,
        help="make `import nki` resolve to nkisim during this run",
    )
    group.addoption(
        "--nkisim-strict",
        action="store_true",
        default=False,
        help="stop kernels at every finding of severity error",
    )
    group.addoption("--nkisim-target", default="", help="generation to run on, such as trn2")
    group.addoption("--nkisim-nki", default="", help="NKI version to judge by, such as 0.6")
    group.addoption(
        "--nkisim-report",
        default="",
        metavar="FILE",
        help="write the findings of all kernels: .json .sarif .html .txt",
    )
    group.addoption(
        "--nkisim-fail-on",
        choices=("error", "warning"),
        help="fail the run when a kernel has findings of this severity",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, Any, Any]:
    """Install before the first ``conftest.py`` is imported, which may import ``nki``."""
    if early_config.known_args_namespace.nkisim:
        _install_for_run(early_config, early_config.known_args_namespace)
    try:
        return (yield)
    except Exception as error:
        if _MISSING.search(str(error)):
            print(f"nkisim: {_HINT}", file=sys.stderr)
        raise


def pytest_configure(config: pytest.Config) -> None:
    """Install if the plugin was loaded too late for the hook above, as in a worker of xdist."""
    if config.getoption("nkisim"):
        _install_for_run(config, config.option)


def _install_for_run(config: pytest.Config, options: Any) -> None:
    """Install nkisim as ``nki`` until ``config`` is closed."""
    from nkisim import shim
    from nkisim.arch import resolve_target
    from nkisim.options import IGNORE_VARIABLE, STRICT_VARIABLE, TARGET_VARIABLE
    from nkisim.project import SettingsError, project_settings
    from nkisim.runs.process_ledger import REPORT_VARIABLE, open_ledger
    from nkisim.versions import NKI_VARIABLE, resolve

    shim.install()
    config.add_cleanup(shim.uninstall)
    try:
        project = project_settings(config.rootpath)
        if options.nkisim_target:
            resolve_target(options.nkisim_target)
        if options.nkisim_nki:
            resolve(options.nkisim_nki, "--nkisim-nki")
        if options.nkisim_report or options.nkisim_fail_on or REPORT_VARIABLE in os.environ:
            open_ledger(options.nkisim_report or os.environ.get(REPORT_VARIABLE, ""))
    except (SettingsError, ValueError) as error:
        raise pytest.UsageError(str(error)) from None
    _set(
        config, STRICT_VARIABLE, "1" if options.nkisim_strict else "", "1" if project.strict else ""
    )
    _set(config, TARGET_VARIABLE, options.nkisim_target)
    _set(config, NKI_VARIABLE, options.nkisim_nki, project.nki)
    _set(config, IGNORE_VARIABLE, "", ",".join(project.ignore))


def _set(config: pytest.Config, name: str, option: str, project: str = "") -> None:
    """Set an environment variable until ``config`` is closed; an option wins over the environment.

    The environment wins over the setting of a project.
    """
    from nkisim.options import variable_set

    value = option or ("" if name in os.environ else project)
    if value:
        stack = ExitStack()
        stack.enter_context(variable_set(name, value))
        config.add_cleanup(stack.close)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Merge the findings of this run and of its workers."""
    if not session.config.getoption("nkisim"):
        return
    from nkisim.runs.process_ledger import close_ledger

    ledger = close_ledger()
    fail_on = session.config.getoption("nkisim_fail_on")
    is_worker = hasattr(session.config, "workerinput")
    if ledger is None or is_worker:
        return
    session.config.stash[_LEDGER] = ledger
    if fail_on and ledger.fails(fail_on) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the findings; or how to set the option, where ``import nki`` failed without it."""
    ledger = config.stash.get(_LEDGER, None)
    if ledger is None:
        stats = terminalreporter.stats
        failed = [*stats.get("error", ()), *stats.get("failed", ())]
        if any(_MISSING.search(report.longreprtext) for report in failed):
            terminalreporter.write_line(f"nkisim: {_HINT}")
        return
    from nkisim.diagnostics.formats import ledger_text

    terminalreporter.section("nkisim")
    terminalreporter.write(ledger_text(ledger, terminalreporter.hasmarkup))
