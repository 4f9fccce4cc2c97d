"""The product of two matrices over the ranks of a mesh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trnblas import level3
from trnblas._paths.arguments import Scalar, checked_product
from trnblas._paths.flags import applied
from trnblas._paths.level_names import level_name
from trnblas.distributed.operands import (
    check_operand,
    constant,
    described,
    placements_of,
    precision_of,
    split_of,
)
from trnblas.distributed.schedule import INDICES, Move, Panel, Schedule, schedule
from trnsci.core.accumulation import is_number
from trnsci.core.arguments import agree
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.distributed.agreement import agreement
from trnsci.core.distributed.collectives import Pending, start_broadcast
from trnsci.core.distributed.groups import Ranks, ranks_of_mesh
from trnsci.core.distributed.layout import local_of, mesh_of, with_local
from trnsci.core.distributed.splits import resplit
from trnsci.core.errors import FlagError, ShapeError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Placement

__all__ = ["accumulated", "gemm", "moved", "product"]

FUNCTION = "trnblas.distributed.gemm"


def gemm(
    alpha: Scalar,
    A: DTensor,
    B: DTensor,
    beta: Scalar = 0.0,
    C: DTensor | None = None,
    transA: bool | str = False,
    transB: bool | str = False,
    *,
    placements: Sequence[Placement] | None = None,
    precision: PrecisionLevel | None = None,
    check: bool = True,
) -> DTensor:
    """Return ``alpha * op(A) @ op(B) + beta * C`` of matrices on a mesh of one or two dimensions.

    Ranks compute with ``trnblas.gemm``. ``plan("gemm", ...)`` shows how the product is split: the
    split is the one in which the busiest rank receives the fewest bytes. On any number of ranks, an
    element differs from that of one rank by at most ``2 * (k + ranks) * u * (|A| |B|)``, with u the
    unit roundoff of the dtype. All ranks must compute gradients together.

    Args:
        alpha: Factor of the product.
        A: Matrix (m, k), (k, m) if transposed, split or replicated along each mesh dimension.
        B: Matrix (k, n), (n, k) if transposed, on the same mesh.
        beta: Factor of C.
        C: Matrix (m, n), with the placements of the result.
        transA: Transposition of A.
        transB: Transposition of B.
        placements: Placements of the result; None for those of C, or else those that need the
            fewest bytes.
        precision: Arithmetic of each rank's products and of those of its gradients, as in
            ``trnblas.gemm``; sums of panels and of ranks are in the dtype of the operands. None for
            the level of ``trnblas.precision``, which all ranks must share.
        check: Whether ranks compare their arguments first.

    Raises:
        ShapeError: The shapes are incompatible, or a part is not that of ``torch.chunk``.
        DTypeError: An operand is not a DTensor, dtypes differ or are not float32, float64 or
            complex, or a factor is incompatible.
        FlagError: An option, a mesh or placements are invalid.
        DerivativeError: A factor requires a gradient.
        BackendError: There is no process group, or the mesh does not contain this rank.
        RankError: Ranks gave different arguments, or a rank has ended.
    """
    found = accumulated(
        FUNCTION,
        (alpha, beta),
        (A, B, C),
        lambda: (transA, transB, None),
        placements,
        precision,
        check,
    )
    return with_local(found.local, found.mesh, found.placements, found.shape)


@dataclass(frozen=True)
class Accumulated:
    """A product of parts, with what describes it as a DTensor."""

    local: Tensor
    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    shape: tuple[int, ...]
    plan: Schedule
    ranks: tuple[Ranks, ...]


def accumulated(
    function: str,
    factors: tuple[Scalar, Scalar],
    operands: tuple[DTensor, DTensor, DTensor | None],
    options: Callable[[], tuple[bool | str, bool | str, str | None]],
    placements: Sequence[Placement] | None,
    precision: PrecisionLevel | None,
    check: bool,
) -> Accumulated:
    """Return this rank's part of ``alpha * op(A) @ op(B) + beta * C``.

    ``options`` validates the other arguments. It returns the transpositions of A and B, and an
    argument of the function that ranks must share, beyond those of a product.
    """
    (A, B, C), (alpha, beta) = operands, factors
    with agreement(function, *operands, check=check) as describe:
        mesh = mesh_of(function, A=A, B=B, C=C)
        ranks = ranks_of_mesh(function, mesh)
        for name, x in (("A", A), ("B", B), ("C", C)):
            if x is not None:
                check_operand(function, name, x, mesh)
        transA, transB, also = options()
        agree(function, "A", A, "B", B)
        level = level_name(function, precision, A)
        alpha, beta = constant(function, "alpha", alpha), constant(function, "beta", beta)
        request = checked_product(function, alpha, A, B, beta, C, transA, transB)
        shape, ops = request.shape, (request.trans_a, request.trans_b)
        if C is not None and tuple(C.shape) != shape:
            raise ShapeError(f"{function}: C must have shape {shape}, got {tuple(C.shape)}")
        splits = [
            split_of(function, name, x.placements, mesh.ndim, name, op != "N")
            for name, x, op in (("A", A, ops[0]), ("B", B, ops[1]))
        ]
        if placements is None and C is not None:
            placements = C.placements
        wanted = None
        if placements is not None:
            wanted = split_of(function, "placements", placements, mesh.ndim, "C")
        if C is not None and split_of(function, "C", C.placements, mesh.ndim, "C") != wanted:
            raise FlagError(
                f"{function}: C must have the placements of the result, {tuple(placements or ())}"
                f", got {tuple(C.placements)}"
            )
        a, b = local_of(function, "A", A), local_of(function, "B", B)
        c = None if C is None else local_of(function, "C", C)
        sizes = (shape[0], A.shape[1 if ops[0] == "N" else 0], shape[1])
        chosen = schedule(sizes, tuple(mesh.shape), A.dtype.itemsize, splits[0], splits[1], wanted)
        text = described(
            {"A": A, "B": B, "C": C},
            alpha=request.alpha,
            beta=request.beta,
            transA=ops[0],
            transB=ops[1],
            placements=placements and tuple(placements),
            uplo=also,
            precision=level,
        )
        describe(text)
    alpha, beta = request.alpha, request.beta
    found = product(applied(ops[0], a), applied(ops[1], b), alpha, chosen, ranks, level)
    if c is not None and not is_number(beta, 0):
        found = found + beta * c
    if placements is None:
        placements = placements_of(chosen.c)
    return Accumulated(found, mesh, tuple(placements), shape, chosen, ranks)


# -- computation -----------------------------------------------------------------------------------


class _Product(torch.autograd.Function):
    """A product of parts; its gradients are products of parts."""

    @staticmethod
    def forward(
        ctx: Any,
        A: Tensor,
        B: Tensor,
        alpha: Any,
        plan: Schedule,
        ranks: tuple[Ranks, ...],
        level: PrecisionLevel,
    ) -> Tensor:
        """Return this rank's part of the product."""
        ctx.save_for_backward(A, B)
        ctx.others = alpha, plan, ranks, level
        return _multiplied(A, B, alpha, plan, ranks, level)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return this rank's part of the gradients."""
        A, B = ctx.saved_tensors
        alpha, plan, ranks, level = ctx.others
        alpha = alpha.conjugate()
        by_a = by_b = None
        if ctx.needs_input_grad[0]:
            by_a = product(grads[0], B.mH, alpha, plan.gradient("A"), ranks, level)
        if ctx.needs_input_grad[1]:
            by_b = product(A.mH, grads[0], alpha, plan.gradient("B"), ranks, level)
        return by_a, by_b, None, None, None, None


