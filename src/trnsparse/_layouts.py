"""Matrices as tensors of torch's compressed layouts, on the same memory."""

from __future__ import annotations

import torch
from torch import Tensor

from trnsparse._patterns import Pattern, quieten

__all__ = ["as_torch_bsr", "as_torch_csc", "as_torch_csr"]


def as_torch_csr(values: Tensor, pattern: Pattern, narrow: bool = True) -> Tensor:
    """Return the torch.sparse_csr tensor on the memory of ``values``, without checks."""
    quieten()
    pointers, indices = pattern.narrow if narrow else (pattern.pointers, pattern.indices)
    return torch.sparse_csr_tensor(pointers, indices, values, pattern.shape, check_invariants=False)


def as_torch_csc(values: Tensor, by_columns: Pattern) -> Tensor:
    """Return the torch.sparse_csc tensor on the memory of ``values``, without checks."""
    quieten()
    places, shape = (by_columns.pointers, by_columns.indices), (by_columns.columns, by_columns.rows)
    return torch.sparse_csc_tensor(*places, values, shape, check_invariants=False)


def as_torch_bsr(blocks: Tensor, pattern: Pattern, narrow: bool = True) -> Tensor:
    """Return the torch.sparse_bsr tensor on the memory of ``blocks``, without checks."""
    quieten()
    pointers, indices = pattern.narrow if narrow else (pattern.pointers, pattern.indices)
    shape = tuple(size * blocks.shape[-1] for size in pattern.shape)
    return torch.sparse_bsr_tensor(pointers, indices, blocks, shape, check_invariants=False)
