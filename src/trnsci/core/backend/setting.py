"""Choices that hold for the process, and other ones that hold inside a ``with`` block.

The backend of a library and the precision of its transforms are such choices. A block belongs to
the current context, so that threads and tasks do not meet: a thread started inside a block sees the
choice of the process, one that runs in a copy of the block's context
(``contextvars.copy_context().run``) sees that of the block. What autograd computes later, in
threads of its own, is computed under the choices that were in force when the result was:
``snapshot`` and ``restored``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from threading import local
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from torch.compiler import is_compiling

from trnsci.core.interop import constant_to_compile

__all__ = ["Setting", "Snapshot", "restored", "snapshot"]

T = TypeVar("T")

_SETTINGS: WeakSet[Setting[Any]] = WeakSet()


class Setting(Generic[T]):
    """One choice. None is no value: it stands for the choice of the process.

    Args:
        name: For its representation.
        default: What holds while nothing is chosen.

    Attributes:
        default: The choice of the process.
        scoped: Whether there ever was a block; without one nobody need look for it.
    """

    def __init__(self, name: str, default: T) -> None:
        self.name = name
        self.default = default
        self._variable: ContextVar[T | None] = ContextVar(name, default=None)
        # The same for the current thread, which is all that torch.compile can read and guard.
        self._traced = local()
        self.scoped = False
        _SETTINGS.add(self)

    def __repr__(self) -> str:
        return f"<setting {self.name}: {self.get()!r}>"

    def get(self) -> T:
        """Return the choice of the innermost block, or that of the process."""
        if self.scoped:
            chosen = self._of_block()
            if chosen is not None:
                return chosen
        return self.default

    def set(self, value: T) -> None:
        """Choose for the process; inside a block, for that block."""
        if self.scoped and self._of_block() is not None:
            self._put(value)
        else:
            self.default = value

    @contextmanager
    def scope(self, value: T) -> Iterator[None]:
        """Choose inside a ``with`` block, for the current thread or task only."""
        before = self._of_block()
        self._put(value)
        try:
            yield
        finally:
            self._put(before)

    def _of_block(self) -> T | None:
        # torch.compile can follow, and guard, what belongs to a thread, but no context variable.
        if is_compiling():
            self._show_to_thread()
            found: T | None = getattr(self._traced, "value", None)
            return found
        return self._variable.get()

    def _put(self, value: T | None) -> None:
        self._variable.set(value)
        self._traced.value = value
        self.scoped = True

    def _show_to_thread(self) -> bool:
        """Make what torch.compile reads that of the context, which may be one copied from another.

        It runs while a graph is made. A thread that never chose and never compiled has no value at
        all, which is none that a graph was made for.
        """
        self._traced.value = self._variable.get()
        return True


constant_to_compile(Setting._show_to_thread)

Snapshot = list[tuple["Setting[Any]", Any]]


def snapshot() -> Snapshot:
    """Return all settings with the choices that are in force now."""
    return [(setting, setting.get()) for setting in list(_SETTINGS)]


@contextmanager
def restored(taken: Snapshot) -> Iterator[None]:
    """Put the choices of a snapshot in force inside a ``with`` block."""
    with ExitStack() as stack:
        for setting, value in taken:
            if value is not None and setting.get() != value:
                stack.enter_context(setting.scope(value))
        yield
