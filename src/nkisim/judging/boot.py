"""The main function of a child process: its limits, then answers until the parent has gone."""

from __future__ import annotations

import importlib
import math
import resource
import signal
import socket
import traceback
from collections.abc import Mapping
from typing import Any

from nkisim.judging.wire import receive, send

_CHANNEL: list[socket.socket] = []


def main(given: Mapping[str, Any]) -> None:
    """Answer the messages of the parent.

    Args:
        given: ``module``, ``limits`` and ``descriptor`` of ``Child``.
    """
    limits = given["limits"]
    seconds = math.ceil(limits["seconds"])
    for kind, most in (
        (resource.RLIMIT_CPU, seconds + 1),
        (resource.RLIMIT_AS, limits["memory"]),
        (resource.RLIMIT_NOFILE, limits["files"]),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        most = _lower(most, resource.getrlimit(kind)[1])
        resource.setrlimit(kind, (most, most))
    signal.alarm(seconds + 1)  # for a parent that was killed and cannot end the child
    channel = socket.socket(fileno=given["descriptor"])
    channel.set_inheritable(False)
    _CHANNEL.append(channel)
    answer = importlib.import_module(given["module"]).answer
    while True:
        try:
            message = receive(channel)
        except (EOFError, OSError):
            return
        try:
            send(channel, _reply(answer, message))
        except TypeError as error:  # before its first byte was sent
            send(channel, _raised(error))


def _lower(wanted: int, hard: int) -> int:
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def refuse(text: str, file: str, line: int) -> None:
    """Tell the parent what the child may not do, before it ends itself."""
    send(_CHANNEL[0], {"ended": "refused", "text": text, "data": {"file": file, "line": line}})


def _reply(answer: Any, message: Any) -> dict[str, Any]:
    try:
        return {"answer": answer(message)}
    except MemoryError:
        return {"ended": "memory", "text": "the limit of memory"}
    except BaseException as error:
        return _raised(error)


def _raised(error: BaseException) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    last = {"file": frames[-1].filename, "line": frames[-1].lineno} if frames else {}
    return {"ended": "raised", "text": f"{type(error).__name__}: {error}", "data": last}
