"""An audit hook that ends a child process when a kernel's file does what kernels have no need of.

It protects the user's files from mistakes of a program that writes kernels. It is no sandbox, and
no verdict depends on it; see SECURITY.md. Python raises an audit event before it opens a file,
starts a process or loads a library. To refuse one, the hook sends the reason and ends the process
at once: an exception could be caught.
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

_REFUSED = ("os.", "subprocess.", "socket.", "shutil.", "pty.", "mmap.", "fcntl.", "signal.")
_HARMLESS = frozenset({"os.listdir", "os.scandir", "os.putenv", "os.unsetenv", "os.fspath"})
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_LIBRARY = tuple(
    os.path.realpath(path) + os.sep
    for path in (
        os.path.dirname(os.__file__),
        os.path.dirname(os.path.dirname(np.__file__)),
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    )
)


class Guard:
    """The audit hook of one child process.

    Args:
        folder: The folder of the kernel's file, whose code may read what is in it.
        refuse: Sends the text, the file and the line of a refusal.
    """

    def __init__(self, folder: Path, refuse: Callable[[str, str, int], None]) -> None:
        self._folder = os.path.realpath(folder) + os.sep
        self._refuse = refuse
        self._busy = threading.local()

    def begin(self) -> None:
        """Install the audit hook, which stays to the end of the process."""
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("open", "import") and not event.startswith(_REFUSED):
            return
        if event in _HARMLESS or getattr(self._busy, "now", False):
            return
        self._busy.now = True
        try:
            if event == "open":
                if not self._may_open(*arguments):
                    self._end(f"opens {arguments[0]!r}")
            elif event == "import":
                # Machine code has a file name; no other event of an import has one.
                file = arguments[1]
                if file is not None and not _source_of(file).startswith(_LIBRARY):
                    self._end(f"loads {file!r}")
            else:
                first = f" {arguments[0]!r}" if arguments else ""
                self._end(f"calls {event}{first}"[:200])
        finally:
            self._busy.now = False

    def _may_open(self, path: Any, mode: Any = "r", flags: int = 0, *_: Any) -> bool:
        if not isinstance(path, (str, bytes)) or flags & _WRITES:
            return False
        if isinstance(mode, str) and set(mode) & set("wax+"):
            return False
        return _source_of(os.fsdecode(path)).startswith((*_LIBRARY, self._folder))

    def _is_below(self, file: str) -> bool:
        return os.path.realpath(file).startswith(self._folder)

    def _end(self, what: str) -> NoReturn:
        frame: FrameType | None = inspect.currentframe()
        while frame is not None and not self._is_below(frame.f_code.co_filename):
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


def _source_of(file: str) -> str:
    """Return a file, or the source file of bytecode, without links."""
    with contextlib.suppress(ValueError):
        file = importlib.util.source_from_cache(file)
    return os.path.realpath(file)
