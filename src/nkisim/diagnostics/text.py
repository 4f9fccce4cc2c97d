"""Findings as terminal text, with colour and the operand underlined."""

from __future__ import annotations

import linecache
import os
from typing import TextIO

from nkisim.diagnostics.findings import MOST_SHOWN, Finding
from nkisim.diagnostics.ledger import Ledger

_RESET = "\x1b[0m"
_STYLES = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "note": "\x1b[1;36m",
    "dim": "\x1b[2m",
    "code": "\x1b[32m",
    "operand": "\x1b[1;4m",
}


def wants_colour(stream: TextIO) -> bool:
    """Return whether to colour output: on terminals, unless the environment disables it."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def ledger_text(ledger: Ledger, colour: bool = False) -> str:
    """Return all findings and the summary of a ledger as text."""
    found = ledger.findings
    parts = [f"fixed[{f.rule.id}] {f.rule.slug} at {f.place}: {f.message}" for f in ledger.fixed]
    parts += [finding_text(finding, colour) for finding in found[:MOST_SHOWN]]
    if len(found) > MOST_SHOWN:
        parts.append(f"... and {len(found) - MOST_SHOWN:,} more; --format json has all of them")
    parts += ledger.ran() + ledger.remarks()
    return "\n".join([*parts, ledger.summary()]) + "\n"


def finding_text(finding: Finding, colour: bool = False) -> str:
    """Return one finding as text; its operand is underlined, by colour codes or carets."""
    head, *lines = str(finding).splitlines()
    if colour:
        title, _, message = head.partition(": ")
        head = f"{_styled(title, finding.severity)}: {message}"
    shown = [head]
    code = False
    for i, line in enumerate(lines):
        label = line[2:6].strip() if line.startswith("  ") else ""
        code = label == "code" or (code and not label)
        if i == 0:
            shown += _place_lines(finding, line, colour)
        elif colour and code:
            shown.append(line[:8] + _styled(line[8:], "code"))
        elif colour and label:
            shown.append("  " + _styled(line[2:8], "dim") + line[8:])
        else:
            shown.append(line)
    return "\n".join(shown)


def _place_lines(finding: Finding, line: str, colour: bool) -> list[str]:
    """Return the line with the place; the operand's text is marked if it is on that line."""
    if finding.span is None:
        return [line]
    first, start, last, end = finding.span
    source = linecache.getline(finding.file, finding.line)
    text = source.strip()
    if not text or first != finding.line or not line.endswith(text):
        return [line]
    indent = len(source) - len(source.lstrip())
    stop = end if last == first else indent + len(text)
    at = len(line) - len(text) + start - indent
    width = max(stop - start, 1)
    if colour:
        return [line[:at] + _styled(line[at : at + width], "operand") + line[at + width :]]
    return [line, " " * at + "^" * width]


def _styled(text: str, style: str) -> str:
    return f"{_STYLES[style]}{text}{_RESET}"
