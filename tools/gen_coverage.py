#!/usr/bin/env python
"""Write docs/coverage.md: the kernel of every public function, by dtype and level of precision.

The page is part of the repository. A test compares it with the table of the sources.

    python tools/gen_coverage.py [FILE]     default: docs/coverage.md
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT / "tools") not in sys.path:
    sys.path.append(str(ROOT / "tools"))

from markdown_text import block, join, table  # noqa: E402

from trnsci.coverage import WORDS, Line, lines, render, summary  # noqa: E402


def main(file: Path = ROOT / "docs" / "coverage.md") -> None:
    """Write the page."""
    found = lines()
    file.write_text(page(found), encoding="utf-8")
    print(f"{file}: {summary(found)}")


def page(found: Sequence[Line]) -> str:
    """Return the text of the page."""
    return join(
        [
            "<!-- Written by tools/gen_coverage.py. -->",
            "# Coverage by kernels",
            "Which kernel computes a function, for each dtype of its operands and each "
            "[level of precision](libraries/precision.md). The table is measured: one small call "
            "of every public function runs on the simulator with operands of each dtype, at each "
            "level, and the launch counters tell which kernels ran. "
            f"{summary(found)}; [Validation status](status.md) shows how exact and fast they are.",
            block("sh", "trnsci coverage --lib trnblas\ntrnsci coverage --format json"),
            table(
                ("cell", "meaning"),
                [
                    ("names of kernels" if word == "kernel" else word, meaning)
                    for word, meaning in WORDS.items()
                ],
            ),
            "Numbers refer to the reasons below a table. A row `at` a level is shown only where it "
            "differs from the row of the default level, `float32`. Draws of `trnrand` have no "
            "operands: their dtype is that of the result. A dtype that no function of a library "
            "accepts has no column. Left out are functions that compute nothing with operands: "
            "settings, plans, patterns, conversions and pictures; and classes. Larger operands "
            "can reach other kernels than the small ones of this table.",
            render(found, "md").rpartition("\n\n")[0],
            "## JSON",
            "`trnsci coverage --format json` prints an object with `dtypes`, `levels`, `left_out` "
            "(functions by library) and `lines`. A line has `library`, `function`, `case` (what "
            "distinguishes several calls of a function, else empty), `level`, and `cells` by "
            "dtype; a cell has `outcome` (`kernel`, `partly`, `refused`, `torch` or `error`), "
            "`kernels` and `reasons`.",
        ]
    )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
