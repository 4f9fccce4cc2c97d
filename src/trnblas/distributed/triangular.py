"""Triangular systems over the ranks of a mesh.

Along a mesh dimension the columns of the right-hand side are split, where ranks need all of A, or
its rows are: then the ranks solve for their rows one after another, and broadcast them. Few columns
are cheaper by rows, many by columns; the split is the one in which the busiest rank receives the
fewest bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from trnblas import level3
from trnblas._paths.arguments import Scalar, applied, sided_arguments, triangle_arguments
from trnblas._paths.levels import level_name
from trnblas.distributed.operands import (
    checked_mesh,
    constant,
    described,
    precision_of,
    split_of,
)
from trnblas.distributed.panels import flipped
from trnblas.distributed.products import Product, product_schedule
from trnsci.core.arguments import agree
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.distributed.agreement import agreement
from trnsci.core.distributed.collectives import start_broadcast
from trnsci.core.distributed.groups import Ranks
from trnsci.core.distributed.layout import even_offsets, even_sizes, local_of, with_local
from trnsci.core.distributed.plans import Step
from trnsci.core.distributed.schedule import FREE, Mesh, Move, Schedule, Split, moves
from trnsci.core.distributed.splits import moved

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor, Placement

FUNCTION = "trnblas.distributed.trsm"


def trsm(
    alpha: Scalar,
    A: DTensor,
    B: DTensor,
    side: str = "left",
    uplo: str = "upper",
    trans: bool | str = False,
    diag: str = "nonunit",
    *,
    placements: Sequence[Placement] | None = None,
    precision: PrecisionLevel | None = None,
    check: bool = True,
) -> DTensor:
    """Solve ``op(A) @ X = alpha * B`` or ``X @ op(A) = alpha * B`` for X, with a triangular A.

    Ranks solve with ``trnblas.trsm``. All ranks must compute gradients together.

    Args:
        alpha: Factor.
        A: Square matrix of which the triangle ``uplo`` is read.
        B: Matrix, on the same mesh.
        side: Side of X on which A is.
        uplo: Triangle of A.
        trans: Transposition of A.
        diag: ``"unit"`` if the diagonal of A is ones and not read.
        placements: Placements of X; None for those of B.
        precision: Arithmetic of each rank's solutions and products; see ``gemm``.
        check: Whether ranks compare their arguments first.

    Raises:
        ShapeError, DTypeError, DerivativeError, BackendError, RankError: As ``gemm``.
        FlagError: An option, a mesh or placements are invalid.
    """
    with agreement(FUNCTION, A, B, check=check) as describe:
        found = triangular_system(
            FUNCTION, alpha, A, B, (side, uplo, trans, diag), placements, precision
        )
        describe(found.text)
    (a, b), left = found.parts, found.left
    local = found.system(a, b, found.alpha)
    wanted = B.placements if placements is None else placements
    return with_local(local if left else local.mT, A.device_mesh, wanted, B.shape)


class Prepared(NamedTuple):
    """A system with checked operands: parts as they are solved, and what all ranks must share."""

    system: System
    parts: tuple[Tensor, Tensor]
    alpha: Any
    left: bool
    text: str


def triangular_system(
    function: str,
    alpha: Scalar,
    A: DTensor,
    B: DTensor,
    flags: tuple[str, str, bool | str, str],
    placements: Sequence[Placement] | None = None,
    precision: PrecisionLevel | None = None,
) -> Prepared:
    """Return the checked operands of a system, whose flags are those of ``trsm`` in order."""
    side, uplo, trans, diag = flags
    mesh, ranks = checked_mesh(function, A=A, B=B)
    agree(function, "A", A, "B", B)
    left, upper, op, unit = triangle_arguments(function, A, side, uplo, trans, diag)
    level = level_name(function, precision, A)
    factor = constant(function, "alpha", alpha)
    factor, _ = sided_arguments(function, factor, A, B, 0, None, left)
    wanted = B.placements if placements is None else placements
    flip = (op != "N") == left  # a system from the right is that of the transposes
    a = split_of(function, "A", A.placements, mesh.ndim, flip)
    b = split_of(function, "B", B.placements, mesh.ndim, not left)
    x = split_of(function, "placements", wanted, mesh.ndim, not left)
    local_a, local_b = applied(op, local_of(function, "A", A)), local_of(function, "B", B)
    sizes = A.shape[0], B.shape[1 if left else 0]
    there = Mesh(tuple(mesh.shape), A.dtype.itemsize)
    plan = substitution(sizes, there, a, b, x, upper != flip)
    text = described(
        {"A": A, "B": B},
        alpha=factor,
        left=left,
        upper=upper,
        trans=op,
        unit=unit,
        placements=tuple(wanted),
        precision=level,
    )
    parts = (local_a, local_b) if left else (local_a.mT, local_b.mT)
    return Prepared(System(plan, ranks, level, unit), parts, factor, left, text)


@dataclass(frozen=True)
class Substitution:
    """How a triangular system is solved.

    Attributes:
        sizes: Order of A, and number of columns of the right-hand side.
        mesh: The mesh.
        a: Split of A in the call.
        b: Split of the right-hand side in the call.
        x: Split of the solution.
        by: The dimension of the right-hand side that each mesh dimension splits: 0 for its rows, 1
            for its columns.
        upper: Whether the matrix is an upper triangle, so that its last rows are solved first.
    """

    sizes: tuple[int, int]
    mesh: Mesh
    a: Split
    b: Split
    x: Split
    by: Split
    upper: bool

    @property
    def moves_a(self) -> tuple[Move, ...]:
        """Moves of A before."""
        rows = tuple(0 if dim == 0 else None for dim in self.by)
        return moves(self.a, rows, self.mesh.shape)

    @property
    def moves_b(self) -> tuple[Move, ...]:
        """Moves of the right-hand side before."""
        return moves(self.b, self.by, self.mesh.shape)

    @property
    def after(self) -> tuple[Move, ...]:
        """Moves of the solution."""
        return moves(self.by, self.x, self.mesh.shape)

    @property
    def blocks(self) -> list[int]:
        """The ranks that have rows, in the order of substitution; all but the last send them."""
        sizes = even_sizes(self.sizes[0], self.mesh.shape[self.by.index(0)])
        found = [rank for rank, size in enumerate(sizes) if size]
        return found[::-1] if self.upper else found

    @property
    def steps(self) -> tuple[Step, ...]:
        """Collectives and computation, with the bytes and operations of each rank."""
        mesh, shape = self.mesh, self.sizes
        n = self.sizes[0]

        def steps(what: str, shape: tuple[int, int], found: tuple[Move, ...]) -> list[Step]:
            return [mesh.step(move, what, shape) for move in found if move.kind not in FREE]

        found = steps("A", (n, n), self.moves_a) + steps("B", shape, self.moves_b)
        parts = [mesh.part(shape, self.by, at) for at in mesh.coordinates]
        if 0 in self.by:
            dim = self.by.index(0)
            rows, sent = even_sizes(n, mesh.shape[dim]), self.blocks[:-1]
            counts = tuple(
                mesh.itemsize * columns * sum(rows[block] for block in sent if block != at[dim])
                for at, (_, columns) in zip(mesh.coordinates, parts, strict=True)
            )
            messages = len(sent) if any(counts) else 0
            found.append(Step("broadcast", "rows of the solution", counts, messages))
        read = [self._triangle(at) for at in mesh.coordinates]
        flops = tuple(2 * count * part[1] for count, part in zip(read, parts, strict=True))
        touched = tuple(
            mesh.itemsize * (count + 2 * prod(part))
            for count, part in zip(read, parts, strict=True)
        )
        launches = max(1, len(self.blocks)) if 0 in self.by else 1
        zeros = (0,) * len(parts)
        work = Step("compute", "substitution", zeros, 0, flops, touched, launches=launches)
        return (*found, work, *steps("X", shape, self.after))

    def _triangle(self, at: tuple[int, ...]) -> int:
        """Return the elements of the triangle in the rows that a rank solves for."""
        n = self.sizes[0]
        first, rows = 0, n
        if 0 in self.by:
            dim = self.by.index(0)
            first, end = even_offsets(n, self.mesh.shape[dim])[at[dim] : at[dim] + 2]
            rows = end - first
        below = n - first - rows if self.upper else first  # columns outside of the diagonal block
        return rows * below + rows * (rows + 1) // 2

    def adjoint(self) -> Substitution:
        """Return the substitution with the conjugate transpose, of the gradient by B."""
        return substitution(self.sizes, self.mesh, flipped(self.a), self.x, self.b, not self.upper)

    def gradient(self) -> Schedule:
        """Return the product of the gradient by A."""
        n, columns = self.sizes
        return product_schedule((n, columns, n), self.mesh, (self.b, flipped(self.x)), self.a)


@lru_cache(maxsize=256)
def substitution(
    sizes: tuple[int, int], mesh: Mesh, a: Split, b: Split, x: Split, upper: bool
) -> Substitution:
    """Return the substitution that moves the fewest bytes; the arguments are its attributes."""
    found = [
        Substitution(sizes, mesh, a, b, x, by, upper)
        for by in permutations((0, 1), len(mesh.shape))
    ]
    return min(found, key=_cost)


def _cost(candidate: Substitution) -> tuple[int, int]:
    steps = candidate.steps
    received = [sum(counts) for counts in zip(*(step.received for step in steps), strict=True)]
    return max(received), max(max(step.flops, default=0) for step in steps)


@dataclass(frozen=True)
class System:
    """A triangular system of parts.

    Attributes:
        plan: How it is solved.
        ranks: The ranks along each mesh dimension.
        level: Arithmetic of each rank's solutions and products.
        unit: Whether the diagonal is ones.
    """

    plan: Substitution
    ranks: tuple[Ranks, ...]
    level: PrecisionLevel
    unit: bool

    def __call__(self, A: Tensor, B: Tensor, alpha: Scalar) -> Tensor:
        """Return this rank's part of X with ``A @ X = alpha * B``; it is differentiable."""
        found: Tensor = _Solution.apply(A, B, alpha, self)  # type: ignore[no-untyped-call]
        return found

    def computed(self, A: Tensor, B: Tensor, alpha: Any) -> Tensor:
        """Return this rank's part of X with ``A @ X = alpha * B``."""
        plan, n = self.plan, self.plan.sizes[0]
        for move in plan.moves_a:
            A = moved(A, move, (n, n), self.ranks)
        for move in plan.moves_b:
            B = moved(B, move, plan.sizes, self.ranks)
        flags = (
            "left",
            "upper" if plan.upper else "lower",
            False,
            "unit" if self.unit else "nonunit",
        )
        if 0 in plan.by:
            found = self._by_rows(A, alpha * B, flags)
        else:
            found = level3.trsm(alpha, A, B, *flags, precision=precision_of(self.level))
        for move in plan.after:
            found = moved(found, move, plan.sizes, self.ranks)
        return found

    def _by_rows(self, A: Tensor, B: Tensor, flags: Any) -> Tensor:
        """Return this rank's rows of the solution, of its rows of A and of the right-hand side."""
        ranks, precision = self.ranks[self.plan.by.index(0)], precision_of(self.level)
        offsets = even_offsets(self.plan.sizes[0], ranks.size)
        order = self.plan.blocks
        rest = B
        for number, block in enumerate(order):
            columns = A[:, offsets[block] : offsets[block + 1]]
            if block == ranks.rank:
                rest = level3.trsm(1.0, columns, rest, *flags, precision=precision)
                solved = rest = rest.resolve_conj().contiguous()
            else:
                solved = rest.new_empty(columns.shape[1], rest.shape[1])
            if block == order[-1]:
                break
            start_broadcast(solved, ranks, block).wait()
            if ranks.rank in order[number + 1 :]:
                rest = level3.gemm(-1.0, columns, solved, 1.0, rest, precision=precision)
        return rest

    def triangle(self, part: Tensor) -> Tensor:
        """Return whether each element of this rank's part of A is in the triangle that is read."""
        first = [0, 0]
        for dim, ranks in zip(self.plan.a, self.ranks, strict=True):
            if dim is not None:
                first[dim] = even_offsets(self.plan.sizes[0], ranks.size)[ranks.rank]
        rows = first[0] + torch.arange(part.shape[0], device=part.device)[:, None]
        columns = first[1] + torch.arange(part.shape[1], device=part.device)
        distance = columns - rows if self.plan.upper else rows - columns
        return distance >= int(self.unit)


class _Solution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, A: Tensor, B: Tensor, alpha: Any, system: System) -> Tensor:
        """Return this rank's part of the solution."""
        found = system.computed(A, B, alpha)
        ctx.save_for_backward(A, found)
        ctx.alpha, ctx.system = alpha, system
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return this rank's part of the gradients."""
        A, X = ctx.saved_tensors
        system: System = ctx.system
        solved = replace(system, plan=system.plan.adjoint())(A.mH, grads[0], 1.0)
        by_a = None
        if ctx.needs_input_grad[0]:
            product = Product(system.plan.gradient(), system.ranks, system.level)
            whole = product(solved, X.mH, -1.0)
            by_a = torch.where(system.triangle(whole), whole, 0)
        by_b = ctx.alpha.conjugate() * solved if ctx.needs_input_grad[1] else None
        return by_a, by_b, None, None
