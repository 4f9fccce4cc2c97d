"""Reads and writes source files: declared encodings, byte order marks, atomic replacement."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import tempfile
import tokenize
from collections.abc import Iterator
from pathlib import Path

__all__ = ["python_files", "read_source", "write_source"]


def python_files(path: Path) -> Iterator[Path]:
    """Yield a file itself, or the Python files of a folder without the hidden ones."""
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "__pycache__")
        for name in sorted(names):
            if name.endswith(".py") and not name.startswith("."):
                yield Path(folder, name)


def read_source(path: Path) -> tuple[str, str, bytes]:
    """Return the text of a file, its encoding and its byte order mark.

    Raises:
        OSError: The file cannot be read.
        SyntaxError: Its declared encoding does not exist.
        UnicodeDecodeError: Its bytes are not in the encoding that it declares.
    """
    data = path.read_bytes()
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data[len(mark) :].decode(encoding.removesuffix("-sig")), encoding, mark


def write_source(path: Path, text: str, encoding: str, mark: bytes) -> None:
    """Replace a file by a new text at once: it holds the old text or the new one, never a part.

    A symbolic link stays one: its target is replaced. Access rights stay.

    Raises:
        OSError: The folder cannot be written to.
        UnicodeEncodeError: The text has characters that the file's encoding does not have.
    """
    data = mark + text.encode(encoding.removesuffix("-sig"))
    path = path.resolve()
    if not os.access(path, os.W_OK):
        raise PermissionError(13, "the file is read-only", str(path))
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, path.stat().st_mode & 0o7777)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
