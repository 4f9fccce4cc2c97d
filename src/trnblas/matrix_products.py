"""Products of general matrices: ``gemm``, and ``gemmt`` for one triangle of a product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from trnblas._library import LIBRARY, kernels_wanted
from trnblas._paths.arguments import (
    TRANSPOSED,
    Product,
    Scalar,
    applied,
    broadcast_batch,
    checked_product,
    is_upper,
    widened,
)
from trnblas._paths.launches import gemm_launch, layout
from trnblas._paths.levels import level_of, multiply_at, targeted
from trnblas._paths.products import matrix_product, written_product
from trnblas._paths.triangles import one_triangle, triangle_product
from trnblas._precise.ladder import Level
from trnsci.core.arguments import agree, delivered
from trnsci.core.backend.derivatives import Gradients, Needed
from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.precision import CHOSEN, PrecisionLevel
from trnsci.core.backend.update import Multiply, Update
from trnsci.core.errors import ShapeError
from trnsci.core.evidence import product_bound
from trnsci.core.examples import Case, example
from trnsci.core.numbers.conversions import dtype_name, widest
from trnsci.core.numbers.planes import embedded, joined, parts
from trnsci.core.numbers.products import is_number, scaled
from trnsci.core.testing import random_tensor, unit_roundoff
from trnsci.core.tiles.hardware import TILE

__all__ = ["gemm", "gemmt"]


def gemm(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    transA: bool | str = False,
    transB: bool | str = False,
    *,
    out_dtype: torch.dtype | None = None,
    precision: PrecisionLevel | None = None,
    target_forward_error: float | None = None,
    componentwise: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * op(A) @ op(B) + beta * C``.

    Args:
        alpha: Factor of the product.
        beta: Factor of C.
        A: Matrix (m, k), (k, m) if transposed, or a batch of such matrices.
        B: Matrix (k, n), (n, k) if transposed, or a batch that broadcasts with that of A.
        C: Accumulator, broadcast to the result's (..., m, n).
        transA: Transposition of A.
        transB: Transposition of B.
        out_dtype: Dtype of C and of the result: that of A and B (None), or float32 if A and B are
            float16, bfloat16 or float8.
        precision: Arithmetic of the product of float32 or float64 matrices, or of complex ones:
            ``"bfloat16"``, ``"float16x3"``, ``"float32"``, or ``"doublefloat"``, which gives
            thirteen digits on a NeuronCore: every part of an entry of op(A) @ op(B) is within
            2**-45 times the 2-norms of its row and column. None for the level of
            ``trnblas.precision``, float32 by default. Torch computes at least as accurately.
        target_forward_error: The largest error of a part of an entry of op(A) @ op(B), relative to
            the 2-norms of its row and column: the cheapest level whose bound admits it is chosen,
            and the fewest slices at ``"doublefloat"``. float64 matrices have only that level.
        componentwise: Whether the bound of each entry's error is 2**-45, or the target, times the
            same entry of |op(A)| @ |op(B)|, in place of the 2-norms. At ``"doublefloat"`` this
            takes more slices for rows and columns whose entries differ widely in magnitude. A
            kernel refuses operands that need more than 16 slices.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ or have no such precision, or a factor is incompatible.
        FlagError: An option is invalid, no level admits the target, or beta is not 0 without C.
    """
    if out_dtype is not None:
        A, B = widened("gemm", A, B, out_dtype)
    agree("gemm", "A", A, "B", B)
    product = checked_product("gemm", alpha, A, B, beta, C, transA, transB)
    if target_forward_error is not None or componentwise:
        level = targeted("gemm", precision, target_forward_error, componentwise, product)
    elif precision is None and not CHOSEN.used:
        level = None
    else:
        level = level_of("gemm", precision, A)
    result = computed(product, level, out)
    return result if out is None or result is out else delivered("gemm", result, out)


def computed(product: Product, level: Level | None, out: Tensor | None = None) -> Tensor:
    """Return a product of validated arguments, written to ``out`` if torch can do so."""
    choice = kernels_wanted()
    if level is None and choice is None:
        return _by_torch(product, out)
    alpha, A, B, beta, C, trans_a, trans_b, shape = product
    if trans_a == "C":  # operations transpose only
        A, trans_a = A.conj(), "T"
    if trans_b == "C":
        B, trans_b = B.conj(), "T"
    if len(shape) == 2:
        return GEMM.updated(alpha, (A, B), beta, C, trans_a, trans_b, level=level, choice=choice)
    if choice is not None:  # kernels take one batch dimension
        A, B = one_batch(A, shape[:-2]), one_batch(B, shape[:-2])
        C = None if C is None else C.expand(shape).flatten(0, -3)
    flags = trans_a, trans_b
    found = BATCHED_GEMM.updated(alpha, (A, B), beta, C, *flags, level=level, choice=choice)
    return found.reshape(shape)


