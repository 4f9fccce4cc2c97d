"""The product of two matrices over the ranks of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trnblas import level3
from trnblas._paths.arguments import Scalar, applied, checked_product
from trnblas._paths.levels import level_name
from trnblas.distributed.operands import (
    checked_mesh,
    constant,
    described,
    precision_of,
    split_of,
)
from trnblas.distributed.panels import Panel, Panels, flipped, panels_of
from trnsci.core.arguments import agree
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.distributed.agreement import agreement
from trnsci.core.distributed.collectives import Pending, start_broadcast
from trnsci.core.distributed.groups import Ranks
from trnsci.core.distributed.layout import (
    even_offsets,
    local_of,
    placements_of,
    with_local,
)
from trnsci.core.distributed.schedule import Mesh, Schedule, Split, schedule
from trnsci.core.distributed.splits import moved
from trnsci.core.errors import FlagError, ShapeError
from trnsci.core.numbers.products import is_number

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Placement

FUNCTION = "trnblas.distributed.gemm"
_FACTORS = ("alpha", "beta")


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
    with agreement(FUNCTION, A, B, C, check=check) as describe:
        found = accumulation(
            FUNCTION, (alpha, beta), (A, B, C), (transA, transB), placements, precision
        )
        describe(found.text)
    return with_local(found.computed(), found.mesh, found.placements, found.product.plan.shape)


@dataclass(frozen=True)
class Accumulation:
    """``alpha * A @ B + beta * C`` of this rank's parts.

    Attributes:
        factors: alpha and beta.
        parts: Parts of A and B as they are multiplied, and of C.
        product: The product of A and B.
        mesh: The mesh.
        placements: Placements of the result.
        text: The arguments that all ranks must share.
    """

    factors: tuple[Any, Any]
    parts: tuple[Tensor, Tensor, Tensor | None]
    product: Product
    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    text: str

    def computed(self) -> Tensor:
        """Return this rank's part of the result."""
        (alpha, beta), (a, b, c) = self.factors, self.parts
        found = self.product(a, b, alpha)
        return found if c is None or is_number(beta, 0) else found + beta * c


def accumulation(
    function: str,
    factors: tuple[Scalar, Scalar],
    operands: tuple[DTensor, DTensor, DTensor | None],
    transposed: tuple[bool | str, bool | str],
    placements: Sequence[Placement] | None = None,
    precision: PrecisionLevel | None = None,
) -> Accumulation:
    """Return the checked operands of ``alpha * op(A) @ op(B) + beta * C``, and its schedule."""
    A, B, C = operands
    mesh, ranks = checked_mesh(function, A=A, B=B, C=C)
    agree(function, "A", A, "B", B)
    level = level_name(function, precision, A)
    alpha, beta = (constant(function, name, x) for name, x in zip(_FACTORS, factors, strict=True))
    request = checked_product(function, alpha, A, B, beta, C, *transposed)
    shape, ops = request.shape, (request.trans_a, request.trans_b)
    if C is not None and tuple(C.shape) != shape:
        raise ShapeError(f"{function}: C must have shape {shape}, got {tuple(C.shape)}")
    of_a, of_b = (
        split_of(function, *x, mesh.ndim) for x in (("A", A.placements), ("B", B.placements))
    )
    a = of_a if ops[0] == "N" else flipped(of_a)
    b = of_b if ops[1] == "N" else flipped(of_b)
    if placements is None and C is not None:
        placements = C.placements
    wanted = None
    if placements is not None:
        wanted = split_of(function, "placements", placements, mesh.ndim)
    if C is not None and split_of(function, "C", C.placements, mesh.ndim) != wanted:
        raise FlagError(
            f"{function}: C must have the placements of the result, {tuple(placements or ())}"
            f", got {tuple(C.placements)}"
        )
    parts = (
        applied(ops[0], local_of(function, "A", A, of_a)),
        applied(ops[1], local_of(function, "B", B, of_b)),
        None if C is None else local_of(function, "C", C),
    )
    sizes = (shape[0], A.shape[1 if ops[0] == "N" else 0], shape[1])
    chosen = product_schedule(sizes, Mesh(tuple(mesh.shape), A.dtype.itemsize), (a, b), wanted)
    text = described(
        {"A": A, "B": B, "C": C},
        alpha=request.alpha,
        beta=request.beta,
        transA=ops[0],
        transB=ops[1],
        placements=placements and tuple(placements),
        precision=level,
    )
    return Accumulation(
        (request.alpha, request.beta),
        parts,
        Product(chosen, ranks, level),
        mesh,
        placements_of(chosen.result) if placements is None else tuple(placements),
        text,
    )


# -- computation -----------------------------------------------------------------------------------


def product_schedule(
    sizes: tuple[int, int, int], mesh: Mesh, given: tuple[Split, Split], result: Split | None
) -> Schedule:
    """Return the schedule of ``(m, k) @ (k, n)``."""
    m, k, n = sizes
    return schedule(("mk", "kn"), "mn", ((m, k), (k, n)), mesh, given, result)


