"""The NKI namespace of the kernels: AWS's where it is installed, else nkisim's.

This is the only module that binds either. Importing it imports NKI, so only kernel modules do.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from trnsci.core.provider import provider

__all__ = ["ncc", "nisa", "nki", "nl"]

_ROOT = {"aws": "nki", "nkisim": "nkisim"}[provider()]

nki: Any = import_module(_ROOT)
nisa: Any = import_module(f"{_ROOT}.isa")
nl: Any = import_module(f"{_ROOT}.language")
ncc: Any = import_module(f"{_ROOT}.collectives")
