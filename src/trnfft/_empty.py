"""Transforms of no vectors at all."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch._C import _functorch
from torch.compiler import is_dynamo_compiling

__all__ = ["empty_like", "empty_result", "is_empty"]


def is_empty(x: Tensor) -> bool:
    """Return whether a tensor has no entries, or ``vmap`` goes over a batch of no tensors.

    In such a batch every tensor has the shape of one that is there, and nothing can be computed.
    """
    if x.numel() == 0:
        return True
    if is_dynamo_compiling():
        return False  # what is traced is not looked into
    while isinstance(x, Tensor) and _functorch.is_functorch_wrapped_tensor(x):
        x = _functorch.get_unwrapped(x)
        if x.numel() == 0:
            return True
    return False


def empty_result(
    x: Tensor, sizes: Sequence[int], dims: Sequence[int], halved: bool, real: bool
) -> Tensor | None:
    """Return the empty result of a transform over a batch of no vectors, None of any other.

    MKL refuses an empty batch. The result is part of the graph that autograd keeps.

    Args:
        x: The input.
        sizes: Lengths of the transform.
        dims: Its dimensions.
        halved: Whether the result has half the bins along the last of these.
        real: Whether it is real.
    """
    shape = list(x.shape)
    for size, dim in zip(sizes, dims, strict=True):
        shape[dim] = size
    if halved:
        shape[dims[-1]] = sizes[-1] // 2 + 1
    if x.numel() == 0 and 0 not in shape:
        return None
    return empty_like(x, shape, real)


def empty_like(x: Tensor, shape: Sequence[int], real: bool) -> Tensor:
    """Return a tensor of an empty shape that autograd takes as computed from ``x``."""
    total = x.sum()  # of nothing: a zero that knows where it comes from
    if real:
        total = torch.real(total)
    elif not total.is_complex():
        total = torch.complex(total, torch.zeros_like(total))
    return total.expand(shape).clone()
