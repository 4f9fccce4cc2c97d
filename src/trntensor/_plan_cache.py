"""Plans that are kept, and how often they are of use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from threading import Lock
from typing import Generic, TypeVar

__all__ = ["PlanCache"]

P = TypeVar("P")


class PlanCache(Generic[P]):
    """Plans by what they were made for; the one that was not used for longest goes first."""

    def __init__(self, most: int) -> None:
        self._plans: OrderedDict[Hashable, P] = OrderedDict()
        self._lock = Lock()
        self.most = most
        self.hits = self.misses = 0

    def get(self, key: Hashable) -> P | None:
        """Return a plan, or None."""
        plan = self._plans.get(key)
        if plan is not None:
            self.hits += 1
            if len(self._plans) > self.most // 2:  # before that none is about to go
                with suppress(KeyError):  # another thread may have dropped it meanwhile
                    self._plans.move_to_end(key)
        return plan

    def keep(self, key: Hashable, plan: P) -> P:
        """Return the plan that is kept under a key from now on."""
        with self._lock:
            self.misses += 1
            plan = self._plans.setdefault(key, plan)
            while len(self._plans) > self.most:
                self._plans.popitem(last=False)
        return plan

    def clear(self) -> None:
        """Forget all plans."""
        with self._lock:
            self._plans.clear()
            self.hits = self.misses = 0

    def info(self) -> dict[str, int]:
        """Return what is kept, and how often it was of use."""
        return {
            "size": len(self._plans),
            "hits": self.hits,
            "misses": self.misses,
            "max_size": self.most,
        }
