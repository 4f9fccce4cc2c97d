#!/usr/bin/env python
"""Print lines of source and tests, and uses of private interfaces, for each package.

python tools/tree_size.py [CHECKOUT ...]     several checkouts side by side; default: this one
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT / "tools") not in sys.path:
    sys.path.append(str(ROOT / "tools"))

from public_names import all_uses  # noqa: E402


def main(folders: list[str]) -> None:
    checkouts = [Path(folder).resolve() for folder in folders] or [ROOT]
    tables = [sizes(checkout) for checkout in checkouts]
    for checkout in checkouts:
        print(checkout.name)
    print(f"{'':<12}" + "   source   tests  private" * len(checkouts))
    names = sorted(set().union(*tables))
    for name in [*names, "total"]:
        cells = []
        for table in tables:
            rows = table.values() if name == "total" else [table.get(name, (0, 0, 0))]
            cells.append("{:>9,}{:>8,}{:>9,}".format(*map(sum, zip(*rows, strict=True))))
        print(f"{name:<12}" + "".join(cells))


def sizes(checkout: Path) -> dict[str, tuple[int, int, int]]:
    """Return lines of source, lines of tests and private uses by package."""
    source, tests = checkout / "src", checkout / "tests"
    private = Counter(use.file.relative_to(source).parts[0] for use in all_uses(source))
    packages = {path.name for path in source.iterdir() if (path / "__init__.py").exists()}
    found = {
        name: (_lines(source / name), _lines(tests / name), private[name]) for name in packages
    }
    found["other"] = (0, _lines(tests) - sum(count for _, count, _ in found.values()), 0)
    return found


def _lines(folder: Path) -> int:
    return sum(len(file.read_bytes().splitlines()) for file in folder.rglob("*.py"))


if __name__ == "__main__":
    main(sys.argv[1:])
