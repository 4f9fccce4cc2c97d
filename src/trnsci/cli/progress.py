"""Progress of long commands on a terminal: a bar and the time that is left, after two seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

AFTER = 2.0
"""Seconds before the bar is shown."""


class Steps(NamedTuple):
    """Callbacks of a command.

    Attributes:
        started: Called with the name of the step that begins.
        ended: Called when a step has ended.
    """

    started: Callable[[str], None]
    ended: Callable[[], None]


@contextmanager
def progress(total: int) -> Iterator[Steps]:
    """Show the progress of ``total`` steps on stderr while a context lasts.

    Nothing is written if stderr is no terminal: logs only need the result.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    console = Console(stderr=True)
    if not console.is_terminal:
        yield Steps(lambda name: None, lambda: None)
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeLeft(), TextColumn("{task.description}"))
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task("", total=total)
    timer = threading.Timer(AFTER, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield Steps(lambda name: bar.update(task, description=name), lambda: bar.advance(task))
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
