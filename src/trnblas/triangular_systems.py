"""Systems of a triangular matrix: ``trsm``, in the arithmetic of the dtype or refined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from trnblas._library import LIBRARY, kernels_wanted
from trnblas._paths.arguments import (
    Scalar,
    TriangleFlags,
    applied,
    broadcast_batch,
    sided_arguments,
    triangle_arguments,
)
from trnblas._paths.level_products import aligned_batch, doublefloat_product
from trnblas._paths.levels import level_of, unlowered
from trnblas._paths.triangles import Triangle, triangular
from trnblas._precise.ladder import Level
from trnblas.matrix_products import in_front, multiplied, one_batch
from trnsci.core.arguments import agree, delivered, floating
from trnsci.core.backend.derivatives import Gradients, Needed, Tangents, total
from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.operation import Operation
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.examples import Case, Example, example
from trnsci.core.numbers.conversions import widest
from trnsci.core.numbers.planes import embedded, joined, parts, real_length
from trnsci.core.numbers.products import is_number, scaled, vanished
from trnsci.core.testing import random_tensor, unit_roundoff

__all__ = ["trsm"]


def trsm(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    side: str = "left",
    uplo: str = "upper",
    trans: bool | str = False,
    diag: str = "nonunit",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Solve ``op(A) @ X = alpha * B`` or ``X @ op(A) = alpha * B`` for X, with a triangular A.

    A zero on the diagonal gives infinities or NaN, not an exception. float16 and bfloat16 are
    solved in float32 and rounded.

    Args:
        alpha: Factor.
        A: Square matrix of which the triangle ``uplo`` is read, or a batch of such matrices.
        B: Matrix, or a batch that broadcasts with that of A.
        side: Side of X on which A is.
        uplo: Triangle of A.
        trans: Transposition of A.
        diag: ``"unit"`` if the diagonal of A is ones and not read.
        precision: Arithmetic of the product; see ``gemm``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ or are integers, or alpha is incompatible.
        FlagError: An option is invalid.
    """
    agree("trsm", "A", A, "B", B)
    flags = triangle_arguments("trsm", A, side, uplo, trans, diag)
    return delivered("trsm", solved("trsm", alpha, A, B, flags, precision), out)


def solved(
    function: str,
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    flags: TriangleFlags,
    precision: PrecisionLevel | None,
) -> Tensor:
    """Return ``trsm`` or ``batched_trsm`` of operands with equal dtype and device."""
    floating(function, "A", A)
    alpha, _ = sided_arguments(function, alpha, A, B, 0, None, flags[0])
    return solution(alpha, A, B, flags, level_of(function, precision, A))


def solution(
    alpha: Scalar, A: Tensor, B: Tensor, flags: TriangleFlags, level: Level | None
) -> Tensor:
    """Return ``trsm`` of validated arguments: in float32, or refined at doublefloat."""
    left, upper, trans, unit = flags
    if trans == "C":  # operations transpose only
        A, flags = A.conj(), (left, upper, "T", unit)
    if is_number(alpha, 0):
        return vanished((*broadcast_batch("trsm", A, B), *B.shape[-2:]), A, B)
    if level is None:
        return _own_solution(alpha, A, B, *flags)
    if level.name == "doublefloat":
        found = DOUBLEFLOAT_TRSM(1.0, widest(A), scaled(alpha, widest(B)), *flags)
        return found.to(A.dtype)
    return unlowered(level, A, _own_solution, alpha, A, B, *flags)


def _own_solution(alpha: Scalar, A: Tensor, B: Tensor, *flags: Any) -> Tensor:
    """Return the solution in the arithmetic of the dtype."""
    if not kernels_wanted():
        return _trsm(alpha, A, B, *flags)
    if isinstance(alpha, (Tensor, complex)):
        alpha, B = 1.0, scaled(alpha, B)
    batch = broadcast_batch("trsm", A, B)
    if not batch:
        return TRSM(alpha, A, B, *flags)
    sides = B.expand(*batch, *B.shape[-2:])
    found = BATCHED_TRSM(alpha, one_batch(A, batch), sides.flatten(0, -3), *flags)
    return found.reshape(sides.shape)


