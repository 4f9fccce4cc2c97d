"""A copy of folders in which some files have other contents, to import files not yet written."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["overlay"]


@contextlib.contextmanager
def overlay(contents: Mapping[Path, bytes]) -> Iterator[dict[Path, Path]]:
    """Yield the place of each file in a temporary copy where the files have these contents.

    Other files of their folders and packages are links. So imports find the same modules as in the
    original place, but the given files with the given contents.
    """
    files = {path.resolve(): data for path, data in contents.items()}
    places: dict[Path, Path] = {}
    with tempfile.TemporaryDirectory(prefix="nkisim-") as name:
        for number, root in enumerate(sorted({_import_root(path) for path in files})):
            inside = {p: data for p, data in files.items() if _import_root(p) == root}
            copy = Path(name).resolve() / str(number)
            _fill(root, copy, inside)
            places |= {path: copy / path.relative_to(root) for path in inside}
        yield {path: places[path.resolve()] for path in contents}


def _import_root(path: Path) -> Path:
    """Return the folder that a file is imported from: above the packages that it is in."""
    root = path.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    return root


def _fill(folder: Path, copy: Path, files: Mapping[Path, bytes]) -> None:
    copy.mkdir(parents=True)
    for entry in folder.iterdir():
        if entry in files:
            (copy / entry.name).write_bytes(files[entry])
        elif any(entry in path.parents for path in files):
            _fill(entry, copy / entry.name, files)
        elif entry.name != "__pycache__":
            (copy / entry.name).symlink_to(entry)
