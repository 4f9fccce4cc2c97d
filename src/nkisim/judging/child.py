"""A process of its own for the code of others, with limits, that answers messages.

    with Child("nkisim.judging.replaying", Limits(seconds=60)) as child:
        reply = child.ask({"do": "load", "programs": [], "files": [], "options": {}})

The module that is named has a function ``answer(message) -> reply``; both are plain values and
arrays, as ``nkisim.judging.wire`` sends them. It is imported in the child, which has

- its own session, and dies with its whole group when the context ends, however it ends; after a
  parent that was killed, it ends at its next message or at a limit;
- limits on wall time (of all questions together), processor time, address space and open files,
  and may make no file grow;
- a clean environment without a folder to write to;
- no descriptor of the parent's: standard input, output and error are the null device, and one
  private socket carries the messages.

An exception of ``answer`` is quoted in an ``Ended``; the child is then over, and the caller starts
another. What it sends is data to the parent: nothing of it is executed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from nkisim.judging.wire import receive, send

Reason = Literal["time", "memory", "crash", "refused", "raised"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of a child.

    Attributes:
        seconds: Wall time from its start, and processor time.
        memory: Bytes of address space, of which NumPy and nkisim take about 1 GiB.
        files: Open files.
    """

    seconds: float = 120.0
    memory: int = 4 << 30
    files: int = 64


class Ended(Exception):
    """A child ended before it answered.

    Attributes:
        reason: ``"time"``, ``"memory"``, ``"crash"`` (of its interpreter), ``"refused"`` (it did
            what it may not do) or ``"raised"`` (by ``answer``).
        data: What the child said of it: ``file`` and ``line``, where known.
    """

    def __init__(self, reason: Reason, text: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.data = dict(data or {})


_BOOT = (
    "import json, sys; given = json.loads(sys.argv.pop()); sys.path[:] = given['path']; "
    "from nkisim.judging.boot import main; main(given)"
)


_LIBRARIES = tuple(
    os.path.realpath(folder)
    for folder in (
        os.path.dirname(os.__file__),
        os.path.dirname(os.path.dirname(np.__file__)),
        Path(__file__).parents[2],
    )
)


def _path() -> list[str]:
    """Return the folders of modules; a file next to a kernel cannot hide a library."""
    found = [os.path.abspath(folder) for folder in sys.path if folder]
    return sorted(found, key=lambda folder: not os.path.realpath(folder).startswith(_LIBRARIES))


@dataclass(slots=True)
class Child:
    """A child process; a context, at whose end nothing of it is left.

    Attributes:
        module: Name of the module whose ``answer`` it calls.
        limits: Its limits.
        environment: Variables of its environment besides the clean ones.
    """

    module: str
    limits: Limits = field(default_factory=Limits)
    environment: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] = field(init=False)
    _channel: socket.socket = field(init=False)
    _deadline: float = field(init=False)

    def __enter__(self) -> Self:
        if os.name != "posix":
            raise OSError("the limits of a child process need a POSIX system")
        self._deadline = time.monotonic() + self.limits.seconds
        self._channel, other = socket.socketpair()
        given = {
            "path": _path(),
            "module": self.module,
            "descriptor": other.fileno(),
            "limits": asdict(self.limits),
        }
        cache = [] if sys.pycache_prefix is None else ["-X", f"pycache_prefix={sys.pycache_prefix}"]
        clean = {"PATH": os.defpath, "HOME": "/", "TMPDIR": "/", "LANG": "C.UTF-8"}
        clean |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NKISIM_FAST": "0"}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-B", *cache, "-c", _BOOT, json.dumps(given)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                env={**clean, **self.environment},
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            self._channel.close()
            raise
        finally:
            other.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def ask(self, message: Any) -> Any:
        """Return the answer to a message.

        Raises:
            Ended: The child ended, and the reason.
            TypeError: The message cannot be sent.
        """
        self._channel.settimeout(max(self._deadline - time.monotonic(), 0.001))
        try:
            send(self._channel, message)
            reply = receive(self._channel)
        except TimeoutError:
            raise self._out_of_time() from None
        except (EOFError, OSError):
            raise self._died() from None
        except ValueError as error:
            raise Ended("refused", f"the child sent what is no message: {error}") from None
        if not isinstance(reply, dict) or reply.keys() - {"answer", "ended", "text", "data"}:
            raise Ended("refused", "the child sent what is no answer")
        if "ended" in reply:
            data = reply.get("data")
            raise Ended(
                reply["ended"] if reply["ended"] in ("memory", "refused") else "raised",
                str(reply.get("text", "")),
                data if isinstance(data, dict) else {},
            )
        return reply.get("answer")

    def _out_of_time(self) -> Ended:
        return Ended("time", f"the limit of {self.limits.seconds:g} seconds")

    def _died(self) -> Ended:
        """Return how the child ended without an answer."""
        try:
            status = self._process.wait(max(self._deadline - time.monotonic(), 1.0))
        except subprocess.TimeoutExpired:
            return Ended("refused", "the child closed its channel")
        if status in (-signal.SIGALRM, -signal.SIGXCPU, -signal.SIGKILL):
            return self._out_of_time()
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return Ended("crash", f"the interpreter ended with {name}")
