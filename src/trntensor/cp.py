"""Canonical polyadic (CP) decomposition: a tensor as a sum of outer products.

Alternating least squares (ALS) solves for the factor of one mode at a time, from the tensor
contracted with all other factors. The modes are in two halves: all modes of one half share the
tensor contracted with the factors of the other half. So a sweep makes two passes over the tensor
for any number of modes, and no Khatri-Rao product is formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Literal, overload

import torch
from torch import Tensor

from trnsci.core.arguments import tensor as a_tensor
from trnsci.core.arguments import whole
from trnsci.core.errors import DTypeError, FlagError, ShapeError
from trnsci.core.iterations import OnFailure, checked_action
from trnsci.core.numbers.values import STEPS, finite, one_problem, power_below, untraced
from trntensor._planning.subscripts import LETTERS
from trntensor._unfolding import (
    check_parts,
    check_tensor,
    check_tolerances,
    leading_basis,
    unfolded,
)
from trntensor.contraction import einsum
from trntensor.convergence import ConvergenceReport, Sweeps, report_sweeps

__all__ = ["cp_decompose", "cp_reconstruct"]

Init = Literal["svd", "random"]
_FLOOR = 1e-10


@overload
def cp_decompose(
    tensor: Tensor,
    rank: int,
    max_iter: int = 100,
    tol: float = 1e-6,
    nonneg: bool = False,
    factors: Sequence[Tensor] | None = None,
    *,
    init: Init = "svd",
    restarts: int = 1,
    mask: Tensor | None = None,
    seed: int = 0,
    batch: bool = False,
    return_report: Literal[False] = False,
    on_failure: OnFailure = "warn",
) -> tuple[list[Tensor], Tensor]: ...


@overload
def cp_decompose(
    tensor: Tensor,
    rank: int,
    max_iter: int = 100,
    tol: float = 1e-6,
    nonneg: bool = False,
    factors: Sequence[Tensor] | None = None,
    *,
    init: Init = "svd",
    restarts: int = 1,
    mask: Tensor | None = None,
    seed: int = 0,
    batch: bool = False,
    return_report: Literal[True],
    on_failure: OnFailure = "warn",
) -> tuple[list[Tensor], Tensor, ConvergenceReport]: ...


@untraced(STEPS)
def cp_decompose(
    tensor: Tensor,
    rank: int,
    max_iter: int = 100,
    tol: float = 1e-6,
    nonneg: bool = False,
    factors: Sequence[Tensor] | None = None,
    *,
    init: Init = "svd",
    restarts: int = 1,
    mask: Tensor | None = None,
    seed: int = 0,
    batch: bool = False,
    return_report: bool = False,
    on_failure: OnFailure = "warn",
) -> tuple[list[Tensor], Tensor] | tuple[list[Tensor], Tensor, ConvergenceReport]:
    """Return the factors and weights of a CP approximation of a tensor.

    Args:
        tensor: Of two or more dimensions (I_1, ..., I_d), floating point.
        rank: R, the number of terms.
        max_iter: Maximum number of sweeps over all modes.
        tol: Iteration stops if the relative error, or its relative change, is below this.
        nonneg: Whether to constrain factors to be non-negative, with weights 1. Columns are solved
            for one by one (hierarchical ALS), and are at least 1e-10 for a tensor of magnitude 1.
        factors: Initial factors, d matrices (I_k, R); they are not written to.
        init: Initialization without ``factors``: ``"svd"`` for the leading singular vectors of each
            unfolding, completed with random columns, or ``"random"``.
        restarts: Number of starts, random after the first; the best result is returned.
        mask: Bool tensor of the tensor's shape, False for missing values. These are not read; every
            sweep replaces them by the values of the model.
        seed: Seed of the random numbers.
        batch: Whether the first dimension is a batch of tensors to decompose; factors and weights
            have it too. Every tensor gets ``max_iter`` sweeps.
        return_report: Whether to return a ``ConvergenceReport`` as well.
        on_failure: ``"warn"``, ``"raise"`` or ``"ignore"`` if ``max_iter`` sweeps do not reach the
            tolerance; not for ``batch``.

    Returns:
        ``factors``, d matrices (I_k, R) with columns of norm 1, ``weights`` (R,), and with
        ``return_report`` the report of the best start.

    Raises:
        ConvergenceError: The sweeps did not converge, and ``on_failure`` is ``"raise"``.
        ShapeError: The tensor has fewer than two dimensions, or factors or mask do not match it.
        DTypeError: The tensor is not floating point, or factors or mask are not tensors.
        NotFiniteError: A known value is NaN or infinite.
        FlagError: An option is invalid, or another one excludes it.
    """
    function = "cp_decompose"
    checked_action(function, on_failure)
    check_tensor(function, tensor, 2 + batch, complex_too=False)
    if not batch:
        one_problem(function, tensor, instead="batch=True takes a batch")
    rank = whole(function, "rank", rank, 1, error=ShapeError)
    max_iter = whole(function, "max_iter", max_iter, 1, error=FlagError)
    check_tolerances(function, tol=tol)
    restarts = whole(function, "restarts", restarts, 1, error=FlagError)
    if init not in ("svd", "random"):
        raise FlagError(f"{function}: init must be svd or random, got {init!r}")
    if mask is not None and not isinstance(mask, Tensor):
        raise DTypeError(f"{function}: mask must be a torch.Tensor, got {type(mask).__name__}")
    if mask is not None and (mask.dtype is not torch.bool or mask.shape != tensor.shape):
        raise ShapeError(
            f"{function}: mask must be bool of shape {tuple(tensor.shape)}, "
            f"got {mask.dtype} of {tuple(mask.shape)}"
        )
    known = tensor if mask is None else torch.where(mask, tensor, 0)
    finite(function, "tensor", known)
    if batch:
        if return_report or mask is not None or factors is not None or nonneg or restarts != 1:
            raise FlagError(
                f"{function}: batch goes with rank, max_iter, init and seed, and with nothing else"
            )
        units = tensor.new_tensor([power_below(x) for x in tensor])
        tensor = tensor / units.reshape(-1, *[1] * (tensor.ndim - 1))
        starts = [_start(x, rank, init, seed) for x in tensor]
        begun = [torch.stack(column) for column in zip(*starts, strict=True)]
        sweeps = torch.func.vmap(lambda x, *f: _fixed_sweeps(x, list(f), max_iter))
        *found, weights = sweeps(tensor, *begun)
        return list(found), weights * units[:, None]
    unit = power_below(known)  # squares are formed
    tensor, known = tensor / unit, known / unit
    best: tuple[list[Tensor], Tensor, ConvergenceReport] | None = None
    for start in range(restarts):
        if start == 0 and factors is not None:
            begun = _warm(function, tensor, rank, factors)
        else:
            begun = _start(known, rank, "random" if start else init, seed + start)
        tried = _iterated(tensor, begun, max_iter, tol, nonneg, mask)
        if best is None or tried[2].error < best[2].error:
            best = tried
    assert best is not None
    found, weights, report = best
    report_sweeps(function, report, on_failure)
    if nonneg:  # weights stay 1, so the scale is divided among the factors
        parts = [(round(log2(unit)) + mode) // len(found) for mode in range(len(found))]
        found = [f * 2.0**part for f, part in zip(found, parts, strict=True)]
    else:
        weights = weights * unit
    return (found, weights, report) if return_report else (found, weights)


def cp_reconstruct(factors: Sequence[Tensor], weights: Tensor) -> Tensor:
    """Return the sum over r of ``weights[r]`` times the outer product of the r-th columns.

    Raises:
        ShapeError: The factors are not matrices with one column per weight.
    """
    check_parts("cp_reconstruct", "factors", factors)
    a_tensor("cp_reconstruct", "weights", weights)
    if not factors or any(f.ndim != 2 or f.shape[1:] != weights.shape for f in factors):
        shapes = [tuple(f.shape) for f in factors]
        raise ShapeError(
            f"cp_reconstruct: factors must be matrices with {tuple(weights.shape)} columns, "
            f"got {shapes}"
        )
    labels = LETTERS[26 : 26 + len(factors)]
    terms = ",".join(f"{label}R" for label in labels)
    return einsum(f"{terms}->{labels}", factors[0] * weights, *factors[1:])


# -- sweeps ----------------------------------------------------------------------------------------


def _iterated(
    x: Tensor,
    factors: list[Tensor],
    max_iter: int,
    tol: float,
    nonneg: bool,
    mask: Tensor | None,
) -> tuple[list[Tensor], Tensor, ConvergenceReport]:
    """Return factors, weights and the report after sweeping to convergence."""
    known = x if mask is None else torch.where(mask, x, 0)
    norm = float(torch.linalg.vector_norm(known.detach(), dtype=torch.float64))
    # Below this value, rounding errors dominate the difference of squares.
    resolved = 0.05 if x.dtype is torch.float32 else 1e-5
    weights = x.new_ones(factors[0].shape[1])
    if nonneg:
        factors = [f.abs().clamp(min=_FLOOR) for f in factors]
        # The factors start at the scale of the tensor: otherwise the first columns would be clipped
        # to zero.
        scale = norm / max(
            float(torch.linalg.vector_norm(cp_reconstruct(factors, weights))), _FLOOR
        )
        factors = [f * scale ** (1 / len(factors)) for f in factors]
    sweeps, filled = Sweeps(tol), known
    for _ in range(max_iter):
        if mask is not None:
            filled = torch.where(mask, x, cp_reconstruct(factors, weights))
        if nonneg:
            factors = _sweep(filled, factors, True)[0]
            inner, square = None, None
        else:
            factors, weights, inner, square = _sweep(filled, factors, False)
        if norm == 0:
            return factors, weights * 0, ConvergenceReport((0.0,), True, "the tensor is zero")
        if mask is None and inner is not None and square is not None:
            left = max(norm**2 - 2 * float(inner.detach()) + float(square.detach()), 0.0)
            error = left**0.5 / norm
            if error < resolved:
                error = _distance(known, factors, weights, mask) / norm
        else:
            error = _distance(known, factors, weights, mask) / norm
        if sweeps.ended(error):
            break
    return factors, weights, sweeps.report()


def _distance(x: Tensor, factors: list[Tensor], weights: Tensor, mask: Tensor | None) -> float:
    rest = (x - cp_reconstruct(factors, weights)).detach()
    return float(torch.linalg.vector_norm(rest if mask is None else torch.where(mask, rest, 0)))


def _fixed_sweeps(x: Tensor, factors: list[Tensor], count: int) -> tuple[Tensor, ...]:
    weights = x.new_ones(factors[0].shape[1])
    for _ in range(count):
        factors, weights = _sweep(x, factors, False, careful=True)[:2]
    return (*factors, weights)


def _sweep(
    x: Tensor, factors: list[Tensor], nonneg: bool, careful: bool = False
) -> tuple[list[Tensor], Tensor, Tensor, Tensor]:
    """Return new factors and weights, <x, model> and the squared norm of the model."""
    factors = list(factors)
    grams = [f.mT @ f for f in factors]
    half = (len(factors) + 1) // 2
    weights = inner = square = x.new_ones(())
    for modes in (range(half), range(half, len(factors))):
        partial = _times_others(x, factors, modes)
        for mode in modes:
            target = _times_rest(partial, factors, modes, mode)
            gram = torch.ones_like(grams[0])
            for other, matrix in enumerate(grams):
                gram = gram if other == mode else gram * matrix
            if nonneg:
                factors[mode] = _nonneg_solution(target, gram, factors[mode])
            else:
                solved = _solution(target, gram, careful)
                weights = torch.linalg.vector_norm(solved, dim=0)
                wide = solved.double()
                inner = (target.double() * wide).sum()
                square = ((wide.mT @ wide) * gram.double()).sum()
                factors[mode] = solved / torch.where(weights > 0, weights, 1)
            grams[mode] = factors[mode].mT @ factors[mode]
    return factors, weights, inner, square


def _times_others(x: Tensor, factors: list[Tensor], modes: range) -> Tensor:
    """Return the tensor times the factors of all modes not in ``modes``, R first."""
    labels = LETTERS[26 : 26 + x.ndim]
    # Start from the last mode, which is contiguous in memory.
    gone = range(modes.start) if modes.start else range(x.ndim - 1, modes.stop - 1, -1)
    have, partial = labels, x
    for mode in gone:
        rest = have.replace(labels[mode], "").replace("R", "")
        partial = einsum(f"{have},{labels[mode]}R->R{rest}", partial, factors[mode])
        have = f"R{rest}"
    return partial


def _times_rest(partial: Tensor, factors: list[Tensor], modes: range, mode: int) -> Tensor:
    """Return the right-hand side of one mode (MTTKRP), (I_k, R)."""
    labels = LETTERS[26 : 26 + len(factors)]
    kept = "".join(labels[m] for m in modes)
    others = [m for m in modes if m != mode]
    terms = "".join(f",{labels[m]}R" for m in others)
    if not others:
        return partial.mT
    return einsum(f"R{kept}{terms}->R{labels[mode]}", partial, *(factors[m] for m in others)).mT


def _solution(target: Tensor, gram: Tensor, careful: bool) -> Tensor:
    """Solve X gram = target for X, with least norm if gram is singular.

    If values may be read, Cholesky is used when it shows that gram is well-conditioned.
    """
    if not careful:
        lower, failed = torch.linalg.cholesky_ex(gram)
        diagonal = lower.diagonal().detach()
        least = 8 * torch.finfo(gram.dtype).eps ** 0.5 * diagonal.max()
        if not failed and diagonal.min() > least:
            return torch.cholesky_solve(target.mT, lower).mT
    return target @ torch.linalg.pinv(gram, hermitian=True)


def _nonneg_solution(target: Tensor, gram: Tensor, factor: Tensor) -> Tensor:
    """Return the factor with each column solved for in turn and clipped to be non-negative."""
    columns = list(factor.unbind(1))
    for r in range(len(columns)):
        step = (target[:, r] - torch.stack(columns, 1) @ gram[:, r]) / gram[r, r].clamp(min=_FLOOR)
        columns[r] = (columns[r] + step).clamp(min=_FLOOR)
    return torch.stack(columns, 1)


# -- initialization --------------------------------------------------------------------------------


def _start(x: Tensor, rank: int, init: str, seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    found = []
    for mode, size in enumerate(x.shape):
        drawn = torch.randn(size, rank, dtype=torch.float64, generator=generator, device="cpu").to(
            x
        )
        drawn = drawn / torch.linalg.vector_norm(drawn, dim=0)
        if init == "svd":
            basis = leading_basis(unfolded(x.detach(), mode), min(rank, size))
            drawn = torch.cat([basis, drawn[:, basis.shape[1] :]], 1)
        found.append(drawn)
    return found


def _warm(function: str, x: Tensor, rank: int, factors: Sequence[Tensor]) -> list[Tensor]:
    check_parts(function, "factors", factors)
    shapes = [tuple(f.shape) for f in factors]
    wanted = [(size, rank) for size in x.shape]
    if shapes != wanted:
        raise ShapeError(f"{function}: warm-start factors must be {wanted}, got {shapes}")
    return [f.to(x).clone() for f in factors]
