"""A few eigenvalues or singular values of a large matrix by products, with bounds on their errors.

``eigsh`` is the Lanczos method with thick restarts, of the matrix or of its shifted inverse;
``svds`` that of the smaller one of ``A^H A`` and ``A A^H``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from torch import Tensor

from trnrand import Generator, normal
from trnsci.core.arguments import also_spelled, floating, not_negative, whole
from trnsci.core.backend.explanation import recording
from trnsci.core.errors import DTypeError, FlagError, ShapeError
from trnsci.core.interop import with_forward_mode, without_transforms
from trnsci.core.iterations import (
    IterationInfo,
    OnFailure,
    checked_action,
    report_iteration,
)
from trnsci.core.krylov.implicit import values_of
from trnsci.core.krylov.lanczos import WHICH, RitzPairs, Wanted, Which, lanczos
from trnsci.core.krylov.operators import LinearOperator, OperatorLike
from trnsci.core.krylov.runs import Product
from trnsci.core.krylov.threads import few_threads
from trnsci.core.numbers.conversions import widest
from trnsci.core.numbers.values import STEPS, power_below, untraced
from trnsolver._eigen.quality import InformedPairs
from trnsolver._lanczos.operands import Operand, operand_of, shifted_inverse, square
from trnsolver._lanczos.pair_derivatives import Pairs, with_derivatives
from trnsolver._paths.arguments import chosen, in_full_precision, restored

__all__ = ["BoundedEigenpairs", "LanczosInfo", "SingularTriplets", "eigsh", "svds"]

_USUAL = 34
"""Vectors of the basis beyond k, by default: more take longer to orthogonalize, fewer restart."""
_INVERSE = 24
"""The same for a shifted inverse, whose values are far apart, and whose products take long."""
_DIGITS = 16
"""Multiple of eps that the residual estimates of Ritz pairs reach."""


@dataclass(frozen=True)
class LanczosInfo(IterationInfo):
    """Convergence report of a Lanczos iteration.

    Attributes:
        bounds: For each value, an upper bound of its distance from an exact one: the norm of the
            pair's residual, measured in float64, with the rounding of this measurement.
    """

    bounds: tuple[float, ...] = ()


class BoundedEigenpairs(InformedPairs[LanczosInfo]):
    """``(eigenvalues, eigenvectors)`` with ``info``: convergence, and bounds of the errors."""


class SingularTriplets(tuple[Tensor, Tensor, Tensor]):
    """``(U, s, Vh)`` with s descending, and ``info``: convergence, and bounds of the errors."""

    info: LanczosInfo

    def __new__(cls, U: Tensor, s: Tensor, Vh: Tensor, info: LanczosInfo) -> Self:
        """Return the triplets with their information."""
        made = super().__new__(cls, (U, s, Vh))
        made.info = info
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:  # copies and pickles
        return (*self, self.info)

    @property
    def U(self) -> Tensor:
        """Left singular vectors, as columns."""
        return self[0]

    @property
    def s(self) -> Tensor:
        """Singular values, descending."""
        return self[1]

    @property
    def Vh(self) -> Tensor:
        """Right singular vectors, as conjugated rows."""
        return self[2]


@untraced(STEPS)
@also_spelled("max_iter", "maxiter")
@in_full_precision
def eigsh(
    A: OperatorLike,
    k: int = 6,
    *,
    which: Which = "LM",
    sigma: float | None = None,
    OPinv: OperatorLike | None = None,
    n: int | None = None,
    v0: Tensor | None = None,
    ncv: int | None = None,
    max_iter: int = 1000,
    tol: float | None = None,
    seed: int = 0,
    on_failure: OnFailure = "warn",
) -> BoundedEigenpairs:
    """Return k eigenvalues, ascending, and eigenvectors of a symmetric (Hermitian) matrix.

    Products with vectors are all that is needed of A. Multiple eigenvalues are returned as often as
    they occur: after convergence, a cycle with a random vector searches for missed copies.

    Gradients and forward mode are of first order. Vectors of a multiple eigenvalue have none.

    Args:
        A: Symmetric (Hermitian): a tensor, an operator, a sparse matrix or a function.
        k: Number of pairs.
        which: ``"LM"`` and ``"SM"`` for the largest and smallest magnitudes, ``"LA"`` and ``"SA"``
            for the largest and smallest values, ``"BE"`` for half from each end, of an odd k one
            more of the largest. The smallest magnitudes converge slowly; use ``sigma=0``.
        sigma: Real shift: ``which`` selects among ``1 / (w - sigma)``, so that ``"LM"`` gives the
            values w closest to sigma. A tensor or a sparse matrix is factorized.
        OPinv: The inverse of ``A - sigma``, needed if A is a function.
        n: Order of A, if A is an operator without a shape and there is no v0.
        v0: First vector (n,), which also gives the dtype of an operator; None for a random one.
        ncv: Number of basis vectors; None for ``max(2 k + 1, k + 34)``, with sigma for
            ``max(2 k + 1, k + 24)``, at most n.
        max_iter: Limit of restarts; ``maxiter`` is accepted too.
        tol: Tolerance of the residual norm relative to the largest magnitude of an eigenvalue of A,
            or of its shifted inverse; None, and anything below, for 16 eps.
        seed: Seed of random vectors.
        on_failure: ``"warn"``, ``"raise"`` or ``"ignore"`` if the iteration does not converge.

    Returns:
        Values and orthonormal vectors, as columns, with ``info``: ``info.bounds`` has an upper
        bound of the error of each value, ``info.residuals`` the largest residual after each
        restart. Products of a function are assumed to be accurate to ``sqrt(n) * eps * norm(A)``.

    Raises:
        ConvergenceError: The iteration did not converge, and ``on_failure`` is ``"raise"``.
        DerivativeError: A derivative of vectors does not exist, or is one of second order.
        FlagError: k, ``ncv`` or another option is out of range.
        NotFiniteError: v0, or the product with it, has a NaN or an infinity.
        OperandError: Products show that A is not symmetric (Hermitian).
        ShapeError: A is not square, or v0 does not fit.
        SingularMatrixError: sigma is an eigenvalue.

    Example:
        >>> w, V = eigsh(torch.diag(torch.arange(1.0, 101.0)), 2)
        >>> w
        tensor([ 99., 100.])
    """
    checked_action("eigsh", on_failure)
    operand = operand_of("eigsh", A, n, v0)
    order = square("eigsh", operand)
    usual = _USUAL if sigma is None else _INVERSE
    wanted = wanted_pairs("eigsh", order, k, which, ncv, max_iter, tol, operand.dtype, usual)
    if isinstance(sigma, complex) or (sigma is not None and not math.isfinite(sigma)):
        raise FlagError(f"eigsh: sigma must be a finite real number, got {sigma}")
    if OPinv is not None and sigma is None:
        raise FlagError("eigsh: OPinv needs sigma")
    draw = draws(operand.like(order), order, seed)
    start = draw() if v0 is None else _start("eigsh", v0, operand, order)
    with torch.no_grad(), with_forward_mode(False):
        inverse = None if sigma is None else shifted_inverse("eigsh", operand, sigma, OPinv)
        product = operand.product()
        with few_threads(_sized(operand, product), start):
            found = lanczos("eigsh", inverse or product, start, draw, wanted)
        w, X, info = _measured(operand, found)
    if not recording():
        report_iteration("eigsh", info, len(info.residuals), on_failure)
    if operand.tracked(X):
        norm = float(w.abs().max())
        pairs = Pairs("eigsh", product, inverse, w, X, norm)
        w, X = with_derivatives(pairs, operand.hermitian_image(X))
    return BoundedEigenpairs(restored(w, operand.result), restored(X, operand.result), info)


@untraced(STEPS)
@also_spelled("max_iter", "maxiter")
@in_full_precision
def svds(
    A: OperatorLike,
    k: int = 6,
    *,
    which: Literal["LM", "SM"] = "LM",
    n: int | None = None,
    v0: Tensor | None = None,
    ncv: int | None = None,
    max_iter: int = 1000,
    tol: float | None = None,
    seed: int = 0,
    on_failure: OnFailure = "warn",
) -> SingularTriplets:
    """Return the k largest singular values of a matrix, descending, with their vectors.

    Each step takes one product with A and one with its adjoint. Values below
    ``sqrt(eps) * norm(A)`` have an error of that size, which ``info.bounds`` reports.

    Derivatives are those of ``eigsh``: first ones, and none by vectors of a multiple value.

    Args:
        A: A tensor, a sparse matrix, or an operator with ``matvec``, ``rmatvec`` and ``shape``, or
            of any kind that ``eigsh`` takes if it is square.
        k: Number of singular values.
        which: ``"LM"`` for the largest, ``"SM"`` for the smallest, which converge slowly.
        n: Order of A, if A is an operator without a shape.
        v0: First vector, as long as the shorter side of A; None for a random one.
        ncv: Number of basis vectors; None for ``max(2 k + 1, k + 34)``, at most the shorter side.
        max_iter: Limit of restarts; ``maxiter`` is accepted too.
        tol: Tolerance of the residual norm of a pair of ``A^H A``, relative to its largest value;
            None, and anything below, for 16 eps.
        seed: Seed of random vectors.
        on_failure: ``"warn"``, ``"raise"`` or ``"ignore"`` if the iteration does not converge.

    Returns:
        U (m, k), s and Vh (k, n) with ``info``: ``info.bounds`` has for each value an upper bound
        of its distance from an exact one, or from 0 if A is not square.

    Raises:
        ConvergenceError: The iteration did not converge, and ``on_failure`` is ``"raise"``.
        DerivativeError: A derivative of vectors does not exist, or is one of second order.
        FlagError: k, ``ncv`` or another option is out of range.
        NotFiniteError: v0, or the product with it, has a NaN or an infinity.
        ShapeError: A is not 2-D, or v0 does not fit.

    Example:
        >>> U, s, Vh = svds(torch.diag(torch.arange(1.0, 101.0)), 2)
        >>> s.round()
        tensor([100.,  99.])
    """
    checked_action("svds", on_failure)
    chosen("svds", "which", which, ("LM", "SM"))
    operand = operand_of("svds", A, n, v0)
    length, tall = min(operand.shape), operand.shape[0] >= operand.shape[1]
    end: Which = "LA" if which == "LM" else "SA"
    wanted = wanted_pairs("svds", length, k, end, ncv, max_iter, tol, operand.dtype)
    draw = draws(operand.like(length), length, seed)
    start = draw() if v0 is None else _start("svds", v0, operand, length)
    product, adjoint = operand.product(), operand.product(adjoint=True)
    first, second = (product, adjoint) if tall else (adjoint, product)
    with torch.no_grad(), with_forward_mode(False):
        unit = power_below(first(start))  # so that squares of A are representable
        with few_threads(_sized(operand, product), start):
            found = lanczos("svds", lambda v: second(first(v) / unit) / unit, start, draw, wanted)
        U, s, V, info = _triplets(operand, found, tall, unit)
    if not recording():
        report_iteration("svds", info, len(info.residuals), on_failure)
    if operand.tracked(V):
        U, s, V = _differentiable(operand, product, adjoint, (U, s, V))
    U, s, Vh = (restored(part, operand.result) for part in (U, s, V.mH))
    return SingularTriplets(U, s, Vh, info)


def _triplets(
    operand: Operand, found: RitzPairs, tall: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor, LanczosInfo]:
    """Return U, s and V from pairs of ``A^H A``, or of ``A A^H``, and their report."""
    X = found.vectors.mT.contiguous()
    k = X.shape[1]
    matvecs = 2 * found.matvecs + 2 * k
    if found.reason == "diverged":
        empty = [X.new_full((m, k), math.nan) for m in operand.shape]
        return empty[0], empty[0][0].real, empty[1], report_of(found, matvecs)
    product = operand.product(adjoint=not tall)
    image = torch.stack([product(v) for v in X.mT], 1)
    unit = power_below(image)
    # The values of this product are accurate to eps * norm(A), where roots of eigenvalues are not.
    left, s, turned = torch.linalg.svd(image / unit, full_matrices=False)
    right = X @ turned.mH
    U, V = (left, right) if tall else (right, left)
    s = restored(s * unit, operand.result).to(s.dtype)
    wide = [widest(restored(part, operand.result)) for part in (U, V)]
    size = math.sqrt(found.norm) * scale
    rests = []
    rounding = 0.0
    for at, adjoint in ((0, False), (1, True)):
        measured, own = operand.measured(wide[1 - at], size, adjoint)
        rests.append(measured / unit - wide[at] * (s.double() / unit))
        rounding = max(rounding, own)
    rest, lengths = (
        torch.hypot(*(torch.linalg.vector_norm(each, dim=0) for each in both))
        for both in (rests, wide)
    )
    bounds = rest / lengths * unit + rounding
    return U.contiguous(), s, V.contiguous(), report_of(found, matvecs, bounds)


def _differentiable(
    operand: Operand, product: Product, adjoint: Product, triplets: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return triplets with the derivatives of the pairs ``(u, v)`` of ``[[0, A], [A^H, 0]]``."""
    U, s, V = (part.flip(-1) for part in triplets)  # ascending
    m, root = U.shape[0], math.sqrt(2)

    def both(z: Tensor) -> Tensor:
        return torch.cat([product(z[m:]), adjoint(z[:m])])

    pairs = Pairs("svds", both, None, s, torch.cat([U, V]) / root, float(s.max()))
    image = torch.cat([operand.image(V), operand.image(U, adjoint=True)]) / root
    s, Z = with_derivatives(pairs, image)
    return Z[:m].flip(-1) * root, s.flip(-1), Z[m:].flip(-1) * root


