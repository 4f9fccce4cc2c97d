#!/usr/bin/env python
"""Runs the fast tests on several versions of Python, torch, NumPy and SciPy.

    python tools/tested_versions.py            every row of docs/versions.md
    python tools/tested_versions.py 3.13 2.15  nkisim on Python 3.13, the libraries on torch 2.15

nkisim is tested without torch, all packages with the oldest versions that ``pyproject.toml``
admits, and the libraries with later ones of torch. A row whose Python this machine lacks stays as
it was recorded. uv makes the environments in build/versions from the package index;
``UV_TORCH_BACKEND=cpu`` avoids several gigabytes of CUDA where torch's own index can be reached.
"""

from __future__ import annotations

import datetime
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "versions.md"
FOLDER = ROOT / "build" / "versions"
PYTHONS = ("3.11", "3.12", "3.13")
LIBRARIES = {"oldest": "3.11", "2.13": "3.12", "2.14": "3.11", "2.15": "3.12"}
"""The torch of each row of the libraries, and its Python. The oldest is tested with nkisim, too."""

_HEAD = """\
# Tested versions

The fast tests of nkisim without torch, those of all packages with the oldest versions that
`pyproject.toml` admits, and those of the six libraries with later ones. `make test-versions` writes
this table; `make test` covers Python 3.11 with the versions of `constraints.txt`.

"""
_VERSIONS = """\
import importlib.metadata, json, platform
installed = {d.name: d.version.partition("+")[0] for d in importlib.metadata.distributions()}
versions = [installed.get(name, "none") for name in ("torch", "numpy", "scipy")]
print(json.dumps([platform.python_version(), *versions]))
"""


@dataclass(frozen=True)
class Row:
    """Tests that were run, the versions, and the outcome. ``failed`` includes errors."""

    tests: str
    python: str
    torch: str
    numpy: str
    scipy: str
    passed: str
    skipped: str
    failed: str
    date: str


def main(names: Sequence[str] = ()) -> None:
    """Run the rows of these names, by default all, and write the page after each.

    Raises:
        SystemExit: No row has the name, uv is not installed, or a test failed.
    """
    every = (*PYTHONS, *LIBRARIES)
    unknown = [name for name in names if name not in every]
    if unknown:
        raise SystemExit(f"got {unknown[0]!r}, accepted: {', '.join(every)}")
    if importlib.util.find_spec("uv") is None:
        raise SystemExit("uv is not installed beside this Python; `make test-versions` installs it")
    for name in names or every:
        interpreter = _installed(name)
        if interpreter is not None:
            result = interpreter.with_name("result.xml")
            _run_tests(name, interpreter, result)
            record(name, interpreter, result)
    print(PAGE.read_text(encoding="utf-8"))
    if any(row.failed != "0" for row in rows()):
        raise SystemExit(1)


def rows() -> list[Row]:
    """Return the rows of the page."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line[:1] == "|"]
    return [Row(*line) for line in lines[2:]]


def record(name: str, interpreter: Path, result: Path) -> None:
    """Write the row of a run on the page; ``result`` is the JUnit report of pytest."""
    packages = "nkisim" if name in PYTHONS else "all" if name == "oldest" else "libraries"
    title = f"{packages}, {name}"
    command = [str(interpreter), "-c", _VERSIONS]
    versions = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    suite = ET.parse(result).getroot()[0].attrib
    failed = int(suite["failures"]) + int(suite["errors"])
    passed = int(suite["tests"]) - int(suite["skipped"]) - failed
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    row = Row(title, *versions, str(passed), suite["skipped"], str(failed), date)
    PAGE.write_text(page([*(r for r in rows() if r.tests != title), row]), encoding="utf-8")


def page(found: Iterable[Row]) -> str:
    """Return the page with these rows."""
    names = [field.name for field in fields(Row)]
    lines = [names, ["---"] * len(names), *sorted(map(astuple, found))]
    return _HEAD + "".join("| " + " | ".join(line) + " |\n" for line in lines)


def sentence(found: Sequence[Row]) -> str:
    """Return the versions of these rows, as README.md states them."""

    def span(column: str) -> str:
        versions = {getattr(row, column) for row in found} - {"none"}
        numbers = sorted(map(number, versions))
        return " to ".join(dict.fromkeys(f"{a}.{b}" for a, b in (numbers[0], numbers[-1])))

    return (
        f"Tested with Python {span('python')}, torch {span('torch')}, NumPy {span('numpy')} and "
        f"SciPy {span('scipy')}"
    )


def number(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _installed(name: str) -> Path | None:
    """Return the interpreter of an environment for one row, None without its Python."""
    folder = FOLDER / name
    python = LIBRARIES.get(name, name)
    try:
        _uv("venv", "--quiet", "--clear", "--no-python-downloads", "--python", python, str(folder))
    except subprocess.CalledProcessError:
        print(f"{name}: not run, there is no Python {python}", flush=True)
        return None
    interpreter = folder / "bin" / "python"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [each for each in project["optional-dependencies"]["dev"] if each[:5] != "torch"]
    wanted.append("setuptools")  # torch.compile imports it on Python 3.11
    if name == "oldest":
        constraints = folder / "oldest.txt"
        lowest = ("--resolution", "lowest-direct", "--python-version", python)
        _uv("pip", "compile", "pyproject.toml", "--extra=torch", *lowest, f"-o={constraints}")
        wanted += ["torch", f"--constraints={constraints}"]
    elif name in LIBRARIES:
        wanted.append(f"torch=={name}.*")
    _uv("pip", "install", "--quiet", f"--python={interpreter}", "--editable", ".", *wanted)
    return interpreter


def _run_tests(name: str, interpreter: Path, result: Path) -> None:
    patterns = ["nkisim"] if name in PYTHONS else ["nkitorch", "trn*"]
    if name == "oldest":
        patterns.append("nkisim")
    folders = [each for glob in patterns for each in sorted((ROOT / "tests").glob(glob))]
    print(name, *(folder.name for folder in folders), flush=True)
    options = ("-q", "-n", "2", "-m", "not slow", f"--junitxml={result}")
    subprocess.run(
        [interpreter, "-m", "pytest", *options, *folders],
        cwd=ROOT,
        env=_environment(interpreter.parent),
        check=False,
    )


def _uv(*arguments: str) -> None:
    pythons = (Path.home() / ".pyenv" / "versions").glob("*/bin")
    subprocess.run(
        [sys.executable, "-m", "uv", *arguments],
        cwd=ROOT,
        env=_environment(*pythons),
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _environment(*folders: Path) -> dict[str, str]:
    """Return the environment with folders on its path, and one BLAS thread a process."""
    clean = {k: v for k, v in os.environ.items() if not re.match("PYTHON|VIRTUAL_ENV", k)}
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    return clean | {"PATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


if __name__ == "__main__":
    main(sys.argv[1:])