def product(
    A: Tensor,
    B: Tensor,
    alpha: Scalar,
    plan: Schedule,
    ranks: tuple[Ranks, ...],
    level: PrecisionLevel,
) -> Tensor:
    """Return this rank's part of ``alpha * A @ B``; it is differentiable."""
    found: Tensor = _Product.apply(A, B, alpha, plan, ranks, level)  # type: ignore[no-untyped-call]
    return found


def _multiplied(
    A: Tensor,
    B: Tensor,
    alpha: Scalar,
    plan: Schedule,
    ranks: tuple[Ranks, ...],
    level: PrecisionLevel,
) -> Tensor:
    """Return this rank's part of ``alpha * A @ B``."""
    parts = {"A": A, "B": B}
    for move in plan.before:
        parts[move.matrix] = moved(parts[move.matrix], move, plan, ranks)
    found = _summed_panels(parts, alpha, plan, ranks, precision_of(level))
    for move in plan.after:
        found = moved(found, move, plan, ranks)
    return found


def _summed_panels(
    parts: dict[str, Tensor],
    alpha: Scalar,
    plan: Schedule,
    ranks: tuple[Ranks, ...],
    precision: PrecisionLevel | None,
) -> Tensor:
    """Return the product of matrices of which some are received in panels."""
    index = plan.streamed_index
    if not index:
        return level3.gemm(alpha, parts["A"], parts["B"], precision=precision)
    at = [each.rank for each in ranks]
    shape = plan.local_shape("C", plan.multiplied[2], at)
    if index == "k" and not plan.panels:
        return parts["A"].new_zeros(shape)
    total = parts["A"].new_empty(shape)
    coming = _started(parts, plan.panels[0], plan, ranks) if plan.panels else {}
    for number, panel in enumerate(plan.panels):
        current = coming
        if number + 1 < len(plan.panels):
            coming = _started(parts, plan.panels[number + 1], plan, ranks)
        beta, place = float(number > 0), total
        if index != "k":
            beta = 0.0
            place = total.narrow("mn".index(index), panel.start, panel.stop - panel.start)
        # No name holds the panels, so that two of a matrix exist at a time and not three.
        level3.gemm(
            alpha,
            current["A"].wait(),
            current["B"].wait(),
            beta,
            place,
            precision=precision,
            out=place,
        )
    return total


