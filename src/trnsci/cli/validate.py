"""``trnsci validate``: run every kernel's case on the simulator and write the records."""

from __future__ import annotations

import difflib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trnsci.cli.progress import progress

if TYPE_CHECKING:
    from trnsci.validation import Task


@click.command()
@click.option("--lib", "libraries", multiple=True, help="Only this library; may be repeated.")
@click.option("--kernel", "kernels", multiple=True, help="Only this kernel; may be repeated.")
@click.option(
    "--target",
    default="all",
    show_default=True,
    help="Generation to compute on, such as gen3 or trn2; the others are checked without values.",
)
@click.option("--quick", is_flag=True, help="Compute on trn2 alone.")
@click.option(
    "--on",
    "where",
    type=click.Choice(["simulator", "device"]),
    default="simulator",
    show_default=True,
    help="Run on the simulator, or on this machine's NeuronCore and write a hardware record.",
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option("--again", is_flag=True, help="Also run kernels with an up-to-date record.")
@click.option(
    "--records", "folder", type=click.Path(file_okay=False), help="Folder of the records."
)
def validate(
    libraries: tuple[str, ...],
    kernels: tuple[str, ...],
    target: str,
    quick: bool,
    where: str,
    jobs: int,
    again: bool,
    folder: str | None,
) -> None:
    """Run every kernel on the simulator against its reference.

    A kernel passes if its public function launches it, its result is within the bound, and it has
    no findings on gen2, gen3 and gen4. Each record is written immediately; an interrupted run can
    be resumed. Exit status: 0 all passed, 1 some failed, 2 wrong usage.
    """
    from trnsci.validation import HARDWARE, records_folder, tasks
    from trnsci.validation import validate as run
    from trnsci.validation.campaign import QUICK

    chosen = choose_libraries(libraries)
    values_on = QUICK if quick else _generations(target)
    home = records_folder(folder)
    if where == "device":
        _require_device()
        values_on, jobs = (), 1  # one process has the NeuronCore
        home = records_folder(folder) if folder else HARDWARE
    path: Any = "nki" if where == "device" else "simulator"
    todo = tasks(home, libraries=chosen, kernels=kernels, values_on=values_on, anew=again)
    _require_known(kernels, chosen)
    _require_writable(home)
    failed = []

    def begin(task: Task) -> None:
        steps.started(f"{task.library}.{task.kernel}")

    with progress(len(todo)) as steps:
        for record in run(todo, home, values_on=values_on, path=path, jobs=jobs, started=begin):
            steps.ended()
            if record.status == "failed":
                failed.append(record)
    for record in failed:
        click.echo(f"{record.library}.{record.kernel} failed: {record.message}", err=True)
    known = sum(task.known is not None for task in todo)
    click.echo(
        f"{len(todo) - len(failed)} of {len(todo)} kernels passed, {known} of them before; "
        f"records in {home}"
    )
    if failed:
        raise SystemExit(1)


def choose_libraries(given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the named libraries, by default all."""
    from trnsci.validation import LIBRARIES

    unknown = [name for name in given if name not in LIBRARIES]
    if unknown:
        raise click.UsageError(f"--lib: got {unknown[0]!r}, accepted: {', '.join(LIBRARIES)}")
    return given or LIBRARIES


def _generations(target: str) -> tuple[str, ...]:
    from nkisim import SimOptions
    from trnsci.validation import GENERATIONS

    if target == "all":
        return GENERATIONS
    try:
        return (SimOptions(target=target).generation().name,)
    except ValueError as error:
        raise click.UsageError(f"--target: {error}") from None


def _require_known(named: tuple[str, ...], libraries: tuple[str, ...]) -> None:
    from trnsci.core.evidence import kernels_of

    known = {source.name for library in libraries for source in kernels_of(library)}
    for name in named:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            where = "" if len(libraries) > 1 else f" of {libraries[0]}"
            raise click.UsageError(
                f"--kernel: no kernel{where} is called {name!r}; "
                + (f"did you mean {near[0]!r}? " if near else "")
                + "`trnsci kernels` lists them"
            )


def _require_writable(folder: Path) -> None:
    """Check that records can be written, before the first kernel runs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise click.UsageError(f"--records: cannot write to {folder}: {error.strerror}") from None


def _require_device() -> None:
    from trnsci.core.backend.library import device_ready

    if not device_ready():
        raise click.UsageError(
            "--on device: no NeuronCore can be reached with AWS's NKI; `trnsci doctor` shows why"
        )
