"""Linear operators: all matrix types that iterative methods accept.

A dense tensor, a function ``v -> A @ v``, an object with ``matvec`` like SciPy's operators, or
one with ``@`` like sparse matrices. All of them are converted to a ``LinearOperator``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from trnsci.core.errors import DTypeError, OperandError, ShapeError
from trnsci.core.numbers.conversions import array_of

OperatorLike: TypeAlias = Any
"""A tensor, a ``LinearOperator``, a function, or an object with ``matvec`` or ``@``."""

Product: TypeAlias = Callable[[Tensor], Tensor]
Preconditioner: TypeAlias = Product


class LinearOperator:
    """A square matrix defined by its products with vectors.

    Args:
        matvec: ``v -> A @ v`` for vectors of n entries.
        rmatvec: ``v -> A.mH @ v``; None takes the transpose of ``matvec`` by differentiating it.
        order: n; None if unknown.

    Attributes:
        matrix: The matrix itself; None for a function.

    Example:
        >>> operator = LinearOperator(lambda v: 2 * v, order=3)
        >>> operator(torch.ones(3))
        tensor([2., 2., 2.])
    """

    def __init__(
        self,
        matvec: Callable[[Tensor], Tensor],
        rmatvec: Callable[[Tensor], Tensor] | None = None,
        order: int | None = None,
    ) -> None:
        self._matvec = matvec
        self._rmatvec = rmatvec
        self.order = order
        self.matrix: Any = None

    def __call__(self, v: Tensor) -> Tensor:
        """Return the product with a vector."""
        return self._matvec(v)

    def adjoint(self) -> LinearOperator:
        """Return the conjugate transpose."""
        return LinearOperator(self._adjoint, self._matvec, self.order)

    def _adjoint(self, v: Tensor) -> Tensor:
        if self._rmatvec is not None:
            return self._rmatvec(v)
        # vjp gives the product with the conjugate transpose, which does not depend on the point.
        (found,) = torch.func.vjp(self._matvec, torch.zeros_like(v))[1](v)
        return found


def as_operator(
    function: str, A: OperatorLike, b: Tensor, name: str = "A", columns: bool = False
) -> LinearOperator:
    """Return a matrix of any kind as an operator on vectors like b, in the dtype of b.

    Each product is checked: ``ShapeError`` for another shape than that of the vector,
    ``DTypeError`` for a result that is no vector, or complex for a real vector.

    Args:
        function: The public function, for messages.
        A: The matrix.
        b: A vector (..., n), or columns (n, k).
        name: The argument, for messages.
        columns: Whether the vectors of a 2-D b are its columns.

    Raises:
        DTypeError: A has no products with vectors.
        OperandError: A is not square, or does not fit b.
    """
    n = b.shape[0] if columns else b.shape[-1]
    if isinstance(A, Tensor) and A.layout is torch.strided:
        return _dense(function, A, b, name, n, columns)
    shape = getattr(A, "shape", None)
    order = getattr(A, "order", None)
    if shape is not None and len(shape) == 2:
        order = int(shape[-1])
        if int(shape[-2]) != order:
            raise _unfit(function, name, tuple(shape), b)
    if isinstance(order, int) and n != order:
        raise _unfit(function, name, (order, order), b)
    matvec, rmatvec = _products(function, A, name)
    if hasattr(A, "product_like") and (columns or b.ndim == 1):  # a sparse matrix
        fitted = A.product_like(b)
    else:
        fitted = _fitted(function, name, matvec)
    adjoint = None if rmatvec is None else _fitted(function, name, rmatvec)
    operator = LinearOperator(fitted, adjoint, order if isinstance(order, int) else None)
    operator.matrix = None if shape is None else A
    return operator


def as_preconditioner(
    function: str, M: Any, b: Tensor, columns: bool = False
) -> Preconditioner | None:
    """Return ``r -> M @ r``, in the dtype of b, for an approximate inverse of any kind."""
    if M is None:
        return None
    known = isinstance(M, (Tensor, LinearOperator)) or hasattr(M, "matvec")
    if not known and callable(M):
        return _fitted(function, "M", M)
    return as_operator(function, M, b, "M", columns)


def _products(function: str, A: OperatorLike, name: str) -> tuple[Product, Product | None]:
    """Return the products with A and, if A has them, with its conjugate transpose."""
    if isinstance(A, LinearOperator):
        return A._matvec, A._rmatvec
    if isinstance(getattr(A, "dtype", None), np.dtype):  # SciPy's and NumPy's take arrays
        if hasattr(A, "matvec"):
            rmatvec = getattr(A, "rmatvec", None)
            return _of_arrays(A.matvec), None if rmatvec is None else _of_arrays(rmatvec)
        return _of_arrays(A.__matmul__), _of_arrays(lambda v: A.conj().T @ v)
    if hasattr(A, "matvec"):
        return A.matvec, getattr(A, "rmatvec", None)
    if hasattr(A, "__matmul__"):
        adjoint = getattr(A, "mH", None)
        return A.__matmul__, None if adjoint is None else adjoint.__matmul__
    if callable(A):
        return A, None
    raise DTypeError(
        f"{function}: {name} must be a tensor, a function or have matvec or @, "
        f"got {type(A).__name__}"
    )


def _of_arrays(product: Callable[[Any], Any]) -> Product:
    return lambda v: product(array_of(v.cpu()))


def _fitted(function: str, name: str, product: Product) -> Product:
    """Return a product whose results are checked, and cast to the dtype of the vector."""

    def call(v: Tensor) -> Tensor:
        found: Any = product(v)
        if isinstance(found, np.ndarray):
            found = torch.from_numpy(np.ascontiguousarray(found)).to(v.device)
        if not isinstance(found, Tensor):
            kind = type(found).__name__
            raise DTypeError(f"{function}: products with {name} must be tensors, got {kind}")
        if found.shape != v.shape:
            raise ShapeError(
                f"{function}: products with {name} must have the shape of the vector, "
                f"{tuple(v.shape)}, got {tuple(found.shape)}"
            )
        if found.is_complex() and not v.is_complex():
            raise DTypeError(f"{function}: products with {name} are complex, where b is real")
        return found if found.dtype is v.dtype else found.to(v.dtype)

    return call


def _unfit(function: str, name: str, shape: tuple[int, ...], b: Tensor) -> OperandError:
    return OperandError(
        f"{function}: {name} must be square and fit b, got shapes {shape} and {tuple(b.shape)}"
    )


def _dense(function: str, A: Tensor, b: Tensor, name: str, n: int, columns: bool) -> LinearOperator:
    batch = A.ndim > 2 and columns
    if A.ndim < 2 or batch or A.shape[-1] != A.shape[-2] or A.shape[-1] != n:
        raise _unfit(function, name, tuple(A.shape), b)
    if A.is_complex() and not b.is_complex():
        raise DTypeError(f"{function}: {name} is complex, where b is real: {A.dtype} and {b.dtype}")
    matrix = A.to(b.dtype)
    if columns or b.ndim == 1:
        operator = LinearOperator(matrix.matmul, lambda v: matrix.mH @ v, n)
    else:
        operator = LinearOperator(
            lambda v: (matrix @ v.unsqueeze(-1)).squeeze(-1),
            lambda v: (matrix.mH @ v.unsqueeze(-1)).squeeze(-1),
            n,
        )
    operator.matrix = matrix
    return operator
