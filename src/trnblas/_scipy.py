"""SciPy's BLAS on CPU tensors, for routines that torch lacks.

torch has no product that reads one triangle: it must build the other triangle first, which for a
matrix times a vector takes tens of times as long as the product. Each function returns None where
torch is to do the work: another device, a gradient, a transform, an unusual dtype, no SciPy.

Torch stores rows and Fortran columns, so a contiguous matrix is handed over as the transpose that
its memory is to Fortran, nothing is copied, and the operation is transposed to suit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnblas._arguments import Scalar
from trnblas._flags import Trans
from trnsci.core.arrays import array_of
from trnsci.core.eager import readable

__all__ = [
    "NUMPY_SYRK",
    "TRIANGLE",
    "herk",
    "small_symm",
    "small_symv",
    "small_syrk",
    "symm",
    "symv",
    "syrk",
    "trmm",
    "trmv",
]

_PREFIX = {
    torch.float32: "s",
    torch.float64: "d",
    torch.complex64: "c",
    torch.complex128: "z",
}
_TRANS_CODE: dict[Trans, int] = {"N": 0, "T": 1, "C": 2}

# NumPy recognises A @ A.T, computes one triangle and mirrors it within one call: the cheapest
# complete result up to this order. Above it, mirroring by panels is worth the calls.
NUMPY_SYRK = 128
# With this many rows and columns torch's product outweighs the mirroring of A (x86-64, MKL).
_TORCH_SYMM = 1024
# Below this order the mask of a triangle costs torch less than the way to SciPy and back.
TRIANGLE = 48
# Columns moved at a time: both the panel and its transpose stay in cache.
_PANEL = 64


def symv(alpha: Scalar, A: Tensor, x: Tensor, upper: bool) -> Tensor | None:
    """Return ``alpha * sym(A) @ x``; real dtypes only, there is no complex symmetric one."""
    routine = _routine("symv", alpha, A, x) if x.ndim == 1 else None
    if routine is None:
        return None
    a, turned = _columns(A)
    return torch.from_numpy(routine(alpha, a, array_of(x), lower=upper == turned))


def trmv(A: Tensor, x: Tensor, upper: bool, trans: Trans, unit: bool) -> Tensor | None:
    """Return ``op(tri(A)) @ x``; not for the conjugate transpose."""
    if trans == "C" or A.shape[-1] < TRIANGLE or x.ndim != 1:
        return None
    routine = _routine("trmv", 1.0, A, x)
    if routine is None:
        return None
    a, turned = _columns(A)
    flip = (trans == "T") != turned
    return torch.from_numpy(routine(a, array_of(x), lower=upper == turned, trans=flip, diag=unit))


def symm(alpha: Scalar, A: Tensor, B: Tensor, left: bool, upper: bool) -> Tensor | None:
    """Return ``alpha * sym(A) @ B`` or ``alpha * B @ sym(A)``."""
    routine = _routine("symm", alpha, A, B)
    if routine is None:
        return None
    if min(A.shape[0], B.shape[1 if left else 0]) >= _TORCH_SYMM:
        assert not isinstance(alpha, Tensor)
        full = torch.from_numpy(_mirror_of(array_of(A), upper))
        left_factor, right_factor = (full, B) if left else (B, full)
        return torch.addmm(B.new_empty(()), left_factor, right_factor, alpha=alpha, beta=0)
    a, turned = _columns(A)
    return _rows(routine(alpha, a, array_of(B).T, side=left, lower=upper == turned))


def trmm(
    alpha: Scalar, A: Tensor, B: Tensor, left: bool, upper: bool, trans: Trans, unit: bool
) -> Tensor | None:
    """Return ``alpha * op(tri(A)) @ B`` or ``alpha * B @ op(tri(A))``."""
    routine = _routine("trmm", alpha, A, B) if A.shape[-1] >= TRIANGLE else None
    if routine is None:
        return None
    # Of a matrix stored by columns the conjugate without transposition is not to be had, so here
    # A is always taken as the transpose that its rows are.
    a = array_of(A).T
    code = _TRANS_CODE[trans]
    return _rows(routine(alpha, a, array_of(B).T, side=left, lower=upper, trans_a=code, diag=unit))


def syrk(alpha: Scalar, A: Tensor, transposed: bool) -> Tensor | None:
    """Return ``alpha * A @ A.T``, or ``alpha * A.T @ A``: both triangles, exactly symmetric."""
    routine = _routine("syrk", alpha, A)
    if routine is None:
        return None
    if A.shape[1 if transposed else 0] <= NUMPY_SYRK:
        a = array_of(A)
        if not a.flags.forc:
            a = a.copy()
        product = a.T @ a if transposed else a @ a.T
        if alpha != 1:
            product *= alpha
        return torch.from_numpy(product)
    a, turned = _columns(A)
    return _full(routine(alpha, a, trans=turned != transposed, lower=1), conjugate=False)


def small_symv(alpha: float, A: Tensor, x: Tensor, upper: bool) -> Tensor | None:
    """Return ``symv`` of a matrix and a vector that fit; for small ones a copy costs nothing."""
    routine = _found("symv", A.dtype) if readable(A, x) else None
    if routine is None:
        return None
    return torch.from_numpy(routine(alpha, A.numpy().T, x.numpy(), lower=upper))


def small_symm(alpha: float, A: Tensor, B: Tensor, left: bool, upper: bool) -> Tensor | None:
    """Return ``symm`` of matrices that fit."""
    routine = _found("symm", A.dtype) if readable(A, B) else None
    if routine is None:
        return None
    product = routine(alpha, A.numpy().T, B.numpy().T, side=left, lower=upper)
    return torch.from_numpy(product.T)


def small_syrk(alpha: float, A: Tensor, transposed: bool) -> Tensor | None:
    """Return ``syrk`` of a contiguous matrix, which NumPy knows for a symmetric product."""
    if A.dtype not in _PREFIX or not readable(A) or not A.is_contiguous():
        return None
    a = A.numpy()
    product = a.T @ a if transposed else a @ a.T
    return torch.from_numpy(product if alpha == 1.0 else product * a.dtype.type(alpha))


def herk(alpha: Scalar, A: Tensor, transposed: bool) -> Tensor | None:
    """Return ``alpha * A @ A.mH``, or ``alpha * A.mH @ A``: both triangles, exactly Hermitian."""
    routine = _routine("herk", alpha, A)
    if routine is None:
        return None
    assert not isinstance(alpha, Tensor)
    product = routine(alpha.real, array_of(A).T, trans=0 if transposed else 2, lower=1)
    return _full(product, conjugate=True)


def _routine(
    name: str, alpha: Scalar, A: Tensor, B: Tensor | None = None
) -> Callable[..., Any] | None:
    """Return SciPy's routine for the operands, or None where torch is to do the work."""
    if A.ndim != 2 or isinstance(alpha, Tensor) or not readable(A, B):
        return None
    # f2py refuses empty arrays.
    if not A.numel() or (B is not None and (B.ndim > 2 or not B.numel())):
        return None
    return _found(name, A.dtype)


