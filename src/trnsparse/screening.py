"""Screening of integrals: Schwarz bounds, masks by threshold, and exact counts.

The bound of an integral (ij|kl) is ``Q[i, j] * Q[k, l]``, with ``Q = sqrt(|(ij|ij)|)``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from trnsci.core.arguments import agree, floating, tensor
from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.operation import Operation
from trnsci.core.errors import DTypeError, FlagError, OperandError
from trnsci.core.evidence import product_bound
from trnsci.core.examples import Case, Example, example
from trnsci.core.numbers.conversions import real_dtype
from trnsci.core.numbers.planes import embedded, joined, parts
from trnsci.core.numbers.values import concrete, inert
from trnsci.core.testing import random_tensor
from trnsci.core.tiles.hardware import TILE
from trnsparse._library import LIBRARY, no_kernel
from trnsparse._paths.operands import leading_columns, several_columns
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
    result: Tensor = SCREENED_SPMM(A, row_bounds, col_bounds, B, sqrt(threshold))
    return result


def _checked(function: str, Q: Tensor, threshold: float) -> None:
    _real(function, "Q", Q)
    check_threshold(function, threshold)


def _real(function: str, name: str, value: Tensor) -> None:
    tensor(function, name, value)
    if value.is_complex():
        raise DTypeError(f"{function}: {name} must be real, got {value.dtype}")


# -- the operation of screened_spmm ----------------------------------------------------------------

# Below this share of rows and columns, copying the needed part is faster.
_WORTH_A_COPY = 0.5


def _screened_product(
    a: Tensor, row_bounds: Tensor, col_bounds: Tensor, b: Tensor, cutoff: float
) -> Tensor:
    """Return ``(a where row_bounds[i] * col_bounds[j] > cutoff, else 0) @ b``.

    Rows and columns without such elements are skipped if there are many.
    """
    if concrete(row_bounds, col_bounds) and row_bounds.is_cpu and a.numel():
        rows = (row_bounds * col_bounds.max() > cutoff).nonzero().squeeze(-1)
        columns = (col_bounds * row_bounds.max() > cutoff).nonzero().squeeze(-1)
        if rows.numel() * columns.numel() < _WORTH_A_COPY * a.numel():
            part = a.index_select(0, rows).index_select(1, columns)
            right = b.index_select(0, columns)
            product = _masked(part, row_bounds[rows], col_bounds[columns], right, cutoff)
            return product.new_zeros(a.shape[0], b.shape[1]).index_copy(0, rows, product)
    return _masked(a, row_bounds, col_bounds, b, cutoff)


def _masked(a: Tensor, rows: Tensor, columns: Tensor, b: Tensor, cutoff: float) -> Tensor:
    kept = torch.outer(rows, columns) > cutoff
    # Multiplication by the mask would give NaN for an infinite element that is screened out.
    return a.masked_fill(~kept, 0.0) @ b


def _screened_backward(
    grad: Tensor,
    needed: Any,
    a: Tensor,
    row_bounds: Tensor,
    col_bounds: Tensor,
    b: Tensor,
    cutoff: float,
) -> tuple[Tensor | None, ...]:
    by_a = by_b = None
    if needed[0]:
        kept = torch.outer(row_bounds, col_bounds) > cutoff
        by_a = (grad @ b.mT).masked_fill(~kept, 0.0)
    if needed[3]:
        by_b = SCREENED_SPMM(a.mT.contiguous(), col_bounds, row_bounds, grad, cutoff)
    return by_a, None, None, by_b, None


def _screened_by_parts(
    real: Callable[..., Tensor],
    a: Tensor,
    row_bounds: Tensor,
    col_bounds: Tensor,
    b: Tensor,
    cutoff: float,
) -> Tensor:
    bounds = row_bounds, col_bounds.repeat_interleave(2)
    return joined(real(parts(a), *bounds, embedded(b), cutoff))


def _screened_spmm_launch(
    launch: Launcher,
    a: Tensor,
    row_bounds: Tensor,
    col_bounds: Tensor,
    b: Tensor,
    cutoff: float,
) -> Tensor:
    from trnsparse._kernels.screened_spmm import screened_spmm  # here, because it imports NKI

    # As in torch's comparison, the number takes the dtype of the tensor.
    limit = float(torch.tensor(cutoff, dtype=row_bounds.dtype))
    kept = _kept_tiles(row_bounds, col_bounds, limit)
    bounds = row_bounds.unsqueeze(1), col_bounds.unsqueeze(0)
    result = launch(screened_spmm, a, *bounds, several_columns(b), limit, kept)
    return leading_columns(result, b.shape[1])


def _kept_tiles(
    rows: Tensor, columns: Tensor, cutoff: float
) -> tuple[tuple[tuple[int, bool], ...], ...]:
    """Return for each 128 rows the tiles of columns with bounds above, and whether all are."""
    greatest, least = [], []
    for bounds in (rows, columns):
        tiles = torch.split(bounds.detach().cpu(), TILE)
        greatest.append(torch.stack([tile.nan_to_num(nan=-1.0).max() for tile in tiles]))
        least.append(torch.stack([tile.nan_to_num(nan=-1.0).min() for tile in tiles]))
    some = (torch.outer(*greatest) > cutoff).tolist()
    every = (torch.outer(*least) > cutoff) & torch.outer(*(x >= 0 for x in least))
    whole = every.tolist()
    return tuple(
        tuple((j, whole[i][j]) for j in range(len(row)) if row[j]) for i, row in enumerate(some)
    )


def _screened_example() -> Example:
    bounds = torch.rand(4, 4, generator=torch.Generator().manual_seed(9))[0]
    return example(random_tensor(4, 4), bounds, random_tensor(4, 4, seed=1), 1e-3)


def _screened() -> tuple[Tensor, Tensor, Tensor, float]:
    bounds = torch.logspace(0, -6, 260)
    return random_tensor(260, 260), bounds**2, random_tensor(260, 50, seed=1), 1.1e-3


def _kept(a: Tensor, integrals: Tensor, b: Tensor, threshold: float) -> Tensor:
    product = torch.outer(integrals.double(), integrals.double())
    return torch.where(product > threshold, a.double(), 0.0)


SCREENED_SPMM = Operation(
    LIBRARY,
    "screened_spmm",
    launch=_screened_spmm_launch,
    reference=_screened_product,
    by_parts=_screened_by_parts,
    backward=_screened_backward,
    linear=(0, 3),
    autocast="lower",
    flops=lambda a, row_bounds, col_bounds, b, cutoff: 2.0 * a.numel() * b.shape[-1],
    examples={"screened_spmm": _screened_example},
    evidence=(
        Case(
            "screened_spmm",
            "screened product",
            _screened,
            screened_spmm,
            lambda a, integrals, b, cut: _kept(a, integrals, b, cut) @ b.double(),
            "dense in float64",
            lambda a, integrals, b, cut: product_bound(_kept(a, integrals, b, cut), b),
        ),
    ),
)
