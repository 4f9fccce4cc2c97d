"""Eigenvalues and eigenvectors of real symmetric tridiagonal matrices."""

from __future__ import annotations

from math import prod
from typing import Any, Literal, overload

import torch
from torch import Tensor

from trnsci.core.arguments import agree, broadcast, floating, tensor
from trnsci.core.backend.derivatives import Gradients, Needed, Tangents
from trnsci.core.errors import (
    ConvergenceError,
    DerivativeError,
    DTypeError,
    FlagError,
    ShapeError,
)
from trnsci.core.krylov.implicit import differentiated
from trnsci.core.numbers.conversions import array_of
from trnsci.core.numbers.values import concrete, finite
from trnsolver._library import no_kernel
from trnsolver._paths import derivatives as rules
from trnsolver._paths.arguments import at_level, chosen, in_full_precision, restored
from trnsolver._paths.host import HostRoutine
from trnsolver.eigen import Eigenpairs

__all__ = ["eigh_tridiagonal"]

_NAME = "eigh_tridiagonal"
Select = Literal["a", "v", "i"]


@overload
def eigh_tridiagonal(
    d: Tensor,
    e: Tensor,
    eigvals_only: Literal[False] = False,
    select: Select = "a",
    select_range: tuple[float, float] | None = None,
) -> Eigenpairs: ...


@overload
def eigh_tridiagonal(
    d: Tensor,
    e: Tensor,
    eigvals_only: Literal[True],
    select: Select = "a",
    select_range: tuple[float, float] | None = None,
) -> Tensor: ...


@in_full_precision
def eigh_tridiagonal(
    d: Tensor,
    e: Tensor,
    eigvals_only: bool = False,
    select: Select = "a",
    select_range: tuple[float, float] | None = None,
) -> Eigenpairs | Tensor:
    """Return eigenvalues, ascending, and eigenvectors of real symmetric tridiagonal matrices.

    By LAPACK on the host, with the arguments of SciPy. A selection is computed without the other
    pairs, except for derivatives, which need all of them.

    Args:
        d: The diagonal (..., n).
        e: Entries beside the diagonal (..., n - 1).
        eigvals_only: Whether to return the eigenvalues alone.
        select: ``"a"`` for all; ``"i"`` for the indices ``select_range``, both included; ``"v"``
            for the values in the half-open interval ``select_range``, of one matrix.
        select_range: Bounds of the selection.

    Returns:
        ``(eigenvalues, eigenvectors)`` with the vectors as columns, or the eigenvalues.

    Raises:
        DerivativeError: In a derivative by eigenvectors, for repeated eigenvalues.
        NotFiniteError: An argument has a NaN or an infinity.
        ConvergenceError: The algorithm did not converge.
        ShapeError: The shapes do not fit.
        FlagError: The selection is invalid.

    Example:
        >>> eigh_tridiagonal(torch.tensor([2.0, 2.0]), torch.tensor([1.0]), eigvals_only=True)
        tensor([1.0000, 3.0000])
    """
    no_kernel(_NAME)
    for name, value in (("d", d), ("e", e)):
        tensor(_NAME, name, value)
        floating(_NAME, name, value)
        if value.is_complex():
            raise DTypeError(f"{_NAME}: {name} must be real, got {value.dtype}")
    agree(_NAME, "d", d, "e", e)
    n = d.shape[-1] if d.ndim else 0
    if not d.ndim or not e.ndim or e.shape[-1] != max(n - 1, 0):
        raise ShapeError(
            f"{_NAME}: e must have one entry less than d, got shapes {tuple(e.shape)} and "
            f"{tuple(d.shape)}"
        )
    shape = broadcast(d.shape[:-1], e.shape[:-1])
    if shape is None:
        raise ShapeError(
            f"{_NAME}: the batch dimensions of d and e must broadcast, got {tuple(d.shape)} and "
            f"{tuple(e.shape)}"
        )
    first, last = _selected(select, select_range, n, shape)
    finite(_NAME, "d", d)
    finite(_NAME, "e", e)
    count = prod(shape)
    main, beside = (
        at_level(x).expand(*shape, x.shape[-1]).reshape(count, x.shape[-1]) for x in (d, e)
    )
    tracked = differentiated(main, beside)
    if not main.numel():
        w = main + beside.sum()  # so that it has gradients by both
        v = main.unsqueeze(-1) + w.unsqueeze(-2)
    elif select != "a" and not tracked and concrete(main, beside):
        w, v = _some(main, beside, eigvals_only, select, (first, last))
    else:
        w, v = PAIRS(main, beside, eigvals_only and not tracked)
        if select == "v":
            inside = (w.detach()[0] > first) & (w.detach()[0] <= last)
            w, v = w[:, inside], v[..., inside]
        elif select == "i":
            w, v = w[:, int(first) : int(last) + 1], v[..., int(first) : int(last) + 1]
    w = restored(w.reshape(*shape, w.shape[-1]), d.dtype)
    if eigvals_only:
        return w
    return Eigenpairs(w, restored(v.reshape(*shape, n, w.shape[-1]), d.dtype))


