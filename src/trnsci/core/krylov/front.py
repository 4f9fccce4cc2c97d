"""The front of the Krylov methods: validation, dtypes and layouts, for dense and sparse matrices.

``solved`` is what the public functions of trnsolver and trnsparse call.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnsci.core.arguments import agree, floating, tensor
from trnsci.core.backend.precision import precision
from trnsci.core.errors import DTypeError, OperandError
from trnsci.core.iterations import OnFailure, Solution
from trnsci.core.krylov.operators import LinearOperator, Product
from trnsci.core.krylov.runs import Run, Watch
from trnsci.core.krylov.solve import Method, Stopping, System, solve
from trnsci.core.numbers.conversions import widest

NARROW = (torch.float16, torch.bfloat16)
"""Dtypes of systems that are solved in float32."""


class Operands(NamedTuple):
    """The operands of a system ``A x = b``: matrix, right side, initial guess, approximate inverse.

    A and M are of any kind that ``as_operator`` accepts.
    """

    A: Any
    b: Tensor
    x0: Tensor | None = None
    M: Any = None


def solved(
    function: str,
    method: Method,
    operands: Operands,
    rule: Stopping,
    on_failure: OnFailure,
    *,
    hermitian: bool = False,
    columns: bool = False,
    dense_product: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Solution:
    """Validate the operands of a public function and return the solution by a method.

    float16 and bfloat16 are computed in float32, and rounded back; all dtypes in float64 at the
    level doublefloat, at which sparse matrices then have their products.

    Args:
        function: The public function, for messages.
        method: The iterative method.
        operands: A, b, x0 and M.
        rule: The stopping rule.
        on_failure: Action if the method does not converge.
        hermitian: Whether the matrix is its own adjoint.
        columns: Whether a 2-D b has vectors as columns that share products. Otherwise b is a vector
            or a batch (..., n), or columns of a dense A, which are solved one at a time.
        dense_product: Product of a dense matrix at doublefloat, which asks for that level; None for
            the arithmetic of the dtype, and where A is a function, whose dtype is the caller's.

    Raises:
        DTypeError: A dtype does not fit, or an operand has the wrong type.
        DeviceError: The operands are on different devices.
        OperandError: The shapes do not fit.
    """
    A, b, x0, M = operands
    check_right_side(function, b, columns)
    check_matrix(function, A, b)
    dtype = b.dtype
    if dtype in NARROW:
        b = b.float()
    if dense_product is not None:
        b = widest(b)
        method = _by_product(method, dense_product)
        M = _in_dtype(M, dtype)
    if hasattr(M, "with_entries"):  # a sparse matrix
        M = M.to(b.dtype)
    if x0 is not None:
        x0 = _start(function, x0, b)
    turned = not columns and _are_columns(A, b)
    if turned:
        A, b, x0 = A.unsqueeze(-3), b.mT, None if x0 is None else x0.mT
    rounded = None if b.dtype is dtype else dtype
    system = System(
        function, method, rule, M, hermitian, columns, on_failure=on_failure, dtype=rounded
    )
    with nullcontext() if dense_product is None else precision("doublefloat"):
        found = solve(system, A, b, x0)
    x = found.x.mT if turned else found.x
    return Solution(x.to(dtype), found.iterations, found.residual, found.info)


def is_matrix(A: Any) -> bool:
    """Return whether A is a dense or a sparse matrix: products with it have a level."""
    return A.layout is torch.strided if isinstance(A, Tensor) else hasattr(A, "with_entries")


def _by_product(method: Method, product: Callable[[Tensor, Tensor], Tensor]) -> Method:
    """Return a method whose products with a dense matrix are computed by a function."""

    def called(op: LinearOperator, b: Tensor, x: Tensor, M: Product | None, watch: Watch) -> Run:
        matrix = op.matrix
        if isinstance(matrix, Tensor):
            op = LinearOperator(lambda v: product(matrix, v), order=op.order)
        return method(op, b, x, M, watch)

    return called


def _in_dtype(M: Any, dtype: torch.dtype) -> Any:
    """Return an approximate inverse that is a function as one that is called in this dtype."""
    if callable(M) and not isinstance(M, Tensor):
        return lambda r: M(r.to(dtype)).to(r.dtype)
    return M


def check_right_side(function: str, b: Tensor, columns: bool, name: str = "b") -> None:
    """Raise unless b is floating, and a vector or vectors in the layout of ``solved``."""
    tensor(function, name, b)
    floating(function, name, b)
    if b.ndim == 0 or (columns and b.ndim > 2):
        wanted = "a vector or a matrix of columns" if columns else "at least 1-D"
        raise OperandError(f"{function}: {name} must be {wanted}, got shape {tuple(b.shape)}")


def check_matrix(function: str, A: Any, b: Tensor, name: str = "b") -> None:
    """Raise unless a matrix has the dtype and the device of b; a dense real A takes complex b."""
    if isinstance(A, Tensor):
        if A.is_complex() and not b.is_complex():
            raise DTypeError(
                f"{function}: A is complex, where {name} is real: {A.dtype} and {b.dtype}"
            )
        if A.dtype is not b.dtype.to_real():
            agree(function, "A", A, name, b)
    elif hasattr(A, "with_entries"):
        agree(function, "A", A.entries, name, b)


def _start(function: str, x0: Tensor, b: Tensor) -> Tensor:
    """Return the initial guess in the dtype of b, without derivatives."""
    tensor(function, "x0", x0)
    if x0.shape != b.shape:
        raise OperandError(
            f"{function}: x0 must have the shape of b, got {tuple(x0.shape)} and {tuple(b.shape)}"
        )
    if x0.is_complex() and not b.is_complex():
        raise DTypeError(f"{function}: x0 is complex, where b is real: {x0.dtype} and {b.dtype}")
    start = x0.detach().to(b.dtype)
    agree(function, "x0", start, "b", b)
    return start


def _are_columns(A: Any, b: Tensor) -> bool:
    """Return whether b has columns of a dense A: it is no batch of vectors (..., n)."""
    if not isinstance(A, Tensor) or b.ndim == 1 or A.ndim < 2:
        return False
    if b.shape[-1] == A.shape[-1] and b.ndim == A.ndim - 1 and b.shape[:-1] == A.shape[:-2]:
        return False
    return b.shape[-2] == A.shape[-1]
