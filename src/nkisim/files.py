"""Files of users: the Python files of a folder, and files written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

PROGRAM_SUFFIX = ".json"
"""Suffix of files that commands read as saved programs."""


def python_files(path: Path, skipped: list[Path] | None = None) -> Iterator[Path]:
    """Yield a file itself, or the Python files of a folder without the hidden ones.

    Args:
        path: The file or folder.
        skipped: Gets what may have code and is not yielded: notebooks, and links that lead out of
            the folder. Without it, links to files are yielded.
    """
    if not path.is_dir():
        yield path
        return
    root = path.resolve()
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "__pycache__")
        if skipped is not None:
            skipped += (one for one in (Path(folder, f) for f in folders) if _leaves(one, root))
        for name in sorted(names):
            file = Path(folder, name)
            if name.startswith(".") or file.suffix not in (".py", ".ipynb"):
                continue
            if skipped is not None and (file.suffix == ".ipynb" or _leaves(file, root)):
                skipped.append(file)
            elif file.suffix == ".py":
                yield file


def _leaves(path: Path, folder: Path) -> bool:
    """Return whether a path is a link to something outside of a folder."""
    return path.is_symlink() and not path.resolve().is_relative_to(folder)


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raise unless a file can probably be written.

    Raises:
        OSError: The path is a folder, or its folder does not exist or is read-only.
    """
    if _is_special(path):
        return
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError("it is a folder")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist")
    written = target if target.exists() else target.parent
    if not os.access(written, os.W_OK):
        raise PermissionError(f"no permission to write {written}")


def write_whole(path: str | os.PathLike[str], write: Callable[[BinaryIO], None]) -> None:
    """Write a file through a temporary one next to it, so that it is complete or unchanged.

    A device or a pipe is written directly; a link keeps its target.

    Args:
        path: The file.
        write: Called with the open file.

    Raises:
        OSError: The file cannot be written; nothing is left of the attempt.
    """
    require_writable(path)
    if _is_special(path):
        with open(path, "wb") as stream:
            write(stream)
        return
    target = Path(os.path.realpath(path))
    mode = target.stat().st_mode if target.exists() else None
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        if mode is not None:
            os.chmod(part, stat.S_IMODE(mode))
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _is_special(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a device, a pipe or a socket, such as /dev/stdout."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text in UTF-8, whole or not at all.

    Raises:
        OSError: The file cannot be written.
    """

    def write(stream: BinaryIO) -> None:
        stream.write(text.encode("utf-8", "replace"))

    write_whole(path, write)


@contextmanager
def source_file(text: str) -> Iterator[Path]:
    """Write the text of a Python file to a temporary folder for the duration of a context."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder).resolve() / "source.py"
        file.write_bytes(text.encode())
        yield file
