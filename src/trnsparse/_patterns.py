"""Where the stored entries of a matrix are, and what was found out about it.

A pattern belongs to index tensors, not to values: matrices that share it share the transpose, the
narrow indices and the checks, each computed once when somebody first asks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, Generic, TypeVar, overload
from weakref import ReferenceType, WeakValueDictionary, ref

import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnsci.core.arrays import array_of
from trnsparse._index import expanded, is_canonical, keys_of, stable_order, transposed_order

__all__ = ["REAL", "Pattern", "found_once", "pattern_of", "quieten"]

# The dtypes whose elements NumPy has, and in which nothing is left to be done lazily.
REAL = (torch.float32, torch.float64)

_INT32_MAX = torch.iinfo(torch.int32).max


T = TypeVar("T")


@cache
def quieten() -> None:
    """Have torch say once, unheard, that its compressed layouts are new."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = torch.zeros(1, dtype=torch.int64)
        torch.sparse_csr_tensor(torch.tensor([0, 1]), one, torch.ones(1), (1, 1))
        torch.sparse_bsr_tensor(torch.tensor([0, 1]), one, torch.ones(1, 1, 1), (1, 1))


class found_once(Generic[T]):
    """A property that is computed when first asked for, and may be set.

    It is what ``functools.cached_property`` is, whose lock torch.compile cannot trace.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> found_once[T]: ...

    @overload
    def __get__(self, owner: object, kind: type) -> T: ...

    def __get__(self, owner: Any, kind: type) -> Any:
        if owner is None:
            return self
        value = self.function(owner)
        setattr(owner, self.name, value)
        return value


class Views:
    """What values were made into, for the next product with the same ones.

    Attributes:
        owner, memory: Whose views these are, and where its elements were.
        plain: Whether they are real numbers of one matrix on a CPU, in order.
        made: torch's CSR tensor on their memory, once it was asked for.
        array: NumPy's array on their memory, once it was asked for.
    """

    __slots__ = ("array", "made", "memory", "owner", "plain")

    def __init__(self, values: Tensor) -> None:
        self.owner: ReferenceType[Tensor] = ref(values)
        self.memory = values.data_ptr()
        self.plain = (
            values.is_cpu and values.dtype in REAL and values.ndim == 1 and values.is_contiguous()
        )
        self.made: Tensor | None = None
        self.array: Any = None


class Pattern:
    """The entries of a matrix by rows; a matrix by columns has the pattern of its transpose.

    Attributes:
        pointers: Where each row begins and the last one ends, (rows + 1,).
        indices: The column of each entry.
        shape: Rows and columns.
        rows, columns, entries: How many there are.
        constant, versions: Whether the tensors can change, and how often they had.
        last: What the last values were made into.
    """

    def __init__(self, pointers: Tensor, indices: Tensor, shape: tuple[int, int]) -> None:
        self.pointers = pointers
        self.indices = indices
        self.shape = shape
        self.rows, self.columns = shape
        self.entries = indices.shape[0]
        # Inside a graph and of tensors for inference there is no telling whether they change.
        self.constant = is_compiling() or pointers.is_inference() or indices.is_inference()
        self.versions = (-1, -1) if self.constant else (pointers._version, indices._version)
        self.last: Views | None = None

    def __reduce__(self) -> tuple[Any, ...]:  # what was found out is found out again
        return type(self), (self.pointers, self.indices, self.shape)

    def holds(self, pointers: Tensor, indices: Tensor, shape: tuple[int, int]) -> bool:
        """Return whether this is still the pattern of these tensors."""
        return (
            pointers is self.pointers
            and indices is self.indices
            and shape == self.shape
            and (
                self.constant
                or is_compiling()  # to a graph versions are numbers not yet known
                or (pointers._version == self.versions[0] and indices._version == self.versions[1])
            )
        )

    def as_torch(self, values: Tensor) -> Tensor:
        """Return torch's CSR tensor on the memory of ``values``, the last one where it serves."""
        last = self._views_of(values)
        if last.made is None:
            quieten()
            last.made = torch.sparse_csr_tensor(
                *self.narrow, values.detach(), self.shape, check_invariants=False
            )
        return last.made

    def as_array(self, values: Tensor) -> Any:
        """Return values on a CPU as an array in order, the last one where it serves."""
        last = self._views_of(values)
        if last.array is not None:
            return last.array
        found = array_of(values.contiguous())
        if last.plain:
            last.array = found
        return found

    def _views_of(self, values: Tensor) -> Views:
        last = self.last
        # A tensor whose ``data`` was exchanged is the same tensor on other memory.
        if last is None or last.owner() is not values or last.memory != values.data_ptr():
            last = self.last = Views(values)
        return last

    @found_once
    def row_indices(self) -> Tensor:
        """The row of each entry."""
        return expanded(self.pointers, self.entries)

    @found_once
    def canonical(self) -> bool:
        """Whether the columns of each row increase, so that none comes twice."""
        return is_canonical(self.pointers, self.indices)

    @found_once
    def keys(self) -> Tensor:
        """One number for each entry that orders entries by row, then by column."""
        return keys_of(self.row_indices, self.indices, self.columns)

    @found_once
    def transposed(self) -> tuple[Pattern, Tensor]:
        """The pattern of the transpose, and which entry of this one each of its entries is."""
        pointers, indices, order = transposed_order(self.pointers, self.indices, self.columns)
        return Pattern(pointers, indices, (self.columns, self.rows)), order

    @found_once
    def sorted(self) -> tuple[Pattern, Tensor | None]:
        """The pattern with the columns of each row in order, and the order of its entries."""
        if self.canonical:
            return self, None
        order = stable_order(self.keys)
        return Pattern(self.pointers, self.indices[order], self.shape), order

    @found_once
    def narrow(self) -> tuple[Tensor, Tensor]:
        """Pointers and indices in int32 where they fit: what MKL reads without converting."""
        if max(*self.shape, self.entries) > _INT32_MAX:
            return self.pointers, self.indices
        return self.pointers.to(torch.int32), self.indices.to(torch.int32)

    @found_once
    def arrays(self) -> tuple[object, object]:
        """Pointers and indices as NumPy arrays, for patterns on a CPU."""
        return array_of(self.pointers), array_of(self.indices)


_KNOWN: WeakValueDictionary[tuple[int, int], Pattern] = WeakValueDictionary()


def pattern_of(pointers: Tensor, indices: Tensor, columns: int) -> Pattern:
    """Return the pattern of index tensors, the one that a matrix already has where there is one."""
    shape = (pointers.shape[0] - 1, columns)
    if is_compiling():
        return Pattern(pointers, indices, shape)
    place = (id(pointers), id(indices))
    found = _KNOWN.get(place)
    if found is None or not found.holds(pointers, indices, shape):
        found = _KNOWN[place] = Pattern(pointers, indices, shape)
    return found
