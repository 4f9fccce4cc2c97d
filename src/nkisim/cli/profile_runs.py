"""Runs of ``nkisim profile``: the kernels of a file, profiled, and changed where that is wanted."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import click

from nkisim import profiling
from nkisim.api import Kernel
from nkisim.cli.improving import ImprovedFile, improve
from nkisim.diagnostics.ledger import Ledger
from nkisim.filecheck import Shapes
from nkisim.filecheck.calls import BadExamples, KernelCall, where_raised
from nkisim.filecheck.files import kernel_calls
from nkisim.filecheck.modules import CannotImport, GaveUp, time_limit
from nkisim.rewriting import SourceError
from nkisim.trials import Progress


class Refusal(NamedTuple):
    """A kernel without a device time on a generation, and the reason in one line."""

    kernel: str
    target: str
    reason: str


@dataclass(slots=True)
class Outcome:
    """Results of a command.

    Attributes:
        profiles: The profiles.
        refused: The kernels without a device time.
        findings: The errors for which kernels were refused.
        notes: Why other kernels were not run.
        improved: The files that advice changes.
    """

    profiles: list[profiling.Profile] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    findings: Ledger = field(default_factory=Ledger)
    notes: list[str] = field(default_factory=list)
    improved: dict[Path, ImprovedFile] = field(default_factory=dict)


class Settings(NamedTuple):
    """Settings of the runs, as the options give them."""

    shapes: Shapes
    targets: tuple[str, ...]
    values: bool
    trip_count: int | None
    descriptors: profiling.Descriptors
    max_instructions: int
    max_seconds: float
    improves: bool
    advice: bool


def profile_file(file: Path, kernel: str | None, settings: Settings, outcome: Outcome) -> None:
    """Profile the kernels of a file, or one of them, with known arguments."""
    try:
        calls = kernel_calls(
            file.resolve(), kernel, settings.shapes, settings.max_seconds, outcome.notes
        )
        for call in calls:
            for target in settings.targets:
                found = _improved(call, target, settings, outcome)
                outcome.profiles += [] if found is None else [found]
    except (CannotImport, BadExamples) as error:
        outcome.notes.append(f"{file}: {error}")
    except SyntaxError as error:
        place = file if error.lineno is None else f"{file}:{error.lineno}"
        outcome.notes.append(f"{place}: not valid Python: {error.msg}")
    except OSError as error:
        outcome.notes.append(f"{file}: {error}")


def _improved(
    call: KernelCall, target: str, settings: Settings, outcome: Outcome
) -> profiling.Profile | None:
    """Profile one call on one generation, and change its kernel where that is wanted."""

    def predict(kernel: Kernel) -> profiling.Profile | None:
        return _profile(call._replace(kernel=kernel), target, settings, outcome)

    return (
        improve(call.kernel, predict, outcome.improved)
        if settings.improves
        else predict(call.kernel)
    )


def note_steps(outcome: Outcome) -> None:
    """Note each step of the changes."""
    for file in outcome.improved.values():
        outcome.notes += [f"step {i}: {step}" for i, step in enumerate(file.steps, 1)]


def write_improved(outcome: Outcome) -> None:
    """Write the changed files, and note what was done."""
    for file in outcome.improved.values():
        try:
            if file.text != file.before:
                file.write()
            done = f"written after {len(file.steps)} step(s)" if file.steps else "nothing gains 2 %"
        except SourceError as error:
            done = f"{error}"
        outcome.notes.append(f"{file.path}: {done}")


def _progress(seconds: float) -> Progress:
    """Return a function that prints the progress of trials, and ends them in time.

    The first trial takes about five times as long as the profile, others about twice.
    """
    start = time.monotonic()

    def shown(number: int, most: int) -> bool:
        if sys.stderr.isatty():
            click.echo(f"\rnkisim: trial {number} of at most {most}\x1b[K", nl=False, err=True)
        return (time.monotonic() - start) * (6 if number == 1 else 2) < seconds

    return shown


def _profile(
    call: KernelCall, target: str, settings: Settings, outcome: Outcome
) -> profiling.Profile | None:
    """Profile one call on one generation; a refusal is recorded."""
    name = call.name
    predict = profiling.profile(
        call.kernel,
        target,
        values=settings.values,
        trip_count=settings.trip_count,
        descriptors=settings.descriptors,
        max_instructions=settings.max_instructions,
        advice=settings.advice,
        progress=_progress(settings.max_seconds),
    )
    try:
        with time_limit(settings.max_seconds):
            return predict(*call.args, **call.kwargs)
    except profiling.ProfileError as error:
        reason = str(error).partition("\n")[0]
        outcome.refused.append(Refusal(name, target, reason))
        outcome.findings.add(error.report.errors, target)
    except GaveUp as error:
        outcome.refused.append(Refusal(name, target, f"{name} exceeded {error}"))
    except (Exception, SystemExit) as error:
        reason = f"{name} raised {type(error).__name__}: {error}{where_raised(error)}"
        outcome.refused.append(Refusal(name, target, reason))
    finally:
        if sys.stderr.isatty():
            click.echo("\r\x1b[K", nl=False, err=True)
    return None
