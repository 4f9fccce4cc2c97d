"""Operands of the kernels: indices on the host and on the device, columns of dense operands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from trnsci.core.tiles.hardware import BANK

KERNEL_DTYPES = ("float32", "bfloat16", "float16", "int32", "int64")
"""Dtypes of the values and of the indices that kernels take."""

MOST_DEPTH = 4096
"""Longest contraction of a product of blocks at doublefloat."""


def host_numbers(tensor: Tensor) -> npt.NDArray[np.int64]:
    """Return an index tensor as integers on the host."""
    found: npt.NDArray[np.int64] = tensor.detach().cpu().to(torch.int64).numpy()
    return found


def unsigned(numbers: Tensor) -> Tensor:
    """Return indices in the dtype of indirect DMA."""
    return numbers.to(torch.int32).view(torch.uint32)


def of_batch(product: Callable[[Tensor], Tensor], b: Tensor) -> Tensor:
    """Return the products with a batch (..., n, N), the columns of all of them side by side."""
    wide = b.movedim(-2, 0)
    found = product(wide.flatten(1))
    return found.reshape(found.shape[0], *wide.shape[1:]).movedim(0, -2)


def several_columns(b: Tensor) -> Tensor:
    """Return a dense operand whose last bank has more than one column, padded with zeros.

    Some compilers reject a single moving column.
    """
    return functional.pad(b, (0, 1)) if b.shape[1] % BANK == 1 else b


def leading_columns(result: Tensor, width: int) -> Tensor:
    """Return the first columns of a result, in memory of their own."""
    return result if result.shape[1] == width else result[:, :width].clone()