def _started(
    parts: dict[str, Tensor], panel: Panel, plan: Schedule, ranks: tuple[Ranks, ...]
) -> dict[str, Pending]:
    """Return the panels of A and B, of which the broadcasts have been started."""
    index, width = plan.streamed_index, panel.stop - panel.start
    meshes = {move.matrix: move.mesh_dim for move in plan.streamed}
    found = {}
    for matrix, x in parts.items():
        if matrix in meshes:
            group, owner = ranks[meshes[matrix]], panel.owners[matrix]
            dim = INDICES[matrix].index(index)
            if group.rank == owner:
                first = sum(plan.parts(index, meshes[matrix])[:owner])
                sent = x.narrow(dim, panel.start - first, width).resolve_conj().contiguous()
            else:
                shape = (x.shape[0], width) if dim else (width, x.shape[1])
                sent = x.new_empty(shape)
            found[matrix] = start_broadcast(sent, group, owner)
        else:
            if index in INDICES[matrix]:
                x = x.narrow(INDICES[matrix].index(index), panel.start, width)
            found[matrix] = Pending(x, None, ranks[0])
    return found


def moved(x: Tensor, move: Move, plan: Schedule, ranks: tuple[Ranks, ...]) -> Tensor:
    """Return a part of a matrix in another split along one mesh dimension; gradients move back."""
    indices = INDICES[move.matrix]
    shape = [plan.size(index) for index in indices]
    places = {index: dim for dim, index in enumerate(indices)}
    old, new = (places.get(split[move.mesh_dim]) for split in (move.old, move.new))
    return resplit(x, move.kind, ranks[move.mesh_dim], shape, old, new)
