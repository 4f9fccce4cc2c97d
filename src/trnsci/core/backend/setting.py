"""Settings of the process that can be overridden inside a ``with`` block.

The backend of a library and the precision of its transforms are settings. A block applies to the
current context, so that threads and tasks do not affect each other: a thread started inside a block
uses the value of the process; one that runs in a copy of the block's context
(``contextvars.copy_context().run``) uses that of the block. Backward passes, which autograd runs
later in its own threads, use the settings of the forward pass: ``snapshot`` and ``restored``.
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

T = TypeVar("T")

_SETTINGS: WeakSet[Setting[Any]] = WeakSet()


class Setting(Generic[T]):
    """One setting. None is not a valid value: it means "no override".

    Args:
        name: Name for ``repr``.
        default: The initial value.

    Attributes:
        default: The value of the process.
        scoped: Whether a block was ever entered; if not, the context variable is not read.
        used: Whether a value was ever set; if not, the setting has its initial value.
    """

    def __init__(self, name: str, default: T) -> None:
        self.name = name
        self.default = default
        self._variable: ContextVar[T | None] = ContextVar(name, default=None)
        # A copy for the current thread: torch.compile cannot read and guard context variables.
        self._traced = local()
        self.scoped = False
        self.used = False
        _SETTINGS.add(self)

    def __repr__(self) -> str:
        return f"<setting {self.name}: {self.get()!r}>"

    def get(self) -> T:
        """Return the value of the innermost block, or that of the process."""
        if self.scoped:
            chosen = self._of_block() if is_compiling() else self._variable.get()
            if chosen is not None:
                return chosen
        return self.default

    def set(self, value: T) -> None:
        """Set the value for the process; inside a block, for that block."""
        if self.scoped and self._of_block() is not None:
            self._put(value)
        else:
            self.default = value
            self.used = True

    @contextmanager
    def scope(self, value: T) -> Iterator[None]:
        """Override the value inside a ``with`` block, for the current thread or task only."""
        before = self._of_block()
        self._put(value)
        try:
            yield
        finally:
            self._put(before)

    def _of_block(self) -> T | None:
        # torch.compile can trace and guard thread-local values, but not context variables.
        if is_compiling():
            self._show_to_thread()
            found: T | None = getattr(self._traced, "value", None)
            return found
        return self._variable.get()

    def _put(self, value: T | None) -> None:
        self._variable.set(value)
        self._traced.value = value
        self.scoped = self.used = True

    def _show_to_thread(self) -> bool:
        """Copy the context's value, possibly inherited from another thread, to the thread-local.

        Runs while torch.compile traces. A thread that never set a value and never compiled has no
        thread-local value, which matches the guard of no graph.
        """
        self._traced.value = self._variable.get()
        return True


constant_to_compile(Setting._show_to_thread)

Snapshot = list[tuple["Setting[Any]", Any]]


def snapshot() -> Snapshot:
    """Return all settings with their current values."""
    settings = list(_SETTINGS)
    if is_compiling():
        return [(setting, setting.get()) for setting in settings]
    # Without a call for each setting: every node of autograd's graph has a snapshot.
    blocks = [setting._variable.get() for setting in settings]
    return [
        (setting, setting.default if value is None else value)
        for setting, value in zip(settings, blocks, strict=True)
    ]


@contextmanager
def restored(taken: Snapshot) -> Iterator[None]:
    """Apply the values of a snapshot inside a ``with`` block."""
    with ExitStack() as stack:
        for setting, value in taken:
            if value is not None and setting.get() != value:
                stack.enter_context(setting.scope(value))
        yield
