"""Solutions of banded systems by LAPACK, with derivatives.

Bands are stored as in LAPACK and SciPy: entry (i, j) of a matrix with ``upper`` diagonals above the
main one is element (upper + i - j, j). Elements outside of the matrix are zero here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from trnsci.core.backend.derivatives import Gradients, Needed, Tangents
from trnsci.core.errors import SingularMatrixError
from trnsci.core.numbers.conversions import array_of
from trnsolver._paths.host import HostRoutine


def shifted(values: Tensor, step: int) -> Tensor:
    """Return ``values[..., i + step]``, zero outside."""
    if abs(step) >= values.shape[-1]:
        return torch.zeros_like(values)
    return pad(values, (-step, step))


def inside(lower: int, upper: int, ab: Tensor) -> Tensor:
    """Return bands with zeros for the elements that are outside of the matrix."""
    bands, n = ab.clone(), ab.shape[-1]
    for distance in range(1, upper + 1):
        bands[..., upper - distance, : min(distance, n)] = 0
    for distance in range(1, lower + 1):
        bands[..., upper + distance, max(n - distance, 0) :] = 0
    return bands


def adjoint(lower: int, upper: int, ab: Tensor) -> tuple[int, int, Tensor]:
    """Return the conjugate transpose of a banded matrix in the form of the arguments."""
    rows = [shifted(ab[..., lower + upper - r, :], r - lower) for r in range(lower + upper + 1)]
    return upper, lower, torch.stack(rows, -2).conj().resolve_conj()


def product(lower: int, upper: int, ab: Tensor, x: Tensor) -> Tensor:
    """Return the product of banded matrices (b, bands, n) and columns (b, n, k)."""
    turned = x.mT
    total = torch.zeros_like(turned)
    for row in range(lower + upper + 1):
        total = total + shifted(ab[..., row : row + 1, :] * turned, upper - row)
    return total.mT


def _solved(lower: int, upper: int, ab: Tensor, b: Tensor) -> Tensor:
    """Return the solutions of banded systems.

    The systems of a batch are one banded system with zeros between them, so that LAPACK is called
    once: its pivots are never taken from the rows of another system.
    """
    batch, n, columns = b.shape
    if not b.numel():
        return b.clone()
    bands = array_of(ab.detach().movedim(1, 0).reshape(lower + upper + 1, batch * n))
    sides = array_of(b.detach().resolve_conj().reshape(batch * n, columns))
    found = torch.from_numpy(_by_lapack(lower, upper, bands, sides)).reshape(batch, n, columns)
    if batch > 1 and not bool(torch.isfinite(found).all()):
        # An infinity times one of the zeros is NaN in the systems before its own.
        each = [_solved(lower, upper, ab[i : i + 1], b[i : i + 1]) for i in range(batch)]
        found = torch.cat(each)
    return found


def _by_lapack(lower: int, upper: int, ab: Any, b: Any) -> Any:
    """Return the solution of one system of arrays."""
    import numpy as np
    from scipy.linalg import get_lapack_funcs

    if lower == upper == 1 and ab.shape[-1] > 1:
        (solve,) = get_lapack_funcs(("gtsv",), (ab, b))
        *_, x, info = solve(ab[2, :-1], ab[1], ab[0, 1:], b)
    else:
        (solve,) = get_lapack_funcs(("gbsv",), (ab, b))
        # LAPACK stores columns, and fills further rows in.
        rows = np.zeros((2 * lower + upper + 1, ab.shape[-1]), ab.dtype, order="F")
        rows[lower:] = ab
        *_, x, info = solve(lower, upper, rows, b, overwrite_ab=True)
    if info > 0:
        raise SingularMatrixError("a pivot is zero")
    return np.ascontiguousarray(x)


def _shape(lower: int, upper: int, ab: Tensor, b: Tensor) -> Tensor:
    return torch.empty_like(b, memory_format=torch.contiguous_format)


def _backward(
    grad: Tensor, needed: Needed, lower: int, upper: int, ab: Tensor, b: Tensor, *, result: Tensor
) -> Gradients:
    """Return the bands of -Y X^H, and Y with A^H Y = G."""
    y = BANDED(*adjoint(lower, upper, ab), grad)
    for_bands = None
    if needed[2]:
        rows = [
            -(shifted(y.mT, row - upper) * result.mT.conj()).sum(-2)
            for row in range(lower + upper + 1)
        ]
        for_bands = torch.stack(rows, -2)
    return None, None, for_bands, y if needed[3] else None


def _jvp(
    tangents: Tangents, lower: int, upper: int, ab: Tensor, b: Tensor, *, result: Tensor
) -> Tensor:
    """Return the solution of A Y = Tb - Ta X."""
    right = torch.zeros_like(b) if tangents[3] is None else tangents[3]
    if tangents[2] is not None:
        right = right - product(lower, upper, tangents[2], result)
    found: Tensor = BANDED(lower, upper, ab, right)
    return found


BANDED = HostRoutine("banded_by_lapack", _solved, _shape, _backward, _jvp)
