"""The option ``--output`` of commands that print a table."""

from __future__ import annotations

from pathlib import Path

import click


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
