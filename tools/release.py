#!/usr/bin/env python
"""Assembles the changelog of a release from the files of changelog.d/, grouped by package.

    python tools/release.py           print the section of the next release
    python tools/release.py 0.2.0     move it into CHANGELOG.md and set the version
    python tools/release.py --check   run the commands of the first pages from the packages, and say
                                      what is missing for the tag

A line of ``changelog.d/SLUG.added.md`` (or changed, fixed, removed) is ``PACKAGE: what changed``.
"""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("added", "changed", "fixed", "removed")
PACKAGES = (
    "nkisim",
    "nkitorch",
    "trnblas",
    "trnfft",
    "trnrand",
    "trnsolver",
    "trnsparse",
    "trntensor",
    "trnsci",
)
VERSIONS = {
    "CITATION.cff": "version: ",
    "pyproject.toml": 'version = "',
    "src/nkisim/__init__.py": '__version__ = "',
    "src/trnsci/__init__.py": '__version__ = "',
}
"""The files that have the version, and the text before it."""
VERSION = re.compile(r"\d+\.\d+\.\d+([a-z]+\d+)?")


def main(version: str = "", root: Path = ROOT, today: datetime.date | None = None) -> None:
    """Write the section of ``version`` on top of the changelog and empty the folder.

    Without a version the section is printed and nothing is written; ``--check`` is described in
    ``release_check.py``.

    Raises:
        SystemExit: The version is none, or is in the changelog, or there is nothing to release, or
            a line of changelog.d is not of the form ``PACKAGE: what changed``.
    """
    if version == "--check":
        import release_check

        release_check.main(root)
        print("\n".join(missing(root)) or "nothing is missing for the tag", flush=True)
        return
    if not version:
        print("\n".join(["## Unreleased", "", *_section(root)]).rstrip())
        return
    if not VERSION.fullmatch(version):
        raise SystemExit(f"got {version!r}, accepted: a version such as 0.2.0")
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    if re.search(rf"^## {re.escape(version)}( |$)", text, re.MULTILINE):
        raise SystemExit(f"{version} is in the changelog already")
    date = today or datetime.datetime.now(datetime.UTC).date()
    section = [f"## {version} ({date})", "", *_section(root)]
    head, mark, rest = text.partition("\n## ")
    changelog.write_text("\n".join([head.rstrip(), "", *section, mark[1:] + rest]).rstrip() + "\n")
    for name, key in VERSIONS.items():
        path = root / name
        pattern = rf"^({re.escape(key)})[^\"\n]*"
        path.write_text(
            re.sub(pattern, rf"\g<1>{version}", path.read_text(), count=1, flags=re.MULTILINE)
        )
    for path in _files(root):
        path.unlink()


def missing(root: Path = ROOT) -> list[str]:
    """Return what is missing for the tag of the version in ``pyproject.toml``."""
    found = {name: _version_in(root / name, key) for name, key in VERSIONS.items()}
    version = found["pyproject.toml"]
    faults = [
        f"{name}: version {other}, pyproject.toml has {version}"
        for name, other in found.items()
        if other != version
    ]
    if f"\n## {version}" not in (root / "CHANGELOG.md").read_text(encoding="utf-8"):
        faults.append(f"CHANGELOG.md: no section of {version}")
    if fragments := _files(root):
        faults.append(f"changelog.d: {len(fragments)} changes that are in no section")
    return faults


def _version_in(path: Path, key: str) -> str:
    text = path.read_text(encoding="utf-8")
    (found,) = re.findall(rf"^{re.escape(key)}([^\"\n]*)", text, re.MULTILINE)
    return str(found)


def _files(root: Path) -> list[Path]:
    return sorted(p for p in (root / "changelog.d").glob("*.md") if p.name != "README.md")


def _section(root: Path) -> list[str]:
    """Return the changes, a heading per package: additions first, removals last."""
    changes: dict[tuple[str, str], list[str]] = {}
    for path in _files(root):
        kind = path.name.split(".")[-2]
        if kind not in KINDS:
            raise SystemExit(f"got {path.name}, accepted: SLUG.{{{','.join(KINDS)}}}.md")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            package, colon, change = line.partition(": ")
            if not colon or package not in PACKAGES:
                accepted = f"PACKAGE: what changed, on one line, with one of {', '.join(PACKAGES)}"
                raise SystemExit(f"{path.name}:{number}: got {line!r}, accepted: {accepted}")
            changes.setdefault((package, kind), []).append(f"- {kind.capitalize()}: {change}")
    if not changes:
        raise SystemExit("changelog.d holds no change")
    lines = []
    for package in PACKAGES:
        found = [change for kind in KINDS for change in changes.get((package, kind), ())]
        lines += [f"### {package}", "", *found, ""] if found else []
    return lines


if __name__ == "__main__":
    main(*sys.argv[1:])
