"""Reads and writes source files: declared encodings, byte order marks, atomic replacement."""

from __future__ import annotations

import codecs
import io
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nkisim.files import write_whole


class SourceError(Exception):
    """A source file cannot be read or written; the message is the reason."""


@dataclass(frozen=True)
class SourceText:
    """The contents of a source file.

    Attributes:
        text: Its text.
        encoding: The encoding of its bytes.
        mark: Its byte order mark, empty if it has none.
    """

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def encoded(self) -> bytes:
        """Return the bytes of the file."""
        return self.mark + self.text.encode(self.encoding.removesuffix("-sig"))


def read_source(path: Path) -> SourceText:
    """Return the contents of a file.

    Raises:
        SourceError: The file cannot be read, its declared encoding does not exist, or its bytes are
            not in the encoding that it declares.
    """
    try:
        data = path.read_bytes()
        mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return SourceText(data[len(mark) :].decode(encoding.removesuffix("-sig")), encoding, mark)
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror}") from error
    except SyntaxError as error:
        raise SourceError(f"cannot be read: {error.msg}") from error
    except UnicodeDecodeError as error:
        reason = f"not {error.encoding} text ({error.reason})"
        raise SourceError(f"cannot be read: {reason}") from error


def write_source(path: Path, source: SourceText) -> None:
    """Replace a file by new contents at once: it holds the old ones or the new, never a part.

    A symbolic link stays one: its target is replaced. Access rights stay.

    Raises:
        SourceError: The folder cannot be written to, or the text has characters that the file's
            encoding does not have.
    """

    def write(stream: BinaryIO) -> None:
        stream.write(data)

    try:
        data = source.encoded()
        write_whole(path, write)
    except OSError as error:
        reason = error.strerror or error
        raise SourceError(f"cannot be written, nothing was changed: {reason}") from error
    except UnicodeEncodeError as error:
        raise SourceError(f"cannot be written, nothing was changed: {error}") from error
