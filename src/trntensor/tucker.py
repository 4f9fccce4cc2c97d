"""Tucker decomposition: a small core times an orthonormal factor for every mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

import torch
from torch import Tensor

from trnsci.core.arguments import tensor as a_tensor
from trnsci.core.arguments import whole
from trnsci.core.errors import FlagError, ParameterError, ShapeError
from trnsci.core.iterations import OnFailure, checked_action
from trnsci.core.numbers.values import STEPS, finite, one_problem, power_below, untraced
from trntensor._planning.subscripts import LETTERS
from trntensor._unfolding import check_parts, check_tensor, check_tolerances, split, unfolded
from trntensor.contraction import einsum
from trntensor.convergence import ConvergenceReport, Sweeps, report_sweeps

__all__ = ["tucker_decompose", "tucker_reconstruct"]


@overload
def tucker_decompose(
    tensor: Tensor,
    ranks: Sequence[int] | None = None,
    max_iter: int = 25,
    tol: float = 1e-6,
    *,
    eps: float | None = None,
    batch: bool = False,
    return_report: Literal[False] = False,
    on_failure: OnFailure = "warn",
) -> tuple[Tensor, list[Tensor]]: ...


@overload
def tucker_decompose(
    tensor: Tensor,
    ranks: Sequence[int] | None = None,
    max_iter: int = 25,
    tol: float = 1e-6,
    *,
    eps: float | None = None,
    batch: bool = False,
    return_report: Literal[True],
    on_failure: OnFailure = "warn",
) -> tuple[Tensor, list[Tensor], ConvergenceReport]: ...


def tucker_decompose(
    tensor: Tensor,
    ranks: Sequence[int] | None = None,
    max_iter: int = 25,
    tol: float = 1e-6,
    *,
    eps: float | None = None,
    batch: bool = False,
    return_report: bool = False,
    on_failure: OnFailure = "warn",
) -> tuple[Tensor, list[Tensor]] | tuple[Tensor, list[Tensor], ConvergenceReport]:
    """Return the core and factors of a Tucker approximation of a tensor.

    HOSVD (the singular vectors of every unfolding) is refined by HOOI sweeps until convergence.
    Without sweeps, or with ``eps``, the cheaper ST-HOSVD is used: each mode is computed from the
    tensor already projected on the previous modes.

    Args:
        tensor: (I_1, ..., I_d), floating point.
        ranks: (R_1, ..., R_d), each at most I_k; None with ``eps``.
        max_iter: Maximum number of HOOI sweeps; 0 for none.
        tol: Sweeps stop if the relative error, or its relative change, is below this.
        eps: Maximum relative error; ranks are the smallest for which HOSVD reaches it.
        batch: Whether the first dimension is a batch; requires ``ranks``.
        return_report: Whether to return a ``ConvergenceReport`` as well.
        on_failure: ``"warn"``, ``"raise"`` or ``"ignore"`` if ``max_iter`` sweeps do not reach the
            tolerance; not for ``batch``.

    Returns:
        The core (R_1, ..., R_d), and d factors (I_k, R_k) with orthonormal columns.

    Raises:
        ConvergenceError: The sweeps did not converge, and ``on_failure`` is ``"raise"``.
        ParameterError: The number of ranks differs from the number of dimensions.
        ShapeError: A rank is below 1 or above its dimension.
        FlagError: An option is invalid, or another one excludes it; either ranks or eps is given.
        NotFiniteError: The tensor has a NaN or an infinity.
    """
    function = "tucker_decompose"
    checked_action(function, on_failure)
    check_tensor(function, tensor, 1 + batch)
    finite(function, "tensor", tensor)
    max_iter = whole(function, "max_iter", max_iter, 0, error=FlagError)
    check_tolerances(function, tol=tol, eps=eps)
    if (ranks is None) == (eps is None):
        raise FlagError(f"{function}: either ranks or eps must be given")
    if batch:
        if ranks is None or return_report:
            raise FlagError(f"{function}: batch goes with ranks, and without a report")
        each = _checked_ranks(function, tensor.shape[1:], ranks)
        many = torch.func.vmap(lambda x: _fixed_sweeps(x, each, min(max_iter, 3)))
        core, *factors = many(tensor)
        return core, list(factors)
    sizes = None if ranks is None else _checked_ranks(function, tensor.shape, ranks)
    core, factors, report = _converged(tensor, sizes, max_iter, tol, eps)
    report_sweeps(function, report, on_failure)
    return (core, factors, report) if return_report else (core, factors)


@untraced(STEPS, name="tucker_decompose")
def _converged(
    tensor: Tensor, sizes: tuple[int, ...] | None, max_iter: int, tol: float, eps: float | None
) -> tuple[Tensor, list[Tensor], ConvergenceReport]:
    """Return core, factors and the report of one tensor after sweeping to convergence."""
    one_problem("tucker_decompose", tensor, instead="batch=True takes a batch")
    unit = power_below(tensor)  # squares are formed
    tensor = tensor / unit
    norm = float(torch.linalg.vector_norm(tensor.detach(), dtype=_wide(tensor)))
    # ``_error`` subtracts squared norms, whose rounding errors are at most this.
    sweeps = Sweeps(tol, 4 * torch.finfo(tensor.dtype).eps)
    cut = sizes is not None and sizes != tuple(tensor.shape)
    if cut and max_iter:
        factors = [split(unfolded(tensor, m), rank)[0] for m, rank in enumerate(sizes or ())]
    else:
        allowed = (eps or 0.0) * norm / max(tensor.ndim, 1) ** 0.5
        if eps and not norm:  # a zero tensor has rank 1
            allowed = torch.finfo(tensor.dtype).tiny
        core, factors = _sequential(tensor, sizes, allowed)
        sweeps.ended(_error(norm, core))
        sweeps.reason = "the ranks are those of the tensor"
        cut = any(f.shape[0] != f.shape[1] for f in factors)
    for _ in range(max_iter if cut else 0):
        core, factors = _swept(tensor, factors)
        sweeps.reason = "max_iter"
        if sweeps.ended(_error(norm, core)):
            break
    return core * unit, factors, sweeps.report()


def tucker_reconstruct(core: Tensor, factors: Sequence[Tensor]) -> Tensor:
    """Return the core times every factor.

    Raises:
        ShapeError: The factors are not matrices that match the core.
    """
    check_parts("tucker_reconstruct", "factors", factors)
    a_tensor("tucker_reconstruct", "core", core)
    if [f.shape[1] if f.ndim == 2 else -1 for f in factors] != list(core.shape):
        raise ShapeError(
            f"tucker_reconstruct: factors must be matrices with {tuple(core.shape)} columns, "
            f"got {[tuple(f.shape) for f in factors]}"
        )
    small, large = LETTERS[: core.ndim], LETTERS[26 : 26 + core.ndim]
    terms = ",".join([small, *(f"{a}{b}" for a, b in zip(large, small, strict=True))])
    return einsum(f"{terms}->{large}", core, *factors)


def _projected(x: Tensor, factor: Tensor, mode: int) -> Tensor:
    """Return a tensor with one mode projected on the columns of a factor."""
    labels = LETTERS[26 : 26 + x.ndim]
    out = labels.replace(labels[mode], "R")
    return einsum(f"{labels},{labels[mode]}R->{out}", x, factor.conj().resolve_conj())


def _sequential(
    x: Tensor, ranks: Sequence[int] | None, allowed: float
) -> tuple[Tensor, list[Tensor]]:
    """Return core and factors of ST-HOSVD; modes that shrink most are processed first."""
    order = list(range(x.ndim))
    if ranks is not None:
        order.sort(key=lambda mode: ranks[mode] / x.shape[mode])
    found: dict[int, Tensor] = {}
    for mode in order:
        rank = None if ranks is None else ranks[mode]
        found[mode] = split(unfolded(x, mode), rank, allowed)[0]
        x = _projected(x, found[mode], mode)
    return x, [found[mode] for mode in range(x.ndim)]


def _swept(x: Tensor, factors: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Return core and factors after one HOOI sweep: each mode with the others fixed."""
    factors = list(factors)
    core = x
    for mode in range(x.ndim):
        partial = x
        others = [m for m in range(x.ndim) if m != mode]
        for other in sorted(others, key=lambda m: factors[m].shape[1] / factors[m].shape[0]):
            partial = _projected(partial, factors[other], other)
        factors[mode] = split(unfolded(partial, mode), factors[mode].shape[1])[0]
        if mode == x.ndim - 1:
            core = _projected(partial, factors[mode], mode)
    return core, factors


def _fixed_sweeps(x: Tensor, ranks: Sequence[int], count: int) -> tuple[Tensor, ...]:
    core, factors = _sequential(x, ranks, 0.0)
    for _ in range(count):
        core, factors = _swept(x, factors)
    return (core, *factors)


def _error(norm: float, core: Tensor) -> float:
    """Return the relative error; with orthonormal factors the model has the norm of the core."""
    kept = float(torch.linalg.vector_norm(core.detach(), dtype=_wide(core)))
    return float(max(norm**2 - kept**2, 0.0) ** 0.5 / norm) if norm else 0.0


def _checked_ranks(function: str, shape: Sequence[int], ranks: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(whole(function, "each of ranks", rank, error=ShapeError) for rank in ranks)
    if len(sizes) != len(shape):
        raise ParameterError(
            f"{function}: there must be {len(shape)} ranks, one for each dimension, got {sizes}"
        )
    if any(not 1 <= rank <= size for rank, size in zip(sizes, shape, strict=True)):
        raise ShapeError(
            f"{function}: ranks must be from 1 to the sizes {tuple(shape)}, got {sizes}"
        )
    return sizes


def _wide(x: Tensor) -> torch.dtype:
    return torch.complex128 if x.is_complex() else torch.float64
