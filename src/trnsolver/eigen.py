"""Eigenvalues and eigenvectors of symmetric (Hermitian) matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, NamedTuple, overload

import torch
from torch import Tensor

from trnblas import backend
from trnsci.core.arguments import agree, not_negative, whole
from trnsci.core.backend.derivatives import Gradients, Needed, Tangents
from trnsci.core.backend.launch import Launcher, on_both_cores
from trnsci.core.errors import (
    AccuracyError,
    AccuracyWarning,
    ConvergenceError,
    DerivativeError,
    FlagError,
    ShapeError,
)
from trnsci.core.errors.matrices import TorchLinAlgError
from trnsci.core.evidence import launcher
from trnsci.core.examples import Example, example
from trnsci.core.iterations import OnFailure, checked_action, report_failure
from trnsci.core.krylov.implicit import differentiated
from trnsci.core.numbers.values import (
    STEPS,
    concrete,
    finite,
    inert,
    only_finite,
    power_below,
    untraced,
)
from trnsci.core.testing import random_tensor
from trnsci.core.tiles.hardware import TILE
from trnsolver._eigen.divide import divided_eigh
from trnsolver._eigen.few_pairs import few_pairs, largest_magnitude, places_of
from trnsolver._eigen.quality import EighInfo, InformedPairs, Pairs, frobenius_norm, judged
from trnsolver._eigen.spectra import Wanted, approximate_pairs
from trnsolver._eigen.tournament import slot_permutation, sweep_bound
from trnsolver._factors.forms import (
    joined_columns,
    of_columns,
    orthonormal_half,
    symmetric_part,
    with_real_diagonal,
)
from trnsolver._library import LIBRARY, kernels_wanted
from trnsolver._paths import batches
from trnsolver._paths import derivatives as rules
from trnsolver._paths.arguments import (
    chosen,
    finite_below,
    in_full_precision,
    restored,
    spectral_error,
    square_matrix,
)
from trnsolver._paths.cuda.batched import batched_eigh
from trnsolver._paths.cuda.launch import pays
from trnsolver.factor import cholesky_launch, factor_solved, run_cholesky

__all__ = [
    "ApproximateEigenpairs",
    "Eigenpairs",
    "EighInfo",
    "Which",
    "eigh",
    "eigh_generalized",
    "eigvalsh",
]

Which = Literal["smallest", "largest", "magnitude"]
_MANY = 48
"""Smallest order for which a quarter of the pairs is faster than all, by SciPy."""
_USUAL = (1e-15, 1e15)
"""Norms of matrices whose products and squares are in the range of float32."""
_WHICH = ("smallest", "largest", "magnitude")


class Eigenpairs(NamedTuple):
    """Eigenvalues, ascending if they are real, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class ApproximateEigenpairs(InformedPairs[EighInfo]):
    """``(eigenvalues, eigenvectors)`` with ``info``: their accuracy and the method."""


@overload
def eigh(
    A: Tensor,
    tol: None = None,
    *,
    k: int | None = None,
    which: Which = "smallest",
    subset: tuple[int, int] | None = None,
    max_sweeps: int | None = None,
    method: str = "auto",
    on_failure: OnFailure = "warn",
) -> Eigenpairs: ...


@overload
def eigh(
    A: Tensor,
    tol: float,
    *,
    k: int | None = None,
    which: Which = "smallest",
    subset: None = None,
    max_sweeps: int | None = None,
    method: str = "auto",
    on_failure: OnFailure = "warn",
) -> ApproximateEigenpairs: ...


