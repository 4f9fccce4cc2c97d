"""The stdout of a process that runs the code of others: the report has it to itself."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TextIO

import click

from nkisim.cli.group import PROCESS
from nkisim.files import write_text


class Stdout:
    """The stream and the descriptor that were stdout before they were claimed.

    Attributes:
        stream: What ``sys.stdout`` was.
    """

    def __init__(self) -> None:
        self.stream: TextIO = sys.stdout
        try:
            self._descriptor = os.dup(1)
        except OSError:  # the process was started without a stdout
            self._descriptor = -1
        self._flush()
        if self._descriptor >= 0:
            os.dup2(2, 1)
        sys.stdout = sys.stderr

    def write(self, text: str) -> None:
        """Write to what was stdout."""
        try:
            is_own = self.stream.fileno() == 1 and self._descriptor >= 0
        except (OSError, ValueError):  # a stream without a descriptor, as in tests
            is_own = False
        if not is_own:
            self.stream.write(text)
            return
        coding = self.stream.encoding
        with open(os.dup(self._descriptor), "w", encoding=coding, errors="replace") as stream:
            stream.write(text)

    def give_back(self) -> None:
        """Make the stream and the descriptor stdout again."""
        self._flush()
        if self._descriptor >= 0:
            os.dup2(self._descriptor, 1)
            os.close(self._descriptor)
        sys.stdout = self.stream

    def _flush(self) -> None:
        for stream in (self.stream, sys.__stdout__):
            if stream is not None:
                stream.flush()


def emit(text: str, output: str, stdout: Stdout | TextIO) -> None:
    """Write a report to the file of ``--output``, or print it."""
    if output == "-":
        stdout.write(text)
        return
    try:
        write_text(output, text)
    except OSError as error:
        raise click.UsageError(f"--output: {error}") from None


@contextlib.contextmanager
def claimed_stdout() -> Iterator[Stdout]:
    """Send what others print in a context to stderr: Python code, child processes and C code.

    A process of the command line does not give it back after a report: threads and exit handlers
    of the checked files may still print.
    """
    stdout = Stdout()
    try:
        yield stdout
    except BaseException:
        stdout.give_back()
        raise
    if click.get_current_context().find_root().obj is not PROCESS:
        stdout.give_back()
