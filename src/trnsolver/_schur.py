"""Schur forms of single matrices by LAPACK, which torch does not offer.

SciPy has the routine. It is called as it is: the function around it looks at numbers that were
looked at before, and asks for room with a copy of the matrix.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import torch

from trnsci.core.errors import BackendError, ConvergenceError

__all__ = ["schur_form"]

_ROUTINES = {
    torch.float32: "sgees",
    torch.float64: "dgees",
    torch.complex64: "cgees",
    torch.complex128: "zgees",
}


def schur_form(matrix: Any, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return T and Q of a square array of finite numbers, of this dtype.

    Raises:
        ConvergenceError: The iteration did not converge.
        BackendError: SciPy is not installed.
    """
    if not matrix.size:
        empty = torch.empty(matrix.shape, dtype=dtype)
        return empty, empty.clone()
    routine = _routine(dtype)
    # By place: what nobody sorts by, the matrix, vectors too, unsorted, room.
    found = routine(_unsorted, matrix, 1, 0, _room(dtype, len(matrix)))
    if found[-1]:
        raise ConvergenceError(f"schur: LAPACK did not find all eigenvalues, info {found[-1]}")
    return torch.from_numpy(found[0]), torch.from_numpy(found[-3])


def _unsorted(*value: Any) -> None:
    """Return nothing: LAPACK asks where values are sorted."""


@cache
def _routine(dtype: torch.dtype) -> Any:
    try:
        from scipy.linalg import lapack
    except ImportError as error:
        raise BackendError("schur: SciPy computes it, and is not installed") from error
    return getattr(lapack, _ROUTINES[dtype])


@lru_cache(maxsize=64)
def _room(dtype: torch.dtype, order: int) -> int:
    """Return how many numbers LAPACK wants to work on."""
    matrix = torch.empty(order, order, dtype=dtype).numpy()
    return int(_routine(dtype)(_unsorted, matrix, lwork=-1)[-2][0].real)
