#!/usr/bin/env python
"""Assemble the changelog of a release: move changelog.d/ into CHANGELOG.md, set the version.

python tools/release.py 0.2.0
"""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("added", "changed", "fixed", "removed")
VERSION = re.compile(r"\d+\.\d+\.\d+([a-z]+\d+)?")


def main(version: str, root: Path = ROOT, today: datetime.date | None = None) -> None:
    """Write the section of ``version`` at the top of the changelog and empty the folder.

    Raises:
        SystemExit: The version is invalid or already released, or there is nothing to release.
    """
    if not VERSION.fullmatch(version):
        raise SystemExit(f"got {version!r}, accepted: a version such as 0.2.0")
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    if f"## {version} " in text:
        raise SystemExit(f"{version} is in the changelog already")
    entries = sorted(p for p in (root / "changelog.d").glob("*.md") if p.name != "README.md")
    if not entries:
        raise SystemExit("changelog.d holds no change")
    date = today or datetime.datetime.now(datetime.UTC).date()
    section = [f"## {version} ({date})", ""]
    for kind in KINDS:
        found = [path for path in entries if path.name.endswith(f".{kind}.md")]
        if found:
            section += [f"### {kind.capitalize()}", ""]
            section += [_item(path.read_text(encoding="utf-8")) for path in found]
            section.append("")
    head, mark, rest = text.partition("\n## ")
    changelog.write_text("\n".join([head.rstrip(), "", *section, mark[1:] + rest]).rstrip() + "\n")
    for name, pattern in (
        ("pyproject.toml", r'^version = ".*"$'),
        ("CITATION.cff", r"^version: .*$"),
    ):
        path = root / name
        line = f'version = "{version}"' if name == "pyproject.toml" else f"version: {version}"
        path.write_text(re.sub(pattern, line, path.read_text(), count=1, flags=re.MULTILINE))
    for path in entries:
        path.unlink()


def _item(text: str) -> str:
    """Return one change as an entry of a list."""
    first, *others = text.strip().splitlines()
    return "\n".join([f"- {first}", *(f"  {line}".rstrip() for line in others)])


if __name__ == "__main__":
    main(*sys.argv[1:])
