"""Reads and writes source files: declared encodings, byte order marks, atomic replacement."""

from __future__ import annotations

import codecs
import io
import tokenize
from pathlib import Path
from typing import BinaryIO

from nkisim.files import write_whole

__all__ = ["read_source", "write_source"]


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

    def write(stream: BinaryIO) -> None:
        stream.write(data)

    write_whole(path, write)
