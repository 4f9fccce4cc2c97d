"""Temporary import of a file as a module, and limits on instructions and time of its kernels."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import math
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from importlib.machinery import SOURCE_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import Any

from nkisim import shim
from nkisim.rewriting import TextLoader, compiled


class GaveUp(BaseException):
    """A kernel exceeded a limit; not caught by the user's ``except Exception``."""


def instruction_limit(most: int) -> Callable[[Any], None]:
    """Return a watcher that aborts a run after a number of instructions."""
    count = 0

    def watch(_: Any) -> None:
        nonlocal count
        count += 1
        if count > most:
            raise GaveUp(f"the limit of {most:,} instructions; --max-instructions sets another")

    return watch


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Context manager with a timeout; effective only in a main thread that has signals.

    An infinite one leaves the timer of the process as it is.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer") or math.isinf(seconds):
        yield
        return

    def give_up(*_: Any) -> None:
        raise GaveUp(f"the limit of {seconds:g} seconds; --max-seconds sets another")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class CannotImport(Exception):
    """A file cannot be imported.

    Attributes:
        line: The line of the file that raised, 1 if it is not known.
        is_broken: False where only a module of another package is missing.
    """

    def __init__(self, file: Path, error: BaseException) -> None:
        super().__init__(f"{file.name} cannot be imported: {type(error).__name__}: {error}")
        self.line = raising_line(error, str(file))
        name = getattr(error, "name", None) or ""
        own = name.partition(".")[0] == "nki"
        self.is_broken = own or not isinstance(error, ImportError)


def raising_line(error: BaseException, file: str) -> int:
    """Return the last line of a file in an exception's traceback, or 1."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return (lines[-1] if lines else None) or 1


@contextlib.contextmanager
def imported(file: Path, max_seconds: float) -> Iterator[ModuleType]:
    """Import a file for the duration of a context; a file in a package as a submodule of it.

    The text of the file is compiled, as it is what the checks read. No bytecode is written: Python
    would use it for a module of the same size that was saved again within a second.
    """
    path, modules = list(sys.path), set(sys.modules)
    writes_none = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    was_installed = shim.installed()
    shim.install()
    try:
        try:
            with time_limit(max_seconds), compiled({str(file.resolve())}):
                module = _module(file.resolve())
        except (Exception, SystemExit, GaveUp) as error:
            raise CannotImport(file, error) from error
        yield module
    finally:
        sys.dont_write_bytecode = writes_none
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
    if file.suffix not in SOURCE_SUFFIXES:
        raise ImportError(f"{file} is no Python file")
    loader = TextLoader(name, str(file))
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
