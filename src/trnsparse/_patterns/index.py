"""Arithmetic of index tensors: pointers, permutations, keys; on any device, never dense.

On a CPU, NumPy and SciPy need one pass where torch would sort.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnsci.core.interop import is_wrapped, transform_level, unwrapped, without_transforms
from trnsci.core.numbers.values import concrete

INDEX_DTYPES = (torch.int32, torch.int64)

F = TypeVar("F", bound=Callable[..., Any])


def outside_transforms(function: F) -> F:
    """Return a function of index tensors that runs outside of the transforms of ``torch.func``.

    Its results may be cached: made inside, they would belong to a transform that ends.
    """

    @wraps(function)
    def call(*args: Any) -> Any:
        if is_compiling() or transform_level() is None:
            return function(*args)
        values = [plain(arg) for arg in args]
        if any(isinstance(value, Tensor) and is_wrapped(value) for value in values):
            return function(*args)  # a batch of vmap
        with without_transforms():
            return function(*values)

    return cast(F, call)


def plain(arg: Any) -> Any:
    """Return an index tensor without the derivatives around it, which integers do not have."""
    if is_compiling() or transform_level() is None:
        return arg
    while isinstance(arg, Tensor) and is_wrapped(arg) and unwrapped(arg).shape == arg.shape:
        arg = unwrapped(arg)
    return arg


@outside_transforms
def copied(indices: Tensor) -> Tensor:
    """Return a copy of an index tensor."""
    return indices.clone()


def on_host(indices: Tensor) -> bool:
    """Return whether NumPy can read an index tensor."""
    return concrete(indices) and indices.is_cpu


def counted(pointers: Tensor) -> Tensor:
    """Return the number of entries of each row."""
    return pointers[1:] - pointers[:-1]


@outside_transforms
def pointers(rows: Tensor, size: int) -> Tensor:
    """Return the row pointers, (size + 1,), of entries sorted by row."""
    counts = torch.zeros(size + 1, dtype=rows.dtype, device=rows.device)
    counts.index_add_(0, rows + 1, torch.ones_like(rows))
    return counts.cumsum(0, dtype=rows.dtype)


@outside_transforms
def expanded(pointers: Tensor, size: int) -> Tensor:
    """Return the row of each of ``size`` entries."""
    rows = pointers.numel() - 1
    if on_host(pointers):
        starts = pointers.numpy()
        return torch.from_numpy(np.repeat(np.arange(rows, dtype=starts.dtype), np.diff(starts)))
    names = torch.arange(rows, dtype=pointers.dtype, device=pointers.device)
    return torch.repeat_interleave(names, counted(pointers), output_size=size)


@outside_transforms
def keys_of(rows: Tensor, columns: Tensor, width: int) -> Tensor:
    """Return one integer for each entry that orders entries by row, then by column."""
    return rows.to(torch.int64) * width + columns


@outside_transforms
def stable_order(keys: Tensor) -> Tensor:
    """Return the permutation that sorts keys, stable for equal ones."""
    return torch.sort(keys, stable=True).indices


@outside_transforms
def first_of_each(keys: Tensor) -> Tensor:
    """Return whether each of the sorted keys differs from the one before it."""
    first = torch.ones_like(keys, dtype=torch.bool)
    first[1:] = keys[1:] != keys[:-1]
    return first


@outside_transforms
def is_canonical(pointers: Tensor, columns: Tensor) -> bool:
    """Return whether the columns of each row increase, so that there are no duplicates."""
    if columns.numel() < 2:
        return True
    if on_host(columns) and on_host(pointers):
        from scipy.sparse import csr_array

        parts = (columns.numpy(), columns.numpy(), pointers.numpy())
        return bool(csr_array(parts, shape=(pointers.numel() - 1, 1)).has_canonical_format)
    rises = columns[1:] > columns[:-1]
    # The last entry of a row and the first of the next need not be ordered.
    inner = pointers[1:-1]
    rises[inner[(inner > 0) & (inner < columns.numel())].to(torch.int64) - 1] = True
    return bool(rises.all())


@outside_transforms
def transposed_order(
    row_pointers: Tensor, columns: Tensor, width: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the pointers and row indices of the transpose, and the permutation of entries."""
    entries = columns.numel()
    if on_host(columns) and on_host(row_pointers):
        from scipy.sparse import csr_array

        parts = (np.arange(entries), columns.numpy(), row_pointers.numpy())
        transposed = csr_array(parts, shape=(row_pointers.numel() - 1, width)).tocsc()
        found = [
            torch.from_numpy(a).to(columns.dtype) for a in (transposed.indptr, transposed.indices)
        ]
        return found[0], found[1], torch.from_numpy(transposed.data)
    order = stable_order(columns)
    return pointers(columns, width), expanded(row_pointers, entries)[order], order


def group_sums(values: Tensor, groups: Tensor, size: int) -> Tensor:
    """Return sums over the last dimension of ``values`` by group, rounded once, differentiable."""
    if values.dtype in (torch.float16, torch.bfloat16):
        return group_sums(values.float(), groups, size).to(values.dtype)
    zeros = values.new_zeros(*values.shape[:-1], size)
    return zeros.index_add(-1, groups, values)
