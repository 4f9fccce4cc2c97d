"""BSR storage: dense square blocks, the unit of work of a tensor engine."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from trnsci.core.arguments import whole
from trnsci.core.errors import FlagError, ShapeError
from trnsparse._paths.blocks import run_bsr_spmm
from trnsparse._patterns.blocking import blocked, unblocked, unblocked_by_scipy
from trnsparse._patterns.dense import above, check_threshold, no_zeros, nonzero_blocks
from trnsparse._patterns.layouts import as_torch_bsr, parts_for_scipy, suits_scipy
from trnsparse._patterns.pattern import Pattern
from trnsparse._products.row_products import RowMatrix
from trnsparse.formats._storage.base import StoredMatrix
from trnsparse.formats._storage.checks import (
    check_compressed,
    check_indices,
    check_values,
    shape_of,
)


@dataclass(eq=False, repr=False)
class BSRStorage(StoredMatrix):
    """Dense square blocks by block rows: blocks, block columns and block row pointers."""

    blocks: Tensor
    block_col_indices: Tensor
    block_row_ptrs: Tensor
    shape: tuple[int, int]
    block_size: int = 128
    validate: InitVar[bool] = True
    _pattern_cache: Pattern | None = field(default=None, init=False)
    _product_cache: RowMatrix | None = field(default=None, init=False)
    _entry_ndim = 3

    def __post_init__(self, validate: bool) -> None:
        if not validate:
            return
        owner = "BSRMatrix"
        self.shape = shape_of(owner, self.shape)
        size = self.block_size = whole(
            owner, "block_size", self.block_size, least=1, error=FlagError
        )
        check_values(owner, "blocks", self.blocks, 3)
        if self.blocks.shape[-2:] != (size, size):
            raise ShapeError(
                f"{owner}: blocks must end in ({size}, {size}), got {tuple(self.blocks.shape)}"
            )
        indices = {
            "block_row_ptrs": self.block_row_ptrs,
            "block_col_indices": self.block_col_indices,
        }
        check_indices(owner, self.blocks, 1, **indices)
        check_compressed(
            owner,
            ("block_row_ptrs", "block_col_indices"),
            self.block_row_ptrs,
            self.block_col_indices,
            self.grid,
            self.blocks.shape[-3],
        )

    @classmethod
    def _of(cls, blocks: Tensor, pattern: Pattern, shape: tuple[int, int]) -> Self:
        size = blocks.shape[-1]
        pointers, indices = pattern.exposed
        made = cls(blocks, indices, pointers, shape, size, validate=False)
        made._pattern_cache = pattern
        return made

    @classmethod
    def from_dense(cls, A: Tensor, block_size: int = 128, threshold: float = 0.0) -> Self:
        """Return a matrix of those blocks of A that have an entry with magnitude above threshold.

        All other entries of A are dropped.
        """
        size = whole("from_dense", "block_size", block_size, least=1, error=FlagError)
        blocks, pattern = nonzero_blocks("from_dense", A, size, threshold)
        return cls._of(blocks, pattern, (A.shape[0], A.shape[1]))

    @classmethod
    def _of_entries(
        cls, values: Tensor, pattern: Pattern, block_size: int, threshold: float
    ) -> Self:
        size = whole("from_csr", "block_size", block_size, least=1, error=FlagError)
        check_threshold("from_csr", threshold)
        all_nonzero = threshold == 0 and no_zeros(values)
        blocks, block_pattern = blocked(values, pattern, size)
        made = cls._of(blocks, block_pattern, pattern.shape)
        if all_nonzero:
            return made
        largest = blocks.detach().abs().flatten(-2).amax(-1) if block_pattern.entries else None
        selected = None if largest is None else above(largest, threshold)
        while selected is not None and selected.ndim > 1:
            selected = selected.any(0)
        return made if selected is None or bool(selected.all()) else made._chosen(selected)

    def _chosen(self, selected: Tensor) -> Self:
        """Return the matrix of the selected blocks."""
        places = selected.nonzero().squeeze(-1)
        rows = self.pattern.row_indices[places]
        ends = torch.bincount(rows, minlength=self.grid[0]).cumsum(0)
        pointers = torch.zeros_like(self.pattern.pointers)
        pointers[1:] = ends
        pattern = Pattern(pointers, self.pattern.indices[places], self.grid)
        return self._of(self.blocks.index_select(-3, places), pattern, self.shape)

    @property
    def grid(self) -> tuple[int, int]:
        """Block rows and block columns."""
        return -(-self.shape[0] // self.block_size), -(-self.shape[1] // self.block_size)

    @property
    def pattern(self) -> Pattern:
        """Positions of the blocks in the grid of blocks."""
        given = self.block_row_ptrs, self.block_col_indices, self.grid
        cached = self._pattern_cache
        if cached is None or cached.snapshot is None or not cached.snapshot.holds(*given):
            cached = self._pattern_cache = Pattern.of(*given)
        return cached

    @property
    def _data(self) -> Tensor:
        return self.blocks

    def _with_data(self, data: Tensor) -> Self:
        return self._of(data, self.pattern, self.shape)

    def _moved(self, device: torch.device) -> Self:
        pattern = self.pattern
        indices = pattern.indices.to(device), pattern.pointers.to(device)
        blocks = self.blocks.to(device)
        return type(self)(blocks, *indices, self.shape, self.block_size, validate=False)

    def _by_rows(self) -> tuple[Tensor, Pattern]:
        """Return the elements of blocks that are not zero, and their pattern."""
        if self.blocks.ndim == 3:
            if suits_scipy(self.blocks.reshape(-1), self.pattern.indices):
                return unblocked_by_scipy(self.blocks, self.pattern, self.shape)
            values, pattern, _ = unblocked(self.blocks, self.pattern, self.shape)
            return values, pattern
        flat = self.blocks.flatten(0, -4)
        stored = flat.detach().ne(0).any(0).to(flat.dtype)
        _, pattern, places = unblocked(stored, self.pattern, self.shape)
        return self.blocks.flatten(-3).index_select(-1, places), pattern

    def _stored(self) -> tuple[Tensor, Pattern]:
        every = self.blocks.new_ones(self.blocks.shape[-3:])
        _, pattern, places = unblocked(every, self.pattern, self.shape)
        return self.blocks.flatten(-3).index_select(-1, places), pattern

    @property
    def n_blocks(self) -> int:
        """Number of stored blocks."""
        return self.block_col_indices.shape[0]

    @property
    def nnz(self) -> int:
        """Number of elements of stored blocks, zeros included."""
        return self.n_blocks * self.block_size**2

    @property
    def density(self) -> float:
        """Number of stored blocks over that of all blocks; 0.0 for an empty grid."""
        every = self.grid[0] * self.grid[1]
        return self.n_blocks / every if every else 0.0

    def __repr__(self) -> str:
        return (
            f"BSRMatrix(shape={self.shape}, block_size={self.block_size}, "
            f"n_blocks={self.n_blocks}, block_density={self.density:.4f})"
        )

    def to_dense(self) -> Tensor:
        """Return the dense matrix; duplicate blocks are summed."""
        size, (rows, columns) = self.block_size, self.grid
        zeros = self.blocks.new_zeros(*self.batch_shape, rows * columns, size, size)
        tiles = zeros.index_add(-3, self.pattern.keys, self.blocks)
        tiles = tiles.reshape(*self.batch_shape, rows, columns, size, size).transpose(-3, -2)
        dense = tiles.reshape(*self.batch_shape, rows * size, columns * size)
        return dense[..., : self.shape[0], : self.shape[1]]

    def _product(self, b: Tensor) -> Tensor:
        held = RowMatrix.reused(self._product_cache, self.blocks, self.pattern)
        self._product_cache = held
        return run_bsr_spmm(held, b, self.shape[0])

    def transpose(self) -> Self:
        """Return the transpose in BSR format."""
        transposed, order = self.pattern.transposed
        blocks = self.blocks.index_select(-3, order).mT.contiguous()
        return self._of(blocks, transposed, (self.shape[1], self.shape[0]))

    def diagonal(self) -> Tensor:
        """Return the main diagonal, zero where no block is stored."""
        chosen = (self.pattern.row_indices == self.block_col_indices).nonzero().squeeze(-1)
        entries = self.blocks.index_select(-3, chosen).diagonal(dim1=-2, dim2=-1)
        zeros = self.blocks.new_zeros(*self.batch_shape, min(self.grid), self.block_size)
        found = zeros.index_add(-2, self.pattern.indices[chosen], entries)
        return found.flatten(-2)[..., : min(self.shape)]

    @property
    def _whole_blocks(self) -> bool:
        return not any(length % self.block_size for length in self.shape)

    def _as_scipy(self) -> Any:
        from scipy.sparse import bsr_array

        return bsr_array(parts_for_scipy(self.blocks, self.pattern), shape=self.shape)

    def _as_torch(self) -> Tensor:
        pattern, order = self.pattern.sorted  # torch requires sorted columns
        blocks = self.blocks if order is None else self.blocks.index_select(-3, order)
        return as_torch_bsr(blocks, pattern, narrow=False)
