"""ELL storage: rows padded to one length, for matrices with nearly equal row lengths."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import Self

import torch
from torch import Tensor

from trnsci.core.errors import ShapeError
from trnsci.core.numbers.values import concrete, finite
from trnsparse._paths.rows import run_slot_spmv
from trnsparse._patterns.conversions import row_places
from trnsparse._patterns.index import counted
from trnsparse._patterns.pattern import Pattern, Snapshot
from trnsparse._products.row_products import RowMatrix
from trnsparse.formats._storage.base import StoredMatrix
from trnsparse.formats._storage.checks import check_indices, check_range, check_values, shape_of

_EMPTY = -1


@dataclass(eq=False, repr=False)
class ELLStorage(StoredMatrix):
    """Rows of equal length: slots and their column indices, -1 for an empty slot."""

    values: Tensor
    col_indices: Tensor
    shape: tuple[int, int]
    validate: InitVar[bool] = True
    _pattern_cache: tuple[Snapshot, Pattern, Tensor, Pattern] | None = field(
        default=None, init=False
    )
    _product_cache: RowMatrix | None = field(default=None, init=False)
    _entry_ndim = 2

    def __post_init__(self, validate: bool) -> None:
        if not validate:
            return
        owner = "ELLMatrix"
        self.shape = shape_of(owner, self.shape)
        check_values(owner, "values", self.values, 2)
        check_indices(owner, self.values, 2, col_indices=self.col_indices)
        if self.col_indices.shape[0] != self.shape[0]:
            raise ShapeError(
                f"{owner}: col_indices must have {self.shape[0]} rows, "
                f"got shape {tuple(self.col_indices.shape)}"
            )
        if self.values.shape[-2:] != self.col_indices.shape:
            raise ShapeError(
                f"{owner}: values must end in the shape of col_indices, "
                f"got {tuple(self.values.shape)} and {tuple(self.col_indices.shape)}"
            )
        check_range(owner, "col_indices", self.col_indices, self.shape[1], least=_EMPTY)
        if concrete(self.values):
            padding = self.values.detach()[..., self.col_indices == _EMPTY]
            finite(owner, "the values of empty slots", padding)

    @classmethod
    def _of_entries(cls, entries: Tensor, pattern: Pattern) -> Self:
        width = int(counted(pattern.pointers).max()) if pattern.rows else 0
        places = pattern.row_indices.to(torch.int64) * width + row_places(pattern)
        columns = torch.full(
            (pattern.rows * width,), _EMPTY, dtype=pattern.indices.dtype, device=entries.device
        )
        columns[places] = pattern.indices
        batch = entries.shape[:-1]
        flat = entries.new_zeros(*batch, pattern.rows * width)
        values = flat.index_add(-1, places, entries)
        values = values.reshape(*batch, pattern.rows, width)
        return cls(values, columns.view(pattern.rows, width), pattern.shape, validate=False)

    @property
    def _data(self) -> Tensor:
        return self.values

    def _with_data(self, data: Tensor) -> Self:
        made = type(self)(data, self.col_indices, self.shape, validate=False)
        made._pattern_cache = self._pattern_cache
        return made

    def _moved(self, device: torch.device) -> Self:
        return type(self)(
            self.values.to(device), self.col_indices.to(device), self.shape, validate=False
        )

    def _slots(self) -> tuple[Pattern, Tensor, Pattern]:
        """Return the pattern of used slots, their positions, and the pattern of all slots.

        In the pattern of all slots the empty ones are in a column after the last.
        """
        cached, indices = self._pattern_cache, self.col_indices
        if cached is None or not (cached[0].holds(indices, indices) and cached[1].intact):
            used = indices != _EMPTY
            places = used.reshape(-1).nonzero().squeeze(-1)
            pointers = torch.zeros(self.shape[0] + 1, dtype=indices.dtype, device=self.device)
            torch.cumsum(used.sum(-1), 0, out=pointers[1:])
            pattern = Pattern(pointers, indices.reshape(-1)[places], self.shape)
            rows, width = self.col_indices.shape
            starts = width * torch.arange(rows + 1, dtype=indices.dtype, device=self.device)
            columns = torch.where(used, indices, self.shape[1]).reshape(-1)
            every = Pattern(starts, columns, (rows, self.shape[1] + 1))
            cached = self._pattern_cache = (Snapshot(indices, indices), pattern, places, every)
        return cached[1:]

    def _by_rows(self) -> tuple[Tensor, Pattern]:
        pattern, places, _ = self._slots()
        return self.values.flatten(-2).index_select(-1, places), pattern

    def _product(self, b: Tensor) -> Tensor:
        found = run_slot_spmv(self._matrix, b)
        return super()._product(b) if found is None else found

    @property
    def _matrix(self) -> RowMatrix:
        """All slots by rows, on the same memory."""
        held = RowMatrix.reused(self._product_cache, self.values, self._slots()[2])
        self._product_cache = held
        return held

    @property
    def width(self) -> int:
        """Number of slots of a row."""
        return self.col_indices.shape[1]

    @property
    def nnz(self) -> int:
        """Number of used slots, explicit zeros included."""
        return self._slots()[0].entries
