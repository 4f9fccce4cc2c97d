"""Triangular systems over the ranks of a mesh.

Along a mesh dimension the columns of the right-hand side are split, where ranks need all of A, or
its rows are: then the ranks solve for their rows one after another, and broadcast them. Few columns
are cheaper by rows, many by columns; the split is the one in which the busiest rank receives the
fewest bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trnblas import level3
from trnblas._paths.arguments import Scalar, sided_arguments
from trnblas._paths.flags import applied, is_left, is_unit, is_upper, transposition
from trnblas._paths.level_names import level_name
from trnblas.distributed.operands import (
    check_operand,
    constant,
    described,
    precision_of,
    split_of,
)
from trnblas.distributed.products import moved, product
from trnblas.distributed.schedule import Move, Schedule, Split, moves, schedule
from trnsci.core.arguments import agree, square
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.distributed.agreement import agreement
from trnsci.core.distributed.collectives import start_broadcast
from trnsci.core.distributed.groups import Ranks, ranks_of_mesh
from trnsci.core.distributed.layout import even_offsets, local_of, mesh_of, with_local
from trnsci.core.distributed.plans import Step

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor, Placement

__all__ = ["Substitution", "substitution", "trsm"]

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
        mesh = mesh_of(FUNCTION, A=A, B=B)
        ranks = ranks_of_mesh(FUNCTION, mesh)
        check_operand(FUNCTION, "A", A, mesh)
        check_operand(FUNCTION, "B", B, mesh)
        agree(FUNCTION, "A", A, "B", B)
        left, unit = is_left(FUNCTION, side), is_unit(FUNCTION, diag)
        upper, op = is_upper(FUNCTION, uplo), transposition(FUNCTION, "trans", trans, A)
        square(FUNCTION, "A", A)
        level = level_name(FUNCTION, precision, A)
        factor = constant(FUNCTION, "alpha", alpha)
        factor, _ = sided_arguments(FUNCTION, factor, A, B, 0, None, left)
        wanted = B.placements if placements is None else placements
        flipped = (op != "N") == left  # a system from the right is that of the transposes
        a = split_of(FUNCTION, "A", A.placements, mesh.ndim, "A", flipped)
        b = split_of(FUNCTION, "B", B.placements, mesh.ndim, "C", not left)
        x = split_of(FUNCTION, "placements", wanted, mesh.ndim, "C", not left)
        local_a, local_b = local_of(FUNCTION, "A", A), local_of(FUNCTION, "B", B)
        sizes = A.shape[0], B.shape[1 if left else 0]
        itemsize, triangle = A.dtype.itemsize, upper != flipped
        plan = substitution(sizes, tuple(mesh.shape), itemsize, a, b, x, triangle)
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
        describe(text)
    local_a = applied(op, local_a)
    if left:
        found = _solve(local_a, local_b, factor, unit, plan, ranks, level)
    else:
        found = _solve(local_a.mT, local_b.mT, factor, unit, plan, ranks, level).mT
    return with_local(found, mesh, wanted, B.shape)


@dataclass(frozen=True)
class Substitution:
    """How a triangular system is solved.

    Attributes:
        frame: Sizes, mesh, and the splits of A, the right-hand side and the solution.
        by: ``"m"`` or ``"n"`` along each mesh dimension: rows or columns of the right-hand side.
        upper: Whether the matrix is an upper triangle, so that its last rows are solved first.
        moves_a: Moves of A before.
        moves_b: Moves of the right-hand side before.
        after: Moves of the solution.
    """

    frame: Schedule
    by: Split
    upper: bool
    moves_a: tuple[Move, ...]
    moves_b: tuple[Move, ...]
    after: tuple[Move, ...]

    @property
    def blocks(self) -> list[int]:
        """The ranks that have rows, in the order of substitution; all but the last send them."""
        sizes = self.frame.parts("m", self.by.index("m"))
        found = [rank for rank, size in enumerate(sizes) if size]
        return found[::-1] if self.upper else found

    @property
    def steps(self) -> tuple[Step, ...]:
        """Collectives and computation, with the bytes and operations of each rank."""
        frame = self.frame
        found = [frame.step(m) for m in (*self.moves_a, *self.moves_b) if m.kind != "slice"]
        ranks = list(frame.coordinates)
        if "m" in self.by:
            dim = self.by.index("m")
            rows, sent = frame.parts("m", dim), self.blocks[:-1]
            counts = [
                frame.itemsize
                * frame.local_shape("C", self.by, at)[1]
                * sum(rows[block] for block in sent if block != at[dim])
                for at in ranks
            ]
            found.append(Step("broadcast", "rows of the solution", tuple(counts), len(sent)))
        read = [self._triangle(at) for at in ranks]
        parts = [frame.local_shape("C", self.by, at) for at in ranks]
        flops = tuple(2 * count * shape[1] for count, shape in zip(read, parts, strict=True))
        moved = tuple(
            frame.itemsize * (count + 2 * prod(shape))
            for count, shape in zip(read, parts, strict=True)
        )
        launches = len(self.blocks) if "m" in self.by else 1
        zeros = (0,) * len(ranks)
        found.append(
            Step("compute", "substitution", zeros, 0, flops, moved, launches=max(1, launches))
        )
        return (*found, *(frame.step(move) for move in self.after if move.kind != "slice"))

    def _triangle(self, at: tuple[int, ...]) -> int:
        """Return the elements of the triangle in the rows that a rank solves for."""
        n = self.frame.sizes[0]
        first, rows = 0, n
        if "m" in self.by:
            dim = self.by.index("m")
            offsets = even_offsets(n, self.frame.mesh[dim])
            first, rows = offsets[at[dim]], self.frame.parts("m", dim)[at[dim]]
        below = n - first - rows if self.upper else first  # columns outside of the diagonal block
        return rows * below + rows * (rows + 1) // 2

    @property
    def peak_bytes(self) -> tuple[int, ...]:
        """Bytes of operands, buffers and solution of each rank, at most."""
        return tuple(self.frame.itemsize * self._peak(at) for at in self.frame.coordinates)

    def _peak(self, at: tuple[int, ...]) -> int:
        def count(matrix: str, split: Split) -> int:
            return prod(self.frame.local_shape(matrix, split, at))

        given = count("A", self.frame.a) + count("C", self.frame.b)
        peak = held = 0
        for each in (self.moves_a, self.moves_b):
            last = 0
            for move in each:
                if move.kind != "slice":
                    old, new = count(move.matrix, move.old), count(move.matrix, move.new)
                    peak, last = max(peak, held + last + old + 2 * new), new
            held += last
        solved = count("C", self.by)
        panel = 0
        if "m" in self.by:
            widest = max(self.frame.parts("m", self.by.index("m")))
            panel = widest * self.frame.local_shape("C", self.by, at)[1]
        # The scaled right-hand side, its update, and rows of the solution; a copy of the triangle.
        triangle = self.frame.sizes[0] * self.frame.local_shape("C", self.by, at)[0]
        peak = max(peak, held + 3 * solved + 2 * panel + triangle)
        for move in self.after:
            old, new = count("C", move.old), count("C", move.new)
            peak = max(peak, held + solved + 2 * old + 2 * new)
        return given + peak

    def adjoint(self) -> Substitution:
        """Return the substitution with the conjugate transpose, of the gradient by B."""
        frame = self.frame
        swapped = tuple({"m": "k", "k": "m"}.get(index, "") for index in frame.a)
        sizes = frame.sizes[0], frame.sizes[2]
        split = (swapped, frame.c, frame.b)
        return substitution(sizes, frame.mesh, frame.itemsize, *split, not self.upper)

    def gradient(self) -> Schedule:
        """Return the product of the gradient by A."""
        frame = self.frame
        n, _, columns = frame.sizes
        left = tuple({"m": "m", "n": "k"}.get(index, "") for index in frame.b)
        right = tuple({"m": "n", "n": "k"}.get(index, "") for index in frame.c)
        out = tuple({"m": "m", "k": "n"}.get(index, "") for index in frame.a)
        return schedule((n, columns, n), frame.mesh, frame.itemsize, left, right, out)


@lru_cache(maxsize=256)
def substitution(
    sizes: tuple[int, int],
    mesh: tuple[int, ...],
    itemsize: int,
    a: Split,
    b: Split,
    x: Split,
    upper: bool,
) -> Substitution:
    """Return the substitution that moves the fewest bytes.

    Args:
        sizes: Order of A, and number of columns of the right-hand side.
        mesh: Number of ranks along each mesh dimension.
        itemsize: Bytes of an element.
        a: Split of A, by ``"m"`` (rows) and ``"k"`` (columns).
        b: Split of the right-hand side, by ``"m"`` (rows) and ``"n"`` (columns).
        x: Split of the solution.
        upper: Whether A is an upper triangle.
    """
    n, columns = sizes
    frame = Schedule((n, n, columns), mesh, itemsize, a, b, x, (), (), (), ())
    found = []
    for by in permutations("mn", len(mesh)):
        rows = tuple("m" if index == "m" else "" for index in by)
        paths = moves("A", a, rows, mesh), moves("C", b, by, mesh), moves("C", by, x, mesh)
        found.append(Substitution(frame, by, upper, *(tuple(path) for path in paths)))
    return min(found, key=_cost)


def _cost(candidate: Substitution) -> tuple[int, int, int]:
    steps = candidate.steps
    received = [sum(counts) for counts in zip(*(step.received for step in steps), strict=True)]
    flops = max(max(step.flops) for step in steps if step.kind == "compute")
    return max(received), flops, max(candidate.peak_bytes)


class _Solution(torch.autograd.Function):
    """The solution of a triangular system of parts."""

    @staticmethod
    def forward(
        ctx: Any,
        A: Tensor,
        B: Tensor,
        alpha: Any,
        unit: bool,
        plan: Substitution,
        ranks: tuple[Ranks, ...],
        level: PrecisionLevel,
    ) -> Tensor:
        """Return this rank's part of the solution."""
        found = _substituted(A, B, alpha, unit, plan, ranks, precision_of(level))
        ctx.save_for_backward(A, found)
        ctx.others = alpha, unit, plan, ranks, level
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return this rank's part of the gradients."""
        A, X = ctx.saved_tensors
        alpha, unit, plan, ranks, level = ctx.others
        solved = _solve(A.mH, grads[0], 1.0, unit, plan.adjoint(), ranks, level)
        by_a = None
        if ctx.needs_input_grad[0]:
            whole = product(solved, X.mH, -1.0, plan.gradient(), ranks, level)
            by_a = torch.where(_triangle(whole, unit, plan, ranks), whole, 0)
        by_b = alpha.conjugate() * solved if ctx.needs_input_grad[1] else None
        return by_a, by_b, None, None, None, None, None


