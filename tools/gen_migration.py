#!/usr/bin/env python
"""Write docs/migration.md: the rules of ``nkisim upgrade`` with an example of each.

A test compares the page with the output of this script.

    python tools/gen_migration.py [FOLDER]     FOLDER/migration.md; default: docs
"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT / "tools") not in sys.path:
    sys.path.append(str(ROOT / "tools"))

from markdown_text import block, join, table  # noqa: E402

from nkisim.upgrade import RULES, Rule  # noqa: E402

HEAD = """\
# Upgrade older kernels

`nkisim upgrade` rewrites kernels of NKI Beta 1 (`neuronxcc.nki`) and Beta 2 (NKI 0.1 and 0.2) for
0.3.0. It needs the extra `codemod`: `pip install 'trnsci[codemod]'`.

```sh
nkisim upgrade kernels/ --diff
nkisim upgrade kernels/ --write
nkisim upgrade kernels/ --check --format json
```

Without `--write` no file changes. Comments, formatting, encoding and line endings stay. A change
is made only where the imports of the file show that a name belongs to NKI. What cannot be
rewritten safely is listed with what to do; `--notes` also puts it into the file as a comment. A
second run changes nothing. A file that is not valid Python is reported and stays as it is.

| option | meaning |
| --- | --- |
| `--from auto` | `neuronxcc.nki` means Beta 1; else only forms that 0.3.0 lacks change |
| `--from beta1`, `beta2` | forms that mean something else in 0.3.0 change as well |
| `--from 0.3` | nothing is changed |
| `--to 0.3.0` | the only target |
| `--format json` | the changes and findings of each file, for other programs |

| exit status | meaning |
| --- | --- |
| 0 | done |
| 1 | with `--write` or `--check`, something is left to do; a file could not be read or written |
| 2 | an error on the command line |

After an upgrade, run `nkisim check` and compare the results of the kernels.

## Rules

*Safe* rewrites keep the meaning. *Partial* ones rewrite the forms that are understood, ask for a
review where the old code does not show what was meant, and report the other forms. *Report* rules
only find."""

ERAS = {"beta1": "From Beta 1", "beta2": "From Beta 2"}


def page() -> str:
    """Return the text of the page."""
    parts = [HEAD]
    for era, title in ERAS.items():
        rules = [rule for rule in sorted(RULES.values(), key=lambda r: r.id) if rule.since == era]
        parts.append(f"### {title}")
        parts.append(table(("rule", "change", "kind"), [(r.id, r.title, r.kind) for r in rules]))
    parts.append("## Examples")
    for rule in sorted(RULES.values(), key=lambda r: r.id):
        parts += [f"### {rule.id}: {rule.title}", block("diff", _difference(rule))]
    return join(parts)


def _difference(rule: Rule) -> str:
    before = rule.before.splitlines()
    if not rule.after:
        return "\n".join(f"! {line}".rstrip() for line in before)
    rows = difflib.ndiff(before, rule.after.splitlines())
    return "\n".join(row.rstrip() for row in rows if not row.startswith("?"))


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs"
    (folder / "migration.md").write_text(page(), encoding="utf-8")
