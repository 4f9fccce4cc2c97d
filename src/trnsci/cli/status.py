"""``trnsci status``: the validation table, computed from the records."""

from __future__ import annotations

import os
import shutil
import sys

import click

from trnsci.cli.output import write_or_show
from trnsci.cli.validate import choose_libraries

_MOST_COLUMNS = 120


@click.command()
@click.option("--lib", "libraries", multiple=True, help="Only this library; may be repeated.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "md", "html", "json"]),
    default="text",
    show_default=True,
)
@click.option("--output", type=click.Path(dir_okay=False), help="Write to a file.")
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