def wanted_pairs(
    function: str,
    order: int,
    k: int,
    which: Which,
    ncv: int | None,
    max_iter: int,
    tol: float | None,
    dtype: torch.dtype,
    usual: int = _USUAL,
) -> Wanted:
    """Return checked options."""
    chosen(function, "which", which, WHICH)
    k = whole(function, "k", k, 1, order, FlagError)
    size = min(order, max(2 * k + 1, k + usual))
    if ncv is not None:
        size = whole(function, "ncv", ncv, min(k + 1, order), order, FlagError)
    limit = whole(function, "max_iter", max_iter, 1, error=FlagError)
    not_negative(function, tol=tol)
    return Wanted(k, which, order, size, max(tol or 0.0, _DIGITS * torch.finfo(dtype).eps), limit)


def report_of(found: RitzPairs, matvecs: int, bounds: Tensor | None = None) -> LanczosInfo:
    """Return the report of a run; without bounds of the errors they are infinite."""
    errors = [math.inf] * len(found.vectors) if bounds is None else bounds.tolist()
    history = tuple(found.residuals)
    converged = found.reason == "converged"
    return LanczosInfo(converged, found.reason, history, matvecs, {}, tuple(errors))


def draws(like: Tensor, length: int, seed: int, rows: slice = slice(None)) -> Callable[[], Tensor]:
    """Return a function that draws rows of random vectors, the same for a seed on every device."""
    generator = Generator(seed)

    def draw() -> Tensor:
        with without_transforms():
            drawn = normal(length, 2, dtype=torch.float64, generator=generator, device="cpu")[rows]
        found = torch.view_as_complex(drawn) if like.is_complex() else drawn[:, 0]
        return found.to(like.device, like.dtype)

    return draw


