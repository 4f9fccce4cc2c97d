"""Optional packages, and the extras of the distribution that install them."""

from __future__ import annotations

from typing import Any

import click

_EXTRAS = {
    "cotengra": "path",
    "matplotlib": "plot",
    "numba": "fast",
    "opt_einsum": "torch",
    "pyamg": "amg",
    "pyscf": "pyscf",
    "scipy": "torch",
    "torch": "torch",
}


def install_hint(package: str) -> str:
    """Return the command that installs an optional package."""
    return f"pip install 'nkisim[{_EXTRAS[package]}]'"


def not_installed(package: str) -> click.ClickException:
    """Return the error of a command that needs an optional package."""
    return click.ClickException(f"{package} is not installed: {install_hint(package)}")


class Commands(click.Group):
    """A group whose commands end with a hint if an optional package is not installed."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package not in _EXTRAS:
                raise
            raise not_installed(package) from error
