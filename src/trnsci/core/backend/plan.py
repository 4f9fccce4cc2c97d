"""The base class of plans: printable decisions, a cost, an execution and a cache."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

_CACHES: list[tuple[str, Callable[[], None]]] = []


@dataclass(frozen=True)
class Cost:
    """The cost of an execution on a NeuronCore.

    Attributes:
        flops: Floating-point operations.
        hbm_bytes: Bytes read from and written to HBM.
        launches: Kernels launched.
    """

    flops: int
    hbm_bytes: int
    launches: int = 1

    @property
    def intensity(self) -> float:
        """Floating-point operations for each byte moved."""
        return self.flops / self.hbm_bytes if self.hbm_bytes else float("inf")


class Plan(ABC):
    """How an operation will be computed, decided from shapes and dtypes alone.

    Plans are values: plans with the same decisions are equal, and ``planned`` caches them.
    """

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """The cost of one execution."""

    @abstractmethod
    def decisions(self) -> Sequence[tuple[str, str]]:
        """Return the decisions of the plan as pairs of name and value."""

    @abstractmethod
    def execute(self, *operands: Any) -> Any:
        """Return the result for operands that fit the plan, computed by the current backend."""

    def describe(self) -> str:
        """Return the plan as a printable table."""
        return "\n".join(f"{name:<12}{text}" for name, text in self.decisions())

    def __str__(self) -> str:
        return self.describe()


def planned(make: Callable[P, R]) -> Callable[P, R]:
    """Return a planning function of hashable arguments with an LRU cache of 64 plans.

    ``forget_plans`` clears the cache.
    """
    cached = lru_cache(maxsize=64)(make)
    _CACHES.append((make.__module__.partition(".")[0], cached.cache_clear))
    return cast(Callable[P, R], cached)


def forget_plans(library: str) -> None:
    """Clear the plan cache of a library; constants of a plan are freed with its last reference."""
    for owner, clear in _CACHES:
        if owner == library:
            clear()