def eigh(
    A: Tensor,
    tol: float | None = None,
    *,
    k: int | None = None,
    which: Which = "smallest",
    subset: tuple[int, int] | None = None,
    max_sweeps: int | None = None,
    method: str = "auto",
    on_failure: OnFailure = "warn",
) -> Eigenpairs | ApproximateEigenpairs:
    """Return eigenvalues, ascending, and eigenvectors of symmetric (Hermitian) matrices.

    The result is exact to rounding: by LAPACK, cuSOLVER or the kernels. With ``tol`` the residual
    is measured. ``method="chebyshev"`` computes k pairs by subspace iteration with a Chebyshev
    filter, which is faster for large matrices whose requested values are far from the others. If
    their residual is above ``tol``, the exact method follows, which is the only differentiable one.

    Args:
        A: Symmetric matrices, of which the lower triangle is read; one matrix if ``tol`` is given.
        tol: Limit of ``norm(A v - w v) / norm(A)`` of a pair; None for exact results.
        k: Number of pairs; None for all.
        which: The k pairs with the ``"smallest"`` or ``"largest"`` values, or the largest
            ``"magnitude"``.
        subset: First and last index, both included, of the requested ascending values.
        max_sweeps: Limit of Jacobi sweeps on kernels; None for a sufficient number.
        method: ``"auto"`` or ``"exact"`` for the exact method; ``"chebyshev"`` only with ``tol``.
        on_failure: ``"warn"``, ``"raise"`` or ``"ignore"`` if even the exact result has a residual
            above ``tol``, such as 1e-10 in float32, the default of older releases.

    Raises:
        NotFiniteError: A has a NaN or an infinity.
        ConvergenceError: The algorithm did not converge.
        AccuracyError: ``tol`` was not reached, and ``on_failure`` is ``"raise"``.
        DerivativeError: A is being differentiated, and ``method`` has no derivatives.
        ShapeError: A is not square.

    Example:
        >>> w, V = eigh(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
        >>> w
        tensor([1., 3.])
    """
    shape = tuple(getattr(tol, "shape", ()))
    if shape:
        raise FlagError(
            f"eigh: tol must be a number, got a tensor of shape {shape}; "
            "eigh_generalized(A, B) solves A v = w B v"
        )
    everything = k is None and subset is None
    work = square_matrix("eigh", "A", A)
    chosen("eigh", "which", which, _WHICH)
    if max_sweeps is not None:
        whole("eigh", "max_sweeps", max_sweeps, 1, error=FlagError)
    n = work.shape[-1]
    first, last = (0, n - 1) if everything else places_of("eigh", n, k, which, subset)
    if tol is not None:
        if subset is not None:
            raise FlagError("eigh: subset must be None if tol is given; use k and which")
        wanted = Wanted(work, tol, k, which, (first, last))
        return _approximate(A, wanted, method, on_failure)
    if method not in ("auto", "exact"):
        raise FlagError(f"eigh: method {method!r} needs tol")
    if everything:
        w, v = exact_pairs("eigh", work, max_sweeps)
    elif which == "magnitude" and k is not None:
        w, v = largest_magnitude(*exact_pairs("eigh", work, max_sweeps), k)
    else:
        w, v = _part(work, first, last, max_sweeps)
    return Eigenpairs(restored(w, A.dtype), restored(v, A.dtype))


def eigvalsh(A: Tensor) -> Tensor:
    """Return the eigenvalues of symmetric (Hermitian) matrices, ascending.

    Raises:
        NotFiniteError: A has a NaN or an infinity.
        ConvergenceError: The algorithm did not converge.
        ShapeError: A is not square.
    """
    work = square_matrix("eigvalsh", "A", A)
    if kernels_wanted():
        return restored(exact_pairs("eigvalsh", work)[0], A.dtype)
    finite_below("eigvalsh", "A", work)
    try:
        w = torch.linalg.eigvalsh(work)
    except TorchLinAlgError as error:
        raise spectral_error("eigvalsh", work, error) from None
    return restored(w, A.dtype)


