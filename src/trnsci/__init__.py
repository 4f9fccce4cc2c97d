"""trnsci: the shared core of the six libraries, and their command line.

Part of the distribution ``nkisim``, like the libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trnsci.core.backend.precision import get_precision, precision, set_precision

__version__ = "0.1.0"

__all__ = ["get_precision", "precision", "set_precision"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'trnsci' has no attribute {name!r}")
    # Imported here because it needs torch, and the command line must start without it.
    from trnsci.core.backend import precision as ladder

    return getattr(ladder, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
