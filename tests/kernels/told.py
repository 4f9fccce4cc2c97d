"""What is told of each bad twin: its findings, word by word, as ``data/findings.txt`` has it.

A line number is told as its distance from the first line of the bad kernel, so that twins can move
in their files. Where several generations tell the same it stands there once. Of code to paste it
only says that there is some: it has tests of its own, which run it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import nkisim
from nkisim import Finding, NkiValidationError

from . import Twin

FILE = Path(__file__).parents[1] / "data" / "findings.txt"
_HEAD = "== "
_CODE = "with code to paste"


def checked(twin: Twin, kernel: Any, target: str, **options: Any) -> Any:
    """The check of one of the two kernels."""
    launched = twin.launched(kernel)
    return nkisim.check(launched, target=target, ranks=twin.ranks, **twin.options, **options)


def report_of_bad(twin: Twin, target: str) -> Any:
    return checked(twin, twin.bad, target, source=True)(*twin.arguments(twin.inputs))


def told(twin: Twin, findings: Iterable[Finding]) -> str:
    """The findings as text."""
    first = twin.bad.__code__.co_firstlineno
    here = "|".join(re.escape(str(file)) for file in (twin.file, twin.module))
    text = "\n\n".join(map(_one, findings))
    at = rf"(?:(?:{here}):|\bline )(\d+)"
    text = re.sub(at, lambda found: f"line {int(found[1]) - first:+d}", text)
    return re.sub(r"/\S*/(\w+\.py)", r"\1", text)


def _one(finding: Finding) -> str:
    loops = "".join(f", {name}={index}" for name, index in finding.place.loops)
    lines = [f"{finding.headline} at {finding.file}:{finding.line}{loops}", finding.message]
    for name in ("instruction", "operand", "seen", "allowed", "fix"):
        if value := getattr(finding, name):
            lines.append(f"{name}: {value}")
    lines += [f"note: {note}" for note in finding.notes]
    if finding.count > 1:
        lines.append(f"count: {finding.count}")
    if finding.rewrite is not None:
        lines.append(_CODE)
    return "\n".join(lines)


def told_on(twin: Twin, target: str) -> str:
    """What a check of the bad twin tells, or what host code is refused with."""
    if not twin.on_host:
        return told(twin, report_of_bad(twin, target).findings)
    try:
        twin.bad()
    except NkiValidationError as error:
        return told(twin, [error.finding])
    return ""


def recorded(twin: Twin, target: str) -> str:
    """What was recorded of a twin on a generation."""
    return _entries().get((twin.name, target), "nothing yet: run tools/record_findings.py")


def has_code(twin: Twin, target: str) -> bool:
    """Whether a finding of the bad twin has code to paste."""
    return _CODE in recorded(twin, target).splitlines()


@cache
def _entries() -> dict[tuple[str, str], str]:
    found = {}
    for part in FILE.read_text().split("\n" + _HEAD)[1:]:
        head, _, text = part.partition("\n")
        name, *targets = head.split()
        found |= {(name, target): text.strip("\n") for target in targets}
    return found
