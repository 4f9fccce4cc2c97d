"""COO storage: entries as coordinates, for assembling a matrix."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from trnsci.core.errors import ShapeError
from trnsci.core.numbers.conversions import array_of
from trnsparse._patterns.conversions import compressed, densified_places, ordered
from trnsparse._patterns.index import copied
from trnsparse._patterns.pattern import Pattern, Snapshot
from trnsparse.formats._storage.base import StoredMatrix
from trnsparse.formats._storage.checks import check_indices, check_range, check_values, shape_of


@dataclass(eq=False, repr=False)
class COOStorage(StoredMatrix):
    """Entries as coordinates: values, row and column indices."""

    values: Tensor
    row_indices: Tensor
    col_indices: Tensor
    shape: tuple[int, int]
    validate: InitVar[bool] = True
    _pattern_cache: tuple[Snapshot, tuple[Tensor, Tensor], list[Any]] | None = field(
        default=None, init=False
    )

    def __post_init__(self, validate: bool) -> None:
        if not validate:
            return
        owner = "COOMatrix"
        self.shape = shape_of(owner, self.shape)
        check_values(owner, "values", self.values, 1)
        indices = {"row_indices": self.row_indices, "col_indices": self.col_indices}
        check_indices(owner, self.values, 1, **indices)
        for (name, index), size in zip(indices.items(), self.shape, strict=True):
            if index.shape[0] != self.values.shape[-1]:
                raise ShapeError(
                    f"{owner}: {name} must have one element for each of the "
                    f"{self.values.shape[-1]} values, got {index.shape[0]}"
                )
            check_range(owner, name, index, size)

    @property
    def _data(self) -> Tensor:
        return self.values

    def _with_data(self, data: Tensor) -> Self:
        made = type(self)(data, self.row_indices, self.col_indices, self.shape, validate=False)
        made._pattern_cache = self._pattern_cache
        return made

    def _moved(self, device: torch.device) -> Self:
        rows, columns = self._places
        indices = rows.to(device), columns.to(device)
        return type(self)(self.values.to(device), *indices, self.shape, validate=False)

    def _cached(self) -> tuple[Snapshot, tuple[Tensor, Tensor], list[Any]]:
        """Return copies of the coordinates, and a list for what is derived from them."""
        cached, indices = self._pattern_cache, (self.row_indices, self.col_indices)
        if cached is None or not cached[0].holds(*indices):
            copies = copied(indices[0]), copied(indices[1])
            cached = self._pattern_cache = (Snapshot(*indices), copies, [])
        return cached

    @property
    def _places(self) -> tuple[Tensor, Tensor]:
        """Rows and columns of the entries, which only this matrix refers to."""
        return self._cached()[1]

    @property
    def _current(self) -> tuple[Tensor, Tensor]:
        """Rows and columns for conversions that keep nothing: the copies if there are any."""
        cached, indices = self._pattern_cache, (self.row_indices, self.col_indices)
        return indices if cached is None or not cached[0].holds(*indices) else cached[1]

    def _by_rows(self) -> tuple[Tensor, Pattern]:
        _, places, derived = self._cached()
        if not (derived and derived[0].intact):
            derived[:] = ordered(*places, self.shape)
        pattern, order = derived
        return self.values.index_select(-1, order), pattern

    def to_dense(self) -> Tensor:
        """Return the dense matrix; duplicates are summed."""
        return densified_places(self.values, *self._current, self.shape)

    @property
    def nnz(self) -> int:
        """Number of stored entries, explicit zeros and duplicates included."""
        return self.row_indices.shape[0]

    def coalesce(self) -> Self:
        """Return the matrix sorted by row and column, duplicates summed."""
        values, pattern = compressed(self.values, *self._current, self.shape)
        places = copied(pattern.row_indices), copied(pattern.indices)
        return type(self)(values, *places, self.shape, validate=False)

    def transpose(self) -> Self:
        """Return the transpose, on the same memory."""
        exposed = self.col_indices, self.row_indices
        made = type(self)(self.values, *exposed, self.shape[::-1], validate=False)
        made._pattern_cache = (Snapshot(*exposed), self._places[::-1], [])
        return made

    def to_scipy(self) -> Any:
        """Return SciPy's ``coo_array`` with data on the same memory, and copied indices."""
        from scipy.sparse import coo_array

        places = (array_of(t.cpu()).copy() for t in self._places)
        return coo_array((array_of(self.values.detach().cpu()), tuple(places)), shape=self.shape)

    def to_torch_sparse(self) -> Tensor:
        """Return torch's COO tensor, not coalesced; gradients reach the values."""
        places = torch.stack(self._places).to(torch.int64)
        return torch.sparse_coo_tensor(
            places, self.values, self.shape, device=self.device, check_invariants=False
        )
