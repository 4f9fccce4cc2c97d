"""Temporary import of a file as a module, with ``import nki`` resolving to nkisim."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from nkisim import shim

__all__ = ["CannotImport", "imported"]


class CannotImport(Exception):
    """A file cannot be imported, or its ``nkisim_examples`` is invalid."""


@contextlib.contextmanager
def imported(file: Path) -> Iterator[ModuleType]:
    """Import a file for the duration of a context; a file in a package as a submodule of it."""
    path, modules = list(sys.path), set(sys.modules)
    was_installed = shim.installed()
    shim.install()
    try:
        try:
            module = _module(file.resolve())
        except (Exception, SystemExit) as error:
            message = f"{file.name} cannot be imported: {type(error).__name__}: {error}"
            raise CannotImport(message) from error
        yield module
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            origin = getattr(sys.modules[name], "__file__", None)
            if origin is not None and Path(origin).is_relative_to(file.resolve().parent):
                del sys.modules[name]  # a file in another folder may have the same name
        if not was_installed:
            shim.uninstall()


def _module(file: Path) -> ModuleType:
    root, names = file.parent, [file.stem]
    while (root / "__init__.py").is_file():
        names.insert(0, root.name)
        root = root.parent
    sys.path.insert(0, str(root))
    name = ".".join(names)
    if len(names) > 1:
        return importlib.import_module(name)
    if name in sys.modules:
        name = f"{name}_checked"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
