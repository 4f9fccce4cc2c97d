"""Validation of the tensors of a matrix at construction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trnsci.core.arguments import tensor, whole
from trnsci.core.errors import DeviceError, DTypeError, ShapeError
from trnsci.core.numbers.values import concrete
from trnsparse._patterns.index import INDEX_DTYPES


def shape_of(owner: str, shape: Sequence[int]) -> tuple[int, int]:
    """Return the shape of a matrix as two integers."""
    if not isinstance(shape, Sequence) or len(shape) != 2:
        raise ShapeError(f"{owner}: shape must be two integers, got {shape!r}")
    rows, columns = (whole(owner, "shape", size, least=0, error=ShapeError) for size in shape)
    return rows, columns


def check_values(owner: str, name: str, values: Any, dimensions: int) -> None:
    """Raise unless ``values`` is a floating-point or complex tensor of enough dimensions."""
    if not isinstance(values, Tensor):
        raise DTypeError(f"{owner}: {name} must be a torch.Tensor, got {type(values).__name__}")
    if not (values.is_floating_point() or values.is_complex()):
        raise DTypeError(
            f"{owner}: {name} must be floating point or complex, got {values.dtype}; "
            f"convert with {name}.to(torch.float32)"
        )
    tensor(owner, name, values)  # of a dtype with which torch computes
    if values.ndim < dimensions:
        raise ShapeError(
            f"{owner}: {name} must be at least {dimensions}-D, got shape {tuple(values.shape)}"
        )


def check_indices(owner: str, values: Tensor, dimensions: int, **indices: Any) -> None:
    """Raise unless index tensors have one index dtype, these dimensions and the values' device."""
    first = ""
    for name, index in indices.items():
        if not isinstance(index, Tensor):
            raise DTypeError(f"{owner}: {name} must be a torch.Tensor, got {type(index).__name__}")
        if index.dtype not in INDEX_DTYPES:
            raise DTypeError(f"{owner}: {name} must be int32 or int64, got {index.dtype}")
        if index.ndim != dimensions:
            raise ShapeError(
                f"{owner}: {name} must be {dimensions}-D, got shape {tuple(index.shape)}"
            )
        if index.device != values.device:
            raise DeviceError(
                f"{owner}: {name} must be on the device of the values, {values.device}, "
                f"got {index.device}"
            )
        if first and index.dtype is not indices[first].dtype:
            raise DTypeError(
                f"{owner}: {first} and {name} must have one dtype, "
                f"got {indices[first].dtype} and {index.dtype}"
            )
        first = first or name


def check_range(owner: str, name: str, indices: Tensor, size: int, least: int = 0) -> None:
    """Raise unless every index is from ``least`` to ``size - 1``; traced tensors are not read."""
    if not concrete(indices) or not indices.numel():
        return
    smallest, largest = (int(end) for end in torch.aminmax(indices))
    if smallest < least or largest >= size:
        found = smallest if smallest < least else largest
        raise ShapeError(
            f"{owner}: {name} must be from {least} to {size - 1}, got {found}"
            if size
            else f"{owner}: {name} must be empty for a dimension of size 0, got {found}"
        )


def check_compressed(
    owner: str,
    names: tuple[str, str],
    pointers: Tensor,
    indices: Tensor,
    shape: tuple[int, int],
    entries: int,
) -> None:
    """Raise unless pointers and indices describe a matrix of ``shape`` with ``entries`` entries."""
    pointer_name, index_name = names
    if pointers.shape[0] != shape[0] + 1:
        raise ShapeError(
            f"{owner}: {pointer_name} must have {shape[0] + 1} elements, got {pointers.shape[0]}"
        )
    if indices.shape[0] != entries:
        raise ShapeError(
            f"{owner}: {index_name} must have one element for each of the {entries} values, "
            f"got {indices.shape[0]}"
        )
    if concrete(pointers):
        first, last = int(pointers[0]), int(pointers[-1])
        if first != 0 or last != entries:
            raise ShapeError(
                f"{owner}: {pointer_name} must go from 0 to the number of values {entries}, "
                f"got {first} to {last}"
            )
        falls = pointers[1:] < pointers[:-1]
        if bool(falls.any()):
            place = int(falls.nonzero()[0])
            raise ShapeError(
                f"{owner}: {pointer_name} must not decrease, got {int(pointers[place])} "
                f"before {int(pointers[place + 1])} at {place}"
            )
    check_range(owner, index_name, indices, shape[1])
