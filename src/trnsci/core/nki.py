"""The NKI namespace of the kernels: AWS's where it is installed, else nkisim's.

``from trnsci.core.nki import nki, nisa, nl, ncc`` imports NKI, so only kernel modules do; this is
the only module that binds either package. ``provider`` names the package without importing it.
AWS's counts when it has ``nki.isa`` and its distribution records a version of at least 0.3.0: the
``nki`` 0.0.1 of the public registry is an empty placeholder.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    ncc: Any
    nisa: Any
    nki: Any
    nl: Any

__all__ = ["has_aws_nki", "ncc", "nisa", "nki", "nl", "provider"]

Provider = Literal["aws", "nkisim"]

_MODULES = {"nki": "", "nisa": ".isa", "nl": ".language", "ncc": ".collectives"}
_LEAST = (0, 3)
_PACKAGE = "nki"


@cache
def has_aws_nki() -> bool:
    """Return whether ``import nki`` gives AWS's NKI 0.3.0 or later.

    False where ``nkisim.install()`` made ``nki`` importable, or replaced AWS's.
    """
    try:
        spec = find_spec(_PACKAGE)
        # The module of nkisim has no folder, so that no file is found there.
        folders = spec and spec.submodule_search_locations
        if not folders or PathFinder.find_spec(f"{_PACKAGE}.isa", folders) is None:
            return False
        return _release(version(_PACKAGE)) >= _LEAST
    except (PackageNotFoundError, ImportError, ValueError):
        return False


def provider() -> Provider:
    """Return the NKI implementation that kernels of this process import."""
    return "aws" if has_aws_nki() else "nkisim"


def _release(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version: ``0.3.0+g1`` gives ``(0, 3)``."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else ()


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    root = "nki" if has_aws_nki() else "nkisim"
    return import_module(root + _MODULES[name])
