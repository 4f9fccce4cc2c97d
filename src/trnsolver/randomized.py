"""Randomized methods: a few products with a matrix instead of a factorization.

Random numbers are from trnrand: a seed gives the same numbers on every device, and results that
differ by rounding only. ``seed`` is an integer or a ``trnrand.Generator``, which is advanced.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnblas import gemm
from trnrand import Generator, bernoulli, normal
from trnsci.core.arguments import whole
from trnsci.core.errors import (
    FlagError,
    NotPositiveDefiniteError,
    ShapeError,
)
from trnsci.core.errors.matrices import TorchLinAlgError
from trnsci.core.numbers.values import finite, only_finite, power_below
from trnsolver._eigen.few_pairs import largest_magnitude
from trnsolver._factors.forms import symmetric_part
from trnsolver._library import LIBRARY
from trnsolver._paths.arguments import (
    any_matrix,
    in_full_precision,
    order_and_dtype,
    restored,
    restored_parts,
    square_matrix,
)
from trnsolver.eigen import Eigenpairs, run_eigh
from trnsolver.operators import OperatorLike, as_operator
from trnsolver.orthogonal import run_qr
from trnsolver.singular_values import SVDFactors, run_svd

__all__ = ["Nystrom", "Seed", "Trace", "eigh_randomized", "hutch_plus_plus", "nystrom", "rsvd"]

Seed = int | Generator


class Nystrom(NamedTuple):
    """``A ~ U @ diag(eigenvalues) @ U.mH`` for positive semidefinite A; values descending."""

    U: Tensor
    eigenvalues: Tensor


class Trace(NamedTuple):
    """An estimate of a trace.

    Attributes:
        value: The estimate, a real tensor of no dimension in float64.
        standard_error: Standard deviation of the estimate, from its samples; NaN for one sample.
        matvecs: Number of products with the matrix.
    """

    value: Tensor
    standard_error: float
    matvecs: int


@in_full_precision
def rsvd(
    A: Tensor, k: int, *, oversampling: int = 10, power_iterations: int = 2, seed: Seed = 0
) -> SVDFactors:
    """Return the k largest singular values with their vectors, from a random sketch.

    If singular values decay, the expected error is within a small factor of that of the best
    approximation of rank k (Halko, Martinsson and Tropp 2011). If they decay slowly, increase
    ``power_iterations``.

    Args:
        A: Matrices (m, n).
        k: Rank of the result.
        oversampling: Columns of the sketch beyond k.
        power_iterations: Number of products of the sketch with ``A @ A.mH``.
        seed: Seed of the sketch.

    Raises:
        FlagError: k is not between 1 and the shorter side.
        NotFiniteError: A has a NaN or an infinity.
    """
    work = any_matrix("rsvd", "A", A)
    block = sketch_width("rsvd", k, min(work.shape[-2:]), oversampling, power_iterations)
    q = _range(work, sketch(work, block, seed), power_iterations)
    u, s, vh = run_svd("rsvd", gemm(1.0, q, work, transA="C"))
    if not only_finite(s):
        finite("rsvd", "A", work)
    parts = ((q @ u)[..., :k], s[..., :k], vh[..., :k, :])
    return SVDFactors(*(restored(part, A.dtype) for part in parts))


@in_full_precision
def eigh_randomized(
    A: Tensor, k: int, oversampling: int = 10, *, power_iterations: int = 2, seed: Seed = 0
) -> Eigenpairs:
    """Return the k eigenvalues of largest magnitude, ascending, with their vectors.

    Args:
        A: Symmetric (Hermitian) matrices.
        k: Number of pairs.
        oversampling: Columns of the sketch beyond k.
        power_iterations: Number of products of the sketch with ``A @ A``.
        seed: Seed of the sketch.

    Raises:
        FlagError: k is not between 1 and the order.
        NotFiniteError: A has a NaN or an infinity.
        ShapeError: A is not square.
    """
    work = square_matrix("eigh_randomized", "A", A)
    n = work.shape[-1]
    block = sketch_width("eigh_randomized", k, n, oversampling, power_iterations)
    q = _range(work, sketch(work, block, seed), power_iterations)
    inner = gemm(1.0, q, gemm(1.0, work, q), transA="C")
    w, v = run_eigh("eigh_randomized", symmetric_part(inner))
    if not only_finite(w):
        finite("eigh_randomized", "A", work)
    w, v = largest_magnitude(w, q @ v, k)
    return Eigenpairs(restored(w, A.dtype), restored(v, A.dtype))


@in_full_precision
def nystrom(A: OperatorLike, k: int, *, n: int | None = None, seed: Seed = 0) -> Nystrom:
    """Return an approximation of rank k of a positive semidefinite matrix, from k products.

    A shift for stability is removed at the end (Tropp, Yurtsever, Udell and Cevher 2017).

    Args:
        A: A tensor, or an operator with its order.
        k: Rank.
        n: Order of A, if A is an operator without a shape.
        seed: Seed of the sketch.

    Raises:
        NotPositiveDefiniteError: A is not positive semidefinite.
        NotFiniteError: A has a NaN or an infinity.
        FlagError: k is not between 1 and the order.
    """
    like, order, product = _products("nystrom", A, n)
    whole("nystrom", "k", k, 1, order, FlagError)
    basis = run_qr(sketch(like.new_empty(order, order), k, seed))[0]
    image = product(basis)
    finite("nystrom", "A", image)  # or the products of an operator
    unit = power_below(image)  # the shift, roots and squares assume magnitudes around 1
    image = image / unit
    limits = torch.finfo(image.dtype)
    shift = limits.eps * torch.linalg.matrix_norm(image) * order**0.5
    shift = shift.clamp_min(limits.tiny**0.5)  # for a matrix of zeros
    image = image + shift * basis
    inner = basis.mH @ image
    try:
        factor = torch.linalg.cholesky(symmetric_part(inner))
    except TorchLinAlgError:
        raise NotPositiveDefiniteError("nystrom: A must be positive semidefinite") from None
    root = torch.linalg.solve_triangular(factor.mH, image, upper=True, left=False)
    u, s, _ = run_svd("nystrom", root)
    parts = u, (s * s - shift).clamp_min(0) * unit
    return Nystrom(*(restored_parts(parts, A) if isinstance(A, Tensor) else parts))


@in_full_precision
def hutch_plus_plus(
    A: OperatorLike, matvecs: int = 60, *, n: int | None = None, seed: Seed = 0
) -> Trace:
    """Return an estimate of the trace from products with vectors (Meyer, Musco and Woodruff 2021).

    A third of the products finds a dominant subspace, a third computes the trace there exactly, and
    the rest samples the remainder with random signs. The relative error decreases as 1 / matvecs.

    The gradient by A, and by what a function for A captures, is that of the estimate for fixed
    vectors. Its expectation is the gradient of the trace, the identity.

    Args:
        A: A tensor, or an operator with its order.
        matvecs: Products with A, at least 3.
        n: Order of A, if A is an operator without a shape.
        seed: Seed of the sketch and the samples.
    """
    whole("hutch_plus_plus", "matvecs", matvecs, 3, error=FlagError)
    like, order, product = _products("hutch_plus_plus", A, n)
    generator = seed if isinstance(seed, Generator) else Generator(seed)
    rank = min(matvecs // 3, order)
    samples = max(matvecs - 2 * rank, 1)
    if rank == order:
        image = product(torch.eye(order, dtype=like.dtype, device=like.device))
        return Trace(image.diagonal().real.sum().double(), 0.0, order)
    real = _dtype_of_draws(like)

    def signs(columns: int) -> Tensor:
        drawn = bernoulli(order, columns, dtype=real, generator=generator)
        return (2 * drawn - 1).to(like.device).to(like.dtype)

    with torch.no_grad():
        q = run_qr(product(signs(rank)))[0]
    exact = (q.conj() * product(q)).sum().real.double()
    g = signs(samples)
    g = g - q @ (q.mH @ g)
    each = (g.conj() * product(g)).sum(0).real.double()
    unit = power_below(each)
    spread = (each.detach() / unit).std() if samples > 1 else math.nan
    return Trace(exact + each.mean(), float(spread) * unit / samples**0.5, 2 * rank + samples)


def sketch_width(function: str, k: int, most: int, oversampling: int, powers: int) -> int:
    """Return the columns of the sketch for a result of rank k; raise for options out of range."""
    whole(function, "k", k, 1, most, FlagError)
    whole(function, "power_iterations", powers, 0, error=FlagError)
    return min(most, k + whole(function, "oversampling", oversampling, 0, error=FlagError))


def _dtype_of_draws(like: Tensor) -> torch.dtype:
    """Return the dtype of random numbers: on kernels at doublefloat float32, which these have."""
    real = like.real.dtype if like.is_complex() else like.dtype
    return torch.float32 if LIBRARY.widening() and LIBRARY.path() != "pytorch" else real


def sketch(a: Tensor, columns: int, seed: Seed) -> Tensor:
    """Return random vectors to multiply A with, the same for every matrix of a batch."""
    generator = seed if isinstance(seed, Generator) else Generator(seed)
    real = _dtype_of_draws(a)
    drawn = normal(a.shape[-1], columns, dtype=real, generator=generator)
    return drawn.to(a.device).to(a.dtype)


def _range(a: Tensor, vectors: Tensor, powers: int) -> Tensor:
    """Return an orthonormal basis of A times a sketch, after power iterations."""
    q = run_qr(gemm(1.0, a, vectors))[0]
    for _ in range(powers):
        q = run_qr(gemm(1.0, a, q, transA="C"))[0]
        q = run_qr(gemm(1.0, a, q))[0]
    return q


def _products(function: str, A: OperatorLike, n: int | None) -> tuple[Tensor, int, Any]:
    """Return a tensor of the dtype to compute in, the order, and products with matrices."""
    if isinstance(A, Tensor) and A.layout is torch.strided:
        work = square_matrix(function, "A", A)
        if work.ndim != 2:
            raise ShapeError(f"{function}: A must be 2-D, got shape {tuple(A.shape)}")
        return work, work.shape[-1], lambda v: work @ v
    order, dtype = order_and_dtype(function, A, n)
    like = torch.empty(0, dtype=dtype)
    op = as_operator(function, A, like.new_empty(order))
    return like, order, lambda v: torch.stack([op(column) for column in v.mT], -1)
