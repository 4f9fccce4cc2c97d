"""Lazy attributes for the ``__init__`` of every library.

::

    set_backend, get_backend, backend = LIBRARY.set_backend, LIBRARY.get_backend, LIBRARY.backend
    __getattr__, __dir__ = surface(__name__, LIBRARY, {"plan_gemm": "trnblas.plans"})

adds ``HAS_NKI``, lazily imported names and a ``dir`` of the public names to the package. Names in
``__all__`` of its module ``published``, if there is one, can be imported from the package too, but
are neither in its ``__all__`` nor in its ``dir``: they serve code written for the published
libraries.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from trnsci.core.backend.library import Library

__all__ = ["surface"]


def surface(
    package: str, library: Library, lazy: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and the ``__dir__`` of a package.

    Args:
        package: Its ``__name__``.
        library: The library that provides ``has_nki`` for the package's ``HAS_NKI``.
        lazy: Module paths by lazy name. A name equal to the last part of its module path is the
            module itself; any other is an attribute of the module.
    """
    homes = {} if lazy is None else dict(lazy)

    def __getattr__(name: str) -> Any:
        if name == "HAS_NKI":
            return library.has_nki
        if name not in homes:
            return published_name(name)
        module = import_module(homes[name])
        return module if homes[name].rpartition(".")[2] == name else getattr(module, name)

    def published_name(name: str) -> Any:
        if not name.startswith("__") and find_spec(f"{package}.published") is not None:
            module = import_module(f"{package}.published")
            if name in module.__all__:
                return getattr(module, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        known = vars(sys.modules[package])
        special = {name for name in known if name.startswith("__")}
        modules = {
            name
            for name, value in known.items()
            if isinstance(value, ModuleType)
            and value.__name__ == f"{package}.{name}"
            and not name.startswith("_")
        }
        return sorted({*special, *modules, *homes, *known["__all__"]})

    return __getattr__, __dir__
