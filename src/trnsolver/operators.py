"""Linear operators: what iterative methods take for a matrix.

A dense tensor, a function ``v -> A @ v``, an object with ``matvec`` as SciPy's operators have, or
one with ``@`` as sparse matrices have. ``LinearOperator`` is what all of them become.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from trnsci.core.errors import DTypeError, ShapeError

__all__ = ["LinearOperator", "OperatorLike", "Preconditioner", "as_operator", "as_preconditioner"]

OperatorLike: TypeAlias = Any
"""A tensor, a ``LinearOperator``, a function, or an object with ``matvec`` or ``@``."""

Preconditioner: TypeAlias = Callable[[Tensor], Tensor]


class LinearOperator:
    """A square matrix known by its products.

    Args:
        matvec: ``v -> A @ v`` for vectors of n entries.
        rmatvec: ``v -> A.mH @ v``; None takes the transpose of ``matvec`` by differentiating it.
        order: n; None where it is not known.

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
        self.dense: Tensor | None = None

    def __call__(self, v: Tensor) -> Tensor:
        """Return the product with a vector."""
        return self._matvec(v)

    def adjoint(self) -> LinearOperator:
        """Return the conjugate transpose."""
        turned = LinearOperator(self._turned, self._matvec, self.order)
        if self.dense is not None:
            turned.dense = self.dense.mH
        return turned

    def _turned(self, v: Tensor) -> Tensor:
        if self._rmatvec is not None:
            return self._rmatvec(v)
        # vjp gives the product with the conjugate transpose, which does not depend on the point.
        (found,) = torch.func.vjp(self._matvec, torch.zeros_like(v))[1](v)
        return found


def as_operator(function: str, A: OperatorLike, b: Tensor) -> LinearOperator:
    """Return what was given for a matrix as an operator on vectors like b, in the dtype of b.

    Raises:
        DTypeError: It is nothing that has products with vectors.
        ShapeError: It is not square, or does not fit b.
    """
    if isinstance(A, LinearOperator):
        return A
    if isinstance(A, Tensor) and A.layout is torch.strided:
        return _dense(function, A, b)
    shape = getattr(A, "shape", None)
    order = None
    if shape is not None and len(shape) == 2:
        order = int(shape[-1])
        if int(shape[-2]) != order or b.shape[-1] != order:
            raise ShapeError(
                f"{function}: A must be square and fit b, got shapes {tuple(shape)} and "
                f"{tuple(b.shape)}"
            )
    if hasattr(A, "matvec"):
        return LinearOperator(A.matvec, getattr(A, "rmatvec", None), order)
    if hasattr(A, "__matmul__"):
        turned = getattr(A, "mH", None)
        return LinearOperator(
            lambda v: A @ v, None if turned is None else (lambda v: turned @ v), order
        )
    if callable(A):
        return LinearOperator(A)
    raise DTypeError(
        f"{function}: A must be a tensor, a function or have matvec or @, got {type(A).__name__}"
    )


def as_preconditioner(function: str, M: Any, b: Tensor) -> Preconditioner | None:
    """Return ``r -> M @ r``, in the dtype of b, for an operator that approximates the inverse."""
    if M is None:
        return None
    if not isinstance(M, (Tensor, LinearOperator)) and callable(M):
        return lambda r: M(r).to(r.dtype)
    return as_operator(function, M, b)


def _dense(function: str, A: Tensor, b: Tensor) -> LinearOperator:
    if A.ndim < 2 or A.shape[-1] != A.shape[-2] or A.shape[-1] != b.shape[-1]:
        raise ShapeError(
            f"{function}: A must be square and fit b, got shapes {tuple(A.shape)} and "
            f"{tuple(b.shape)}"
        )
    matrix = A.to(b.dtype)
    if matrix.ndim == 2 and b.ndim == 1:
        operator = LinearOperator(matrix.mv, matrix.mH.mv, A.shape[-1])
    else:
        operator = LinearOperator(
            lambda v: (matrix @ v.unsqueeze(-1)).squeeze(-1),
            lambda v: (matrix.mH @ v.unsqueeze(-1)).squeeze(-1),
            A.shape[-1],
        )
    operator.dense = matrix
    return operator
