"""Validation of shapes, factors and options of BLAS arguments, beyond the checks of the core.

``checked_product`` returns a ``Product``; other checks return the factors alpha and beta, with
beta = 0 if there is no accumulator. A nonzero beta without an accumulator is an error: most likely
the accumulator was forgotten.

Words and BLAS letters of an option are accepted in upper or lower case. Anything else raises
``FlagError``: a misspelt option must not silently select the opposite.
"""

from __future__ import annotations

from numbers import Complex, Real
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from trnsci.core.arguments import agree, broadcast, expandable, matrix, square, tensor
from trnsci.core.errors import DTypeError, FlagError, ShapeError
from trnsci.core.numbers import products as accumulation
from trnsci.core.numbers.values import inert

Trans = Literal["N", "T", "C"]

TriangleFlags: TypeAlias = tuple[bool, bool, Trans, bool]
"""The fields of ``Triangle``, without its names: small calls are fast."""

TRANSPOSED: dict[str, Trans] = {"N": "T", "T": "N"}
"""The flag of the transpose of op(A), for real matrices."""

_TRANSPOSITIONS: dict[object, Trans] = {False: "N", True: "T", "N": "N", "T": "T", "C": "C"}
_UPPER: dict[object, bool] = {"upper": True, "lower": False, "U": True, "L": False}
_LEFT: dict[object, bool] = {"left": True, "right": False, "L": True, "R": False}
_UNIT: dict[object, bool] = {"unit": True, "nonunit": False, "U": True, "N": False}

_T = TypeVar("_T")


def transposition(function: str, argument: str, value: bool | str, matrix: Tensor) -> Trans:
    """Return ``"N"``, ``"T"`` or ``"C"``; for a real matrix ``"C"`` is ``"T"``."""
    if value is False or value is True:
        return "T" if value else "N"
    trans = _looked_up(_TRANSPOSITIONS, function, argument, value)
    return "T" if trans == "C" and not matrix.is_complex() else trans


def is_upper(function: str, value: str) -> bool:
    """Return whether ``uplo`` names the upper triangle."""
    return value == "upper" or _looked_up(_UPPER, function, "uplo", value)


def is_left(function: str, value: str) -> bool:
    """Return whether ``side`` is left."""
    return value == "left" or _looked_up(_LEFT, function, "side", value)


def is_unit(function: str, value: str) -> bool:
    """Return whether ``diag`` is unit: a diagonal of ones."""
    return value != "nonunit" and _looked_up(_UNIT, function, "diag", value)


def applied(trans: str, matrix: Tensor) -> Tensor:
    """Return a view of the matrix, or of a batch of matrices, transposed according to ``trans``."""
    if trans == "N":
        return matrix
    return matrix.mT if trans == "T" else matrix.mH


def flipped(trans: str) -> bool:
    """Return whether ``trans`` is a transpose."""
    return trans != "N"


def _looked_up(table: dict[object, _T], function: str, argument: str, value: object) -> _T:
    found = table.get(value) if isinstance(value, (str, bool, int)) else None
    if found is None and isinstance(value, str):
        found = table.get(value.lower(), table.get(value.upper()))
    if found is None:
        accepted = ", ".join(repr(key) for key in table)
        raise FlagError(f"{function}: {argument} must be one of {accepted}, got {value!r}")
    return found


Number: TypeAlias = accumulation.Number
Scalar: TypeAlias = accumulation.Scalar

_NARROW = (torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)


class Product(NamedTuple):
    """Validated arguments of ``alpha * op(A) @ op(B) + beta * C``, and the shape of the result."""

    alpha: Scalar
    A: Tensor
    B: Tensor
    beta: Scalar
    C: Tensor | None
    trans_a: Trans
    trans_b: Trans
    shape: tuple[int, ...]


def checked_product(
    function: str,
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar,
    C: Tensor | None,
    transA: bool | str,
    transB: bool | str,
) -> Product:
    """Validate a product; A and B must already agree in dtype and device."""
    trans_a = "N" if transA is False else transposition(function, "transA", transA, A)
    trans_b = "N" if transB is False else transposition(function, "transB", transB, B)
    size_a, size_b = A.shape, B.shape
    single = A.ndim == B.ndim == 2
    if not single:
        matrix(function, "A", A)
        matrix(function, "B", B)
    rows, depth = (-2, -1) if trans_a == "N" else (-1, -2)
    inner, columns = (-2, -1) if trans_b == "N" else (-1, -2)
    if size_a[depth] != size_b[inner]:
        raise ShapeError(
            f"{function}: A and B must agree in the contracted dimension, "
            f"got {_shown(A, trans_a)} and {_shown(B, trans_b)}"
        )
    batch = () if single else broadcast_batch(function, A, B)
    shape = (*batch, size_a[rows], size_b[columns])
    alpha = number(function, "alpha", alpha, A)
    beta = _factor_of(C, function, beta, A, shape)
    return Product(alpha, A, B, beta, C, trans_a, trans_b, shape)


