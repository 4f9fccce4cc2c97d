"""Principal square roots of general matrices, and the Sylvester equations of their derivatives.

``X X = A`` gives ``X dX + dX X = dA``. It has one solution if no two eigenvalues of X add up to 0:
the principal root of a regular matrix has only eigenvalues with positive real parts.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from trnsci.core.backend.derivatives import Gradients, Needed, Tangents
from trnsci.core.errors import ConvergenceError, DerivativeError
from trnsci.core.numbers.conversions import array_of
from trnsolver._paths import derivatives as rules
from trnsolver._paths.host import HostRoutine


def _roots(a: Tensor) -> Tensor:
    """Return principal square roots (b, n, n)."""
    found = torch.empty_like(a, memory_format=torch.contiguous_format)
    for place, matrix in enumerate(a.detach()):
        found[place] = _root(matrix) if matrix.numel() else matrix
    return found


def _root(matrix: Tensor) -> Tensor:
    from scipy.linalg import sqrtm

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a singular matrix; the residual decides
        root = torch.from_numpy(sqrtm(array_of(matrix.resolve_conj().contiguous())))
    if root.is_complex() and not matrix.is_complex():
        raise ConvergenceError(
            "sqrtm: A has a negative eigenvalue, and no real root; convert it to a complex dtype"
        )
    left = torch.linalg.matrix_norm(root @ root - matrix)
    # Bjorck and Hammarling: n roundings of norm(X)^2.
    limit = 8 * len(matrix) * torch.finfo(matrix.dtype).eps * torch.linalg.matrix_norm(root) ** 2
    if not bool(left <= limit):
        raise ConvergenceError("sqrtm: A has no square root to the precision of its dtype")
    return root.to(matrix.dtype)


def _like(a: Tensor) -> Tensor:
    return torch.empty_like(a, memory_format=torch.contiguous_format)


def _root_backward(grad: Tensor, needed: Needed, a: Tensor, *, result: Tensor) -> Gradients:
    return (SYLVESTER(result.mH, grad),)


def _root_jvp(tangents: Tangents, a: Tensor, *, result: Tensor) -> Tensor:
    found: Tensor = SYLVESTER(result, rules.given(tangents[0]))
    return found


def _sylvester(p: Tensor, c: Tensor) -> Tensor:
    """Return S with ``P S + S P = C``, all (b, n, n), by the Schur form of P."""
    found = torch.empty_like(c, memory_format=torch.contiguous_format)
    for place, (left, right) in enumerate(zip(p.detach(), c.detach(), strict=True)):
        found[place] = _solution(left, right) if left.numel() else right
    return found


def _solution(p: Tensor, c: Tensor) -> Tensor:
    from scipy.linalg import get_lapack_funcs, schur

    matrix, right = (array_of(x.resolve_conj().contiguous()) for x in (p, c))
    t, q = schur(matrix)
    inner = q.conj().T @ right @ q
    (solve,) = get_lapack_funcs(("trsyl",), (t, inner))
    x, scale, info = solve(t, t, inner)
    # Equal sums of eigenvalues are perturbed by LAPACK, which reports it.
    if info != 0 or scale != 1:
        raise DerivativeError("sqrtm: the root of a singular A has no derivative")
    return torch.from_numpy(q @ x @ q.conj().T)


def _sylvester_shape(p: Tensor, c: Tensor) -> Tensor:
    return _like(c)


def _sylvester_backward(
    grad: Tensor, needed: Needed, p: Tensor, c: Tensor, *, result: Any
) -> Gradients:
    for_c = SYLVESTER(p.mH, grad)
    for_p = -(for_c @ result.mH + result.mH @ for_c) if needed[0] else None
    return for_p, for_c if needed[1] else None


def _sylvester_jvp(tangents: Tangents, p: Tensor, c: Tensor, *, result: Any) -> Tensor:
    right = torch.zeros_like(c) if tangents[1] is None else tangents[1]
    if tangents[0] is not None:
        right = right - (tangents[0] @ result + result @ tangents[0])
    found: Tensor = SYLVESTER(p, right)
    return found


ROOT = HostRoutine("sqrtm_by_schur", _roots, _like, _root_backward, _root_jvp)
SYLVESTER = HostRoutine(
    "sylvester_by_schur", _sylvester, _sylvester_shape, _sylvester_backward, _sylvester_jvp
)
