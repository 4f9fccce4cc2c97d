"""One routine of cuBLAS that torch does not call: the product of a matrix and its own transpose.

torch computes both triangles. cuBLAS computes one, which for large matrices takes two thirds of the
time, the copy to the other triangle included. It is called in the library that torch has loaded and
with torch's own handle, so stream, workspace and the choice of TF32 are those of torch. Where
anything is missing or refused the function returns None and torch does the work.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import torch
from torch import Tensor

from trnblas import _cuda
from trnsci.core.eager import untracked

__all__ = ["ORDER", "syrk"]

_ROUTINES: dict[torch.dtype, tuple[str, Any]] = {
    torch.float32: ("cublasSsyrk_v2", ctypes.c_float * 1),
    torch.float64: ("cublasDsyrk_v2", ctypes.c_double * 1),
    torch.complex64: ("cublasCsyrk_v2", ctypes.c_float * 2),
    torch.complex128: ("cublasZsyrk_v2", ctypes.c_double * 2),
}
_handle: Any = torch.cuda.current_blas_handle
# Where it is the faster one on an H200: from this order and this many products per element on.
ORDER, _DEPTH = 1536, 512
_LOWER = 0  # of matrices by columns, which is the upper triangle of ours by rows


def syrk(alpha: float, A: Tensor, transposed: bool) -> Tensor | None:
    """Return ``alpha A A'``, or ``alpha A' A``, of a large matrix on the current device."""
    if A.ndim != 2 or A.dtype not in _ROUTINES:
        return None
    depth, order = A.shape if transposed else A.shape[::-1]
    if order < ORDER or depth < _DEPTH:
        return None
    if not A.is_contiguous():
        A, transposed = A.mT, not transposed
    if not A.is_contiguous() or A.is_conj() or A.is_neg() or not untracked(A):
        return None
    if torch.is_autocast_enabled("cuda"):
        return None  # what it makes of a product only torch knows
    library = _library()
    if library is None or A.get_device() != torch.cuda.current_device():
        return None
    product = A.new_empty(order, order)
    name, number = _ROUTINES[A.dtype]
    handle = ctypes.c_void_p(_handle())
    code: int = getattr(library, name)(
        handle,
        _LOWER,
        0 if transposed else 1,
        order,
        depth,
        number(alpha),
        ctypes.c_void_p(A.data_ptr()),
        A.shape[1],
        number(0.0),
        ctypes.c_void_p(product.data_ptr()),
        order,
    )
    return product if code == 0 and _cuda.mirror_in_place(product) else None


@cache
def _library() -> Any:
    """Return the cuBLAS that torch has loaded, None where there is none."""
    if torch.version.cuda is None:
        return None
    try:
        return ctypes.CDLL(f"libcublas.so.{torch.version.cuda.partition('.')[0]}")
    except OSError:
        return None
