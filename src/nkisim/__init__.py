"""nkisim: NKI kernels on any CPU.

Submodules are imported on first use, so that importing the package is free.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nkisim import collectives, isa, language, typing
    from nkisim.api import check, check_source, jit, simulate
    from nkisim.diagnostics import Finding, NkiFindingWarning, NkiValidationError, Report
    from nkisim.judging import judge
    from nkisim.options import SimOptions
    from nkisim.outlining import Outline, outline
    from nkisim.profiling import Profile, ProfileError, profile
    from nkisim.program import Program, record
    from nkisim.shim import install, uninstall
    from nkisim.trials.comparison import compare
    from nkisim.tuning import Tuning, tune

__version__ = "0.1.0"

__all__ = [
    "Finding",
    "NkiFindingWarning",
    "NkiValidationError",
    "Outline",
    "Profile",
    "ProfileError",
    "Program",
    "Report",
    "SimOptions",
    "Tuning",
    "check",
    "check_source",
    "collectives",
    "compare",
    "install",
    "isa",
    "jit",
    "judge",
    "language",
    "outline",
    "profile",
    "record",
    "simulate",
    "tune",
    "typing",
    "uninstall",
]

_HOMES = {
    "Finding": "diagnostics",
    "NkiFindingWarning": "diagnostics",
    "NkiValidationError": "diagnostics",
    "Outline": "outlining",
    "Profile": "profiling",
    "ProfileError": "profiling",
    "Program": "program",
    "Report": "diagnostics",
    "SimOptions": "options",
    "Tuning": "tuning",
    "check": "api",
    "check_source": "api",
    "compare": "trials.comparison",
    "install": "shim",
    "jit": "api",
    "judge": "judging",
    "outline": "outlining",
    "profile": "profiling",
    "record": "program",
    "simulate": "api",
    "tune": "tuning",
    "uninstall": "shim",
}
_MODULES = ("collectives", "isa", "language", "typing")


if not TYPE_CHECKING:  # lets type checkers report misspelt names

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"nkisim.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'nkisim' has no attribute {name!r}")
        value = getattr(import_module(f"nkisim.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
