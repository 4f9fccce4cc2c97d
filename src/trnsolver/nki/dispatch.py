"""The functions of ``trnsolver.nki``: validation, and one operation each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci.core.arguments import agree
from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.library import backend_names
from trnsci.core.backend.operation import Operation
from trnsci.core.errors import NkiFallbackWarning, ShapeError
from trnsci.core.evidence import product_bound
from trnsci.core.examples import Case
from trnsci.core.testing import random_tensor, unit_roundoff
from trnsci.core.tiles.hardware import TILE
from trnsolver._library import LIBRARY

__all__ = [
    "PMAX",
    "NkiFallbackWarning",
    "nki_matvec",
    "nki_rank2_update",
    "nki_rotate_pairs",
]

PMAX = TILE
"""Partitions of a tile."""


def nki_rotate_pairs(even: Tensor, odd: Tensor, c: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``c * even - s * odd`` and ``s * even + c * odd``, row by row.

    Args:
        even: First rows of the pairs, (pairs, columns).
        odd: Second rows of the pairs.
        c: Cosines, (pairs, 1).
        s: Sines, (pairs, 1).

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: The dtypes or devices differ.
    """
    function = "nki_rotate_pairs"
    for name, value in (("odd", odd), ("c", c), ("s", s)):
        agree(function, "even", even, name, value)
    if even.ndim != 2 or odd.shape != even.shape:
        raise ShapeError(
            f"{function}: even and odd must have one shape (pairs, columns), got "
            f"{tuple(even.shape)} and {tuple(odd.shape)}"
        )
    _is_column(function, "c", c, even.shape[0])
    _is_column(function, "s", s, even.shape[0])
    first, second = ROTATE_PAIRS(even, odd, c, s)
    return first, second


def nki_matvec(A: Tensor, v: Tensor) -> Tensor:
    """Return ``A @ v`` of a matrix and a column, (m, n) and (n, 1).

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: The dtypes or devices differ.
    """
    agree("nki_matvec", "A", A, "v", v)
    if A.ndim != 2:
        raise ShapeError(f"nki_matvec: A must be a matrix, got shape {tuple(A.shape)}")
    _is_column("nki_matvec", "v", v, A.shape[1])
    return MATVEC(A, v)


def nki_rank2_update(A: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Return ``A - u @ v.T - v @ u.T`` of a square matrix and two columns, (n, n) and (n, 1).

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: The dtypes or devices differ.
    """
    function = "nki_rank2_update"
    agree(function, "A", A, "u", u)
    agree(function, "A", A, "v", v)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ShapeError(f"{function}: A must be a square matrix, got shape {tuple(A.shape)}")
    _is_column(function, "u", u, A.shape[0])
    _is_column(function, "v", v, A.shape[0])
    return RANK2_UPDATE(A, u, v)


def _is_column(function: str, name: str, value: Tensor, rows: int) -> None:
    if value.shape != (rows, 1):
        raise ShapeError(f"{function}: {name} must be ({rows}, 1), got {tuple(value.shape)}")


# -- operations on single matrices -----------------------------------------------------------------


def _operation(name: str, **declaration: Any) -> Operation:
    return Operation(LIBRARY, name, autocast="float32", dtypes=("float32",), **declaration)


def _rotate_launch(launch: Launcher, *pairs: Tensor) -> Any:
    from trnsolver._kernels.jacobi import rotate_pairs_kernel

    return launch(rotate_pairs_kernel, *pairs)


def _matvec_launch(launch: Launcher, a: Tensor, v: Tensor) -> Any:
    from trnsolver._kernels.householder import matvec_kernel

    return launch(matvec_kernel, a, v)


def _update_launch(launch: Launcher, a: Tensor, u: Tensor, v: Tensor) -> Any:
    from trnsolver._kernels.householder import rank2_update_kernel

    return launch(rank2_update_kernel, a, u, v)


def _rotated(even: Tensor, odd: Tensor, c: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    return c * even - s * odd, s * even + c * odd


def _matvec(a: Tensor, v: Tensor) -> Tensor:
    # No products that autocast would change here and below: reflections need float32.
    return (a * v.mT).sum(-1, keepdim=True)


def _rank2_update(a: Tensor, u: Tensor, v: Tensor) -> Tensor:
    return a - u * v.mT - v * u.mT


def _eight_roundings(*operands: Tensor) -> float:
    return 8 * unit_roundoff(torch.float32)


def _pairs() -> tuple[Tensor, ...]:
    return tuple(random_tensor(130, 70 if i < 2 else 1, seed=i) for i in range(4))


def _exactly_rotated(*operands: Tensor) -> tuple[Tensor, Tensor]:
    x, y, c, s = (operand.double() for operand in operands)
    return c * x - s * y, s * x + c * y


def _exact_update(*operands: Tensor) -> Tensor:
    a, u, v = (operand.double() for operand in operands)
    return a - u @ v.mT - v @ u.mT


ROTATE_PAIRS = _operation(
    "rotate_pairs",
    reference=_rotated,
    launch=_rotate_launch,
    flops=lambda even, *rest: 6.0 * even.numel(),
    evidence=(
        Case(
            "rotate_pairs_kernel",
            "Jacobi eigh: rotate_pairs",
            _pairs,
            nki_rotate_pairs,
            _exactly_rotated,
            "torch in float64",
            _eight_roundings,
        ),
    ),
)
MATVEC = _operation(
    "matvec",
    reference=_matvec,
    launch=_matvec_launch,
    flops=lambda a, v: 2.0 * a.numel(),
    evidence=(
        Case(
            "matvec_kernel",
            "matrix times column",
            lambda: (random_tensor(150, 530), random_tensor(530, 1, seed=1)),
            nki_matvec,
            lambda a, v: a.double() @ v.double(),
            "torch in float64",
            product_bound,
        ),
    ),
)
RANK2_UPDATE = _operation(
    "rank2_update",
    reference=_rank2_update,
    launch=_update_launch,
    flops=lambda a, *rest: 4.0 * a.numel(),
    evidence=(
        Case(
            "rank2_update_kernel",
            "update of rank two",
            lambda: (random_tensor(150, 150), *(random_tensor(150, 1, seed=i) for i in (1, 2))),
            nki_rank2_update,
            _exact_update,
            "torch in float64",
            _eight_roundings,
        ),
    ),
)


__getattr__ = backend_names(__name__, LIBRARY)
