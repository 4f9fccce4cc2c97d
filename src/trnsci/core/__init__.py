"""The shared core of the six libraries: backends, kernel launches, plans, errors."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trnsci.core.backend.device import from_device, to_device
    from trnsci.core.backend.explanation import explain

__all__ = ["explain", "from_device", "to_device"]

_HOMES = {
    "explain": "backend.explanation",
    "from_device": "backend.device",
    "to_device": "backend.device",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'trnsci.core' has no attribute {name!r}")
    return getattr(import_module(f"trnsci.core.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
