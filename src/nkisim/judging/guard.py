"""An audit hook that ends a child process when untrusted code does what a kernel has no need of.

It protects the user's files from mistakes of a program that writes kernels; no verdict depends on
it.

Python raises an audit event before it opens a file, starts a process or loads a library, and calls
the hook with it. An audit hook cannot be removed. To refuse an event, the hook sends the reason and
ends the process at once: an exception could be caught. Actions without an audit event are not seen;
see SECURITY.md.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np
import threadpoolctl

from nkisim.trials.editions import EDITED

_ALWAYS = ("os.", "subprocess.", "socket.", "shutil.", "pty.", "mmap.", "fcntl.", "signal.")
_HARMLESS = frozenset({"os.listdir", "os.scandir", "os.putenv", "os.unsetenv", "os.fspath"})
_BY_CALLER = ("ctypes.", "gc.", "sys.", "_thread.", "marshal.")
_AT_ONCE = ("object.__", "compile", "exec", "code.__new__", "function.__new__")
_PERMITTED = ("sys._getframe", "sys._getframemodulename")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_IMPORTING = "<frozen importlib"  # which reads the bytecode of a library that a kernel imports
_TRUSTED = (_PACKAGE, os.path.abspath(threadpoolctl.__file__), _IMPORTING)
_LIBRARY = tuple(
    os.path.realpath(path) + os.sep
    for path in (
        os.path.dirname(os.__file__),
        os.path.dirname(os.path.dirname(np.__file__)),
        _PACKAGE,
    )
)


class Guard:
    """The audit hook of one child process.

    Args:
        folder: The folder whose code is not trusted, and which that code may read; edited kernels
            are not trusted either.
        refuse: Sends the text, the file and the line of a refusal.
    """

    def __init__(self, folder: Path, refuse: Callable[[str, str, int], None]) -> None:
        self._folder = os.path.realpath(folder) + os.sep
        self._refuse = refuse
        self._kinds: dict[str, str] = {}
        self._untrusted: dict[str, bool] = {}
        self._busy = threading.local()

    def begin(self) -> None:
        """Install the audit hook, which stays to the end of the process."""
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        kind = self._kinds.get(event)
        if kind is None:
            kind = self._kinds[event] = _kind(event)
        if not kind or getattr(self._busy, "now", False):
            return
        self._busy.now = True
        try:
            caller = _caller()
            if kind == "open":
                if not self._may_open(*arguments):
                    self._end(f"opens {arguments[0]!r}", caller)
            elif kind == "import":
                # Machine code has a file name; no other event of an import has one.
                file = arguments[1]
                if file is not None and not _source_of(file).startswith(_LIBRARY):
                    self._end(f"loads {file!r}", caller)
            elif kind == "always" or self._is_theirs(kind, caller):
                first = f" {arguments[0]!r}" if arguments else ""
                self._end(f"calls {event}{first}"[:200], caller)
        finally:
            self._busy.now = False

    def _may_open(self, path: Any, mode: Any = "r", flags: int = 0, *_: Any) -> bool:
        if not isinstance(path, (str, bytes)) or flags & _WRITES:
            return False
        if isinstance(mode, str) and set(mode) & set("wax+"):
            return False
        return _source_of(os.fsdecode(path)).startswith((*_LIBRARY, self._folder))

    def _is_theirs(self, kind: str, frame: FrameType | None) -> bool:
        """Return whether the untrusted code asks for it, directly or through a library."""
        while frame is not None:
            file = frame.f_code.co_filename
            if self._is_untrusted(file):
                return True
            if kind == "at once" or file.startswith(_TRUSTED):
                return False
            frame = frame.f_back
        return False

    def _is_untrusted(self, file: str) -> bool:
        found = self._untrusted.get(file)
        if found is None:
            theirs = file.startswith(EDITED) or os.path.realpath(file).startswith(self._folder)
            found = self._untrusted[file] = theirs
        return found

    def _end(self, what: str, frame: FrameType | None) -> NoReturn:
        while frame is not None and not self._is_untrusted(frame.f_code.co_filename):
            frame = frame.f_back
        place = ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
        self._refuse(what, *place)
        os._exit(70)


def root_of(file: Path) -> Path:
    """Return the folder from which a file is imported: the one around its packages."""
    root = file.resolve().parent
    while (root / "__init__.py").is_file():
        root = root.parent
    return root


def _kind(event: str) -> str:
    """Return how an event is judged; empty for one that everybody may cause."""
    if event in ("open", "import"):
        return event
    if event in _HARMLESS or event in _PERMITTED:
        return ""
    if event.startswith(_ALWAYS):
        return "always"
    if event.startswith(_AT_ONCE):
        return "at once"
    return "by caller" if event.startswith(_BY_CALLER) else ""


def _source_of(file: str) -> str:
    """Return a file, or the source file of bytecode, without links."""
    with contextlib.suppress(ValueError):
        file = importlib.util.source_from_cache(file)
    return os.path.realpath(file)


def _caller() -> FrameType | None:
    """Return the frame that caused the event: the one that called the hook."""
    frame = inspect.currentframe()
    for _ in ("this function", "the hook"):
        frame = frame and frame.f_back
    return frame
