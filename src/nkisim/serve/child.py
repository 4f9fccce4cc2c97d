"""The processes that run requests: the warm one, its forks, and new ones where there is no fork."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import io
import json
import os
import select
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from nkisim.judging.child import Limits
from nkisim.rewriting import SourceText, drafts

Command = Callable[[Sequence[str]], None]

_IDLE = 0.05
"""Seconds without a request after which the next child rehearses; in a burst none does."""


def warm_process(descriptor: str, command: str, rehearsal: str) -> None:
    """Keep a child ready for the next request, until the process that sends them has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the whole group
    control = socket.socket(fileno=int(descriptor))
    run, rehearse = _function(command), _function(rehearsal)
    rehearse()
    gc.collect()
    gc.freeze()  # a collection would write to memory that the forks share
    children: set[int] = set()
    message = b"f"
    while message:
        mine, other = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            control.close()
            mine.close()
            _await_request(other, run, rehearse)
        children.add(pid)
        other.close()
        with mine:
            message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            with contextlib.suppress(OSError):  # it was ended from outside: no answer comes
                socket.send_fds(mine, [message], descriptors)
        for received in descriptors:
            os.close(received)
        children = {pid for pid in children if os.waitpid(pid, os.WNOHANG) == (0, 0)}
    for pid in children:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _await_request(channel: socket.socket, run: Command, rehearse: Callable[[], None]) -> NoReturn:
    """Run the request that comes, in a process to which most of the memory was copied before."""
    try:
        os.setsid()  # on a time-out the parent kills the whole process group
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if not select.select([channel], [], [], _IDLE)[0]:
            rehearse()
        message, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        channel.close()
        if message:
            _serve(socket.socket(fileno=descriptors[0]), run)
    finally:
        os._exit(0)


def spawned(descriptor: str, command: str) -> None:
    """Run one request in this process."""
    if hasattr(os, "setsid"):
        os.setsid()
    _serve(socket.socket(fileno=int(descriptor)), _function(command))


def _function(path: str) -> Callable[..., None]:
    module, _, name = path.partition(":")
    found: Callable[..., None] = getattr(import_module(module), name)
    return found


def _serve(channel: socket.socket, command: Command) -> NoReturn:
    """Run a request with stdout and stderr in files, send them, and end the process."""
    try:
        channel.sendall(b"%d\n" % os.getpid())
        faulthandler.enable(file=channel.fileno())
        with channel.makefile("rb") as lines:
            folder, arguments, texts, seconds = json.loads(lines.readline())
        _limit(seconds)
        os.chdir(folder)
        channel.sendall(json.dumps(_answer(command, arguments, texts)).encode())
    finally:
        os._exit(0)  # what the checked files registered for the end of a process does not run


def _answer(command: Command, arguments: Sequence[str], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the exit status of a command line, and what it printed."""
    sources = {Path(path): SourceText(text, "utf-8", b"") for path, text in texts.items()}
    status: Any = 0
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        for number, (name, file) in enumerate((("stdout", output), ("stderr", errors)), 1):
            os.dup2(file.fileno(), number)
            stream = io.TextIOWrapper(io.FileIO(number, "w", closefd=False), "utf-8", "replace")
            setattr(sys, name, stream)
        try:
            with drafts(sources):
                command(arguments)
        except SystemExit as ended:
            status = ended.code
        sys.stdout.flush()
        sys.stderr.flush()
        status = status if isinstance(status, int) else int(status is not None)
        return {"status": status, "output": _text(output), "errors": _text(errors)}


def _text(stream: Any) -> str:
    stream.seek(0)
    data: bytes = stream.read()
    return data.decode("utf-8", "replace")


def _limit(seconds: float) -> None:
    """Limit processor time and memory, where the system can."""
    if os.name != "posix":
        return
    import resource

    # The parent kills this process after ``seconds``. The limit of processor time ends it if the
    # parent itself has ended.
    for kind, most in (
        (resource.RLIMIT_CPU, int(seconds) + 5),
        (resource.RLIMIT_AS, Limits().memory),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
