"""Commands that print a table: ``trnsci status``, ``coverage`` and ``kernels``.

``status`` shows the validation table, computed from the records. ``coverage`` shows the path of
every public function, for each dtype and level. ``kernels`` lists every kernel with its module and
the hardware feature it uses.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from textwrap import fill

import click

from trnsci.cli.progress import progress
from trnsci.cli.validate import choose_libraries

_MOST_COLUMNS = 120

_libraries = click.option(
    "--lib", "libraries", multiple=True, help="Only this library; may be repeated."
)
_form = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "md", "html", "json"]),
    default="text",
    show_default=True,
)
_output = click.option("--output", type=click.Path(dir_okay=False), help="Write to a file.")


@click.command()
@_libraries
@_form
@_output
@click.option(
    "--records", "folder", type=click.Path(file_okay=False), help="Folder of the records."
)
@click.option("--wide", is_flag=True, help="All columns of the text, in lines of any length.")
def status(
    libraries: tuple[str, ...], form: str, output: str | None, folder: str | None, wide: bool
) -> None:
    """Show the validation status of every kernel.

    Text has at most 120 columns, or those of the terminal if it is narrower. A record is stale if
    its sources have changed since. Exit status: 0, or 1 if a kernel failed or a record cannot be
    read.
    """
    from trnsci.validation import records_folder, render, rows

    found, bad = rows(records_folder(folder), choose_libraries(libraries))
    terminal = output is None and sys.stdout.isatty()
    text = render(
        found,
        bad,
        form,
        width=None if wide else _columns(terminal),
        colour=terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
    )
    write_or_show(text, output)
    if bad or any(row.status == "failed" for row in found):
        raise SystemExit(1)


def _columns(terminal: bool) -> int:
    """Return the largest width of text without ``--wide``."""
    return min(_MOST_COLUMNS, shutil.get_terminal_size().columns) if terminal else _MOST_COLUMNS


@click.command()
@_libraries
@_form
@_output
def coverage(libraries: tuple[str, ...], form: str, output: str | None) -> None:
    """Show which kernel computes a function, for each dtype and level of precision.

    One small call of every public function runs on the simulator with operands of each dtype, at
    each level. The table tells which kernels ran, why others refused the operands, and which calls
    raise.
    """
    from trnsci.core.examples import examples_of
    from trnsci.coverage import lines, render

    chosen = choose_libraries(libraries)
    with progress(sum(len(examples_of(library)) for library in chosen)) as steps:

        def end(name: str) -> None:
            steps.started(name)
            steps.ended()

        found = lines(chosen, end)
    write_or_show(render(found, form), output)


@click.command()
@_libraries
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
def kernels(libraries: tuple[str, ...], form: str) -> None:
    """List the kernels, each with the hardware feature (lever) it uses."""
    from trnsci.core.evidence import kernels_of

    found = [source for library in choose_libraries(libraries) for source in kernels_of(library)]
    if form == "json":
        click.echo(json.dumps([asdict(source) for source in found], indent=1))
        return
    for source in found:
        click.echo(f"{source.library}.{source.name}   {source.module}")
        click.echo(fill(source.summary, 96, initial_indent="  ", subsequent_indent="  "))
        click.echo(
            fill(source.lever, 96, initial_indent="  lever  ", subsequent_indent=" " * 9) + "\n"
        )
    click.echo(f"{len(found)} kernels")


def write_or_show(text: str, output: str | None) -> None:
    """Print a text; or write it to a file, and print the name of the file.

    Raises:
        click.UsageError: The file cannot be written.
    """
    from trnsci.validation import write_whole

    if output is None:
        click.echo(text, nl=False)
        return
    try:
        write_whole(Path(output), text)
    except OSError as error:
        raise click.UsageError(f"--output: cannot write {output}: {error.strerror}") from None
    click.echo(output)
