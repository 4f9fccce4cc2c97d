"""Output formats of a ledger: text, JSON, SARIF, GitHub annotations, HTML."""

from __future__ import annotations

import json
import linecache
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from nkisim.diagnostics.findings import MOST_SHOWN, Finding
from nkisim.diagnostics.ledger import Ledger
from nkisim.diagnostics.report import counted

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


_LEVELS = {"error": "error", "warning": "warning", "note": "note"}
_SUFFIXES = {".json": "json", ".sarif": "sarif", ".html": "html", ".txt": "text"}


def format_of(file: str) -> str:
    """Return the format for a file's suffix.

    Raises:
        ValueError: The suffix is unknown.
    """
    suffix = Path(file).suffix
    if suffix not in _SUFFIXES:
        raise ValueError(
            f"report: the suffix of {file!r} names no format; accepted: {', '.join(_SUFFIXES)}"
        )
    return _SUFFIXES[suffix]


def rendered(ledger: Ledger, format: str, colour: bool = False) -> str:
    """Return a ledger in a format; ``colour`` applies to text."""
    return FORMATS[format](ledger, colour)


def to_github(ledger: Ledger) -> str:
    """Return workflow commands that show the findings as annotations on GitHub."""
    lines = [_github(finding) for finding in ledger.findings[:MOST_SHOWN]]
    reported = {f"{f.rule.id} {f.rule.slug}" for f in ledger.findings}
    for kernel in ledger.stopped:
        for target, reason in kernel.stopped.items():
            if reason in reported:
                continue
            where = f"file={_property(_relative(kernel.place.file))},line={kernel.place.line}"
            text = f"{kernel.name} was not checked to its end on {target}: {reason}"
            lines.append(f"::error {where},title=nkisim::{_escaped(text)}")
    return "\n".join([*lines, ledger.summary()]) + "\n"


def _github(finding: Finding) -> str:
    command = {"error": "error", "warning": "warning", "note": "notice"}[finding.severity]
    title = f"{finding.rule.id} {finding.rule.slug}"
    text = finding.message + (f"\nfix: {finding.fix}" if finding.fix else "")
    if finding.rewrite is not None:
        text += "\ncode:\n" + "\n".join(finding.rewrite.shown())
    where = f"file={_property(_relative(finding.file))},line={finding.line}"
    return f"::{command} {where},title={_property(title)}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


def _relative(file: str) -> str:
    """Return a file's path relative to the working folder, if it is below it."""
    try:
        return Path(file).resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return file


def to_sarif(ledger: Ledger) -> str:
    """Return the findings as SARIF 2.1.0, the format of code hosts and editors."""
    rules = {f.rule.id: f.rule for f in ledger.findings}
    described = [
        {
            "id": rule.id,
            "name": rule.slug,
            "shortDescription": {"text": rule.checks or rule.slug},
            "fullDescription": {"text": rule.matters},
            "help": {"text": f"nkisim rule {rule.id}"},
            "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        }
        for rule in rules.values()
    ]
    run = {
        "tool": {"driver": {"name": "nkisim", "rules": described}},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif(finding) for finding in ledger.findings],
        "invocations": [
            {
                "executionSuccessful": not ledger.stopped,
                "toolExecutionNotifications": [
                    {"level": "error", "message": {"text": f"{k.name}: {reason}"}}
                    for k in ledger.stopped
                    for reason in sorted(set(k.stopped.values()))
                ],
            }
        ],
        "properties": ledger.to_dict()["checked"],
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2)


def _sarif(finding: Finding) -> dict[str, Any]:
    region: dict[str, int] = {"startLine": max(finding.line, 1)}
    if finding.span is not None:
        first, start, last, end = finding.span
        region = {
            "startLine": first,
            "startColumn": start + 1,
            "endLine": last,
            "endColumn": end + 1,
        }
    location = {"artifactLocation": {"uri": _uri(finding.file)}, "region": region}
    result: dict[str, Any] = {
        "ruleId": finding.rule.id,
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message + (f". Fix: {finding.fix}" if finding.fix else "")},
        "locations": [{"physicalLocation": location}],
        "properties": {"count": finding.count, "targets": list(finding.targets)},
    }
    rewrite = finding.rewrite
    if rewrite is not None:
        replaced = {"startLine": rewrite.first, "startColumn": 1, "endLine": rewrite.last + 1}
        replaced["endColumn"] = 1
        change = {
            "artifactLocation": {"uri": _uri(rewrite.file)},
            "replacements": [
                {"deletedRegion": replaced, "insertedContent": {"text": rewrite.code + "\n"}}
            ],
        }
        text = {"text": finding.fix or finding.rule.checks}
        result["fixes"] = [{"description": text, "artifactChanges": [change]}]
    return result


def _uri(file: str) -> str:
    relative = _relative(file)
    return Path(file).as_uri() if os.path.isabs(relative) else relative


def ledger_page(ledger: Ledger) -> str:
    """Return a ledger as a complete HTML page."""
    memory = [
        picture._replace(kernel=ledger.label(kernel))
        for kernel in ledger.kernels.values()
        for picture in kernel.memory
    ]
    checked = [f"{file}: {', '.join(names)}" for file, names in ledger.by_file().items()]
    notes = checked + ledger.ran() + ledger.remarks()
    from nkisim.diagnostics.html import body, document

    inner = body("nkisim check", ledger.summary(), notes, ledger.findings, memory)
    return document(f"nkisim: {counted(ledger.findings)}", inner)


FORMATS: dict[str, Callable[[Ledger, bool], str]] = {
    "text": ledger_text,
    "json": lambda ledger, _: ledger.to_json() + "\n",
    "sarif": lambda ledger, _: to_sarif(ledger) + "\n",
    "github": lambda ledger, _: to_github(ledger),
    "html": lambda ledger, _: ledger_page(ledger),
}
"""Renderers of a ledger by format name."""
