"""``pytest --nkisim``: test modules that say ``import nki`` get nkisim.

pytest loads this module in every run of an environment that has nkisim, so it does nothing, and
imports nothing of the simulator, unless the option is given.
"""

from __future__ import annotations

import pytest

__all__ = ["pytest_addoption", "pytest_configure", "pytest_load_initial_conftests"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--nkisim``."""
    parser.getgroup("nkisim").addoption(
        "--nkisim",
        action="store_true",
        default=False,
        help="make `import nki` resolve to nkisim during this run",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Install before the first ``conftest.py`` is imported, for it may import ``nki``."""
    if early_config.known_args_namespace.nkisim:
        _install_for_run(early_config)


def pytest_configure(config: pytest.Config) -> None:
    """Install where the plugin came too late for the hook above, as in a worker of xdist."""
    if config.getoption("nkisim"):
        _install_for_run(config)


def _install_for_run(config: pytest.Config) -> None:
    """Install nkisim as ``nki`` until ``config`` is done with."""
    from nkisim import shim

    shim.install()
    config.add_cleanup(shim.uninstall)
