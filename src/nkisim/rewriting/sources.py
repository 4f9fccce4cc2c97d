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
from collections.abc import Container, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import BinaryIO, NamedTuple

from nkisim.files import write_whole


class SourceError(Exception):
    """A source file cannot be read or written; the message is the reason."""


class SourceText(NamedTuple):
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


_DRAFTS: dict[str, str] = {}
"""The text of each draft, by the resolved path of its file."""


@contextlib.contextmanager
def drafts(sources: Mapping[Path, SourceText]) -> Iterator[None]:
    """Put texts in place of files for the duration of a context.

    They apply to source that is read with ``linecache`` and to imports, also to those by other
    files.
    """
    given = {str(path.resolve()): source for path, source in sources.items()}
    modules = _modules_of(given)
    _DRAFTS.update({file: source.text for file, source in given.items()})
    for file, source in given.items():
        lines = io.StringIO(source.text, newline=None).readlines()
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        # An entry without a time is not compared with the file.
        linecache.cache[file] = (len(source.text), None, lines, file)
    try:
        with compiled(_DRAFTS):
            yield
    finally:
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


@contextlib.contextmanager
def compiled(files: Container[str]) -> Iterator[None]:
    """Import files from their text, or from its draft, and never from bytecode.

    Python's own import takes bytecode for a file of the same time and size, and bytecode that is
    marked as unchecked for any.
    """
    finder = _Finder(files)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class TextLoader(SourceFileLoader):
    """Loads a module from the text of its file, or from its draft, and never from bytecode."""

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the text."""
        draft = _DRAFTS.get(self.path)
        return self.source_to_code(self.get_data(self.path) if draft is None else draft, self.path)


class _Finder:
    """Finds the modules of some files."""

    def __init__(self, files: Container[str]) -> None:
        self._files = files

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin not in self._files:
            return None
        spec.loader = TextLoader(fullname, str(spec.origin))
        return spec
