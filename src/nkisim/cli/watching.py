"""``--watch``: the report again at every save, with marks at what is new."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from nkisim.cli.group import ARGUMENTS
from nkisim.cli.serving import warm_server
from nkisim.files import python_files
from nkisim.serve.requests import Reply

_EVERY = 0.2
"""Seconds between looks at the times of the files."""


def watch(paths: Sequence[Path], seconds: float) -> int:
    """Run the command of the current context without ``--watch`` at every save, until Ctrl-C.

    Returns:
        The status of the last run.
    """
    given = click.get_current_context().meta[ARGUMENTS]
    arguments = [argument for argument in given if argument != "--watch"]
    shown: set[str] = set()
    saved, status = None, 0
    with warm_server() as server:
        try:
            while True:
                if saved != (now := _times(paths)):
                    reply = server.run(arguments, seconds=seconds + 10)
                    _print(reply, shown if saved else None)
                    saved, status = now, reply.status
                    shown = {_key(line) for line in reply.output.splitlines()}
                time.sleep(_EVERY)
        except KeyboardInterrupt:
            return status


def _times(paths: Sequence[Path]) -> list[tuple[Path, int]]:
    """Return the files that exist, with the times of their last change."""
    files = (file for path in paths for file in python_files(path))
    return [(file, file.stat().st_mtime_ns) for file in files if file.exists()]


def _key(line: str) -> str:
    """Return a line of a report without the numbers of the user's lines."""
    return re.sub(r"(\.py):\d+", r"\1", line)


def _print(reply: Reply, earlier: set[str] | None) -> None:
    """Print a report; each of its lines that the report before did not have begins with ``+``."""
    click.echo(f"-- {time.strftime('%H:%M:%S')}")
    sys.stderr.write(reply.errors)
    for line in reply.output.splitlines():
        is_new = earlier is not None and bool(line) and _key(line) not in earlier
        click.echo(f"{'+' if is_new else ' '} {line}".rstrip())
    sys.stdout.flush()
