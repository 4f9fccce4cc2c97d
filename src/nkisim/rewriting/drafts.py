"""Drafts: texts that are checked and imported in place of files, which stay as they are."""

from __future__ import annotations

import contextlib
import io
import linecache
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from nkisim.rewriting.sources import SourceText

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
