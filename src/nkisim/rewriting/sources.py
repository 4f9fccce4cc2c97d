"""Source files: read, written whole, and replaced in memory by drafts.

Reading and writing keep declared encodings and byte order marks. Drafts are checked and imported in
place of files, which stay as they are.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import linecache
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
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


_DRAFTS: dict[str, bytes] = {}
"""The contents of each draft, by the resolved path of its file."""


@contextlib.contextmanager
def drafts(sources: Mapping[Path, SourceText]) -> Iterator[None]:
    """Put texts in place of files for the duration of a context.

    They apply to source that is read with ``linecache`` and to imports, also to those by other
    files.
    """
    given = {str(path.resolve()): source for path, source in sources.items()}
    modules = _modules_of(given)
    _DRAFTS.update({file: source.encoded() for file, source in given.items()})
    for file, source in given.items():
        lines = io.StringIO(source.text, newline=None).readlines()
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        # An entry without a time is not compared with the file.
        linecache.cache[file] = (len(source.text), None, lines, file)
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for file in given:
            del _DRAFTS[file]
            linecache.cache.pop(file, None)
        _modules_of(given)
        sys.modules.update(modules)


def _modules_of(files: Mapping[str, SourceText]) -> dict[str, ModuleType]:
    """Remove the imported modules of files, and return them by name."""
    found = {n: m for n, m in sys.modules.items() if getattr(m, "__file__", None) in files}
    for name in found:
        del sys.modules[name]
    return found


class _Loader(SourceFileLoader):
    """Loads a module from the draft of its file."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(_DRAFTS[self.path], self.path)


class _Finder(MetaPathFinder):
    """Finds the modules whose files have drafts."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        loader = None if spec is None else draft_loader(fullname, spec.origin or "")
        if spec is None or loader is None:
            return None
        spec.loader = loader
        return spec


def draft_loader(name: str, file: str) -> SourceFileLoader | None:
    """Return the loader of a module whose file has a draft, None for other files."""
    return _Loader(name, file) if file in _DRAFTS else None
