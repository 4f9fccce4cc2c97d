"""The default generator: of which process it is, and how it is brought back to where it was.

A process that forks has its default generator count the fork, and the child takes a seed that
depends on the old seed and on that number: children draw other numbers than the parent and than
each other, and the same ones whenever the parent was seeded alike and forks in the same order. A
worker that ``torch.utils.data.DataLoader`` starts without a fork takes the seed that torch gives
it. Other generators are what they are in every process.
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

# There from the start, so that compiled code can read it without making it.
_default = Generator()
# Whether this may be a worker whose seed torch has yet to tell.
_may_be_worker = True


def manual_seed(seed: int) -> Generator:
    """Replace the default generator by a new one with this seed, and return it.

    All that draws without being told a seed or a generator follows it, point sets included.
    References to the old one keep their stream.
    """
    global _default, _may_be_worker
    _default, _may_be_worker = Generator(seed), False
    return _default


def get_default_generator() -> Generator:
    """Return the generator of calls that name none; until it is seeded, its seed is random."""
    if _may_be_worker and not is_compiling():
        _ask_for_worker()
    return _default


def get_rng_state() -> Tensor:
    """Return the state of the default generator, as ``Generator.get_state`` does."""
    return get_default_generator().get_state()


def set_rng_state(state: Tensor) -> None:
    """Bring the default generator to a state that ``get_rng_state`` gave."""
    get_default_generator().set_state(state)


@contextmanager
def fork_rng(*generators: Generator, enabled: bool = True) -> Iterator[None]:
    """Leave generators after a ``with`` block as they were before it.

    Args:
        *generators: Which; without any, the default generator. A default generator that is
            replaced inside of the block is the old one again after it.
        enabled: Whether to do so, for callers who decide at run time.

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
    """Return what ``torch.utils.checkpoint`` takes to draw the same numbers when it recomputes.

    torch saves the states of its own generators by itself, and those of others through the
    contexts that ``context_fn`` returns: the first is around the forward pass, the second around
    every recomputation, after which generators are where they were before it.

    Args:
        *generators: Which; without any, the default generator.

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
    """A context that can be entered more than once: a graph may be recomputed repeatedly."""

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
    """The states of some generators, or of the default one, and which that was."""

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


def _ask_for_worker() -> None:
    global _may_be_worker
    worker = get_worker_info()
    if worker is not None:
        _default.manual_seed(worker.seed)
    _may_be_worker = False


# -- forks -----------------------------------------------------------------------------------------

_fork_number = 0


def _before_fork() -> None:
    global _fork_number
    # The child's copy of a lock that another thread holds would never be free.
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
