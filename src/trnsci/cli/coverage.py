"""``trnsci coverage``: the path of every public function, for each dtype and level."""

from __future__ import annotations

import click

from trnsci.cli.output import write_or_show
from trnsci.cli.validate import choose_libraries


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
def coverage(libraries: tuple[str, ...], form: str, output: str | None) -> None:
    """Show which kernel computes a function, for each dtype and level of precision.

    One small call of every public function runs on the simulator with operands of each dtype, at
    each level. The table tells which kernels ran, why others refused the operands, and which calls
    raise.
    """
    from trnsci.coverage import lines, render

    write_or_show(render(lines(choose_libraries(libraries)), form), output)
