"""Common BLAS extensions: matrix addition (``geam``) and diagonal scaling (``dgmm``)."""

from __future__ import annotations

import torch
from torch import Tensor

from trnblas._library import no_kernel
from trnblas._paths.arguments import Scalar, applied, batch_of, is_left, number, transposition
from trnsci.core.arguments import agree, broadcast, delivered, matrix
from trnsci.core.errors import ShapeError
from trnsci.core.numbers.products import accumulated, scaled, vanished

__all__ = ["dgmm", "geam"]


def geam(
    alpha: Scalar,
    A: Tensor,
    beta: Scalar,
    B: Tensor,
    transA: bool | str = False,
    transB: bool | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * op(A) + beta * op(B)``.

    Args:
        alpha: Number or 0-d tensor, factor of A. A zero leaves its operand unread.
        A: Matrix (m, n), (n, m) if transposed, or a batch of such matrices.
        beta: Number or 0-d tensor, factor of B.
        B: Matrix (m, n), (n, m) if transposed, or a batch that broadcasts with that of A.
        transA: Transposition of A: ``False``, ``True``, ``"N"``, ``"T"`` or ``"C"``.
        transB: Transposition of B.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ, or a factor is incompatible.
        FlagError: An option is invalid.
    """
    no_kernel("geam")
    agree("geam", "A", A, "B", B)
    matrix("geam", "A", A)
    matrix("geam", "B", B)
    left = applied(transposition("geam", "transA", transA, A), A)
    right = applied(transposition("geam", "transB", transB, B), B)
    shape = broadcast(left.shape, right.shape)
    if left.shape[-2:] != right.shape[-2:] or shape is None:
        raise ShapeError(
            f"geam: op(A) and op(B) must be matrices of one shape, in batches that broadcast, "
            f"got {tuple(left.shape)} and {tuple(right.shape)}"
        )
    alpha, beta = number("geam", "alpha", alpha, A), number("geam", "beta", beta, A)
    if not isinstance(alpha, Tensor) and alpha == 0:
        result = accumulated(vanished(shape, left), beta, right)
    else:
        first = scaled(alpha, left).expand(shape)
        result = accumulated(first, beta, right)
        if result is first:
            result = first.clone()
    return delivered("geam", result, out)


def dgmm(A: Tensor, x: Tensor, side: str = "left", *, out: Tensor | None = None) -> Tensor:
    """Return ``diag(x) @ A``, or ``A @ diag(x)`` with the diagonal matrix on the right.

    Args:
        A: Matrix (m, n), or a batch of such matrices.
        x: Vector of m elements, of n on the right, or a batch that broadcasts with that of A.
        side: Side of A on which the diagonal matrix is.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ.
        FlagError: side is neither left nor right.
    """
    no_kernel("dgmm")
    agree("dgmm", "A", A, "x", x)
    left = is_left("dgmm", side)
    matrix("dgmm", "A", A)
    if x.ndim == 0 or x.shape[-1] != A.shape[-2 if left else -1]:
        raise ShapeError(
            f"dgmm: x must have one element for each {'row' if left else 'column'} of A, "
            f"got {tuple(x.shape)} and {tuple(A.shape)}"
        )
    batch_of("dgmm", A=(A, 2), x=(x, 1))
    return delivered("dgmm", torch.mul(A, x[..., :, None] if left else x[..., None, :]), out)
