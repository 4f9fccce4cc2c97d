"""The product of two matrices over the ranks of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trnblas import level3
from trnblas._paths.accumulation import is_number
from trnblas._paths.arguments import Scalar, checked_product
from trnblas._paths.flags import applied
from trnblas.distributed.schedule import INDICES, Move, Panel, Schedule, schedule
from trnsci.core.arguments import agree
from trnsci.core.distributed.agreement import agreement
from trnsci.core.distributed.collectives import (
    Pending,
    all_gather,
    all_reduce,
    exchange,
    reduce_scatter,
    start_broadcast,
)
from trnsci.core.distributed.groups import Ranks, ranks_of_mesh
from trnsci.core.distributed.layout import dims_of, local_of, mesh_of, with_local
from trnsci.core.errors import DerivativeError, DTypeError, FlagError, ShapeError

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor, Placement

__all__ = ["gemm", "split_of"]

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
_FUNCTION = "trnblas.distributed.gemm"


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
    mesh = mesh_of(_FUNCTION, A=A, B=B, C=C)
    ranks = ranks_of_mesh(_FUNCTION, mesh)
    with agreement(ranks, _device(mesh), check=check) as describe:
        for name, x in (("A", A), ("B", B), ("C", C)):
            if x is not None:
                _check_operand(name, x, mesh)
        agree(_FUNCTION, "A", A, "B", B)
        factors = _constant("alpha", alpha), _constant("beta", beta)
        request = checked_product(_FUNCTION, factors[0], A, B, factors[1], C, transA, transB)
        shape, ops = request.shape, (request.trans_a, request.trans_b)
        if C is not None and tuple(C.shape) != shape:
            raise ShapeError(f"{_FUNCTION}: C must have shape {shape}, got {tuple(C.shape)}")
        splits = [
            split_of(_FUNCTION, name, x.placements, name, op != "N")
            for name, x, op in (("A", A, ops[0]), ("B", B, ops[1]))
        ]
        if placements is None and C is not None:
            placements = C.placements
        wanted = None if placements is None else split_of(_FUNCTION, "placements", placements, "C")
        if placements is not None and len(placements) != mesh.ndim:
            raise FlagError(
                f"{_FUNCTION}: placements must have one entry for each of {mesh.ndim} mesh "
                f"dimensions, got {tuple(placements)}"
            )
        if C is not None and split_of(_FUNCTION, "C", C.placements, "C") != wanted:
            raise FlagError(
                f"{_FUNCTION}: C must have the placements of the result, {tuple(placements or ())}"
                f", got {tuple(C.placements)}"
            )
        a, b = local_of(_FUNCTION, "A", A), local_of(_FUNCTION, "B", B)
        c = None if C is None else local_of(_FUNCTION, "C", C)
        sizes = (shape[0], A.shape[1 if ops[0] == "N" else 0], shape[1])
        chosen = schedule(sizes, tuple(mesh.shape), A.dtype.itemsize, splits[0], splits[1], wanted)
        describe(_described(A, B, C, request, placements))
    alpha, beta = request.alpha, request.beta
    found = _product(applied(ops[0], a), applied(ops[1], b), alpha, chosen, ranks)
    if c is not None and not is_number(beta, 0):
        found = found + beta * c
    if placements is None:
        placements = _placements(chosen.c)
    return with_local(found, mesh, placements, shape)


def split_of(
    function: str, name: str, placements: Sequence[Placement], matrix: str, flipped: bool = False
) -> tuple[str, ...]:
    """Return the index that each mesh dimension splits; empty where a matrix is replicated."""
    indices = INDICES[matrix][::-1] if flipped else INDICES[matrix]
    dims = dims_of(function, name, placements, 2)
    return tuple("" if dim is None else indices[dim] for dim in dims)


def _placements(split: tuple[str, ...]) -> tuple[Placement, ...]:
    """Return the placements of a C that is split in a given way."""
    from torch.distributed.tensor import Replicate, Shard

    return tuple(Shard("mn".index(index)) if index else Replicate() for index in split)


# -- arguments -------------------------------------------------------------------------------------


def _check_operand(name: str, x: Any, mesh: Any) -> None:
    from torch.distributed.tensor import DTensor

    if not isinstance(x, DTensor):
        raise DTypeError(f"{_FUNCTION}: {name} must be a DTensor, got {type(x).__name__}")
    if x.device_mesh != mesh:
        raise FlagError(
            f"{_FUNCTION}: all matrices must be on one mesh, got {name} on {x.device_mesh} and "
            f"another one on {mesh}"
        )
    if x.ndim != 2:
        raise ShapeError(f"{_FUNCTION}: {name} must be a matrix, got shape {tuple(x.shape)}")
    if x.dtype not in DTYPES:
        raise DTypeError(
            f"{_FUNCTION}: {name} must be float32, float64, complex64 or complex128, got {x.dtype}"
        )


def _constant(name: str, value: Scalar) -> Scalar:
    if isinstance(value, Tensor):
        if value.requires_grad:
            raise DerivativeError(
                f"{_FUNCTION}: {name} must not require a gradient; multiply the result by it"
            )
        return value.item() if value.ndim == 0 else value
    return value


def _described(A: Any, B: Any, C: Any, request: Any, placements: Any) -> str:
    """Return the arguments that all ranks must share."""
    operands = [
        f"{name} {tuple(x.shape)} {x.dtype} {tuple(x.placements)}{' with grad' * x.requires_grad}"
        for name, x in (("A", A), ("B", B), ("C", C))
        if x is not None
    ]
    options = (
        f"alpha {request.alpha}, beta {request.beta}, transA {request.trans_a}, transB "
        f"{request.trans_b}, placements {placements and tuple(placements)}"
    )
    return ", ".join([*operands, options])


def _device(mesh: Any) -> torch.device:
    """Return the device on which the ranks of a mesh communicate."""
    if mesh.device_type == "cpu":
        return torch.device("cpu")
    return torch.device(
        mesh.device_type, torch.get_device_module(mesh.device_type).current_device()
    )


# -- computation -----------------------------------------------------------------------------------


class _Product(torch.autograd.Function):
    """A product of parts; its gradients are products of parts."""

    @staticmethod
    def forward(
        ctx: Any, A: Tensor, B: Tensor, alpha: Any, plan: Schedule, ranks: tuple[Ranks, ...]
    ) -> Tensor:
        """Return this rank's part of the product."""
        ctx.save_for_backward(A, B)
        ctx.others = alpha, plan, ranks
        return _multiplied(A, B, alpha, plan, ranks)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return this rank's part of the gradients."""
        A, B = ctx.saved_tensors
        alpha, plan, ranks = ctx.others
        alpha = alpha.conjugate()
        by_a = by_b = None
        if ctx.needs_input_grad[0]:
            by_a = _product(grads[0], B.mH, alpha, plan.gradient("A"), ranks)
        if ctx.needs_input_grad[1]:
            by_b = _product(A.mH, grads[0], alpha, plan.gradient("B"), ranks)
        return by_a, by_b, None, None, None


