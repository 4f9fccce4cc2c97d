"""Symmetric products over the ranks of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trnblas._paths.arguments import Scalar, is_upper, transposition
from trnblas.distributed.operands import check_operand
from trnblas.distributed.panels import flipped
from trnblas.distributed.products import Accumulation, accumulation
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.distributed.agreement import agreement
from trnsci.core.distributed.layout import even_offsets, mesh_of, with_local
from trnsci.core.distributed.schedule import Move, Schedule, moves
from trnsci.core.distributed.splits import moved
from trnsci.core.errors import FlagError

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor, Placement

FUNCTION = "trnblas.distributed.syrk"


def syrk(
    alpha: Scalar,
    A: DTensor,
    beta: Scalar = 0.0,
    C: DTensor | None = None,
    trans: bool | str = False,
    uplo: str = "upper",
    *,
    placements: Sequence[Placement] | None = None,
    precision: PrecisionLevel | None = None,
    check: bool = True,
) -> DTensor:
    """Return ``alpha * A @ A.mT + beta * C``, or ``alpha * A.mT @ A + beta * C``, on a mesh.

    The product is split as that of ``gemm``. Ranks then exchange the triangle ``uplo``, so that the
    result is exactly symmetric.

    Args:
        alpha: Factor of the product.
        A: Matrix (n, k), (k, n) if transposed.
        beta: Factor of C.
        C: Symmetric matrix (n, n), with the placements of the result.
        trans: Whether the transpose is on the left; not ``"C"`` for a complex A.
        uplo: Triangle of C that is read, and of the product that is mirrored.
        placements: Placements of the result; None for those of C, or else those that need the
            fewest bytes.
        precision: Arithmetic of each rank's products; see ``gemm``.
        check: Whether ranks compare their arguments first.

    Raises:
        ShapeError, DTypeError, DerivativeError, BackendError, RankError: As ``gemm``.
        FlagError: An option, a mesh or placements are invalid.
    """
    with agreement(FUNCTION, A, C, check=check) as describe:
        found = symmetric_product(FUNCTION, (alpha, beta), A, C, trans, placements, precision)
        upper = is_upper(FUNCTION, uplo)
        describe(f"{found.text}, upper {upper}")
    local = _mirrored(found, upper)
    return with_local(local, found.mesh, found.placements, found.product.plan.shape)


def symmetric_product(
    function: str,
    factors: tuple[Scalar, Scalar],
    A: DTensor,
    C: DTensor | None = None,
    trans: bool | str = False,
    placements: Sequence[Placement] | None = None,
    precision: PrecisionLevel | None = None,
) -> Accumulation:
    """Return the checked operands of the product of a matrix and its transpose."""
    check_operand(function, "A", A, mesh_of(function, A=A, C=C))
    op = transposition(function, "trans", trans, A)
    if op == "C":
        raise FlagError(f"{function}: trans must not be C for a complex A, got {trans!r}")
    ops = ("N", "T") if op == "N" else ("T", "N")
    return accumulation(function, factors, (A, A, C), ops, placements, precision)


def _mirrored(found: Accumulation, upper: bool) -> Tensor:
    """Return this rank's part of the matrix whose triangle is mirrored to the other one."""
    plan, ranks = found.product.plan, found.product.ranks
    local = transposed = found.computed()
    for move in mirror_moves(plan):
        transposed = moved(transposed, move, plan.shape, ranks)
    first = [0, 0]  # global index of the first row and column of this rank's part
    for dim, group in zip(plan.result, ranks, strict=True):
        if dim is not None:
            first[dim] = even_offsets(plan.shape[dim], group.size)[group.rank]
    rows, columns = (
        torch.arange(size, device=local.device) + start
        for size, start in zip(local.shape, first, strict=True)
    )
    own = rows[:, None] <= columns if upper else rows[:, None] >= columns
    return torch.where(own, local, transposed.mT)


def mirror_moves(plan: Schedule) -> tuple[Move, ...]:
    """Return the moves after which each rank has the transpose of its part."""
    return moves(plan.result, flipped(plan.result), plan.mesh.shape)