def _selected(
    select: Select, bounds: tuple[float, float] | None, n: int, batch: tuple[int, ...]
) -> tuple[float, float]:
    """Return the bounds of a valid selection."""
    if chosen(_NAME, "select", select, ("a", "v", "i")) == "a":
        return 0, n - 1
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise FlagError(f"{_NAME}: select_range must be two numbers, got {bounds!r}")
    first, last = bounds
    if select == "i":
        whole = isinstance(first, int) and isinstance(last, int)
        if not (whole and 0 <= first <= last < n):
            raise FlagError(
                f"{_NAME}: select_range must be indices from 0 to {n - 1}, the first not above the "
                f"last, got {bounds!r}"
            )
    elif batch:
        raise FlagError(f"{_NAME}: select must not be 'v' for a batch, whose counts may differ")
    elif not first < last:
        raise FlagError(f"{_NAME}: select_range must be an interval, got {bounds!r}")
    return first, last


def _all(d: Tensor, e: Tensor, eigvals_only: bool) -> tuple[Tensor, Tensor]:
    """Return all pairs (b, n) and (b, n, n)."""
    return _some(d, e, eigvals_only, "a", None)


def _some(
    d: Tensor, e: Tensor, eigvals_only: bool, select: str, bounds: tuple[float, float] | None
) -> tuple[Tensor, Tensor]:
    """Return selected pairs (b, k) and (b, n, k), without derivatives."""
    pairs = [
        _pairs_of(diagonal, beside, eigvals_only, select, bounds)
        for diagonal, beside in zip(d.detach().cpu(), e.detach().cpu(), strict=True)
    ]
    w, v = (torch.stack(parts).to(d.device) for parts in zip(*pairs, strict=True))
    return w, v


def _pairs_of(
    d: Tensor, e: Tensor, eigvals_only: bool, select: str, bounds: Any
) -> tuple[Tensor, Tensor]:
    """Return pairs of one matrix; eigenvectors without entries if ``eigvals_only``."""
    import numpy as np
    from scipy.linalg import LinAlgError, eigh_tridiagonal

    try:
        found = eigh_tridiagonal(
            *map(array_of, (d, e)), eigvals_only, select, bounds, check_finite=False
        )
    except LinAlgError as error:
        raise ConvergenceError(f"{_NAME}: {error}") from None
    w, v = (found, np.empty((len(d), 0))) if eigvals_only else found
    return torch.from_numpy(w).to(d.dtype), torch.from_numpy(v).to(d.dtype)


def _shape(d: Tensor, e: Tensor, eigvals_only: bool) -> tuple[Tensor, Tensor]:
    n = d.shape[-1]
    return torch.empty_like(d), d.new_empty(d.shape[0], n, 0 if eigvals_only else n)


def _backward(
    grads: Gradients, needed: Needed, d: Tensor, e: Tensor, eigvals_only: bool, *, result: Any
) -> Gradients:
    """Return the diagonals of V (diag(Gw) + skew(V^T Gv) / 2 E) V^T with E_ij = w_j - w_i.

    Without a gradient by V nothing is divided by E: eigenvalues may be repeated.
    """
    w, v = result
    for_w, for_v = grads
    left = v * rules.or_zeros(for_w, w).unsqueeze(-2)
    if for_v is not None:
        _distinct(w)
        left = left + v @ (0.5 * rules.skew(v.mT @ for_v) * rules.over_differences(w))
    beside = left[:, 1:] * v[:, :-1] + left[:, :-1] * v[:, 1:]
    return (left * v).sum(-1), beside.sum(-1), None


def _jvp(
    tangents: Tangents, d: Tensor, e: Tensor, eigvals_only: bool, *, result: Any
) -> tuple[Tensor, Tensor]:
    """Return the diagonal of M = V^T T V, and V (M / E)."""
    w, v = result
    of_d = torch.zeros_like(d) if tangents[0] is None else tangents[0]
    of_e = torch.zeros_like(e) if tangents[1] is None else tangents[1]
    image = of_d.unsqueeze(-1) * v
    pad = torch.nn.functional.pad
    image = image + pad(of_e.unsqueeze(-1) * v[:, 1:], (0, 0, 0, 1))
    image = image + pad(of_e.unsqueeze(-1) * v[:, :-1], (0, 0, 1, 0))
    projected = v.mT @ image
    return projected.diagonal(dim1=-2, dim2=-1), v @ (projected * rules.over_differences(w))


def _distinct(w: Tensor) -> None:
    """Raise if an eigenvalue is repeated: its eigenvectors are not functions of the matrix."""
    if concrete(w) and w.shape[-1] > 1 and bool((w.diff() == 0).any()):
        raise DerivativeError(f"{_NAME}: eigenvectors of repeated eigenvalues have no derivative")


PAIRS = HostRoutine("eigh_tridiagonal_by_lapack", _all, _shape, _backward, _jvp)