def _by_torch(product: Product, out: Tensor | None) -> Tensor:
    """Return a product by the torch routine that includes factors and C."""
    alpha, A, B, beta, C, trans_a, trans_b, _ = product
    if trans_a != "N":
        A = applied(trans_a, A)
    if trans_b != "N":
        B = applied(trans_b, B)
    if isinstance(out, Tensor) and written_product(alpha, A, B, beta, C, out):
        return out
    return matrix_product(alpha, A, B, beta, C)


def one_batch(matrices: Tensor, batch: tuple[int, ...]) -> Tensor:
    """Return a single matrix unchanged, and a batch with one batch dimension."""
    if matrices.ndim == 2:
        return matrices
    return matrices.expand(*batch, *matrices.shape[-2:]).flatten(0, -3)


def _gemm(multiply: Multiply, A: Tensor, B: Tensor, trans_a: str, trans_b: str) -> Tensor:
    return multiply(applied(trans_a, A), applied(trans_b, B))


def _gemm_shape(A: Tensor, B: Tensor, trans_a: str, trans_b: str) -> tuple[int, ...]:
    rows, columns = A.shape[-2 if trans_a == "N" else -1], B.shape[-1 if trans_b == "N" else -2]
    return (*broadcast_batch("gemm", A, B), rows, columns)


def _gemm_flops(A: Tensor, B: Tensor, trans_a: str, trans_b: str) -> float:
    depth = A.shape[-1 if trans_a == "N" else -2]
    return 2.0 * prod(_gemm_shape(A, B, trans_a, trans_b)) * depth


def _gemm_by_parts(
    real: Callable[..., Tensor],
    alpha: float,
    A: Tensor,
    B: Tensor,
    beta: float,
    C: Tensor | None,
    *flags: str,
) -> Tensor:
    """Return a product of complex matrices; the kernel reads their parts from the same memory.

    Up to a depth of 64, both parts fit in one tile of the contraction. Then one product of real
    matrices of twice the depth is computed, which needs half as many instructions.
    """
    added = None if C is None else parts(C)
    left, right = (applied(trans, x) for trans, x in zip(flags, (A, B), strict=True))
    if 2 * left.shape[-1] <= TILE:
        return joined(real(alpha, parts(left), embedded(right), beta, added, "N", "N"))
    return joined(real(alpha, parts(A), parts(B), beta, added, *flags, 2))


def _gemm_pullback(
    grad: Tensor, needed: Needed, alpha: float, A: Tensor, B: Tensor, trans_a: str, trans_b: str
) -> Gradients:
    """Return G op(B)^T for A and op(A)^T G for B, each transposed like its operand."""
    for_a = for_b = None
    if needed[0]:
        if trans_a == "N":
            for_a = multiplied(grad, B, "N", TRANSPOSED[trans_b], alpha)
        else:
            for_a = multiplied(B, grad, trans_b, "T", alpha)
        for_a = for_a.sum_to_size(A.shape)
    if needed[1]:
        if trans_b == "N":
            for_b = multiplied(A, grad, TRANSPOSED[trans_a], "N", alpha)
        else:
            for_b = multiplied(grad, A, "T", trans_a, alpha)
        for_b = for_b.sum_to_size(B.shape)
    return for_a, for_b


def _gemm_batched(info: Any, in_dims: Sequence[int | None], *args: Any) -> tuple[Tensor, int]:
    """Return a batch of products in one launch; a shared operand is not expanded."""
    alpha, A, B, beta, C, *flags = args
    size = info.batch_size
    left, right = in_front(A, in_dims[1]), in_front(B, in_dims[2])
    if left.ndim == right.ndim == 2:
        left = left.expand(size, *A.shape)
    if C is not None:
        C = C.expand(size, *C.shape) if in_dims[4] is None else in_front(C, in_dims[4])
    return BATCHED_GEMM(alpha, left, right, beta, C, *flags), 0


def in_front(x: Tensor, dim: int | None) -> Tensor:
    """Return an argument of a ``vmap`` rule with its batch dimension, if any, in front."""
    return x if dim is None else x.movedim(dim, 0)


def multiplied(A: Tensor, B: Tensor, trans_a: str, trans_b: str, alpha: float = 1.0) -> Tensor:
    """Return ``alpha * op(A) @ op(B)``, for derivatives, by the operation that takes A and B."""
    product = GEMM if A.ndim == B.ndim == 2 else BATCHED_GEMM
    result: Tensor = product(alpha, A, B, 0.0, None, trans_a, trans_b)
    return result


