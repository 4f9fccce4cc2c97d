"""Matrices in the compressed layouts of torch and SciPy, on the same memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci.core.numbers.conversions import array_of
from trnsci.core.numbers.values import inert
from trnsparse._patterns.index import on_host
from trnsparse._patterns.pattern import Pattern, quieten

NATIVE = (torch.float32, torch.float64, torch.complex64, torch.complex128)
"""The dtypes of the sparse matrices of MKL and SciPy."""


def has_mkl() -> bool:
    """Return whether torch uses MKL for sparse products and substitution on a CPU."""
    available: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    return available


def as_torch_csr(values: Tensor, pattern: Pattern, narrow: bool = True) -> Tensor:
    """Return the torch.sparse_csr tensor on the memory of ``values``, without checks."""
    quieten()
    pointers, indices = pattern.narrow if narrow else (pattern.pointers, pattern.indices)
    shape = pattern.shape
    return torch.sparse_csr_tensor(
        pointers, indices, values, shape, device=values.device, check_invariants=False
    )


def as_torch_csc(values: Tensor, by_columns: Pattern) -> Tensor:
    """Return the torch.sparse_csc tensor on the memory of ``values``, without checks."""
    quieten()
    places, shape = (by_columns.pointers, by_columns.indices), (by_columns.columns, by_columns.rows)
    return torch.sparse_csc_tensor(
        *places, values, shape, device=values.device, check_invariants=False
    )


def as_torch_bsr(blocks: Tensor, pattern: Pattern, narrow: bool = True) -> Tensor:
    """Return the torch.sparse_bsr tensor on the memory of ``blocks``, without checks."""
    quieten()
    pointers, indices = pattern.narrow if narrow else (pattern.pointers, pattern.indices)
    shape = tuple(size * blocks.shape[-1] for size in pattern.shape)
    return torch.sparse_bsr_tensor(
        pointers, indices, blocks, shape, device=blocks.device, check_invariants=False
    )


def suits_scipy(values: Tensor, indices: Tensor) -> bool:
    """Return whether SciPy can compute with these: one matrix on a CPU, not differentiated."""
    return (
        values.ndim == 1
        and values.dtype in NATIVE
        and values.is_cpu
        and inert(values)
        and on_host(indices)
    )


def as_scipy_csr(values: Tensor, pattern: Pattern) -> Any:
    """Return SciPy's ``csr_array`` on the memory of ``values`` and of the indices."""
    from scipy.sparse import csr_array

    parts = (values.detach().contiguous().view(-1), pattern.indices, pattern.pointers)
    return csr_array(tuple(array_of(t) for t in parts), shape=pattern.shape)


def as_scipy_csc(values: Tensor, by_columns: Pattern) -> Any:
    """Return SciPy's ``csc_array`` on the memory of ``values`` and of the indices."""
    from scipy.sparse import csc_array

    parts = (values.detach().contiguous(), by_columns.indices, by_columns.pointers)
    shape = (by_columns.columns, by_columns.rows)
    return csc_array(tuple(array_of(t) for t in parts), shape=shape)


def as_scipy_bsr(blocks: Tensor, pattern: Pattern) -> Any:
    """Return SciPy's ``bsr_array`` of whole blocks on the memory of ``blocks``."""
    from scipy.sparse import bsr_array

    parts = (blocks.detach().contiguous(), pattern.indices, pattern.pointers)
    shape = tuple(size * blocks.shape[-1] for size in pattern.shape)
    return bsr_array(tuple(array_of(t) for t in parts), shape=shape)


def parts_for_scipy(data: Tensor, pattern: Pattern) -> tuple[Any, Any, Any]:
    """Return data, indices and pointers for a SciPy matrix that is returned to the user.

    SciPy sorts indices and sums duplicates in place. So indices are copied, and data as well unless
    they are sorted and without duplicates.
    """
    values = array_of(data.detach().cpu())
    if not pattern.canonical:
        values = values.copy()
    indices, pointers = (array_of(t.cpu()).copy() for t in (pattern.indices, pattern.pointers))
    return values, indices, pointers


def parts_of_scipy(
    matrix: Any, shape: tuple[int, int], dtype: torch.dtype
) -> tuple[Tensor, Pattern]:
    """Return the data of SciPy's compressed matrix, and its pattern with indices of a dtype."""
    pointers, indices = (torch.from_numpy(a).to(dtype) for a in (matrix.indptr, matrix.indices))
    return torch.from_numpy(matrix.data), Pattern(pointers, indices, shape)
