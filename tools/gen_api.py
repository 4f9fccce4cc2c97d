#!/usr/bin/env python
"""Write the API reference of all packages from signatures and docstrings.

One page per package: its public names in alphabetical order, classes with their public methods. The
pages are not part of the repository.

    python tools/gen_api.py [FOLDER]     FOLDER/api; default: docs
"""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT / "tools") not in sys.path:
    sys.path.append(str(ROOT / "tools"))

from nki_names import found_in, in_words, names_and_versions  # noqa: E402

PACKAGES = {
    "nkisim": "run, check and explain kernels",
    "nkisim.language": "`nki.language`, the names used in kernels",
    "nkitorch": "torch programs with NKI kernels",
    "trnblas": "BLAS, the role of cuBLAS",
    "trnblas.mp2": "MP2 correlation energies",
    "trnblas.nki": "functions named after its kernels",
    "trnfft": "transforms, the role of cuFFT",
    "trnfft.nki": "functions named after its kernels",
    "trnfft.nn": "complex layers",
    "trnrand": "random numbers, the role of cuRAND",
    "trnrand.qmc": "quasi-random points",
    "trnsolver": "factorizations and solvers, the role of cuSOLVER",
    "trnsolver.nki": "functions named after its kernels",
    "trnsparse": "sparse matrices, the role of cuSPARSE",
    "trnsparse.nki": "functions named after its kernels",
    "trntensor": "contractions and decompositions, the role of cuTENSOR",
    "trntensor.nki": "functions named after its kernels",
    "trnsci.core": "shared core of the libraries",
}

BY_VERSION = ("nkisim.language",)

SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Yields", "Example", "Examples")
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
FORWARD = re.compile(r"ForwardRef\(('[^']*')[^)]*\)")
QUOTED = re.compile(r"(: |-> )'([^']*)'")
FIELD = "Alias for field number"  # default docstring of NamedTuple fields


def main(folder: Path = ROOT / "docs") -> None:
    """Write all pages into ``folder``; pages of earlier runs are deleted."""
    home = folder / "api"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    index = [
        "# Names of the packages",
        "",
        "| package | what it is | names |",
        "| --- | --- | --- |",
    ]
    for name, what in PACKAGES.items():
        module = importlib.import_module(name)
        names = public_names(module)
        (home / f"{name}.md").write_text(page(module, what, names), encoding="utf-8")
        index.append(f"| [{name}]({name}.md) | {what} | {len(names)} |")
    (home / "index.md").write_text("\n".join(index) + "\n", encoding="utf-8")


def public_names(module: ModuleType) -> list[str]:
    """Return the public names of a package, in all NKI versions."""
    if module.__name__ in BY_VERSION:
        return sorted(names_and_versions(module))
    shown = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    return sorted(name for name in shown if not inspect.ismodule(getattr(module, name)))


def page(module: ModuleType, what: str, names: list[str]) -> str:
    """Return the page of a package."""
    lines = [f"# {module.__name__}", "", *markdown(inspect.getdoc(module) or f"{what}."), ""]
    versions = names_and_versions(module) if module.__name__ in BY_VERSION else {}
    for name in names:
        value, where = None, ""
        if name in versions:
            value = found_in(module, name, versions[name][0])
            where = in_words(versions[name])
        lines += [f"## {name}", "", *([f"{where[0].upper()}{where[1:]}.", ""] if where else [])]
        lines += [*entry(name, getattr(module, name) if value is None else value), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines).rstrip() + "\n")


def entry(name: str, value: Any) -> Iterator[str]:
    """Yield the lines of one name: signature, docstring and methods."""
    if inspect.isclass(value):
        yield from code(f"class {name}{signature(value)}")
        yield from markdown(own_doc(value))
        for method, function in sorted(members(value).items()):
            text = own_doc(function)
            if method.startswith("_") or not text or text.startswith(FIELD):
                continue
            called = getattr(function, "__func__", function)
            yield f"### {name}.{method}"
            yield ""
            if callable(called):
                yield from code(f"{method}{signature(called)}")
            yield from markdown(text)
    elif callable(value):
        yield from code(f"{name}{signature(value)}")
        yield from markdown(own_doc(value))
    else:
        text = ADDRESS.sub("", repr(value))
        yield f"`{text if len(text) <= 80 else type(value).__name__}`"
        yield ""


def members(kind: type) -> dict[str, Any]:
    """Return the members of a class and of its private base classes.

    Members of public base classes have entries of their own.
    """
    package = kind.__module__.partition(".")[0]
    bases = [base for base in kind.__mro__[1:] if base.__module__.partition(".")[0] == package]
    public = [base for base in bases if "._" not in base.__module__]
    found: dict[str, Any] = {}
    for base in reversed(bases):
        if not any(issubclass(shown, base) for shown in public):
            found.update(vars(base))
    return found | dict(vars(kind))


def own_doc(value: Any) -> str:
    """Return the docstring of an object itself, not that of its type."""
    text = getattr(value, "__doc__", None)
    return inspect.cleandoc(text) if isinstance(text, str) else ""


def signature(value: Any) -> str:
    """Return a signature with annotations as in the source, without quotes."""
    try:
        text = ADDRESS.sub("", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return "(...)"
    return QUOTED.sub(r"\1\2", FORWARD.sub(r"\1", text))


def code(text: str) -> Iterator[str]:
    """Yield a signature as Python, one argument per line if it is long."""
    yield "```python"
    head, _, rest = text.partition("(")
    if len(text) <= 88 or not rest:
        yield text
    else:
        inside, _, after = rest.rpartition(")")
        yield f"{head}("
        yield from (f"    {part}," for part in split(inside))
        yield f"){after}"
    yield "```"
    yield ""


def split(arguments: str) -> Iterator[str]:
    """Yield the arguments of a signature, split at commas outside of brackets."""
    depth, part = 0, ""
    for letter in arguments:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += letter
    if part.strip():
        yield part.strip()


def markdown(text: str) -> Iterator[str]:
    """Yield a docstring as Markdown: sections as headings, their entries as lists."""
    section = ""
    for line in text.splitlines():
        title = line.rstrip(":")
        if line.endswith(":") and title in SECTIONS:
            section = title
            yield from ("", f"**{title}**", "")
            if section.startswith("Example"):
                yield "```pycon"
        elif section.startswith("Example"):
            yield line.removeprefix("    ")
        elif section and line.startswith("    "):
            yield listed(line[4:])
        else:
            if line and section:
                section = ""
                yield ""
            yield line.replace("``", "`")
    if section.startswith("Example"):
        yield "```"
    yield ""


def listed(line: str) -> str:
    """Return one line of a section as a list item or its continuation."""
    line = line.replace("``", "`")
    found = re.match(r"(\*{0,2}[\w, *.]+):\s+(.*)", line)
    if found and not line.startswith(" "):
        names = ", ".join(f"`{name.strip()}`" for name in found[1].split(","))
        return f"- {names}: {found[2]}"
    return f"  {line.strip()}" if line.startswith(" ") else line


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