def _product(
    A: Tensor, B: Tensor, alpha: Scalar, plan: Schedule, ranks: tuple[Ranks, ...]
) -> Tensor:
    found: Tensor = _Product.apply(A, B, alpha, plan, ranks)  # type: ignore[no-untyped-call]
    return found


def _multiplied(
    A: Tensor, B: Tensor, alpha: Scalar, plan: Schedule, ranks: tuple[Ranks, ...]
) -> Tensor:
    """Return this rank's part of ``alpha * A @ B``."""
    parts = {"A": A, "B": B}
    for move in plan.before:
        parts[move.matrix] = _moved(parts[move.matrix], move, plan, ranks)
    found = _summed_panels(parts, alpha, plan, ranks)
    for move in plan.after:
        found = _moved(found, move, plan, ranks)
    return found


def _summed_panels(
    parts: dict[str, Tensor], alpha: Scalar, plan: Schedule, ranks: tuple[Ranks, ...]
) -> Tensor:
    """Return the product of matrices of which some are received in panels."""
    index = plan.streamed_index
    if not index:
        return level3.gemm(alpha, parts["A"], parts["B"])
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
        level3.gemm(alpha, current["A"].wait(), current["B"].wait(), beta, place, out=place)
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


def _moved(x: Tensor, move: Move, plan: Schedule, ranks: tuple[Ranks, ...]) -> Tensor:
    """Return a part of a matrix in another split along one mesh dimension."""
    group, (old, new) = ranks[move.mesh_dim], (s[move.mesh_dim] for s in (move.old, move.new))
    if move.kind == "all_reduce":
        return all_reduce(x, group)
    dims = INDICES[move.matrix]
    if move.kind == "all_gather":
        sizes = plan.parts(old, move.mesh_dim)
        return all_gather(x, group, sizes, dims.index(old), gradient="replicated")
    sizes = plan.parts(new, move.mesh_dim)
    if move.kind == "slice":
        return x.narrow(dims.index(new), sum(sizes[: group.rank]), sizes[group.rank])
    if move.kind == "reduce_scatter":
        return reduce_scatter(x, group, sizes, dims.index(new))
    return exchange(
        x, group, dims.index(old), dims.index(new), plan.parts(old, move.mesh_dim), sizes
    )
