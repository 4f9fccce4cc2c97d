"""Requests: command lines that children of one warm process run, with limits.

The warm process imports nkisim once, has no threads and runs no code of users. Each request runs in
a fork of it, or in a new process where there is no fork, so that a crash or an endless kernel ends
its request alone. A fork is made before its request comes, and rehearses when there is time: to
copy the memory that it shares with the warm process takes long beside a small check. The warm
process ends with the one that started it, and ends its forks.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nkisim.judging.child import Limits

SECONDS = Limits().seconds
"""Wall time of a request."""

CRASHED, OUT_OF_TIME = 70, 75
"""Statuses of a request whose child crashed, and of one that exceeded its time."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The end of a command.

    Attributes:
        status: Its exit status; CRASHED or OUT_OF_TIME if it did not end by itself.
        output: What it printed to stdout.
        errors: What it and the checked files printed to stderr, or the reason why it was ended.
    """

    status: int
    output: str
    errors: str


@dataclass
class Server:
    """A warm process, started at the first request; a context, at whose end it ends.

    Args:
        command: The module and the name of the command line, ``"module:function"``.
        rehearsal: What the warm process does before it forks, and each fork before its request,
            ``"module:function"``.
        forks: Whether requests run in forks.
    """

    command: str
    rehearsal: str
    forks: bool = hasattr(os, "fork")
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)
    _control: socket.socket | None = field(default=None, init=False, repr=False)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        if self._control is not None:
            self._control.close()  # the warm process reads the end
        if self._process is not None:
            self._process.wait()
        self._control = self._process = None

    def start(self) -> None:
        """Start the warm process, so that the first request need not wait for its imports."""
        if not self.forks or (self._process is not None and self._process.poll() is None):
            return
        self._control, other = socket.socketpair()
        self._process = self._started(other, "warm_process", self.rehearsal)
        other.close()

    def _started(self, channel: socket.socket, function: str, *given: str) -> Any:
        arguments = [str(channel.fileno()), self.command, *given]
        # NumPy would start threads for products, which a fork has not.
        single = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        code = f"import sys; sys.path[:] = {sys.path!r}; from nkisim.serve import child; "
        return subprocess.Popen(
            [sys.executable, "-c", f"{code}child.{function}(*sys.argv[1:])", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # stdout may carry a protocol
            pass_fds=[channel.fileno()],
            env={**os.environ, **single},
        )

    def run(
        self,
        arguments: Sequence[str],
        drafts: Mapping[str, str] | None = None,
        seconds: float = SECONDS,
    ) -> Reply:
        """Run a command line and return its end.

        Args:
            arguments: The command line.
            drafts: Texts in place of those of files, by path, as an editor has them.
            seconds: Limit of wall time.
        """
        with self._begun(arguments, drafts, seconds) as channel:
            return _received(channel, seconds)

    async def answer(
        self,
        arguments: Sequence[str],
        drafts: Mapping[str, str] | None = None,
        seconds: float = SECONDS,
    ) -> Reply:
        """Run a command line while others run; a cancelled task ends its child."""
        with self._begun(arguments, drafts, seconds) as channel:
            return await asyncio.to_thread(_received, channel, seconds)

    @contextlib.contextmanager
    def _begun(
        self, arguments: Sequence[str], drafts: Mapping[str, str] | None, seconds: float
    ) -> Any:
        """Start a child with a request, and end it if it still runs at the end of the context."""
        mine, other = socket.socketpair()
        spawned = None
        with mine:
            with other:
                if self.forks:
                    self.start()
                    assert self._control is not None
                    socket.send_fds(self._control, [b"f"], [other.fileno()])
                else:
                    spawned = self._started(other, "spawned")
            request = [os.getcwd(), list(arguments), dict(drafts or {}), seconds]
            mine.sendall(json.dumps(request).encode() + b"\n")
            channel = _Channel(mine)
            try:
                yield channel
            finally:
                channel.end()
                if spawned is not None:
                    spawned.wait()


@dataclass
class _Channel:
    """The connection with a child, which first sends its process id, then the reply."""

    socket: socket.socket
    received: bytearray = field(default_factory=bytearray)
    closed: bool = False

    def read(self, deadline: float) -> None:
        """Read up to the end.

        Raises:
            TimeoutError: The deadline passed.
        """
        while not self.closed:
            self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
            data = self.socket.recv(1 << 16)
            self.received += data
            self.closed = not data

    def end(self) -> None:
        """End the child and the processes that it started, unless it has ended."""
        with contextlib.suppress(OSError, ValueError):
            deadline = time.monotonic() + 5.0
            # A thread that still reads may receive the process id instead of this loop.
            while not (self.closed or self.received) and time.monotonic() < deadline:
                self.socket.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    data = self.socket.recv(64)
                    self.received += data
                    self.closed = not data
            if not self.closed:
                os.killpg(int(self.received.partition(b"\n")[0]), signal.SIGKILL)
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # a thread that still reads gets the end


def _received(channel: _Channel, seconds: float) -> Reply:
    """Return what a child sent, or the reason why it ended; its bytes are data, no objects."""
    try:
        # A command that ends in time by its own limit says where; this one is for the others.
        channel.read(time.monotonic() + seconds + 1)
    except TimeoutError:
        return Reply(OUT_OF_TIME, "", f"the limit of {seconds:g} seconds")
    except OSError:
        channel.closed = True
    text = channel.received.partition(b"\n")[2].decode("utf-8", "replace")
    try:
        return Reply(**json.loads(text))
    except (ValueError, TypeError):
        return Reply(CRASHED, "", text or "the interpreter ended without an answer")
