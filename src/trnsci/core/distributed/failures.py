"""Errors of one rank that end the call on all ranks.

In an iterative method a rank can raise alone, in an operator, a preconditioner or a callback. It
writes its error into the store of the process group. The other ranks wait for collectives that it
does not call; while they wait, they read the store, and raise that error. Nothing is written or
read while collectives complete in time.

The ranks are then out of step, as after the end of a process: the group must not be used again,
unless every rank raised before it waited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import torch.distributed as dist
from torch import Tensor

from trnsci.core import errors
from trnsci.core.errors import RankError, TrnsciError

_PATIENCE = timedelta(seconds=0.2)
"""Time for which a rank waits before it reads the store."""
_CALLS: Counter[str] = Counter()
"""Calls by the name of their group: all ranks make the same ones."""


class Announced(RuntimeError):
    """The error that another rank has written, found while waiting for a collective."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind

    def raised(self, function: str) -> Exception:
        """Return it as an error of its class, if that is one of the suite's, or a RankError."""
        kind, text = getattr(errors, self.kind, None), str(self)
        if isinstance(kind, type) and issubclass(kind, TrnsciError):
            return kind(f"{function}: {text}")
        return RankError(f"{function}: {text}")


class _Ranks(Protocol):
    """What is read of a ``groups.Ranks``, which imports this module."""

    @property
    def function(self) -> str: ...
    @property
    def transport(self) -> Any: ...
    @property
    def rank(self) -> int: ...
    @property
    def others(self) -> int: ...


@dataclass(frozen=True)
class _Call:
    """A call of all ranks of a group, and the key of its errors in the group's store."""

    store: Any
    key: str


_ACTIVE: ContextVar[tuple[_Call, ...]] = ContextVar("calls", default=())


@contextmanager
def ending_together(ranks: _Ranks) -> Iterator[None]:
    """Raise the error of one rank in this context on all ranks that wait for it.

    All ranks of the group enter it together. An error that other ranks have announced already is
    not announced again.
    """
    group: Any = None
    if ranks.others and type(ranks.transport).__name__ == "Transport":
        group = ranks.transport.group or dist.group.WORLD
    store_of = getattr(group, "get_group_store", None)
    if store_of is None:  # one rank, or a recording
        yield
        return
    _CALLS[group.group_name] += 1
    call = _Call(store_of(), f"trnsci/failed/{_CALLS[group.group_name]}")
    token = _ACTIVE.set((*_ACTIVE.get(), call))
    try:
        yield
    except BaseException as error:
        if not isinstance(error, RankError):
            text = f"{type(error).__name__}:on rank {ranks.rank}: {_without(error, ranks.function)}"
            with suppress(RuntimeError):  # the store may have ended
                call.store.set(call.key, text)
        raise
    finally:
        _ACTIVE.reset(token)


def finished(work: Any, tensor: Tensor) -> None:
    """Wait for a collective.

    Raises:
        Announced: Another rank has raised an error instead of calling it.
        RuntimeError: The collective failed.
    """
    if work is None:
        return
    if not _ACTIVE.get() or not tensor.is_cpu:  # NCCL ends communicators at a timeout
        work.wait()
        return
    while True:
        try:
            work.wait(_PATIENCE)
            return
        except RuntimeError:
            _check()
            if work.is_completed():
                work.wait()
                return


def _check() -> None:
    """Raise if another rank has announced an error in a call of this context."""
    for call in _ACTIVE.get():
        found = ""
        with suppress(RuntimeError):
            if call.store.check([call.key]):
                found = call.store.get(call.key).decode(errors="replace")
        if found:
            kind, _, text = found.partition(":")
            raise Announced(kind, text)


def _without(error: BaseException, function: str) -> str:
    """Return the text of an error, with its class if that is not one of the suite's."""
    text = str(error)
    if isinstance(error, TrnsciError):
        return text.removeprefix(f"{function}: ")
    return f"{type(error).__name__}: {text}"
