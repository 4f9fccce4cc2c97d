"""Symmetric products over the ranks of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trnblas._paths.arguments import Scalar
from trnblas._paths.flags import is_upper, transposition
from trnblas.distributed.products import Accumulated, accumulated, moved
from trnblas.distributed.schedule import Move, Schedule, moves
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.distributed.layout import even_offsets, with_local
from trnsci.core.errors import FlagError

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor, Placement

__all__ = ["mirror_moves", "syrk"]

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

    def options() -> tuple[str, str, str]:
        is_upper(FUNCTION, uplo)
        op = transposition(FUNCTION, "trans", trans, A)
        if op == "C":
            raise FlagError(f"{FUNCTION}: trans must not be C for a complex A, got {trans!r}")
        return ("N", "T", uplo) if op == "N" else ("T", "N", uplo)

    found = accumulated(FUNCTION, (alpha, beta), (A, A, C), options, placements, precision, check)
    return with_local(
        _mirrored(found, is_upper(FUNCTION, uplo)), found.mesh, found.placements, found.shape
    )


def _mirrored(found: Accumulated, upper: bool) -> Tensor:
    """Return this rank's part of the matrix whose triangle is mirrored to the other one."""
    transposed = found.local
    for move in mirror_moves(found.plan):
        transposed = moved(transposed, move, found.plan, found.ranks)
    rows, columns = (
        torch.arange(size, device=found.local.device) + first
        for size, first in zip(found.local.shape, _first(found), strict=True)
    )
    own = rows[:, None] <= columns if upper else rows[:, None] >= columns
    return torch.where(own, found.local, transposed.mT)


def _first(found: Accumulated) -> tuple[int, ...]:
    """Return the global index of the first row and column of this rank's part."""
    split, plan = found.plan.c, found.plan
    return tuple(
        even_offsets(plan.size(index), plan.mesh[split.index(index)])[
            found.ranks[split.index(index)].rank
        ]
        if index in split
        else 0
        for index in "mn"
    )


def mirror_moves(plan: Schedule) -> list[Move]:
    """Return the moves after which each rank has the transpose of its part."""
    swapped = tuple({"m": "n", "n": "m"}.get(index, index) for index in plan.c)
    return moves("C", plan.c, swapped, plan.mesh)