@in_full_precision
def eigh_generalized(
    A: Tensor,
    B: Tensor,
    tol: float | None = None,
    *,
    k: int | None = None,
    which: Which = "smallest",
    subset: tuple[int, int] | None = None,
) -> Eigenpairs:
    """Return w and V with ``A @ V = B @ V @ diag(w)`` and ``V.mH @ B @ V = I``.

    B has a Cholesky factor L; ``L^-1 A L^-H`` is diagonalized.

    Args:
        A: Symmetric (Hermitian) matrices, of which the lower triangle is read.
        B: Positive definite matrices, of which the lower triangle is read.
        tol: Ignored, for compatibility with older releases; results are exact to rounding.
        k: Number of pairs; None for all.
        which: The k pairs with the ``"smallest"`` or ``"largest"`` values, or the largest
            ``"magnitude"``.
        subset: First and last index, both included, of the requested ascending values.

    Raises:
        NotPositiveDefiniteError: B is not positive definite.
        FlagError: tol is negative.
        NotFiniteError: A has a NaN or an infinity.
        ShapeError: A or B is not square, or they do not fit.
    """
    not_negative("eigh_generalized", tol=tol)
    agree("eigh_generalized", "A", A, "B", B)
    a, b = (square_matrix("eigh_generalized", n, m) for n, m in (("A", A), ("B", B)))
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(
            f"eigh_generalized: A and B must have one order, got shapes {tuple(A.shape)} and "
            f"{tuple(B.shape)}"
        )
    factor = run_cholesky("eigh_generalized", b, "B")
    full = a.tril() + a.tril(-1).mH
    if a.is_complex():
        full = with_real_diagonal(full)
    finite("eigh_generalized", "A", full)
    inner = factor_solved(factor, factor_solved(factor, full).mH)
    w, v = eigh(symmetric_part(inner), k=k, which=which, subset=subset)
    v = factor_solved(factor, v, adjoint=True)
    return Eigenpairs(restored(w, A.dtype), restored(v, A.dtype))


def exact_pairs(function: str, a: Tensor, max_sweeps: int | None = None) -> Pairs:
    """Return eigenvalues, ascending, and eigenvectors of validated matrices.

    Raises:
        NotFiniteError: The lower triangle has a NaN or an infinity.
        ConvergenceError: The algorithm did not converge.
    """
    # LAPACK may return finite eigenvalues of a matrix with a NaN: A itself is checked.
    finite_below(function, "A", a)
    return run_eigh(function, a, max_sweeps)


def _part(a: Tensor, first: int, last: int, max_sweeps: int | None) -> tuple[Tensor, Tensor]:
    """Return the pairs in a range of indices.

    On a CPU and without derivatives, LAPACK computes a few of many pairs in less time than all.
    """
    few = a.ndim == 2 and _MANY <= a.shape[-1] >= 4 * (last - first + 1)
    if few and a.is_cpu and inert(a) and not kernels_wanted():
        finite_below("eigh", "A", a)
        found = few_pairs(a, first, last)
        if found is not None:
            return found
    w, v = exact_pairs("eigh", a, max_sweeps)
    return w[..., first : last + 1], v[..., first : last + 1]


@untraced(STEPS, name="eigh with tol")
@in_full_precision
def _approximate(
    A: Tensor, wanted: Wanted, method: str, on_failure: OnFailure
) -> ApproximateEigenpairs:
    """Return pairs whose residual is below the tolerance; warn or raise if it is not."""
    a, tol = wanted.a, wanted.tol
    checked_action("eigh", on_failure)
    chosen("eigh", "method", method, ("auto", "exact", "chebyshev"))
    if not tol > 0:
        raise FlagError(f"eigh: tol must be positive, got {tol}")
    if a.ndim != 2:
        raise ShapeError(f"eigh: A must be 2-D if tol is given, got shape {tuple(A.shape)}")
    if not concrete(a):
        raise FlagError("eigh: tol needs concrete values, but A is traced or transformed")
    size = frobenius_norm(a)
    unit = 1.0
    if not _USUAL[0] < size < _USUAL[1]:
        # Squares overflow, or the triangle that is not read has NaN.
        finite_below("eigh", "A", a)
        unit = power_below(a.tril())
        a = a.tril() / unit
        size = frobenius_norm(a)
    if kernels_wanted():
        method = _on_kernels(method)
    if differentiated(a):
        if method not in ("auto", "exact"):
            raise DerivativeError(f"eigh: A must not be differentiated by method {method!r}")
        method = "exact"
    wanted = wanted._replace(a=a)
    w, v, info = approximate_pairs(wanted, method, _exactly_wanted, size)
    exact_w, exact_v = w, v
    w, v = restored(w * unit, A.dtype), restored(v, A.dtype)
    back_w, back_v = w.to(exact_w.dtype) / unit, v.to(exact_v.dtype)
    if not (torch.equal(back_w, exact_w) and torch.equal(back_v, exact_v)):
        # Rounded to a narrow dtype, or the scale of A made values overflow or underflow.
        info = judged(a, (back_w, back_v), size, info)
    info = replace(info, forward_error=info.forward_error * unit)
    if not info.converged:
        message = f"eigh: the residual is {info.backward_error:.3g} of norm(A), not {tol:.3g}"
        report_failure(message, on_failure, AccuracyError, AccuracyWarning)
    return ApproximateEigenpairs(w, v, info)


