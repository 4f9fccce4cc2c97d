"""What plans of all libraries have: decisions that print, a cost, an execution and a cache."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar, cast

__all__ = ["Cost", "Plan", "forget_plans", "planned"]

P = ParamSpec("P")
R = TypeVar("R")

_KEPT: list[tuple[str, Callable[[], None]]] = []


@dataclass(frozen=True)
class Cost:
    """What an execution takes on a NeuronCore.

    Attributes:
        flops: Floating-point operations.
        hbm_bytes: Bytes that travel between HBM and the chip, both ways.
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
    """How an operation will be carried out, decided from shapes and dtypes alone.

    Plans are values: two of the same decisions are equal, and ``planned`` keeps them.
    """

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """What one execution takes."""

    @abstractmethod
    def decisions(self) -> Sequence[tuple[str, str]]:
        """Return the decisions of the plan, each with a word that names it."""

    @abstractmethod
    def execute(self, *operands: Any) -> Any:
        """Return the result for operands that the plan was made for, by the backend in use."""

    def describe(self) -> str:
        """Return the plan as a table for people to read."""
        return "\n".join(f"{name:<12}{text}" for name, text in self.decisions())

    def __str__(self) -> str:
        return self.describe()


def planned(make: Callable[P, R]) -> Callable[P, R]:
    """Return a function of hashable arguments that makes a plan once and keeps the last 64.

    ``forget_plans`` makes it begin anew.
    """
    kept = lru_cache(maxsize=64)(make)
    _KEPT.append((make.__module__.partition(".")[0], kept.cache_clear))
    return cast(Callable[P, R], kept)


def forget_plans(library: str) -> None:
    """Forget the plans of a library and, once their holders drop them, their constants."""
    for owner, forget in _KEPT:
        if owner == library:
            forget()
