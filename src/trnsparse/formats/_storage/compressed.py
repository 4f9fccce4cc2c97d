"""Storage by pointers and indices, the common part of CSR, CSC and BSR."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from trnsparse._patterns.index import outside_modes
from trnsparse._patterns.pattern import Pattern
from trnsparse.formats._storage.base import StoredMatrix


class CompressedMatrix(StoredMatrix):
    """Entries with the pattern of their rows, columns or blocks.

    A matrix made from a pattern copies its index tensors when a user first reads them.
    """

    _index_names: ClassVar[tuple[str, str]]
    """Attributes with the pointers and the indices."""
    _pattern_cache: Pattern | None
    _unordered: Any = None
    """Entries in another order, from which ``_order`` makes the arrays of this matrix."""

    def _order(self) -> None:
        raise NotImplementedError

    @property
    @abstractmethod
    def _pattern_shape(self) -> tuple[int, int]:
        """Shape of the pattern."""

    @property
    def pattern(self) -> Pattern:
        """Positions of the entries by rows; of CSC by columns, of BSR those of the blocks.

        Shared with matrices derived from this one.
        """
        if self._unordered is not None:
            self._order()
        cached, (pointers, indices), read = self._pattern_cache, self._index_names, self.__dict__
        unread = pointers not in read and indices not in read
        if unread and cached is not None and cached.snapshot is None:
            return cached
        given = getattr(self, pointers), getattr(self, indices), self._pattern_shape
        if cached is None or cached.snapshot is None or not cached.snapshot.holds(*given):
            cached = self._pattern_cache = Pattern.of(*given)
        return cached

    if not TYPE_CHECKING:  # the type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            """Return a copy of an index tensor of the pattern, made once."""
            if name not in self._index_names:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            with outside_modes():
                copies = self._pattern_cache.exposed
            setattr(self, name, copies[self._index_names.index(name)])
            return self.__dict__[name]

    def __getstate__(self) -> dict[str, Any]:  # the pattern is not copied, its index tensors are
        assert self.pattern  # orders the entries of a transpose
        for name in self._index_names:
            getattr(self, name)
        return super().__getstate__()
