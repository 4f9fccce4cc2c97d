"""``trnsci kernels``: every kernel with its module and the hardware feature it uses."""

from __future__ import annotations

import json
from dataclasses import asdict
from textwrap import fill

import click

from trnsci.cli.validate import choose_libraries


@click.command()
@click.option("--lib", "libraries", multiple=True, help="Only this library; may be repeated.")
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
