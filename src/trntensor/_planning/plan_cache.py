"""A bounded LRU cache of plans, by subscripts, shapes and dtype."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

P = TypeVar("P")


class PlanCache(Generic[P]):
    """A cache of at most ``most`` plans; the least recently used one is dropped first."""

    def __init__(self, most: int) -> None:
        self._plans: OrderedDict[Hashable, P] = OrderedDict()
        self._lock = Lock()
        self.most = most
        self.hits = self.misses = 0

    def get(self, key: Hashable) -> P | None:
        """Return a plan, or None."""
        with self._lock:
            if key not in self._plans:
                return None
            self.hits += 1
            self._plans.move_to_end(key)
            return self._plans[key]

    def keep(self, key: Hashable, plan: P) -> P:
        """Add a plan; return the cached plan of the key."""
        with self._lock:
            self.misses += 1
            plan = self._plans.setdefault(key, plan)
            while len(self._plans) > self.most:
                self._plans.popitem(last=False)
        return plan

    def clear(self) -> None:
        """Drop all plans."""
        with self._lock:
            self._plans.clear()
            self.hits = self.misses = 0

    def info(self) -> dict[str, int]:
        """Return the number of plans, hits and misses."""
        return {
            "size": len(self._plans),
            "hits": self.hits,
            "misses": self.misses,
            "max_size": self.most,
        }