def _exactly_wanted(wanted: Wanted) -> Pairs:
    """Return the pairs to rounding, values ascending."""
    a, k = wanted.a, wanted.k
    if k is None:
        return exact_pairs("eigh", a)
    if wanted.which == "magnitude":
        return largest_magnitude(*exact_pairs("eigh", a), k)
    return _part(a, *wanted.places, None)


def _on_kernels(method: str) -> str:
    """Return the method on a kernel backend: kernels compute the exact one, torch the others."""
    if method in ("auto", "exact"):
        return "exact"
    EIGH.refuse(f"torch computes by method {method!r}")
    return method


# -- all pairs, on torch or on kernels -------------------------------------------------------------


def run_eigh(function: str, a: Tensor, max_sweeps: int | None = None) -> Pairs:
    """Return eigenvalues, ascending, and eigenvectors; the lower triangle is read."""
    try:
        if not kernels_wanted():
            return (pays("eigh", a) and batched_eigh(a, _eigh_backward)) or _eigh(a, 0)
        w, v = EIGH.of(a, batches.SWEEPS if max_sweeps is None else max_sweeps)
    except TorchLinAlgError as error:
        raise spectral_error(function, a, error) from None
    if not only_finite(w):
        finite_below(function, "A", a)
        raise ConvergenceError(f"{function}: the rotations did not converge")
    return w, v


def _eigh(a: Tensor, max_sweeps: int) -> tuple[Tensor, Tensor]:
    w, v = torch.linalg.eigh(a)
    return w, v


def _eigh_by_parts(real: Callable[..., Any], a: Tensor, max_sweeps: int) -> tuple[Tensor, Tensor]:
    """Return half of the pairs of the real form, where each eigenvalue occurs twice."""
    w, v = real(of_columns(with_real_diagonal(a)), max_sweeps)
    vectors, places = orthonormal_half(joined_columns(v))
    values, order = w.gather(-1, places).sort()
    return values, vectors.gather(-1, order.unsqueeze(-2).expand_as(vectors))


def _eigh_backward(
    grads: Gradients, needed: Needed, a: Tensor, max_sweeps: int = 0, *, result: Any
) -> Gradients:
    """Return V (diag(Gw) + skew(V^T Gv) / 2 E) V^T with E_ij = w_j - w_i, which is symmetric.

    Without a gradient by V nothing is divided by E: eigenvalues may be repeated.
    """
    w, v = result
    for_w, for_v = grads
    if for_v is None:
        return rules.product(v * rules.or_zeros(for_w, w).unsqueeze(-2), v.mH), None
    inner = 0.5 * rules.skew(rules.product(v.mH, for_v)) * rules.over_differences(w)
    if for_w is not None:
        inner = inner + torch.diag_embed(for_w)
    return rules.product(rules.product(v, inner), v.mH), None


def _eigh_jvp(
    tangents: Tangents, a: Tensor, max_sweeps: int, *, result: Any
) -> tuple[Tensor, Tensor]:
    """Return the diagonal of M = V^T T V, and V (M / E)."""
    w, v = result
    projected = rules.product(rules.product(v.mH, rules.given(tangents[0])), v)
    turned = rules.product(v, projected * rules.over_differences(w))
    return rules.real_diagonal(projected), turned


def _eigh_launch(launch: Launcher, a: Tensor, max_sweeps: int) -> tuple[Tensor, Tensor]:
    """Return w (b, n), ascending, and v (b, n, n); lower triangles are read.

    Of a matrix that has not converged in these sweeps w is NaN.
    """
    a, root = batches.scaled(a, lower=True)
    w, v = _scaled_launch(launch, a, max_sweeps)
    return w * root * root, v