def sided_arguments(
    function: str,
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar,
    C: Tensor | None,
    left: bool,
) -> tuple[Scalar, Scalar]:
    """Return the factors of A @ B or B @ A with a square A; dtypes and devices already agree."""
    matrix(function, "B", B)
    if A.shape[-1] != B.shape[-2 if left else -1]:
        side = "left" if left else "right"
        raise ShapeError(
            f"{function}: A and B must agree in the contracted dimension, "
            f"got {tuple(A.shape)} on the {side} of {tuple(B.shape)}"
        )
    shape = (*broadcast_batch(function, A, B), *B.shape[-2:])
    alpha = number(function, "alpha", alpha, A)
    return alpha, _factor_of(C, function, beta, A, shape)


def triangle_arguments(
    function: str, A: Tensor, side: str, uplo: str, trans: bool | str, diag: str
) -> TriangleFlags:
    """Return the flags of a triangular A, which must be square; ``Triangle`` names them."""
    left, upper, unit = is_left(function, side), is_upper(function, uplo), is_unit(function, diag)
    op = transposition(function, "trans", trans, A)
    square(function, "A", A)
    return left, upper, op, unit


def rank_k_arguments(
    function: str, alpha: Scalar, A: Tensor, beta: Scalar, C: Tensor | None, op: Trans
) -> tuple[Scalar, Scalar]:
    """Return the factors of a product of A with its own transpose."""
    matrix(function, "A", A)
    alpha = number(function, "alpha", alpha, A)
    n = A.shape[-1 if flipped(op) else -2]
    if C is not None:
        square_accumulator(function, "C", C, n)
    return alpha, _factor_of(C, function, beta, A, (*A.shape[:-2], n, n))


def vector_arguments(
    function: str, alpha: Scalar, A: Tensor, x: Tensor, beta: Scalar, y: Tensor | None, op: Trans
) -> tuple[Scalar, Scalar]:
    """Return the factors of a product of a matrix and a vector, or of batches of them."""
    batch = contracted(function, A, x, op)
    alpha = number(function, "alpha", alpha, A)
    if y is None:
        return alpha, no_accumulator(function, beta, "y")
    agree(function, "A", A, "y", y)
    expandable(function, "y", y, (*batch, A.shape[-1 if flipped(op) else -2]))
    return alpha, number(function, "beta", beta, A)


def contracted(function: str, A: Tensor, x: Tensor, op: Trans) -> tuple[int, ...]:
    """Return the batch dimensions of ``op(A) @ x``; raise if the shapes are incompatible."""
    matrix(function, "A", A)
    if x.ndim == 0:
        raise ShapeError(f"{function}: x must be at least 1-D, got shape ()")
    if x.shape[-1] != A.shape[-2 if flipped(op) else -1]:
        raise ShapeError(
            f"{function}: op(A) and x must agree in the contracted dimension, "
            f"got A {tuple(A.shape)} ({op}) and x {tuple(x.shape)}"
        )
    return () if A.ndim == 2 and x.ndim == 1 else batch_of(function, A=(A, 2), x=(x, 1))


def no_accumulator(function: str, beta: Scalar, name: str) -> int:
    """Return 0, the factor of an absent accumulator; raise unless beta is 0."""
    if isinstance(beta, Tensor) or beta != 0:
        raise FlagError(f"{function}: beta must be 0 where {name} is not given, got {beta!r}")
    return 0


def square_accumulator(function: str, name: str, value: Tensor, order: int) -> None:
    """Raise unless ``value`` holds square matrices of this order."""
    tensor(function, name, value)
    if value.shape[-2:] != (order, order):
        raise ShapeError(
            f"{function}: {name} must hold matrices ({order}, {order}), got {tuple(value.shape)}"
        )


def check_dimensions(function: str, count: int, **tensors: Tensor) -> None:
    """Raise unless every argument is a tensor with ``count`` dimensions."""
    for name, value in tensors.items():
        tensor(function, name, value)
        if value.ndim != count:
            raise ShapeError(
                f"{function}: {name} must have {count} dimensions, got {tuple(value.shape)}"
            )