def complex_product(left: Tensor, right: Tensor, triangle: bool = False) -> Tensor:
    """Return a product by the operation, for updates whose kernels are real."""
    batch = broadcast_batch("gemm", left, right)
    shape = (*batch, left.shape[-2], right.shape[-1])
    return computed(Product(1.0, left, right, 0.0, None, "N", "N", shape), None)


def _matrices() -> tuple[Tensor, Tensor]:
    return random_tensor(150, 260), random_tensor(260, 530, seed=1)


def _wide_matrices() -> tuple[Tensor, Tensor]:
    """Return matrices in float64 that float32 cannot represent."""
    a, b = random_tensor(150, 260).double(), random_tensor(260, 140, seed=1).double()
    return a + a.flip(0) * 2.0**-30, b + b.flip(1) * 2.0**-30


def _doublefloat_bound(a: Tensor, b: Tensor) -> float:
    """Return the promise of 2**-45 of norms, and the roundings of the float64 reference."""
    rounded = a.shape[-1] * unit_roundoff(torch.float64)
    return (2.0**-45 + rounded) * float(a.norm() * b.norm() / (a @ b).norm())


def _float16x3_bound(a: Tensor, b: Tensor) -> float:
    """Return the bound from float16 slices and the one left out, and that of three times K sums."""
    sums = a.shape[-1] * unit_roundoff(torch.float32)
    return (3 * 2.0**-22 / sums + 3) * product_bound(a, b)


_PRODUCT: dict[str, Any] = {
    "product": _gemm,
    "shape": _gemm_shape,
    "launch": gemm_launch,
    "by_parts": _gemm_by_parts,
    "pullback": _gemm_pullback,
    "multiply_at": multiply_at,
    "batches": True,
    "flops": _gemm_flops,
}
GEMM = Update(
    LIBRARY,
    "gemm",
    batched=_gemm_batched,
    examples={"gemm": lambda: example(1.0, random_tensor(4, 4), random_tensor(4, 4, seed=1))},
    evidence=(
        Case(
            "gemm",
            "GEMM",
            _matrices,
            lambda a, b: gemm(1.0, a, b),
            lambda a, b: a.double() @ b.double(),
            "torch in float64",
            product_bound,
        ),
        Case(
            "complex_gemm",
            "complex GEMM",
            lambda: tuple(random_tensor(*x, dtype=torch.complex64) for x in ((70, 130), (130, 90))),
            lambda a, b: gemm(1.0, a, b),
            lambda a, b: a.to(torch.complex128) @ b.to(torch.complex128),
            "torch in float64",
            lambda a, b: product_bound(parts(a), embedded(b)),
        ),
        Case(
            "doublefloat_gemm",
            "product in pairs of float32",
            _wide_matrices,
            lambda a, b: gemm(1.0, a, b, precision="doublefloat"),
            lambda a, b: a @ b,
            "torch in float64",
            _doublefloat_bound,
        ),
        Case(
            "float16x3_gemm",
            "product by three of float16",
            _matrices,
            lambda a, b: gemm(1.0, a, b, precision="float16x3"),
            lambda a, b: a.double() @ b.double(),
            "torch in float64",
            _float16x3_bound,
        ),
        Case(
            "bfloat16_gemm",
            "product of float32 rounded to bfloat16",
            # bfloat16 can represent them, so that only sums are rounded.
            lambda: tuple(x.bfloat16().float() for x in _matrices()),
            lambda a, b: gemm(1.0, a, b, precision="bfloat16"),
            lambda a, b: a.double() @ b.double(),
            "torch in float64",
            product_bound,
        ),
    ),
    **_PRODUCT,
)
BATCHED_GEMM = Update(
    LIBRARY,
    "batched_gemm",
    examples={
        "batched_gemm": lambda: example(
            1.0, random_tensor(4, 4)[None], random_tensor(4, 4, seed=1)[None]
        ),
        "grouped_gemm": lambda: example(
            1.0,
            [random_tensor(4, 4), random_tensor(4, 4, seed=1)],
            [random_tensor(4, 4, seed=1), random_tensor(4, 4, seed=2)],
        ),
    },
    evidence=(
        Case(
            "batched_gemm",
            "batched GEMM",
            lambda: (random_tensor(3, 100, 140), random_tensor(3, 140, 90, seed=1)),
            lambda a, b: gemm(1.0, a, b),
            lambda a, b: a.double() @ b.double(),
            "torch in float64",
            product_bound,
        ),
    ),
    **_PRODUCT,
)


