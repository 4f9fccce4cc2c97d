"""The default generator: seeding, saving and restoring its state, and behaviour in child processes.

At a fork, the default generator of the child gets a seed derived from the parent's seed and the
number of the fork. Children therefore draw different numbers than the parent and each other, and
the same numbers in every run with the same seed and order of forks. A worker that
``torch.utils.data.DataLoader`` starts without a fork uses torch's seed for the worker. Other
generators are not changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

from torch import Tensor
from torch.compiler import is_compiling
from torch.utils.data import get_worker_info

from trnrand import generator as _generators
from trnrand.generator import Generator

__all__ = [
    "checkpoint_contexts",
    "fork_rng",
    "get_default_generator",
    "get_rng_state",
    "manual_seed",
    "set_rng_state",
]

# Created at import, so that compiled code only has to read it.
_default = Generator()
# Whether this process may be a worker with a seed that was not read from torch yet.
_may_be_worker = True


def manual_seed(seed: int) -> Generator:
    """Replace the default generator by a new one with this seed, and return it.

    All calls without a seed or a generator use it, point sets included. References to the old
    generator keep their stream.
    """
    global _default, _may_be_worker
    _default, _may_be_worker = Generator(seed), False
    return _default


def get_default_generator() -> Generator:
    """Return the generator of calls without one; its seed is random until ``manual_seed``."""
    if _may_be_worker and not is_compiling():
        _seed_worker()
    return _default


def get_rng_state() -> Tensor:
    """Return the state of the default generator, as ``Generator.get_state`` does."""
    return get_default_generator().get_state()


def set_rng_state(state: Tensor) -> None:
    """Restore a state of the default generator that ``get_rng_state`` returned."""
    get_default_generator().set_state(state)


@contextmanager
def fork_rng(*generators: Generator, enabled: bool = True) -> Iterator[None]:
    """Restore the states of generators at the end of a ``with`` block.

    Args:
        *generators: Generators to restore; without any, the default generator, also if the block
            replaces it.
        enabled: Whether states are restored, for a decision at run time.

    Example:
        >>> with trnrand.fork_rng():
        ...     trnrand.manual_seed(0)
        ...     noise = trnrand.normal(3)
    """
    if not enabled:
        yield
        return
    before = _Moment(generators)
    try:
        yield
    finally:
        before.restore()


def checkpoint_contexts(
    *generators: Generator,
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return contexts with which ``torch.utils.checkpoint`` recomputes the same draws.

    torch saves the states of its own generators only. Of the contexts that ``context_fn`` returns,
    the first is entered for the forward pass, where it saves the states, the second for every
    recomputation, where it restores them and undoes that at the end.

    Args:
        *generators: Generators that the function uses; without any, the default generator.

    Example:
        >>> checkpoint(layer, x, use_reentrant=False, context_fn=trnrand.checkpoint_contexts)
        >>> checkpoint(layer, x, use_reentrant=False, context_fn=partial(checkpoint_contexts, g))
    """
    began: list[_Moment] = []

    @contextmanager
    def forward() -> Iterator[None]:
        began.append(_Moment(generators))
        yield

    @contextmanager
    def recomputation() -> Iterator[None]:
        with fork_rng(*generators):
            began[0].restore()
            yield

    return forward(), _Repeated(recomputation)


class _Repeated(AbstractContextManager[None]):
    """A context that can be entered repeatedly: a graph may be recomputed more than once."""

    def __init__(self, make: Callable[[], AbstractContextManager[None]]) -> None:
        self._make = make
        self._entered: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        context = self._make()
        context.__enter__()
        self._entered.append(context)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return self._entered.pop().__exit__(kind, error, trace)


class _Moment:
    """A snapshot of the states of generators, or of the default generator and its identity."""

    def __init__(self, generators: tuple[Generator, ...]) -> None:
        self._default = None if generators else get_default_generator()
        chosen = generators or (get_default_generator(),)
        self._states = [(chosen_one, chosen_one.get_state()) for chosen_one in chosen]

    def restore(self) -> None:
        global _default
        if self._default is not None:
            _default = self._default
        for generator, state in self._states:
            generator.set_state(state)


def _seed_worker() -> None:
    global _may_be_worker
    worker = get_worker_info()
    if worker is not None:
        _default.manual_seed(worker.seed)
    _may_be_worker = False


# -- forks -----------------------------------------------------------------------------------------

_fork_number = 0


def _before_fork() -> None:
    global _fork_number
    # A lock that another thread holds would never be released in the child.
    _generators._lock.acquire()
    _fork_number = _default.count_fork()


def _after_fork_in_parent() -> None:
    _generators._lock.release()


def _after_fork_in_child() -> None:
    global _may_be_worker
    _generators._lock.release()
    _default.renew_after_fork(_fork_number)
    _may_be_worker = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
