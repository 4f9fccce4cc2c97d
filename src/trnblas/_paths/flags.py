"""The options of BLAS: transposition, triangle, side and diagonal.

Words and BLAS letters are accepted in upper or lower case. Anything else raises ``FlagError``: a
misspelt option must not silently select the opposite.
"""

from __future__ import annotations

from typing import Literal, TypeVar

from torch import Tensor

from trnsci.core.errors import FlagError

Trans = Literal["N", "T", "C"]

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