# -- one triangle ----------------------------------------------------------------------------------


def gemmt(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    uplo: str = "upper",
    transA: bool | str = False,
    transB: bool | str = False,
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * op(A) @ op(B) + beta * C``.

    The other triangle is copied from C. It is zero if C is absent or ``beta == 0``.

    Args:
        alpha: Factor of the product.
        beta: Factor of C.
        A: Matrix (n, k), (k, n) if transposed, or a batch of such matrices.
        B: Matrix (k, n), (n, k) if transposed, or a batch that broadcasts with that of A.
        C: Accumulator, broadcast to the result's (..., n, n).
        uplo: Triangle that is computed.
        transA: Transposition of A.
        transB: Transposition of B.
        precision: Arithmetic of the product; see ``gemm``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible, or the product is not square.
        DTypeError: The dtypes differ, or a factor is incompatible.
        FlagError: An option is invalid, or beta is not 0 without C.
    """
    agree("gemmt", "A", A, "B", B)
    upper = is_upper("gemmt", uplo)
    alpha, A, B, beta, C, trans_a, trans_b, shape = checked_product(
        "gemmt", alpha, A, B, beta, C, transA, transB
    )
    if shape[-2] != shape[-1]:
        raise ShapeError(f"gemmt: op(A) @ op(B) must be square, got shape {shape[-2:]}")
    level = level_of("gemmt", precision, A)
    if C is not None and not is_number(beta, 0):
        # The triangle of the product is added to both of C, of which one has its factor already.
        C = C.expand(shape)
        wide = widest(C) if level is not None and level.name == "doublefloat" else C
        if not is_number(beta, 1):
            C = one_triangle(scaled(beta, wide), upper) + one_triangle(wide, not upper, 1)
        beta = 1
    result = GEMMT.updated(alpha, (A, B), beta, C, upper, trans_a, trans_b, level=level)
    return delivered("gemmt", result, out)


def _gemmt(
    multiply: Multiply, A: Tensor, B: Tensor, upper: bool, trans_a: str, trans_b: str
) -> Tensor:
    left, right = applied(trans_a, A), applied(trans_b, B)
    if upper:
        return one_triangle(multiply(left, right, triangle=True), True)
    return one_triangle(multiply(right.mT, left.mT, triangle=True), True).mT


def _gemmt_in_halves(
    alpha: Scalar, A: Tensor, B: Tensor, upper: bool, trans_a: str, trans_b: str
) -> Tensor:
    return scaled(alpha, triangle_product(applied(trans_a, A), applied(trans_b, B), upper))


def _gemmt_launch(
    launch: Launcher, alpha: float, A: Tensor, B: Tensor, beta: float, C: Tensor | None, *flags: Any
) -> Tensor:
    from trnblas._kernels.gemmt import gemmt
    from trnblas._kernels.tiling_syrk import syrk_tiling

    upper, trans_a, trans_b = flags
    size, depth = applied(trans_a, A).shape
    dense = layout(trans_a != "N" and trans_b == "N")
    blocks = syrk_tiling(size, depth, dtype_name(A.dtype), layout=dense, operands=2).blocks
    return launch(gemmt, A, B, C, alpha, beta, trans_a != "N", trans_b != "N", upper, blocks)


def _gemmt_pullback(
    grad: Tensor, needed: Needed, alpha: float, A: Tensor, B: Tensor, upper: bool, *trans: str
) -> Gradients:
    """Return the gradients of ``gemm`` for one triangle of G."""
    return _gemm_pullback(one_triangle(grad, upper), needed, alpha, A, B, *trans)


GEMMT = Update(
    LIBRARY,
    "gemmt",
    product=_gemmt,
    shape=lambda A, B, upper, trans_a, trans_b: _gemm_shape(A, B, trans_a, trans_b),
    launch=_gemmt_launch,
    pullback=_gemmt_pullback,
    multiply_at=multiply_at,
    complex_product=complex_product,
    host=_gemmt_in_halves,
    flops=lambda A, B, upper, trans_a, trans_b: _gemm_flops(A, B, trans_a, trans_b) / 2,
    examples={"gemmt": lambda: example(1.0, random_tensor(4, 4), random_tensor(4, 4, seed=1))},
    evidence=(
        Case(
            "gemmt",
            "triangle of a product",
            lambda: (random_tensor(150, 200), random_tensor(200, 150, seed=1)),
            lambda a, b: torch.triu(gemmt(1.0, a, b)),
            lambda a, b: torch.triu(a.double() @ b.double()),
            "torch in float64",
            lambda a, b: 2 * product_bound(a, b),
        ),
    ),
)
