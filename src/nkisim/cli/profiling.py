"""``nkisim profile``: predict the device time of the kernels of files.

Exit status: 0 profiled, 1 a kernel was refused or is slower than a baseline, 2 a mistake on the
command line, 3 nothing was profiled.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import click

from nkisim import profiling
from nkisim.arch import resolve_target
from nkisim.cli.baseline import Baseline, arguments_text, baseline_options, read_baseline
from nkisim.cli.group import commands, format_option, lnc_option, nki_option
from nkisim.cli.profile_runs import (
    Outcome,
    Refusal,
    Settings,
    note_steps,
    profile_file,
    write_improved,
)
from nkisim.cli.streams import claimed_stdout
from nkisim.cli.targets import project_of, split_name, targets_of
from nkisim.diagnostics.findings import MOST_SHOWN
from nkisim.diagnostics.formats import finding_text, wants_colour
from nkisim.filecheck import parse_shapes
from nkisim.files import python_files, require_writable, write_text
from nkisim.profiling.changes import comparison_of
from nkisim.profiling.measured import beside, beside_text, read_summary, summary_of
from nkisim.profiling.saved import SCHEMA, Plain, is_saved, saved_profiles
from nkisim.profiling.text import comparison, summary
from nkisim.profiling.times import ComparedTime, implausible, read_times, times_beside, times_text

PROFILED, REFUSED, NOTHING = 0, 1, 3

_WIDTH = 100
"""Columns of text that is not printed on a terminal."""


@commands.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE[::KERNEL]...")
@click.option("--shapes", multiple=True, help='Arguments: "x=bf16[128,512] eps=1e-6".')
@click.option("--target", help="trn1, trn2, trn3, gen2, ... or all; several with commas.")
@nki_option
@lnc_option
@click.option("--values", is_flag=True, help="Compute values, where loops depend on them.")
@click.option(
    "--trip-count",
    type=click.IntRange(min=0),
    help="Value of registers loaded from memory, without --values.",
)
@click.option(
    "--descriptors",
    type=click.Choice(["software", "prebuilt"]),
    default="software",
    help="Origin of DMA descriptors where a kernel leaves it to the compiler.",
)
@click.option("--trace", metavar="FILE", help="Chrome trace for Perfetto: FILE.json or .json.gz.")
@click.option("--html", metavar="FILE", help="Report as one page: FILE.html.")
@format_option("text", "json", "summary-json")
@click.option("--json", "as_json", is_flag=True, hidden=True, help="As --format json.")
@click.option("--output", default="-", metavar="FILE", help="File to write to; by default, print.")
@click.option("--apply", is_flag=True, help="Write the changes of the advice to the files.")
@click.option("--diff", is_flag=True, help="Print these changes; the report goes to stderr.")
@click.option("--compare", is_flag=True, help="Two FILEs or saved profiles: what changed.")
@click.option("--max-instructions", type=click.IntRange(min=1), help="Limit of a run.")
@click.option("--max-seconds", type=click.FloatRange(min=0, min_open=True), default=600.0)
@click.option("--watch", is_flag=True, help="Profile again at every save, until Ctrl-C.")
@click.option("--measured", metavar="FILE", help="Summary of AWS's profiler, or times: FILE.csv.")
@baseline_options
def profile(
    files: tuple[str, ...],
    shapes: tuple[str, ...],
    target: str | None,
    values: bool,
    trip_count: int | None,
    descriptors: profiling.Descriptors,
    trace: str | None,
    html: str | None,
    form: str,
    as_json: bool,
    output: str,
    apply: bool,
    diff: bool,
    compare: bool,
    max_instructions: int | None,
    max_seconds: float,
    watch: bool,
    measured: str | None,
    baseline: str | None,
    fail_if_slower: str,
) -> int:
    """Predict the device time of the kernels of each FILE, or of one of them.

    Arguments come from nkisim_examples() in the file, from --shapes, nt.tensor annotations and
    defaults, of which --shapes wins. The target is trn2 by default. What the files print goes to
    stderr. --apply changes the kernels as the advice says, on one target, until nothing gains 2 %;
    --diff without it changes no file. With --compare, each of two FILEs is a kernel's, or what
    --format json has saved. Exit status: 0 profiled, 1 a kernel was refused or is slower than
    --baseline says, 2 a mistake on the command line, 3 nothing was profiled.
    """
    wanted = [split_name(name) for name in files]
    if watch:
        from nkisim.cli import watching

        return watching.watch([path for path, _ in wanted], max_seconds)
    project = project_of(wanted[0][0])
    _require_writable({"--trace": trace, "--html": html, "--output": _file(output)})
    outcome = Outcome()
    earlier = read_baseline(baseline, fail_if_slower)
    times = measured if measured is not None and measured.endswith(".csv") else None
    chip = None if measured is None or times else _measured(measured)
    try:
        settings = Settings(
            shapes=parse_shapes(" ".join(shapes)) if shapes else {},
            targets=targets_of(target or project.target or resolve_target().name),
            values=values,
            trip_count=trip_count,
            descriptors=descriptors,
            max_instructions=max_instructions or project.max_instructions or 2_000_000,
            max_seconds=max_seconds,
            improves=apply or diff,
            advice=not compare,
        )
        if settings.improves and len(settings.targets) > 1:
            raise ValueError("--apply and --diff take one target")
        if compare and (len(wanted) != 2 or settings.improves or trace or html):
            raise ValueError("--compare takes two FILEs, and no --apply, --diff, --trace, --html")
        if times and (len(wanted) != 1 or len(settings.targets) > 1 or settings.improves):
            raise ValueError("--measured with times takes one FILE on one target, and no --apply")
        sides: list[list[Plain]] = []
        with claimed_stdout() as stdout:
            compared = [] if times is None else _timed(times, wanted[0], settings, outcome)
            for file, kernel in [] if times else wanted:
                done = len(outcome.profiles)
                saved = saved_profiles(file) if compare and is_saved(file) else []
                for path in [] if saved else python_files(file):
                    profile_file(path, kernel, settings, outcome)
                sides.append([*saved, *(p.to_dict() for p in outcome.profiles[done:])])
            outcome.findings.relative_to(os.getcwd())
            if settings.improves:
                note_steps(outcome)
            if apply:
                write_improved(outcome)
            if earlier is not None:
                _compare(outcome, earlier)
            for note in outcome.notes:
                click.echo(f"nkisim: {note}", err=True)
            _write_reports(outcome, trace, html)
            if diff:
                stdout.write("".join(file.diff() for file in outcome.improved.values()))
            to_stderr = diff and _file(output) is None
            stream = None if _file(output) else sys.stderr if to_stderr else stdout.stream
            form = "json" if as_json else form
            if compare and all(sides):
                text = comparison_of(sides[0], sides[1], as_json=form == "json")
            elif compared:
                data = times_beside(compared)
                text = json.dumps(data, indent=2) + "\n" if form == "json" else times_text(data)
            elif chip is None:
                text = _report(outcome, form, stream)
            else:
                text = _beside(outcome, form, chip)
            if to_stderr:
                sys.stderr.write(text)
            elif stream is not None:
                stdout.write(text)
            else:
                _write("--output", output, lambda path: write_text(path, text))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return _status(outcome, compared=compare and all(sides))


def _status(outcome: Outcome, *, compared: bool) -> int:
    if outcome.refused:
        return REFUSED
    if outcome.profiles or compared:
        return PROFILED
    if not outcome.notes:
        click.echo("nkisim: nothing was profiled: no function with @nki.jit", err=True)
    return NOTHING


def _report(outcome: Outcome, form: str, stream: TextIO | None) -> str:
    """Return the report in one of its formats."""
    if form == "text":
        return _text(outcome, stream)
    if form == "json":
        return _json(outcome)
    names = [f"{found.kernel} on {found.target}" for found in outcome.profiles]
    if len(set(names)) < len(names):
        raise ValueError("--format summary-json takes one call of each kernel; give --shapes")
    made = {n: summary_of(p) for n, p in zip(names, outcome.profiles, strict=True)}
    return json.dumps(made, indent=2) + "\n"


def _measured(file: str) -> dict[str, float]:
    """Return the summary that AWS's profiler wrote to a file."""
    try:
        return read_summary(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--measured: {file}: {error}") from None


def _timed(
    file: str, wanted: tuple[Path, str | None], settings: Settings, outcome: Outcome
) -> list[ComparedTime]:
    """Profile the arguments of each row of a table of measured times.

    Raises:
        ValueError: Rows cannot be read, or cannot be times of the kernel; it has each by its line.
    """
    try:
        rows, faults = read_times(Path(file).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--measured: {file}: {error}") from None
    found = []
    for row in rows:
        run, reason = Outcome(), ""
        try:
            shapes = {**settings.shapes, **parse_shapes(row.arguments)}
            given = settings._replace(shapes=shapes, advice=False)
            for path in python_files(wanted[0]):
                profile_file(path, wanted[1], given, run)
        except ValueError as error:
            reason = str(error)
        if len(run.profiles) == 1:
            found.append(ComparedTime(row, run.profiles[0]))
            reason = implausible(found[-1])
        elif not reason:
            reasons = [*(refusal.reason for refusal in run.refused), *run.notes]
            reason = next(iter(reasons), f"{len(run.profiles)} calls: name one as FILE::KERNEL")
        faults += [f"line {row.line}: {reason}"] if reason else []
    if faults:
        raise ValueError(f"--measured: {file}\n  " + "\n  ".join(sorted(faults, key=_line)))
    outcome.profiles += [entry.profile for entry in found]
    return found


def _line(fault: str) -> int:
    return int(fault.removeprefix("line ").partition(":")[0])


def _beside(outcome: Outcome, form: str, chip: dict[str, float]) -> str:
    """Return the measurement beside the prediction."""
    if len(outcome.profiles) != 1:
        raise ValueError(
            f"--measured takes one call of one kernel on one target, got {len(outcome.profiles)}"
        )
    found = beside(outcome.profiles[0], chip)
    return json.dumps(found, indent=2) + "\n" if form == "json" else beside_text(found)


def _compare(outcome: Outcome, earlier: Baseline) -> None:
    """Refuse the kernels that are slower than before."""
    for found in outcome.profiles:
        call = (found.kernel, found.target, arguments_text(found.arguments))
        if not earlier.knows(*call):
            outcome.notes.append(f"--baseline has no {' on '.join(call[:2])} with {call[2]}")
        text = earlier.slower(*call, found.latency_us)
        if text:
            outcome.refused.append(Refusal(found.kernel, found.target, text))


# -- output ----------------------------------------------------------------------------------------


def _text(outcome: Outcome, stream: TextIO | None) -> str:
    """Return the text for a stream, or for a file."""
    colour = stream is not None and wants_colour(stream)
    unicode = stream is None or _encodes_blocks(stream.encoding)
    terminal = stream is not None and stream.isatty()
    width = _terminal_width() if terminal else _WIDTH
    parts = [summary(found, width, colour=colour, unicode=unicode) for found in outcome.profiles]
    if len(outcome.profiles) > 1:
        parts.append(comparison(outcome.profiles))
    shown = outcome.findings.findings[:MOST_SHOWN]
    refused = [f"on {refusal.target}: {refusal.reason}" for refusal in outcome.refused]
    if refused:
        parts.append("\n".join([*(finding_text(f, colour) for f in shown), *refused]) + "\n")
    return "\n".join(parts)


def _terminal_width() -> int:
    import shutil  # with libraries for archives

    return shutil.get_terminal_size((_WIDTH, 24)).columns


def _encodes_blocks(encoding: str | None) -> bool:
    """Return whether an encoding has the characters of bars and timelines."""
    try:
        "░▒▓█".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _json(outcome: Outcome) -> str:
    data = {
        "schema": SCHEMA,
        "profiles": [found.to_dict() for found in outcome.profiles],
        "refused": [refusal._asdict() for refusal in outcome.refused],
        "findings": [finding.to_dict() for finding in outcome.findings.findings],
        "notes": outcome.notes,
    }
    return json.dumps(data, indent=2) + "\n"


def _file(output: str) -> str | None:
    return None if output == "-" else output


def _require_writable(files: dict[str, str | None]) -> None:
    """Raise before anything runs if a file cannot be written, or two options name the same."""
    taken: dict[Path, str] = {}
    for option, path in files.items():
        if path is None:
            continue
        _write(option, path, require_writable)
        other = taken.setdefault(Path(path).resolve(), option)
        if other != option:
            raise click.UsageError(f"{option}: {path} is also the file of {other}")


def _write_reports(outcome: Outcome, trace: str | None, html: str | None) -> None:
    """Write the trace and the page; without a profile the files are unchanged."""
    found = outcome.profiles
    reports: list[tuple[str, str | None, Callable[[str], None]]] = [
        ("--trace", trace, lambda path: _write_trace(found, path)),
        ("--html", html, lambda path: _write_page(found, path)),
    ]
    for option, path, write in reports:
        if path is None:
            continue
        if found:
            _write(option, path, write)
        else:
            click.echo(f"nkisim: {option}: no profile; {path} was not written", err=True)


def _write_trace(found: list[profiling.Profile], path: str) -> None:
    from nkisim.profiling.trace import write_trace

    write_trace(found, path)


def _write_page(found: list[profiling.Profile], path: str) -> None:
    from nkisim.profiling.page import profile_page

    write_text(path, profile_page(found))


def _write(option: str, path: str, write: Callable[[str], None]) -> None:
    try:
        write(path)
    except OSError as error:
        raise click.UsageError(f"{option}: cannot write {path}: {error}") from None
