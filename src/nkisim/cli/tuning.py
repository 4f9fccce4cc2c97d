"""``nkisim tune``: rank the variants of a kernel by predicted time.

Exit status: 0 ranked, 1 no variant of a kernel is legal and right, 2 a mistake on the command line,
3 nothing was ranked.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from contextlib import nullcontext
from typing import Any

import click

from nkisim.arch import resolve_target
from nkisim.cli.group import commands, format_option, nki_option
from nkisim.cli.streams import claimed_stdout, emit
from nkisim.cli.targets import project_of, reference_of, split_name
from nkisim.dtypes import DTYPES
from nkisim.filecheck import parse_shapes
from nkisim.filecheck.calls import BadExamples
from nkisim.filecheck.files import kernel_calls
from nkisim.filecheck.modules import CannotImport
from nkisim.files import require_writable, write_text
from nkisim.intents import DTYPE_NAMES
from nkisim.tuning import NoneLegalError, Progress, Tuning, tune
from nkisim.tuning.page import tuning_page

RANKED, NONE_LEGAL, NOTHING = 0, 1, 3

SCHEMA = 1
"""Version of the JSON format; incremented when the meaning of a key changes."""


def parse_space(text: str) -> dict[str, list[Any]]:
    """Parse a text such as ``"TILES_M=1,2,4 ORDER='mn','nm'"``.

    Raises:
        ValueError: The text cannot be parsed; the message has the part that cannot.
    """
    space: dict[str, list[Any]] = {}
    for entry in filter(None, re.split(r"[\s;]+(?=\w+\s*=)", text.strip())):
        name, _, values = (part.strip() for part in entry.partition("="))
        if not name.isidentifier() or name in space:
            fault = "is given twice" if name in space else "is no name of a parameter"
            raise ValueError(f'space: {name!r} {fault}; write --space "TILES_M=1,2,4 TILES_N=1,2"')
        try:
            space[name] = _values(ast.parse(f"[{values}]", mode="eval").body)
        except (ValueError, SyntaxError):
            raise ValueError(
                f"space: {name}={values} are not constants; accepted: numbers, dtypes, quoted "
                "strings, None, True, False, and tuples of them, with commas between"
            ) from None
    return space


def _values(node: ast.expr) -> Any:
    """Return the value of a literal in which dtypes have the names of --shapes."""
    if isinstance(node, ast.List):
        return [_values(part) for part in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_values(part) for part in node.elts)
    if isinstance(node, ast.Name):
        dtype = DTYPES.get(DTYPE_NAMES.get(node.id, node.id))
        if dtype is not None:
            return dtype
    return ast.literal_eval(node)


@commands.command("tune")
@click.argument("name", metavar="FILE::KERNEL")
@click.option("--space", required=True, help='Values by parameter: "TILES_M=1,2,4 TILES_N=1,2".')
@click.option(
    "--reference", metavar="FILE::FUNCTION", help="NumPy or torch; default: the defaults."
)
@click.option("--shapes", multiple=True, help='Other arguments: "x=bf16[128,512] eps=1e-6".')
@click.option("--target", help="trn1, trn2, trn3, gen2, ...; trn2 by default.")
@nki_option
@click.option("--jobs", type=click.IntRange(min=1), help="Processes; by default, all processors.")
@click.option("--html", metavar="FILE", help="Times against memory as one page: FILE.html.")
@format_option("text", "json")
@click.option("--output", default="-", metavar="FILE", help="File to write to; by default, print.")
@click.option("--max-seconds", type=click.FloatRange(min=0, min_open=True), default=600.0)
def tune_command(
    name: str,
    space: str,
    reference: str | None,
    shapes: tuple[str, ...],
    target: str | None,
    jobs: int | None,
    html: str | None,
    form: str,
    output: str,
    max_seconds: float,
) -> int:
    """Rank the variants of KERNEL by predicted time.

    A variant has one value of each parameter of --space, such as "TILES=1,2 DTYPE=bf16,f32".
    Variants with an error, those longer than --max-seconds and those that compute something else
    than --reference are dropped with the reason; without --reference, something else than the
    kernel with its defaults. Other arguments come from --shapes,
    nkisim_examples(), annotations and defaults, as for `nkisim profile`. Exit status: 0 ranked, 1
    no variant of a kernel is legal and right, 2 a mistake on the command line, 3 nothing was
    ranked.
    """
    file, kernel = split_name(name)
    if not kernel:
        raise click.UsageError(f"tune takes one kernel: {file}::KERNEL")
    project = project_of(file)
    results: list[Tuning] = []
    refused: list[str] = []
    notes: list[str] = []
    try:
        choices = parse_space(space)
        given = parse_shapes(" ".join(shapes)) if shapes else {}
        first = {key: values[0] for key, values in choices.items() if values}
        resolved = resolve_target(target or project.target or None).name
        for report in (html, None if output == "-" else output):
            if report is not None:
                require_writable(report)
        path = file.resolve()
        home = nullcontext() if reference is None else reference_of(reference, max_seconds)
        with claimed_stdout() as stdout, home as function:
            for call in kernel_calls(path, kernel, {**first, **given}, max_seconds, notes):
                ranking = tune(
                    call.kernel,
                    choices,
                    resolved,
                    reference=function,
                    jobs=jobs or os.cpu_count() or 1,
                    file=path,
                    max_seconds=max_seconds,
                    progress=_progress(),
                )
                try:
                    results.append(ranking(*call.args, **call.kwargs))
                except NoneLegalError as error:
                    refused.append(str(error))
            for note in [*notes, *refused]:
                click.echo(f"nkisim: {note}", err=True)
            if html is not None and results:
                write_text(html, tuning_page(results))
            text = _json(results, refused) if form == "json" else "\n".join(map(str, results))
            emit(text, output, stdout)
    except (CannotImport, BadExamples, OSError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    return NONE_LEGAL if refused else RANKED if results else NOTHING


def _progress() -> Progress | None:
    """Return a function that prints the progress on a terminal; None elsewhere."""
    if not sys.stderr.isatty():
        return None

    def show(done: int, most: int) -> None:
        end = "\r\x1b[K" if done == most else ""
        click.echo(f"\rnkisim: {done} of {most} variants\x1b[K{end}", nl=False, err=True)

    return show


def _json(results: list[Tuning], refused: list[str]) -> str:
    data = {
        "schema": SCHEMA,
        "tunings": [result.to_dict() for result in results],
        "refused": refused,
    }
    return json.dumps(data, indent=2, default=str) + "\n"
