"""The processes that run requests: the warm one, its forks, and new ones where there is no fork."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import io
import json
import os
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


def warm_process(descriptor: str, command: str, warm: str) -> None:
    """Fork for each request, until the process that sends them has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the whole group
    control = socket.socket(fileno=int(descriptor))
    run = _function(command)
    import_module(warm)
    gc.collect()
    gc.freeze()  # a collection would write to memory that the forks share
    children: set[int] = set()
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        children = {pid for pid in children if os.waitpid(pid, os.WNOHANG) == (0, 0)}
        if not message:
            break
        pid = os.fork()
        if pid == 0:
            control.close()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _serve(socket.socket(fileno=descriptors[0]), run)
        children.add(pid)
        os.close(descriptors[0])
    for pid in children:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def spawned(descriptor: str, command: str) -> None:
    """Run one request in this process."""
    _serve(socket.socket(fileno=int(descriptor)), _function(command))


def _function(command: str) -> Callable[[Sequence[str]], None]:
    module, _, name = command.partition(":")
    found: Callable[[Sequence[str]], None] = getattr(import_module(module), name)
    return found


def _serve(channel: socket.socket, command: Callable[[Sequence[str]], None]) -> NoReturn:
    """Run a request with stdout and stderr in files, send them, and end the process."""
    try:
        if hasattr(os, "setsid"):
            os.setsid()  # on a time-out the parent kills the whole process group
        channel.sendall(b"%d\n" % os.getpid())
        faulthandler.enable(file=channel.fileno())
        with channel.makefile("rb") as lines:
            folder, arguments, texts, seconds = json.loads(lines.readline())
        _limit(seconds)
        os.chdir(folder)
        channel.sendall(json.dumps(_answer(command, arguments, texts)).encode())
    finally:
        os._exit(0)  # what the checked files registered for the end of a process does not run


def _answer(
    command: Callable[[Sequence[str]], None], arguments: Sequence[str], texts: Mapping[str, str]
) -> dict[str, Any]:
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
