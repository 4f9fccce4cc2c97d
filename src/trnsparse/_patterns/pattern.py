"""The sparsity pattern of a matrix, and data derived from it.

A pattern depends on index tensors, not on values: matrices that share it share the transpose, the
int32 indices and the checks, each computed at its first use. Its index tensors are its own: those
that users give or get are copies, so that changes which torch does not record, such as a write
through ``.data``, cannot make derived data wrong.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, Generic, TypeVar, overload

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from trnsci.core.interop import versions_of
from trnsci.core.numbers.values import shapes_are_static
from trnsparse._patterns.index import (
    copied,
    expanded,
    first_of_each,
    is_canonical,
    keys_of,
    plain,
    stable_order,
    transposed_order,
)

_INT32_MAX = torch.iinfo(torch.int32).max


T = TypeVar("T")


@cache
def quieten() -> None:
    """Trigger and suppress torch's one-time warning about its compressed layouts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.device("cpu"):
            one = torch.zeros(1, dtype=torch.int64)
            torch.sparse_csr_tensor(torch.tensor([0, 1]), one, torch.ones(1), (1, 1))
            torch.sparse_bsr_tensor(torch.tensor([0, 1]), one, torch.ones(1, 1, 1), (1, 1))


class cached_attribute(Generic[T]):
    """A property that is computed at its first use, and can be set.

    Used instead of ``functools.cached_property``, whose lock torch.compile cannot trace.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> cached_attribute[T]: ...

    @overload
    def __get__(self, owner: object, kind: type) -> T: ...

    def __get__(self, owner: Any, kind: type) -> Any:
        if owner is None:
            return self
        value = self.function(owner)
        setattr(owner, self.name, value)
        return value


class Snapshot:
    """Two index tensors with their version counters, to detect changes in place.

    Inference tensors have no counters: a snapshot of them never holds.
    """

    __slots__ = ("first", "second", "shape", "versions")

    def __init__(self, first: Tensor, second: Tensor, shape: tuple[int, int] | None = None) -> None:
        self.first, self.second, self.shape = first, second, shape
        counted = not (is_dynamo_compiling() or first.is_inference() or second.is_inference())
        self.versions = versions_of(first, second) if counted else None

    def holds(self, first: Tensor, second: Tensor, shape: tuple[int, int] | None = None) -> bool:
        """Return whether these are the same tensors and shape, unchanged since."""
        if first is not self.first or second is not self.second or shape != self.shape:
            return False
        if is_dynamo_compiling():
            return True  # versions are symbolic in a graph; its constants do not change
        return self.versions is not None and self.versions == versions_of(first, second)


class Pattern:
    """Positions of entries by rows; a CSC matrix has the pattern of its transpose.

    The constructor takes tensors that nothing else refers to; ``of`` copies those of users.

    Attributes:
        pointers: Index of the first entry of each row, then nnz, (rows + 1,).
        indices: The column of each entry.
        shape: Rows and columns.
        rows, columns, entries: Their numbers.
        snapshot: The index tensors that users hold, if they do.
        known_canonical: Whether the pattern is canonical, None if that was not computed yet.
    """

    def __init__(self, pointers: Tensor, indices: Tensor, shape: tuple[int, int]) -> None:
        self.pointers: Tensor = plain(pointers)
        self.indices: Tensor = plain(indices)
        self.shape = shape
        self.rows, self.columns = shape
        self.entries = indices.shape[0]
        self.known_canonical: bool | None = None
        self.snapshot: Snapshot | None = None
        self._transposed: tuple[Pattern, Tensor] | None = None

    @classmethod
    def of(cls, pointers: Tensor, indices: Tensor, shape: tuple[int, int]) -> Pattern:
        """Return the pattern of index tensors that a user holds."""
        made = cls(copied(pointers), copied(indices), shape)
        made.snapshot = Snapshot(pointers, indices, shape)
        return made

    def __reduce__(self) -> tuple[Any, ...]:  # derived data are recomputed
        return type(self), (self.pointers, self.indices, self.shape)

    @property
    def exposed(self) -> tuple[Tensor, Tensor]:
        """Pointers and indices for users: the tensors that they gave, or copies."""
        if self.snapshot is None:
            copies = copied(self.pointers), copied(self.indices)
            self.snapshot = Snapshot(*copies, self.shape)
        return self.snapshot.first, self.snapshot.second

    @property
    def intact(self) -> bool:
        """Whether the tensors that users hold have not been changed in place."""
        return self.snapshot is None or self.snapshot.holds(*self.exposed, self.shape)

    @cached_attribute
    def row_indices(self) -> Tensor:
        """The row of each entry."""
        return expanded(self.pointers, self.entries)

    @property
    def canonical(self) -> bool:
        """Whether the columns of each row increase, so that there are no duplicates.

        In a graph of torch.compile, where indices have no values, the result is False unless it
        was computed before.
        """
        if self.known_canonical is None:
            if shapes_are_static():
                return False
            self.known_canonical = is_canonical(self.pointers, self.indices)
        return self.known_canonical

    @property
    def first(self) -> Tensor:
        """Whether each entry is the first at its place, for a pattern with columns in order."""
        return first_of_each(self.keys)

    @cached_attribute
    def keys(self) -> Tensor:
        """One integer for each entry that orders entries by row, then by column."""
        return keys_of(self.row_indices, self.indices, self.columns)

    @property
    def transposed(self) -> tuple[Pattern, Tensor]:
        """The pattern of the transpose, and the permutation of the entries."""
        held = self._transposed
        if held is None or not held[0].intact:
            pointers, indices, order = transposed_order(self.pointers, self.indices, self.columns)
            transposed = Pattern(pointers, indices, (self.columns, self.rows))
            held = self._transposed = (transposed, order)
        return held

    @cached_attribute
    def sorted(self) -> tuple[Pattern, Tensor | None]:
        """The pattern with the columns of each row in order, and the permutation of the entries."""
        if self.canonical:
            return self, None
        order = stable_order(self.keys)
        return Pattern(self.pointers, self.indices[order], self.shape), order

    @cached_attribute
    def narrow(self) -> tuple[Tensor, Tensor]:
        """Pointers and indices in int32 if they fit, which MKL needs without conversion."""
        if max(*self.shape, self.entries) > _INT32_MAX:
            return self.pointers, self.indices
        return self.pointers.to(torch.int32), self.indices.to(torch.int32)


def pattern_of(pointers: Tensor, indices: Tensor, columns: int) -> Pattern:
    """Return the pattern of index tensors with ``columns`` columns."""
    return Pattern(pointers, indices, (pointers.shape[0] - 1, columns))
