"""``nkisim explain-log`` and the codes of ``nkisim find``: what a compiler's codes mean.

Exit status: 0 a known code, 1 no known code, 2 a mistake on the command line, 4 not a log.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from nkisim.cli.group import commands, format_option
from nkisim.diagnostics.codes import Code, codes_in, faults_of

FOUND, UNKNOWN, NO_LOG = 0, 1, 4


@commands.command("explain-log")
@click.argument("log")
@format_option("text", "json")
def explain_log(log: str, form: str) -> int:
    """Print what the codes in LOG mean, a file of the compiler's or the runtime's output.

    For each code: the fault that users saw, the rule of nkisim that finds it, the line of the
    kernel where the log names one, and the way out. LOG - is the standard input. Exit status:
    0 a known code, 1 no known code, 4 LOG is no text.
    """
    try:
        raw = sys.stdin.buffer.read() if log == "-" else Path(log).read_bytes()
        text = raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        click.echo(f"{log} is not a log: {error}", err=True)
        return NO_LOG
    if "\0" in text:
        click.echo(f"{log} is not a log: it has bytes that no text has", err=True)
        return NO_LOG
    met = list(codes_in(text))
    known = any(one.faults for one in met)
    if form == "json":
        data = [
            {"code": f"NCC_{one.name}", "log_line": one.log_line, "place": one.place}
            | {"faults": [fault_data(fault) for fault in one.faults]}
            for one in met
        ]
        click.echo(json.dumps({"codes": data}, indent=2))
        return FOUND if known else UNKNOWN
    for one in met:
        where = f"  --> {one.place}" if one.place else ""
        head = f"NCC_{one.name} at line {one.log_line} of the log"
        click.echo("\n".join([head, *([where] if where else []), code_text(one.faults)]))
    if not known:
        click.echo(f"{log} has no code that nkisim knows; `nkisim check FILE` checks the kernel")
    return FOUND if known else UNKNOWN


def fault_data(fault: Code) -> dict[str, str | Sequence[str]]:
    """Return a fault as plain data."""
    return {"seen": fault.seen, "rules": fault.rules, "fix": way_of(fault)}


def way_of(fault: Code) -> str:
    """Return what to do about a fault: that of its rules, unless it has its own."""
    shown = " or ".join(f"nkisim rule {rule}" for rule in fault.rules)
    return fault.way or f"{shown}; nkisim check finds the line"


def code_text(faults: Sequence[Code]) -> str:
    """Return the faults behind a code as text, one or several."""
    lines = []
    for fault in faults:
        lines.append(f"  seen  {fault.seen}")
        if fault.rules:
            lines.append(f"  rule  {', '.join(fault.rules)}")
        lines.append(f"  fix   {way_of(fault)}")
    return "\n".join(lines) or "  nkisim has no note on this code"


def find_code(name: str, form: str) -> int:
    """Print what a code means; return whether it is known, as an exit status."""
    faults = faults_of(name)
    if form == "json":
        data = {"remedy": "", "calls": [], "faults": [fault_data(fault) for fault in faults]}
        click.echo(json.dumps(data, indent=2))
    else:
        click.echo(f"NCC_{name.upper().removeprefix('NCC_')}\n{code_text(faults)}")
    return FOUND if faults else UNKNOWN