# Dtypes of torch.linalg.solve_triangular.
_SOLVABLE = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def _trsm(
    alpha: Scalar, A: Tensor, B: Tensor, left: bool, upper: bool, trans: str, unit: bool
) -> Tensor:
    dtype = A.dtype
    if dtype not in _SOLVABLE:
        wide = torch.complex64 if dtype.is_complex else torch.float32
        A, B = A.to(wide), B.to(wide)
    found = torch.linalg.solve_triangular(
        applied(trans, A),
        scaled(alpha, B),
        upper=upper == (trans == "N"),
        left=left,
        unitriangular=unit,
    )
    return found if found.dtype is dtype else found.to(dtype)


def trsm_by_parts(
    real: Callable[..., Tensor],
    alpha: float,
    A: Tensor,
    B: Tensor,
    left: bool,
    upper: bool,
    trans: str,
    unit: bool,
) -> Tensor:
    """Return the solution by a triangle of blocks, as ``op(A)`` on the left of vectors.

    Rows of A and B are divided by the diagonal of A: blocks on the diagonal are triangular only for
    real numbers, and a unit diagonal is exact.
    """
    plain = (trans == "N") == left
    matrix, sides, above = A if plain else A.mT, B if left else B.mT, upper == plain
    if not unit:
        diagonal = torch.diagonal(matrix, dim1=-2, dim2=-1)[..., None]
        matrix, sides = matrix / diagonal, sides / diagonal
    blocks = embedded(triangular(matrix, above, True).mT).mT
    solved = joined(real(alpha, blocks, parts(sides.mT).mT, True, above, "N", True).mT)
    return solved.mT if left else solved


def trsm_launch(launch: Launcher, alpha: float, A: Tensor, B: Tensor, *flags: Any) -> Tensor:
    from trnblas._kernels.trsm import batched_trsm, trsm

    left, upper, trans, unit = flags
    kernel = trsm if B.ndim == 2 else batched_trsm
    return launch(kernel, A, B, alpha, left, upper, trans != "N", unit)


class _Solution(Operation):
    """A triangular solution; derivatives are solutions and products of the same arithmetic.

    Args:
        name: Name of the operation.
        solve: The operation for a matrix and right-hand sides of any number of dimensions.
        multiply: The product; see ``multiplied``.
        **declaration: Other arguments of ``Operation``.
    """

    def __init__(
        self,
        name: str,
        solve: Callable[..., Tensor],
        multiply: Callable[..., Tensor],
        **declaration: Any,
    ) -> None:
        self._solve, self._multiply = solve, multiply
        super().__init__(
            LIBRARY,
            name,
            backward=self._gradients,
            jvp=self._tangent,
            from_result=True,
            flops=lambda alpha, A, B, *flags: 1.0 * B.numel() * A.shape[-1],
            by_parts=trsm_by_parts,
            unsuited=_too_large,
            **declaration,
        )

    def _gradients(
        self,
        grad: Tensor,
        needed: Needed,
        alpha: float,
        A: Tensor,
        B: Tensor,
        *flags: Any,
        result: Tensor,
    ) -> Gradients:
        """Return the triangle of -Z X^T for A and alpha Z for B, where op(A)^T Z = G."""
        triangle = Triangle(*flags)
        pulled = self._solve(1.0, A, grad, *triangle.transposed())
        for_a = for_b = None
        if needed[1]:
            outer = self._multiply(*triangle.by_a(pulled, result), -1.0)
            for_a = triangle.elements(outer.sum_to_size(A.shape))
        if needed[2]:
            for_b = (alpha * pulled).sum_to_size(B.shape)
        return None, for_a, for_b, None, None, None, None

    def _tangent(
        self, tangents: Tangents, alpha: float, A: Tensor, B: Tensor, *flags: Any, result: Tensor
    ) -> Tensor:
        """Return the solution with right-hand side alpha TB - op(TA) X, where X is the result."""
        triangle = Triangle(*flags)
        of_a, of_b = tangents[1:3]
        parts = []
        if of_b is not None:
            parts.append(alpha * of_b)
        if of_a is not None:
            inside, op = triangle.elements(of_a), triangle.trans
            operands = (inside, result, op, "N") if triangle.left else (result, inside, "N", op)
            parts.append(self._multiply(*operands, -1.0))
        return self._solve(1.0, A, total(parts), *triangle)