def _start(function: str, v0: Tensor, operand: Operand, length: int) -> Tensor:
    """Return the first vector, without derivatives."""
    floating(function, "v0", v0)
    if v0.shape != (length,):
        raise ShapeError(f"{function}: v0 must have shape ({length},), got {tuple(v0.shape)}")
    if v0.is_complex() and not operand.dtype.is_complex:
        raise DTypeError(f"{function}: v0 is complex, where A is real: {v0.dtype}")
    return values_of(function, v0.detach()).to(operand.device, operand.dtype)


def _sized(operand: Operand, product: Product) -> LinearOperator:
    """Return the product with the matrix, whose size decides on the number of threads."""
    found = LinearOperator(product)
    found.matrix = None if operand.data is None else operand.given
    return found


def _measured(operand: Operand, found: RitzPairs) -> tuple[Tensor, Tensor, LanczosInfo]:
    """Return values and vectors in the dtype to compute in, and their report.

    The values are Rayleigh quotients in float64, and the residuals are those of what is returned.
    """
    X = found.vectors.mT.contiguous()
    real = X.real.dtype
    if found.reason == "diverged":
        return found.values.to(X.device, real), X, report_of(found, found.matvecs)
    given = widest(restored(X, operand.result))
    image, rounding = operand.measured(given, found.norm)
    unit = power_below(image)
    image, lengths = image / unit, torch.linalg.vector_norm(given, dim=0)
    w = (given.conj() * image).sum(0).real / lengths**2
    order = w.argsort()
    w, X, given, image = w[order], X[:, order].contiguous(), given[:, order], image[:, order]
    w = restored((w * unit).to(real), operand.result).to(real)
    rest = torch.linalg.vector_norm(image - given * (w.double() / unit), dim=0) / lengths[order]
    return w, X, report_of(found, found.matvecs + X.shape[1], rest * unit + rounding)
