"""NumPy's and SciPy's products on CPU tensors, for BLAS routines that torch lacks.

torch has no product that reads or computes one triangle only. Computing both takes twice as long
for matrices and tens of times as long for a matrix and a vector. Each function returns None if
torch must compute: on another device, with a gradient or a transform, for a dtype without a BLAS
routine, and for batches or empty operands.

A contiguous matrix is passed as its transpose in Fortran order, without a copy; the options of the
routine are those of the transpose.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from trnblas._paths.arguments import Scalar, Trans
from trnsci.core.numbers.conversions import array_of
from trnsci.core.numbers.products import is_number
from trnsci.core.numbers.values import inert

_PREFIX = {
    torch.float32: "s",
    torch.float64: "d",
    torch.complex64: "c",
    torch.complex128: "z",
}
# Below this order torch's product of a masked triangle is faster than the SciPy call.
_TRIANGLE = 48
_TRANS_CODE: dict[Trans, int] = {"N": 0, "T": 1, "C": 2}


def symv(
    alpha: Scalar,
    A: Tensor,
    x: Tensor,
    beta: Scalar,
    y: Tensor | None,
    upper: bool,
    hermitian: bool,
) -> Tensor | None:
    """Return ``alpha * A @ x + beta * y``; BLAS has no complex symmetric A."""
    added = () if y is None or is_number(beta, 0) else (y.expand(x.shape),)
    if x.ndim != 1 or isinstance(beta, Tensor):
        return None
    routine = _routine("hemv" if hermitian else "symv", alpha, A, x, *added)
    if routine is None:
        return None
    assert not isinstance(alpha, Tensor)
    a, transposed = _columns(A)
    conjugate = hermitian and transposed  # the transpose of a Hermitian matrix is its conjugate
    if conjugate:
        alpha, beta = alpha.conjugate(), beta.conjugate()
    vectors = [array_of(v).conj() if conjugate else array_of(v) for v in (x, *added)]
    options = {"beta": beta, "y": vectors[1]} if added else {}
    product = routine(alpha, a, vectors[0], lower=upper == transposed, **options)
    return torch.from_numpy(product.conj() if conjugate else product)


def trmv(A: Tensor, x: Tensor, upper: bool, trans: Trans, unit: bool) -> Tensor | None:
    """Return ``op(tri(A)) @ x``; None for the conjugate transpose."""
    if A.shape[-1] < _TRIANGLE or x.ndim != 1 or trans == "C":
        return None
    routine = _routine("trmv", 1.0, A, x)
    if routine is None:
        return None
    a, transposed = _columns(A)
    code = (trans == "T") != transposed
    product = routine(a, array_of(x), lower=upper == transposed, trans=code, diag=unit)
    return torch.from_numpy(product)


def symm(
    alpha: Scalar, A: Tensor, B: Tensor, left: bool, upper: bool, hermitian: bool
) -> Tensor | None:
    """Return ``alpha * A @ B`` or ``alpha * B @ A`` for a symmetric or Hermitian A."""
    routine = _routine("hemm" if hermitian else "symm", alpha, A, B)
    if routine is None:
        return None
    # The transpose of a Hermitian matrix is another one, so A is passed as its transpose.
    a, transposed = (array_of(A).T, True) if hermitian else _columns(A)
    product = routine(alpha, a, array_of(B).T, side=left, lower=upper == transposed)
    return torch.from_numpy(product.T)


def trmm(
    alpha: Scalar, A: Tensor, B: Tensor, left: bool, upper: bool, trans: Trans, unit: bool
) -> Tensor | None:
    """Return ``alpha * op(tri(A)) @ B`` or ``alpha * B @ op(tri(A))``."""
    routine = _routine("trmm", alpha, A, B) if A.shape[-1] >= _TRIANGLE else None
    if routine is None:
        return None
    # BLAS cannot conjugate without transposing, so A is always passed as its transpose.
    a, code = array_of(A).T, _TRANS_CODE[trans]
    product = routine(alpha, a, array_of(B).T, side=left, lower=upper, trans_a=code, diag=unit)
    return torch.from_numpy(product.T)


def syrk(alpha: Scalar, A: Tensor, transposed: bool) -> Tensor | None:
    """Return ``alpha * A @ A.T``, or ``alpha * A.T @ A``: both triangles, exactly symmetric.

    NumPy computes a product of a dense matrix and its transpose by BLAS's ``syrk`` and copies the
    triangle, which is faster than SciPy's routine and a copy by panels.
    """
    if A.dtype not in _PREFIX or not _eligible(alpha, A):
        return None
    a = array_of(A)
    if not a.flags.forc:
        a = a.copy()
    product = a.T @ a if transposed else a @ a.T
    if alpha != 1:
        product *= alpha
    return torch.from_numpy(product)


def herk(alpha: Scalar, A: Tensor, transposed: bool, upper: bool) -> Tensor | None:
    """Return one triangle of ``alpha * A @ A.mH``, or ``alpha * A.mH @ A``; zeros elsewhere."""
    routine = _routine("herk", alpha, A)
    if routine is None:
        return None
    assert not isinstance(alpha, Tensor)
    product = routine(alpha.real, array_of(A).T, trans=0 if transposed else 2, lower=upper)
    return torch.from_numpy(product.T)


def _routine(name: str, alpha: Scalar, *operands: Tensor) -> Callable[..., Any] | None:
    """Return SciPy's routine for the operands, or None if torch must compute."""
    return _found(name, operands[0].dtype) if _eligible(alpha, *operands) else None


def _eligible(alpha: Scalar, *operands: Tensor) -> bool:
    """Return whether these are nonempty CPU matrices and vectors that NumPy may read."""
    if isinstance(alpha, Tensor) or not inert(*operands):
        return False
    return all(x.is_cpu and x.ndim <= 2 and x.numel() for x in operands)


@cache
def _found(name: str, dtype: torch.dtype) -> Callable[..., Any] | None:
    from scipy.linalg import blas

    return getattr(blas, _PREFIX.get(dtype, "no ") + name, None)


def _columns(tensor: Tensor) -> tuple[Any, bool]:
    """Return a matrix or its transpose in Fortran order, uncopied, and whether it is transposed."""
    array = array_of(tensor)
    if array.flags.f_contiguous:
        return array, False
    return array.T, True