def _trsm_batched(
    info: Any, in_dims: Sequence[int | None], alpha: float, A: Tensor, B: Tensor, *flags: Any
) -> tuple[Tensor, int]:
    """Return a batch of solutions in one launch; a shared matrix is not expanded."""
    sides = in_front(B, in_dims[2])
    if in_dims[2] is None:
        sides = sides.expand(info.batch_size, *B.shape)
    return BATCHED_TRSM(alpha, in_front(A, in_dims[1]), sides, *flags), 0


_SCHEMA = "(float alpha, Tensor A, Tensor B, bool left, bool upper, str trans, bool unit) -> Tensor"


def _solved(alpha: float, A: Tensor, B: Tensor, *flags: Any) -> Tensor:
    found: Tensor = (TRSM if B.ndim == 2 else BATCHED_TRSM)(alpha, A, B, *flags)
    return found


def _too_large(alpha: float, A: Tensor, *rest: Any) -> str:
    from trnblas._kernels.trsm import MAX_ORDER

    order = real_length(A, A.shape[-1])
    return f"the kernel solves up to order {MAX_ORDER}, not {order}" if order > MAX_ORDER else ""


def _spd_example() -> Example:
    a = random_tensor(4, 4)
    return example(1.0, a @ a.mT + 4 * torch.eye(4), random_tensor(4, 4, seed=1))


def _system(n: int = 150, columns: int = 70, *batch: int) -> tuple[Tensor, Tensor]:
    """Return well-conditioned upper triangles and right-hand sides, for evidence."""
    off = torch.triu(random_tensor(*batch, n, n), 1) / n
    return off + 2 * torch.eye(n), random_tensor(*batch, n, columns, seed=1)


def _solve_bound(a: Tensor, b: Tensor) -> float:
    """Return n roundings times the condition of the triangle (Higham, theorem 8.5)."""
    condition = float(torch.linalg.cond(a.double()).max())
    return 2 * a.shape[-1] * unit_roundoff(torch.float32) * condition


TRSM = _Solution(
    "trsm",
    _solved,
    multiplied,
    reference=_trsm,
    launch=trsm_launch,
    schema=_SCHEMA,
    batched=_trsm_batched,
    examples={"trsm": _spd_example},
    evidence=(
        Case(
            "trsm",
            "triangular solve",
            _system,
            lambda a, b: trsm(1.0, a, b),
            lambda a, b: torch.linalg.solve_triangular(a.double(), b.double(), upper=True),
            "torch in float64",
            _solve_bound,
        ),
    ),
)
BATCHED_TRSM = _Solution(
    "batched_trsm",
    _solved,
    multiplied,
    reference=_trsm,
    launch=trsm_launch,
    schema=_SCHEMA,
    examples={
        "batched_trsm": lambda: example(1.0, *(x[None] for x in _spd_example().args[1:])),
    },
    evidence=(
        Case(
            "batched_trsm",
            "batched triangular solve",
            lambda: _system(60, 20, 3),
            lambda a, b: trsm(1.0, a, b),
            lambda a, b: torch.linalg.solve_triangular(a.double(), b.double(), upper=True),
            "torch in float64",
            _solve_bound,
        ),
    ),
)


# -- systems at doublefloat ------------------------------------------------------------------------


def _refined(
    alpha: Scalar, A: Tensor, B: Tensor, left: bool, upper: bool, trans: str, unit: bool
) -> Tensor:
    return _trsm(alpha, widest(A), widest(B), left, upper, trans, unit).to(A.dtype)


def _refined_batched(
    info: Any, in_dims: Sequence[int | None], alpha: float, A: Tensor, B: Tensor, *flags: Any
) -> tuple[Tensor, int]:
    return DOUBLEFLOAT_TRSM(alpha, *aligned_batch(in_dims[1:], A, B), *flags), 0


def _refined_solve(alpha: float, A: Tensor, B: Tensor, *flags: Any) -> Tensor:
    found: Tensor = DOUBLEFLOAT_TRSM(alpha, A, B, *flags)
    return found


def _refined_product(A: Tensor, B: Tensor, trans_a: str, trans_b: str, alpha: float) -> Tensor:
    return alpha * doublefloat_product(applied(trans_a, A), applied(trans_b, B))


DOUBLEFLOAT_TRSM = _Solution(
    "doublefloat_trsm",
    _refined_solve,
    _refined_product,
    reference=_refined,
    launch="trnblas._paths.level_launches:doublefloat_trsm",
    schema=_SCHEMA,
    batched=_refined_batched,
    dtypes=("float32", "float64"),
)