@dataclass(frozen=True)
class Product:
    """A product of parts of matrices; its gradients are products of parts.

    Attributes:
        plan: How it is split.
        ranks: The ranks along each mesh dimension.
        level: Arithmetic of each rank's products.
    """

    plan: Schedule
    ranks: tuple[Ranks, ...]
    level: PrecisionLevel

    def __call__(self, A: Tensor, B: Tensor, alpha: Scalar) -> Tensor:
        """Return this rank's part of ``alpha * A @ B``; it is differentiable."""
        if not torch.is_grad_enabled() or not (A.requires_grad or B.requires_grad):
            return self.computed(A, B, alpha)
        found: Tensor = _Product.apply(A, B, alpha, self)  # type: ignore[no-untyped-call]
        return found

    def gradient(self, operand: int) -> Product:
        """Return the product of the gradient by A, ``G @ B.mH``, or by B, ``A.mH @ G``."""
        return Product(gradient_schedule(self.plan, operand), self.ranks, self.level)

    def computed(self, A: Tensor, B: Tensor, alpha: Scalar) -> Tensor:
        """Return this rank's part of ``alpha * A @ B``."""
        plan, parts, panels = self.plan, [A, B], panels_of(self.plan)
        for operand, found in enumerate(plan.before):
            for move in found[: len(found) - (operand in panels.streamed)]:
                parts[operand] = moved(parts[operand], move, plan.shapes[operand], self.ranks)
        total = self._multiplied(parts, alpha, panels)
        for move in plan.after:
            total = moved(total, move, plan.shape, self.ranks)
        return total

    def _multiplied(self, parts: list[Tensor], alpha: Scalar, received: Panels) -> Tensor:
        """Return the product of matrices of which some are received in panels."""
        plan, precision = self.plan, precision_of(self.level)
        index, panels = received.index, received.every
        if not index:
            return level3.gemm(alpha, parts[0], parts[1], precision=precision)
        at = [each.rank for each in self.ranks]
        shape = plan.mesh.part(plan.shape, plan.contracted, at)
        dim = plan.output.find(index)
        if dim < 0 and not panels:
            return parts[0].new_zeros(shape)
        total = parts[0].new_empty(shape)
        coming = self._started(parts, panels[0]) if panels else []
        for number, panel in enumerate(panels):
            current = coming
            if number + 1 < len(panels):
                coming = self._started(parts, panels[number + 1])
            beta, place = float(number > 0), total
            if dim >= 0:
                beta, place = 0.0, total.narrow(dim, panel.start, panel.stop - panel.start)
            # No name holds the panels, so that two of a matrix exist at a time and not three.
            level3.gemm(
                alpha,
                current[0].wait(),
                current[1].wait(),
                beta,
                place,
                precision=precision,
                out=place,
            )
        return total

    def _started(self, parts: list[Tensor], panel: Panel) -> list[Pending]:
        """Return the panels of A and B, of which the broadcasts have been started."""
        index, streamed = panels_of(self.plan).index, panels_of(self.plan).streamed
        width, found = panel.stop - panel.start, []
        for operand, (x, term) in enumerate(zip(parts, self.plan.terms, strict=True)):
            dim = term.find(index)
            if operand in streamed:
                group = self.ranks[streamed[operand].mesh_dim]
                owner = panel.owners[operand]
                if group.rank == owner:
                    first = even_offsets(self.plan.sizes[index], group.size)[owner]
                    sent = x.narrow(dim, panel.start - first, width).resolve_conj().contiguous()
                else:
                    sent = x.new_empty((x.shape[0], width) if dim else (width, x.shape[1]))
                found.append(start_broadcast(sent, group, owner))
            else:
                if dim >= 0:
                    x = x.narrow(dim, panel.start, width)
                found.append(Pending(x, None, self.ranks[0]))
        return found


def gradient_schedule(plan: Schedule, operand: int) -> Schedule:
    """Return the schedule of the gradient of a product by one of its operands."""
    (a, b), (shape_a, shape_b), (of_a, of_b) = plan.terms, plan.shapes, plan.given
    if operand == 0:
        terms, output, result = (plan.output, b[::-1]), a, of_a
        shapes, given = (plan.shape, shape_b[::-1]), (plan.result, flipped(of_b))
    else:
        terms, output, result = (a[::-1], plan.output), b, of_b
        shapes, given = (shape_a[::-1], plan.shape), (flipped(of_a), plan.result)
    return schedule(terms, output, shapes, plan.mesh, given, result)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, A: Tensor, B: Tensor, alpha: Any, product: Product) -> Tensor:
        """Return this rank's part of the product."""
        ctx.save_for_backward(A, B)
        ctx.alpha, ctx.product = alpha, product
        return product.computed(A, B, alpha)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return this rank's part of the gradients."""
        A, B = ctx.saved_tensors
        alpha, product = ctx.alpha.conjugate(), ctx.product
        by_a = by_b = None
        if ctx.needs_input_grad[0]:
            by_a = product.gradient(0)(grads[0], B.mH, alpha)
        if ctx.needs_input_grad[1]:
            by_b = product.gradient(1)(A.mH, grads[0], alpha)
        return by_a, by_b, None, None