@cache
def _found(name: str, dtype: torch.dtype) -> Callable[..., Any] | None:
    try:
        from scipy.linalg import blas
    except ImportError:
        return None
    return getattr(blas, _PREFIX.get(dtype, "no ") + name, None)


def _columns(tensor: Tensor) -> tuple[Any, bool]:
    """Return a matrix as Fortran has it without a copy, and whether that is its transpose."""
    array = array_of(tensor)
    if array.flags.f_contiguous:
        return array, False
    return array.T, True


def _rows(array: Any) -> Tensor:
    """Return Fortran's result as the matrix whose transpose it is."""
    return torch.from_numpy(array.T)


def _full(product: Any, conjugate: bool) -> Tensor:
    """Return a lower triangle stored by columns as the full matrix whose transpose it is."""
    rows = product.T
    for start in range(0, rows.shape[0], _PANEL):
        stop = start + _PANEL
        block = np.triu(rows[start:stop, start:stop], 1).T
        rows[start:stop, start:stop] += block.conj() if conjugate else block
        panel = rows[start:stop, stop:].T
        rows[stop:, start:stop] = panel.conj() if conjugate else panel
    return torch.from_numpy(rows)


def _mirror_of(a: Any, upper: bool) -> Any:
    """Return the symmetric matrix with the chosen triangle of ``a``."""
    source = a if upper else a.T
    full = np.empty(a.shape, a.dtype)
    for start in range(0, a.shape[0], _PANEL):
        stop = start + _PANEL
        block = np.triu(source[start:stop, start:stop])
        full[start:stop, start:stop] = block + np.triu(block, 1).T
        full[start:stop, stop:] = source[start:stop, stop:]
        full[stop:, start:stop] = source[start:stop, stop:].T
    return full
