#!/usr/bin/env python
"""Write the page of the compiler's codes from ``nkisim.diagnostics.codes``.

python tools/gen_codes.py [FILE]     default: docs/guides/compiler-codes.md
"""

import sys
from pathlib import Path

from nkisim.diagnostics.codes import CODES, WITHOUT_CODE

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guides" / "compiler-codes.md"
HEAD = """# Compiler codes

Codes of AWS's compiler and runtime that users wrote down in public, what their kernels did,
and the rule that finds it before the compiler does. The list says no more than these reports:
one team's report is a warning, several are an error. A code without a rule has its reason in
the last column.

`nkisim find NCC_IBIR440` explains one code; `nkisim explain-log LOG` every code in a log, with
its rule, the line of the kernel where the log names one, and the way out. `explain-log` exits
with status 0 if it knows a code, 1 if it knows none, and 4 if the file is no text.

| code | what users saw | rule | what to do |
| --- | --- | --- | --- |
"""
TAIL = """
Users saw these faults without a code:

"""


def page() -> str:
    """Return the page."""
    rows = []
    for code in CODES:
        rules = ", ".join(f"[{rule}](../rules/{rule}.md)" for rule in code.rules) or "none"
        way = code.way or "follow the rule's page"
        seen = f'{code.seen} ("{code.words}")' if code.words else code.seen
        rows.append(f"| NCC_{code.name} | {seen} | {rules} | {way} |")
    faults = [f"- {f'`{words}`: ' if words else ''}{seen}" for words, seen in WITHOUT_CODE]
    return HEAD + "\n".join(rows) + "\n" + TAIL + "\n".join(faults) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else PAGE).write_text(page())
