"""Schur forms of single matrices by LAPACK through SciPy; torch has no routine for them."""

from __future__ import annotations

from typing import Any

import torch

from trnsci.core.errors import ConvergenceError


def schur_form(matrix: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return T and Q of a square finite array, in its dtype.

    Raises:
        ConvergenceError: The iteration did not converge.
    """
    from scipy.linalg import LinAlgError, schur

    if not matrix.size:
        return torch.from_numpy(matrix.copy()), torch.from_numpy(matrix.copy())
    try:
        t, q = schur(matrix, check_finite=False)
    except LinAlgError as error:
        raise ConvergenceError(f"schur: {error}") from None
    return torch.from_numpy(t), torch.from_numpy(q)