def _solve(
    A: Tensor,
    B: Tensor,
    alpha: Scalar,
    unit: bool,
    plan: Substitution,
    ranks: tuple[Ranks, ...],
    level: PrecisionLevel,
) -> Tensor:
    found: Tensor = _Solution.apply(A, B, alpha, unit, plan, ranks, level)  # type: ignore[no-untyped-call]
    return found


def _substituted(
    A: Tensor,
    B: Tensor,
    alpha: Scalar,
    unit: bool,
    plan: Substitution,
    ranks: tuple[Ranks, ...],
    precision: PrecisionLevel | None,
) -> Tensor:
    """Return this rank's part of the solution of ``A @ X = alpha * B``."""
    for move in plan.moves_a:
        A = moved(A, move, plan.frame, ranks)
    for move in plan.moves_b:
        B = moved(B, move, plan.frame, ranks)
    flags = "left", "upper" if plan.upper else "lower", False, "unit" if unit else "nonunit"
    if "m" in plan.by:
        found = _by_rows(A, alpha * B, flags, plan, ranks[plan.by.index("m")], precision)
    else:
        found = level3.trsm(alpha, A, B, *flags, precision=precision)
    for move in plan.after:
        found = moved(found, move, plan.frame, ranks)
    return found


def _by_rows(
    A: Tensor,
    B: Tensor,
    flags: Any,
    plan: Substitution,
    ranks: Ranks,
    precision: PrecisionLevel | None,
) -> Tensor:
    """Return this rank's rows of the solution, of its rows of A and of the right-hand side."""
    offsets = even_offsets(plan.frame.sizes[0], ranks.size)
    order = plan.blocks
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


def _triangle(part: Tensor, unit: bool, plan: Substitution, ranks: tuple[Ranks, ...]) -> Tensor:
    """Return whether each element of this rank's part of A is in the triangle that is read."""
    first = []
    for index in "mk":
        dim = plan.frame.a.index(index) if index in plan.frame.a else None
        size = plan.frame.sizes[0]
        first.append(
            0 if dim is None else even_offsets(size, plan.frame.mesh[dim])[ranks[dim].rank]
        )
    rows = first[0] + torch.arange(part.shape[0], device=part.device)[:, None]
    columns = first[1] + torch.arange(part.shape[1], device=part.device)
    distance = columns - rows if plan.upper else rows - columns
    return distance >= int(unit)