def widened(function: str, A: Tensor, B: Tensor, out_dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the operands in the dtype of the product; those that do not agree, as they are.

    float16, bfloat16 and float8 numbers and their products are exact in float32: with float32
    operands only the float32 sums are rounded.
    """
    tensors = isinstance(A, Tensor) and isinstance(B, Tensor)
    if not tensors or A.dtype is not B.dtype or out_dtype is A.dtype:
        return A, B
    if out_dtype is not torch.float32 or A.dtype not in _NARROW:
        raise DTypeError(
            f"{function}: out_dtype must be the operands' {A.dtype}"
            f"{' or torch.float32' if A.dtype in _NARROW else ''}, got {out_dtype}"
        )
    return A.to(out_dtype), B.to(out_dtype)


def broadcast_batch(function: str, a: Tensor, b: Tensor) -> tuple[int, ...]:
    """Return the broadcast batch dimensions of A and B."""
    return () if a.ndim == b.ndim == 2 else batch_of(function, A=(a, 2), B=(b, 2))


def batch_of(function: str, **operands: tuple[Tensor, int]) -> tuple[int, ...]:
    """Return the broadcast batch dimensions of two operands, given with their other dimensions."""
    (a, own_a), (b, own_b) = operands.values()
    batch = broadcast(a.shape[: a.ndim - own_a], b.shape[: b.ndim - own_b])
    if batch is None:
        raise ShapeError(
            f"{function}: the batch dimensions of {' and '.join(operands)} must broadcast, "
            f"got {tuple(a.shape)} and {tuple(b.shape)}"
        )
    return batch


def number(function: str, name: str, value: Scalar, like: Tensor) -> Scalar:
    """Return ``value`` as a factor that does not change the dtype of ``like``.

    A 0-d tensor on the CPU becomes a Python number, unless it requires grad or is being traced.
    """
    if type(value) is float and like.is_floating_point():
        return value
    if isinstance(value, Tensor):
        return _tensor_number(function, name, value, like)
    # NumPy scalars are accepted too; the type annotation does not cover them.
    given: object = value
    if not isinstance(given, Complex):
        raise DTypeError(
            f"{function}: {name} must be a number or a 0-d tensor, got {type(value).__name__}"
        )
    if like.is_complex():
        return complex(given)
    if not isinstance(given, Real):
        raise DTypeError(f"{function}: {name} must be real for {like.dtype}, got {value!r}")
    if like.is_floating_point():
        return float(given)
    if not float(given).is_integer():
        raise DTypeError(f"{function}: {name} must be whole for {like.dtype}, got {value!r}")
    return int(value) if isinstance(value, int) else int(float(given))


def real_factor(function: str, name: str, factor: Scalar) -> Scalar:
    """Return a real factor; raise if it is complex."""
    if factor.is_complex() if isinstance(factor, Tensor) else factor.imag != 0:
        raise DTypeError(f"{function}: {name} must be real, got {factor!r}")
    return factor if isinstance(factor, Tensor) else factor.real


def _factor_of(
    C: Tensor | None, function: str, beta: Scalar, A: Tensor, shape: tuple[int, ...]
) -> Scalar:
    """Return the factor of C; 0 without C."""
    if C is None:
        return no_accumulator(function, beta, "C")
    agree(function, "A", A, "C", C)
    expandable(function, "C", C, shape)
    return number(function, "beta", beta, A)


def _shown(matrix: Tensor, trans: Trans) -> str:
    shape = str(tuple(matrix.shape))
    return shape if trans == "N" else f"{shape} transposed"


def _tensor_number(function: str, name: str, value: Tensor, like: Tensor) -> Scalar:
    if value.ndim != 0:
        raise ShapeError(
            f"{function}: {name} must be a number or a 0-d tensor, got shape {tuple(value.shape)}"
        )
    if value.is_cpu and inert(value):
        return number(function, name, value.item(), like)
    if _kind(value) > _kind(like):
        raise DTypeError(
            f"{function}: {name} must not change the dtype of the result, "
            f"got a tensor of {value.dtype} for {like.dtype}"
        )
    return value


def _kind(value: Tensor) -> int:
    """Return the kind of a dtype: a 0-d factor changes a dtype only to one of a higher kind.

    ``torch.result_type`` gives the same answer but cannot be traced by ``torch.compile``.
    """
    return 2 if value.is_complex() else int(value.is_floating_point())
