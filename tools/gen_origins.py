#!/usr/bin/env python
"""Write the pages for those who come from SciPy and from the CUDA libraries.

    python tools/gen_origins.py [FOLDER]     default: docs/guides

A page is ``tools/origins/NAME.md`` with the tables of ``tools/origins/NAME.toml`` in place of its
marker. An entry of the file is ``"routines of the origin" = "name, name; note"``; without a name
the routine is not offered, for the reason in the note. Calls follow the functions' signatures.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT / "tools") not in sys.path:
    sys.path.append(str(ROOT / "tools"))

from markdown_text import join, table  # noqa: E402

FOLDER = ROOT / "tools" / "origins"
PAGES = {"scipy": "from-scipy.md", "cuda": "from-cuda-libraries.md"}
"""The page of each origin."""
MARKER = "<!-- routines -->"


class Entry(NamedTuple):
    """Routines of an origin with one answer."""

    routines: tuple[str, ...]
    names: tuple[str, ...]
    """Names of the suite or of torch; empty where the routines are not offered."""
    note: str

    @property
    def kind(self) -> str:
        """Return "ours", "torch's" or "not offered"."""
        if not self.names:
            return "not offered"
        return "torch's" if all(name.startswith("torch.") for name in self.names) else "ours"


def main(folder: Path = ROOT / "docs" / "guides") -> None:
    """Write all pages."""
    for origin, file in PAGES.items():
        (folder / file).write_text(page(origin), encoding="utf-8")
        print(f"{folder / file}: {summary(origin)}")


def page(origin: str) -> str:
    """Return the page of an origin."""
    tables = [f"{summary(origin)}."]
    for section, found in entries(origin).items():
        rows = ([_code(x.routines), _code(map(call, x.names)), x.note] for x in found)
        tables += [f"### {section}", table(["routine", "here", "note"], rows)]
    text = (FOLDER / f"{origin}.md").read_text(encoding="utf-8")
    return text.replace(MARKER, join(tables).rstrip())


def summary(origin: str) -> str:
    """Return how many routines have which kind of answer."""
    counts = dict.fromkeys(("ours", "torch's", "not offered"), 0)
    for entry in (entry for found in entries(origin).values() for entry in found):
        counts[entry.kind] += len(entry.routines)
    return f"{sum(counts.values())} routines: " + ", ".join(f"{n} {k}" for k, n in counts.items())


def entries(origin: str) -> dict[str, list[Entry]]:
    """Return the entries of an origin by section."""
    sections = tomllib.loads((FOLDER / f"{origin}.toml").read_text(encoding="utf-8"))
    return {
        section: [_entry(routines, answer) for routines, answer in rows.items()]
        for section, rows in sections.items()
    }


def _entry(routines: str, answer: str) -> Entry:
    names, _, note = answer.partition(";")
    return Entry(tuple(routines.split()), tuple(names.replace(",", " ").split()), note.strip())


def resolve(name: str) -> Any:
    """Return the object of a dotted name.

    Raises:
        ImportError, AttributeError: There is none.
    """
    module, *path = name.split(".")
    found = importlib.import_module(module)
    for depth, part in enumerate(path):
        if inspect.ismodule(found) and not hasattr(found, part):
            importlib.import_module(".".join([module, *path[: depth + 1]]))
        found = getattr(found, part)
    return found


def call(name: str) -> str:
    """Return the call of one of our functions; the names of torch as they are."""
    found = resolve(name)
    if name.startswith("torch.") or not callable(found) or isinstance(found, type):
        return name
    parameters = [x for x in inspect.signature(found).parameters.values() if x.name != "self"]
    required = [x for x in parameters if x.default is x.empty]
    shown = [str(x).split(":")[0] for x in required]
    return f"{name}({', '.join([*shown, *['…'] * (len(required) < len(parameters))])})"


def _code(texts: Iterable[str]) -> str:
    return ", ".join(f"`{text}`" for text in texts)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
