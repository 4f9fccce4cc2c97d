"""Screening of integrals: Schwarz bounds, masks by threshold, and exact counts.

The bound of an integral (ij|kl) is ``Q[i, j] * Q[k, l]``, with ``Q = sqrt(|(ij|ij)|)``.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

from trnsci.core.arguments import agree, floating, tensor
from trnsci.core.errors import DTypeError, FlagError, OperandError
from trnsci.core.numbers.conversions import real_dtype
from trnsci.core.numbers.values import inert
from trnsparse._library import no_kernel
from trnsparse._paths.dispatch import run_screened_spmm
from trnsparse._patterns.dense import check_threshold

__all__ = [
    "count_quartets",
    "density_screen",
    "schwarz_bounds",
    "screen_quartets",
    "screened_spmm",
    "sparsity_stats",
]


def schwarz_bounds(diagonal_integrals: Tensor) -> Tensor:
    """Return ``sqrt(|x|)`` of diagonal integrals, of any shape.

    At 0, where the root has no derivative, derivatives are 0.
    """
    no_kernel("schwarz_bounds")
    tensor("schwarz_bounds", "diagonal_integrals", diagonal_integrals)
    floating("schwarz_bounds", "diagonal_integrals", diagonal_integrals)
    return _bounds(diagonal_integrals)


def _bounds(diagonal_integrals: Tensor) -> Tensor:
    sizes = diagonal_integrals.abs()
    if inert(diagonal_integrals):
        return sizes.sqrt()
    # The root of 0 is replaced by that of 1: its infinite slope times 0 would be NaN.
    zero = sizes == 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, sizes).sqrt())


def screen_quartets(Q: Tensor, threshold: float = 1e-10, mode: str = "pair") -> Tensor:
    """Return the mask of significant pairs, of the shape of Q.

    Args:
        Q: Bounds of pairs.
        threshold: Lower limit of the bound of an integral, exclusive.
        mode: ``"pair"`` keeps a pair whose integral with itself exceeds the threshold, which drops
            small pairs that are significant together with a large one; ``"safe"`` keeps every pair
            that is part of any integral above the threshold.

    Raises:
        FlagError: The threshold is negative, or the mode is neither.
    """
    no_kernel("screen_quartets")
    _checked("screen_quartets", Q, threshold)
    if mode == "pair":
        return Q.gt(sqrt(threshold))
    if mode == "safe":
        return (Q * Q.max() if Q.numel() else Q).gt(threshold)
    raise FlagError(f"screen_quartets: mode must be 'pair' or 'safe', got {mode!r}")


def density_screen(Q: Tensor, P: Tensor, threshold: float = 1e-10) -> Tensor:
    """Return the mask of pairs significant for a density: ``Q * max(|P| * Q) > threshold``.

    No pair whose bound exceeds the threshold is ever dropped.

    Args:
        Q: Bounds of pairs.
        P: The density, of Q's shape.
        threshold: Lower limit of the bound, exclusive.

    Raises:
        FlagError: The threshold is negative.
        OperandError: The shapes differ.
    """
    no_kernel("density_screen")
    _checked("density_screen", Q, threshold)
    if P.shape != Q.shape:
        raise OperandError(
            f"density_screen: P must have the shape of Q, got {tuple(P.shape)} and {tuple(Q.shape)}"
        )
    return (Q * (P.abs() * Q).max() if Q.numel() else Q).gt(threshold)


def count_quartets(Q: Tensor, threshold: float = 1e-10, Q_right: Tensor | None = None) -> int:
    """Return the exact number of pairs of pairs with ``Q[a] * Q[b] > threshold``.

    Takes O(n log n) for n pairs, by sorting and one binary search for each pair.

    Args:
        Q: Bounds of pairs, of any shape.
        threshold: Lower limit of a product, exclusive.
        Q_right: Bounds of the second pairs; None uses Q for both.
    """
    no_kernel("count_quartets")
    _checked("count_quartets", Q, threshold)
    left = Q.detach().reshape(-1)
    right = left if Q_right is None else Q_right.detach().reshape(-1)
    if not left.numel() or not right.numel():
        return 0
    right = right.sort().values
    # The first index in the sorted bounds at which the rounded product exceeds the threshold, by
    # bisection for all pairs at once.
    low = torch.zeros_like(left, dtype=torch.int64)
    high = torch.full_like(low, right.numel())
    for _ in range(right.numel().bit_length()):
        middle = (low + high) // 2
        beyond = left * right[middle.clamp(max=right.numel() - 1)] > threshold
        searching = low < high
        high = torch.where(searching & beyond, middle, high)
        low = torch.where(searching & ~beyond, middle + 1, low)
    return int((right.numel() - low).sum())


def sparsity_stats(Q: Tensor, threshold: float = 1e-10) -> dict[str, int | float]:
    """Return statistics of the integrals above a threshold.

    Args:
        Q: Bounds of pairs, (n, n).
        threshold: Lower limit of the bound of an integral, exclusive.

    Returns:
        ``n_shells``, ``total_pairs``, ``significant_pairs`` (of ``screen_quartets``),
        ``pair_sparsity``, ``total_quartets``, ``significant_quartets`` (exact),
        ``quartet_sparsity`` (exact), and the bounds from the number of pairs only,
        ``significant_quartets_upper`` and ``quartet_sparsity_lower``.
    """
    no_kernel("sparsity_stats")
    _checked("sparsity_stats", Q, threshold)
    if Q.ndim != 2:
        raise OperandError(f"sparsity_stats: Q must be a matrix, got shape {tuple(Q.shape)}")
    pairs = Q.numel()
    kept = int(screen_quartets(Q, threshold).sum())
    exact = count_quartets(Q, threshold)
    return {
        "n_shells": Q.shape[0],
        "total_pairs": pairs,
        "significant_pairs": kept,
        "pair_sparsity": 1 - kept / pairs if pairs else 0.0,
        "total_quartets": pairs**2,
        "significant_quartets": exact,
        "quartet_sparsity": 1 - exact / pairs**2 if pairs else 0.0,
        "significant_quartets_upper": kept**2,
        "quartet_sparsity_lower": 1 - kept**2 / pairs**2 if pairs else 0.0,
    }


def screened_spmm(
    A: Tensor,
    diag_integrals: Tensor,
    B: Tensor,
    threshold: float,
    *,
    col_integrals: Tensor | None = None,
) -> Tensor:
    """Return ``(A * mask) @ B`` with ``mask = sqrt|d_i| * sqrt|d_j| > sqrt(threshold)``.

    Args:
        A: A dense matrix (M, K).
        diag_integrals: Diagonal integrals of the rows, (M,).
        B: A dense matrix (K, N).
        threshold: Lower limit of ``|d_i| * |d_j|``, exclusive.
        col_integrals: Diagonal integrals of the columns, (K,); None uses ``diag_integrals``, for a
            square A.

    Gradients reach A, at the selected elements, and B.

    Raises:
        OperandError: The shapes do not fit.
        FlagError: The threshold is negative.
    """
    check_threshold("screened_spmm", threshold)
    agree("screened_spmm", "A", A, "B", B)
    rows = diag_integrals
    columns = rows if col_integrals is None else col_integrals
    if A.ndim != 2 or B.ndim != 2 or A.shape[1] != B.shape[0]:
        raise OperandError(
            f"screened_spmm: A and B must be matrices that fit, "
            f"got {tuple(A.shape)} and {tuple(B.shape)}"
        )
    if rows.shape != A.shape[:1] or columns.shape != A.shape[1:]:
        hint = "; a matrix that is not square needs col_integrals" if col_integrals is None else ""
        raise OperandError(
            f"screened_spmm: integrals must be ({A.shape[0]},) and ({A.shape[1]},), "
            f"got {tuple(rows.shape)} and {tuple(columns.shape)}{hint}"
        )
    row_bounds, col_bounds = (_bounds(d.detach()) for d in (rows, columns))
    if A.is_floating_point() or A.is_complex():  # integers cannot hold the bounds
        dtype = real_dtype(A.dtype)
        row_bounds, col_bounds = row_bounds.to(dtype), col_bounds.to(dtype)
    return run_screened_spmm(A, row_bounds, col_bounds, B, sqrt(threshold))


def _checked(function: str, Q: Tensor, threshold: float) -> None:
    _real(function, "Q", Q)
    check_threshold(function, threshold)


def _real(function: str, name: str, value: Tensor) -> None:
    tensor(function, name, value)
    if value.is_complex():
        raise DTypeError(f"{function}: {name} must be real, got {value.dtype}")
