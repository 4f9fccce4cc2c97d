"""Transforms of empty batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from trnfft._paths.arguments import HALF_SPECTRUM, REAL_INPUT
from trnsci.core.interop import is_wrapped, unwrapped


def is_empty(x: Tensor) -> bool:
    """Return whether a tensor has no elements, or is inside ``vmap`` over an empty batch.

    Inside ``vmap``, a tensor of an empty batch has a nonempty shape but no values.
    """
    count: Any = x.numel()
    if isinstance(count, Tensor):
        return False  # torch.jit.trace: the value of a length must not be read
    if count == 0:
        return True
    if is_dynamo_compiling():
        return False  # wrappers of vmap cannot be traced
    return isinstance(x, Tensor) and is_wrapped(x) and is_empty(unwrapped(x))


def empty_result(kind: str, x: Tensor, sizes: Sequence[int], dims: Sequence[int]) -> Tensor | None:
    """Return the result of a transform if it has no elements, else None.

    MKL raises for an empty batch. The result is part of the autograd graph.
    """
    shape = list(x.shape)
    for size, dim in zip(sizes, dims, strict=True):
        shape[dim] = size
    if kind in REAL_INPUT:
        shape[dims[-1]] = sizes[-1] // 2 + 1
    if x.numel() == 0 and 0 not in shape:
        return None
    return empty_like(x, shape, kind in HALF_SPECTRUM)


def empty_like(x: Tensor, shape: Sequence[int], real: bool) -> Tensor:
    """Return a tensor of an empty shape that depends on ``x`` in the autograd graph."""
    total = x.sum()  # an empty sum: zero, but part of the graph of x
    if real:
        total = torch.real(total)
    elif not total.is_complex():
        total = torch.complex(total, torch.zeros_like(total))
    return total.expand(shape).clone()
