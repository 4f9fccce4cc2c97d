"""The functions of ``trntensor.nki``: validation, then one operation."""

from __future__ import annotations

from torch import Tensor

from trnsci.core.arguments import agree
from trnsci.core.backend.library import backend_names
from trnsci.core.errors import NkiFallbackWarning, ShapeError
from trntensor._library import LIBRARY
from trntensor._paths.operations import CONTRACT

__all__ = ["NkiFallbackWarning", "nki_batched_matmul", "nki_matmul"]


def nki_matmul(A: Tensor, B: Tensor) -> Tensor:
    """Return ``A @ B`` of two matrices, computed by the contraction kernel on a kernel path.

    Raises:
        ShapeError: They are not matrices of compatible shapes.
        DTypeError, DeviceError: They differ in dtype or device.
    """
    _check("nki_matmul", A, B, 2)
    product: Tensor = CONTRACT(A, B, "ij,jk->ik")
    return product


def nki_batched_matmul(A: Tensor, B: Tensor) -> Tensor:
    """Return ``A[i] @ B[i]`` for every i of two batches of matrices.

    Raises:
        ShapeError: A and B are not batches of matrices of compatible shapes.
        DTypeError, DeviceError: A and B differ in dtype or device.
    """
    _check("nki_batched_matmul", A, B, 3)
    products: Tensor = CONTRACT(A, B, "bij,bjk->bik")
    return products


def _check(function: str, A: Tensor, B: Tensor, dimensions: int) -> None:
    agree(function, "A", A, "B", B)
    fit = A.ndim == B.ndim == dimensions and A.shape[-1] == B.shape[-2]
    if not fit or A.shape[:-2] != B.shape[:-2]:
        raise ShapeError(
            f"{function}: A and B must have {dimensions} dimensions and fit, "
            f"got {tuple(A.shape)} and {tuple(B.shape)}"
        )


__getattr__ = backend_names(__name__, LIBRARY)
