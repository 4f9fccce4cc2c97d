#!/usr/bin/env python
"""Runs the fast tests on several versions of Python, torch, NumPy and SciPy, and records the outcome.

    python tools/tested_versions.py            all rows of docs/versions.md that this machine can run
    python tools/tested_versions.py 3.13 2.15  those of nkisim on Python 3.13, and of torch 2.15

nkisim is tested without torch on every Python, the libraries with the oldest versions that
``pyproject.toml`` admits and with each torch of ``TORCHES``. A row whose Python is not on this machine
stays as it was recorded. Environments are made by uv, from the package index, in build/versions;
``UV_TORCH_BACKEND=cpu`` saves the gigabytes of CUDA where the index of these builds can be reached.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "versions.md"
FOLDER = ROOT / "build" / "versions"
PYTHONS = ("3.11", "3.12", "3.13")
TORCHES = {"2.11": "3.12", "2.13": "3.11", "2.14": "3.11", "2.15": "3.12"}
"""The Python with which each torch is tested."""

_HEAD = """\
# Tested versions

`make test-versions` runs the fast tests of nkisim without torch on each Python, and those of the six libraries with the oldest versions
of torch, NumPy and SciPy that `pyproject.toml` admits and with later ones. It writes this table:

"""
_VERSIONS = """\
import importlib.metadata as m, json, platform
def version(name):
    try: return m.version(name).partition("+")[0]
    except m.PackageNotFoundError: return "none"
print(json.dumps([platform.python_version(), *map(version, ("torch", "numpy", "scipy"))]))
"""


@dataclass(frozen=True)
class Row:
    """One run: what was tested, on what, and what came out. ``failed`` includes errors."""

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
    """Run the rows of these names, all without names, and write the page after each.

    Raises:
        SystemExit: A name is no row's, or a test failed.
    """
    names = names or ["oldest", *PYTHONS, *TORCHES]
    known = {row.tests: row for row in recorded()} if PAGE.exists() else {}
    for name in names:
        if name != "oldest" and name not in (*PYTHONS, *TORCHES):
            raise SystemExit(f"got {name!r}, accepted: oldest, {', '.join((*PYTHONS, *TORCHES))}")
        row = _run(name)
        if row is not None:
            known[row.tests] = row
            PAGE.write_text(page(known.values()), encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))
    if any(row.failed != "0" for row in known.values()):
        raise SystemExit(1)


def recorded() -> list[Row]:
    """Return the rows of the page."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    return [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines[2:]]


def page(rows: Iterator[Row] | Sequence[Row]) -> str:
    """Return the page with the table."""
    names = [field.name for field in fields(Row)]
    lines = [names, ["---"] * len(names), *(astuple(row) for row in sorted(rows, key=astuple))]
    return _HEAD + "".join("| " + " | ".join(line) + " |\n" for line in lines)


def sentence(rows: Sequence[Row]) -> str:
    """Return the versions of the table as README.md states them."""

    def span(versions: list[str]) -> str:
        found = sorted({tuple(map(int, v.split(".")[:2])) for v in versions if v != "none"})
        return " to ".join(".".join(map(str, v)) for v in dict.fromkeys((found[0], found[-1])))

    libraries = [row for row in rows if row.torch != "none"]
    return (
        f"Tested with Python {span([r.python for r in rows])}, torch {span([r.torch for r in rows])}, "
        f"NumPy {span([r.numpy for r in libraries])} and SciPy {span([r.scipy for r in libraries])}"
    )


def _run(name: str) -> Row | None:
    """Return the outcome of one row, None if its Python is missing."""
    python = name if name in PYTHONS else TORCHES.get(name, PYTHONS[0])
    folder = FOLDER / name
    interpreter = folder / "bin" / "python"
    try:
        _uv("venv", "--quiet", "--clear", "--no-python-downloads", "--python", python, str(folder))
    except subprocess.CalledProcessError:
        print(f"{name}: not run, because this machine has no Python {python}", flush=True)
        return None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [r for r in project["optional-dependencies"]["dev"] if not r.startswith("torch")]
    if name == "oldest":
        oldest = folder / "oldest.txt"
        lowest = ("--resolution", "lowest-direct", "--python", str(interpreter))
        compiled = _uv("pip", "compile", "--quiet", "pyproject.toml", "--extra", "torch", *lowest)
        oldest.write_text(compiled, encoding="utf-8")
        wanted += ["torch", "--constraints", str(oldest)]
    elif name in TORCHES:
        wanted.append(f"torch=={name}.*")
    _uv("pip", "install", "--quiet", "--python", str(interpreter), "--editable", ".", *wanted)
    result = folder / "result.xml"
    tests = "nkisim" if name in PYTHONS else "trn*"
    print(f"{name}: tests/{tests}", flush=True)
    command = [interpreter, "-m", "pytest", "-q", "-n", "2", "-m", "not slow", f"--junitxml={result}"]
    subprocess.run(
        [*command, *sorted((ROOT / "tests").glob(tests))],
        cwd=ROOT,
        env=_environment(interpreter.parent),
        check=False,
    )
    suite = ET.parse(result).getroot()[0]
    count = {key: int(suite.get(key, "0")) for key in ("tests", "skipped", "failures", "errors")}
    failed = count["failures"] + count["errors"]
    passed = count["tests"] - failed - count["skipped"]
    shown = subprocess.run(
        [interpreter, "-c", _VERSIONS], capture_output=True, text=True, check=True
    ).stdout
    title = f"nkisim, Python {name}" if name in PYTHONS else f"libraries, {name}"
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Row(title, *json.loads(shown), str(passed), str(count["skipped"]), str(failed), today)


def _uv(*arguments: str) -> str:
    """Run uv, which also finds the interpreters of pyenv."""
    pythons = (Path.home() / ".pyenv" / "versions").glob("*/bin")
    return subprocess.run(
        [sys.executable, "-m", "uv", *arguments],
        cwd=ROOT,
        env=_environment(*pythons),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def _environment(*folders: Path) -> dict[str, str]:
    """Return the environment with folders on its path, and one BLAS thread a process."""
    clean = {k: v for k, v in os.environ.items() if not re.match("PYTHON|VIRTUAL_ENV", k)}
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    return clean | {"PATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


if __name__ == "__main__":
    main(sys.argv[1:])