def _scaled_launch(launch: Launcher, a: Tensor, max_sweeps: int) -> tuple[Tensor, Tensor]:
    from trnsolver._kernels import limits
    from trnsolver._kernels.eigh_tile import jacobi_eigh

    batch, n = a.shape[0], a.shape[-1]
    sweeps = min(max_sweeps, sweep_bound(n))
    if n <= TILE:
        order = n + n % 2
        copies = max(1, min(batch, TILE // order))
        (tables,) = batches.TABLES((order, copies))
        length = -(-limits.eigh_instructions(n) // copies)
        kernel = on_both_cores(launch, jacobi_eigh)
        w, v, rest = batches.launched(launch, kernel, (a,), length, tables, sweeps)
    elif n > limits.EIGH_ORDER:
        return eigh_by_division(launch, a, max_sweeps, limits.EIGH_ORDER)
    else:
        w, v, rest = eigh_in_groups(launch, a, 2 * -(-n // TILE), sweeps)
    return torch.where(rest <= batches.negligible(n), w, torch.nan), v


def eigh_in_groups(
    launch: Launcher, a: Tensor, groups: int, sweeps: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return eigenvalues, eigenvectors and off-diagonal residuals, with rows in groups."""
    from trnsolver._kernels.eigh_blocks import block_jacobi_eigh
    from trnsolver._kernels.limits import eigh_instructions

    (tables,) = batches.TABLES((2 * -(-a.shape[-1] // groups), 1))
    moves = tuple(slot_permutation(groups))
    kernel, length = on_both_cores(launch, block_jacobi_eigh), eigh_instructions(a.shape[-1])
    w, v, rest = batches.launched(launch, kernel, (a,), length, tables, moves, sweeps)
    return w, v, rest


def eigh_by_division(
    launch: Launcher, a: Tensor, max_sweeps: int, smallest: int
) -> tuple[Tensor, Tensor]:
    """Return eigenpairs by spectral division down to matrices of order ``smallest``."""

    def factor(x: Tensor) -> Tensor:
        return cholesky_launch(launch, x[None])[0]

    def small(x: Tensor) -> tuple[Tensor, Tensor]:
        w, v = _scaled_launch(launch, x[None], max_sweeps)
        return w[0], v[0]

    with backend(launch.path):
        pairs = [divided_eigh(matrix, smallest, factor, small) for matrix in a]
    return torch.stack([w for w, _ in pairs]), torch.stack([v for _, v in pairs])


def _generalized_example() -> Example:
    a = random_tensor(4, 4)
    return example(a + a.mT, *batches.definite_example().args)


def _symmetric(n: int, *batch: int) -> tuple[Tensor]:
    x = random_tensor(*batch, n, n)
    return ((x + x.mT) / 2,)


def _products(w: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return V diag(w) V^T and V^T V."""
    wide = v.double()
    return (wide * w.double().unsqueeze(-2)) @ wide.mT, wide.mT @ wide


def _in_groups(a: Tensor) -> tuple[Tensor, Tensor]:
    """Launch the kernel for large orders directly, with few rows per group, which is fast."""
    w, v, _ = eigh_in_groups(launcher(LIBRARY), a, 4, 4)
    return _products(w, v)


EIGH = batches.Batched(
    "eigh",
    reference=_eigh,
    launch=_eigh_launch,
    backward=_eigh_backward,
    jvp=_eigh_jvp,
    by_parts=_eigh_by_parts,
    flops=batches.cubes(9.0),
    unsuited=batches.up_to("DIVIDED_ORDER"),
    refined="trnsolver._doublefloat.eigenpairs:eigh",
    examples={
        "eigh": batches.definite_example,
        "eigh_generalized": _generalized_example,
        "eigh_randomized": lambda: batches.definite_example(2, 1),
        "eigvalsh": batches.definite_example,
        "inv_sqrt_spd": batches.definite_example,
    },
    evidence=(
        batches.orthonormal_case(
            "jacobi_eigh", "Jacobi eigh", lambda: _symmetric(7, 5), lambda a: _products(*eigh(a))
        ),
        batches.orthonormal_case(
            "block_jacobi_eigh",
            "Jacobi eigh in blocks",
            lambda: _symmetric(7, 1),
            _in_groups,
            False,
        ),
    ),
)
