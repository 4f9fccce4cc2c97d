"""The functions of ``trnsolver.nki``: validation, and one operation each."""

from __future__ import annotations

from torch import Tensor

from trnsci.core.arguments import agree
from trnsci.core.errors import NkiFallbackWarning, ShapeError
from trnsci.core.tiles.hardware import TILE
from trnsolver._paths.operations import MATVEC, RANK2_UPDATE, ROTATE_PAIRS

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
