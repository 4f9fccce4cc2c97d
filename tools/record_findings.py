"""Record the findings of every bad test kernel, so that changes are visible in the diff.

    python tools/record_findings.py

Writes ``tests/data/findings.txt``; ``tests/nkisim/test_rules.py`` compares with it.
"""

import importlib
import pkgutil
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import kernels
from kernels import told


def entries(twin: kernels.Twin) -> list[str]:
    """The findings of a twin; generations with equal findings share an entry."""
    by_text: dict[str, list[str]] = {}
    for target in twin.targets:
        by_text.setdefault(told.told_on(twin, target), []).append(target)
    return [f"== {twin.name} {' '.join(targets)}\n{text}\n" for text, targets in by_text.items()]


def main() -> None:
    for module in pkgutil.iter_modules(kernels.__path__):
        importlib.import_module(f"kernels.{module.name}")
    warnings.simplefilter("ignore")
    checked = [twin for twin in kernels.TWINS if not twin.advised]
    twins = sorted(checked, key=lambda twin: twin.name)
    parts = [entry for twin in twins for entry in entries(twin)]
    told.FILE.write_text("\n".join(["What is told of each bad twin.\n", *parts]))


if __name__ == "__main__":
    main()
