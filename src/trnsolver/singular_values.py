"""Singular value decompositions; ``trnsolver.factor`` exports the same functions."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnblas import backend, gemm
from trnsci.core.backend.derivatives import Gradients, Needed, Tangents
from trnsci.core.backend.launch import Launcher, on_both_cores
from trnsci.core.errors import ConvergenceError
from trnsci.core.errors.matrices import TorchLinAlgError
from trnsci.core.numbers.planes import joined, real_length
from trnsci.core.numbers.values import finite, only_finite
from trnsci.core.testing import random_tensor
from trnsci.core.tiles.hardware import TILE
from trnsolver._eigen.columns import block_jacobi_svd
from trnsolver._eigen.tournament import sweep_bound
from trnsolver._factors.forms import columns, joined_columns, of_columns, orthonormal_half, product
from trnsolver._library import kernels_wanted
from trnsolver._paths import batches
from trnsolver._paths import derivatives as rules
from trnsolver._paths.arguments import any_matrix, restored, restored_parts, spectral_error
from trnsolver._paths.cuda.batched import batched_svd
from trnsolver._paths.cuda.launch import pays
from trnsolver.orthogonal import qr_by_parts, qr_launch

__all__ = ["SVDFactors", "svd", "svdvals"]


class SVDFactors(NamedTuple):
    """``A = U @ diag(s) @ Vh`` with s descending."""

    U: Tensor
    s: Tensor
    Vh: Tensor


def svd(A: Tensor, full_matrices: bool = False) -> SVDFactors:
    """Return U, s and Vh with ``A = U @ diag(s) @ Vh`` and s descending.

    Args:
        A: Matrices (m, n).
        full_matrices: Whether U and Vh are square; else they are (m, k) and (k, n) with
            ``k = min(m, n)``.

    Raises:
        NotFiniteError: A has a NaN or an infinity.
        ConvergenceError: The algorithm did not converge.
    """
    work = any_matrix("svd", "A", A)
    finite("svd", "A", work)
    return SVDFactors(*restored_parts(run_svd("svd", work, full_matrices), A))


def svdvals(A: Tensor) -> Tensor:
    """Return the singular values of matrices, descending.

    Raises:
        NotFiniteError: A has a NaN or an infinity.
        ConvergenceError: The algorithm did not converge.
    """
    work = any_matrix("svdvals", "A", A)
    finite("svdvals", "A", work)
    if kernels_wanted():
        return restored(run_svd("svdvals", work)[1], A.dtype)
    try:
        return restored(torch.linalg.svdvals(work), A.dtype)
    except TorchLinAlgError as error:
        raise spectral_error("svdvals", work, error) from None


def run_svd(function: str, a: Tensor, full_matrices: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, s and Vh of validated matrices of any shape.

    Raises:
        NotFiniteError: A has a NaN or an infinity, and a routine failed.
        ConvergenceError: The algorithm did not converge.
    """
    try:
        if kernels_wanted():
            return _on_kernels(function, a, full_matrices)
        batched = not full_matrices and pays("svd", a) and batched_svd(a, _svd_backward)
        return batched or _svd(a, 0, full_matrices)
    except TorchLinAlgError as error:
        raise spectral_error(function, a, error) from None


def _on_kernels(function: str, a: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    wide = a.shape[-2] < a.shape[-1]
    u, s, vh = SVD.of(a.mH if wide else a, batches.SWEEPS, full)
    if not only_finite(s):
        finite(function, "A", a)
        raise ConvergenceError(f"{function}: the rotations did not converge")
    return (vh.mH, s, u.mH) if wide else (u, s, vh)


def _svd(a: Tensor, max_sweeps: int, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    u, s, vh = torch.linalg.svd(a, full_matrices=full)
    return u, s, vh


def _svd_backward(
    grads: Gradients, needed: Needed, a: Tensor, *options: Any, result: Any
) -> Gradients:
    """Return the gradient by A of its factors, for m >= n (Townsend 2016).

    Columns of a full U beyond those of A have no gradient, as in torch. Without gradients by U and
    V nothing is divided by differences of singular values or by them.
    """
    u, s, vh = result
    for_u, for_s, for_vh = grads
    if for_u is None and for_vh is None:
        scaled = u[..., : s.shape[-1]] * rules.or_zeros(for_s, s).unsqueeze(-2)
        return rules.product(scaled, vh), None, None
    for_u = rules.or_zeros(for_u, u)[..., : s.shape[-1]]
    u = u[..., : s.shape[-1]]
    for_s, for_vh = rules.or_zeros(for_s, s), rules.or_zeros(for_vh, vh)
    gaps, turned = rules.over_differences(s * s), rules.skew(rules.product(u.mH, for_u))
    left = turned * gaps * s.unsqueeze(-2)
    right = s.unsqueeze(-1) * (rules.skew(rules.product(vh, for_vh.mH)) * gaps)
    # A phase of U, which is not one of V too, moves with the imaginary part of diag(U^T T V).
    diagonal = for_s + _phases(turned, s) if a.is_complex() else for_s
    inner = left + right + torch.diag_embed(diagonal)
    found = rules.product(rules.product(u, inner), vh)
    if a.shape[-2] > a.shape[-1]:
        outside = for_u - rules.product(u, rules.product(u.mH, for_u))
        found = found + rules.product(outside / s.unsqueeze(-2), vh)
    return found, None, None


def _svd_jvp(
    tangents: Tangents, a: Tensor, *options: Any, result: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the tangents of the factors, for m >= n; zeros for further columns of a full U."""
    whole, s, vh = result
    u = whole[..., : s.shape[-1]]
    of_v = rules.product(rules.given(tangents[0]), vh.mH)
    projected = rules.product(u.mH, of_v)
    gaps = rules.over_differences(s * s)
    row, column = s.unsqueeze(-2), s.unsqueeze(-1)
    inner = (projected * row + column * projected.mH) * gaps
    if a.is_complex():
        inner = inner + torch.diag_embed(_phases(rules.skew(projected), s))
    of_u = rules.product(u, inner)
    of_vh = rules.product(((column * projected + projected.mH * row) * gaps).mH, vh)
    if a.shape[-2] > a.shape[-1]:
        of_u = of_u + (of_v - rules.product(u, projected)) / row
    if whole.shape[-1] > u.shape[-1]:
        of_u = torch.cat([of_u, torch.zeros_like(whole[..., u.shape[-1] :])], -1)
    return of_u, rules.real_diagonal(projected), of_vh


def _phases(skew: Tensor, s: Tensor) -> Tensor:
    return 0.5 * skew.diagonal(dim1=-2, dim2=-1) / s


def svd_launch(
    launch: Launcher, a: Tensor, max_sweeps: int, full: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return u (b, m, n), s (b, n), descending, and vh (b, n, n) for m >= n.

    If full, u is (b, m, m). Of a matrix that has not converged in these sweeps s is NaN.
    """
    if a.is_complex():
        u, s, vh = _complex_svd(launch, a, max_sweeps)
    else:
        a, root = batches.scaled(a)
        u, s, vh = _real_svd(launch, a, max_sweeps)
        s = s * root * root
    if full and a.shape[-2] > a.shape[-1]:
        u = torch.cat([u, _orthogonal_to(launch, u)], -1)
    return u, s, vh


def _complex_svd(launch: Launcher, a: Tensor, max_sweeps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return half of the singular values and right vectors of the real form, with their vectors U.

    The columns of A V are orthogonal to rounding errors of the norm of A. So their QR factors are U
    and, to such errors, a diagonal of singular values.
    """
    form = of_columns(a)
    _, s, vh = svd_launch(launch, form, max_sweeps)
    v, places = orthonormal_half(joined(vh).mT)
    s, order = s.gather(-1, places).sort(descending=True)
    v = v.gather(-1, order.unsqueeze(-2).expand_as(v))
    with backend(launch.path):
        image = joined_columns(product(form, columns(v), False))
    return _basis(launch, image), s, v.mH


def _basis(launch: Launcher, a: Tensor) -> Tensor:
    """Return an orthonormal basis of the columns of real or complex matrices."""
    real = partial(qr_launch, launch)
    return (qr_by_parts(real, a) if a.is_complex() else real(a))[0]


def _real_svd(launch: Launcher, a: Tensor, max_sweeps: int) -> tuple[Tensor, Tensor, Tensor]:
    m, n = a.shape[-2:]
    # Angles come from squared lengths, which lose half of the digits: the smallest columns of an
    # ill-conditioned matrix converge after the others.
    sweeps = 2 * min(max_sweeps, sweep_bound(n))
    if n <= TILE:
        u, s, vh, rest = _rotated(launch, a, sweeps, True)
    else:
        u, s, vh, rest = svd_of_groups(launch, a, 2 * -(-n // TILE), sweeps)
    if bool((rest > batches.negligible(m)).any()):
        s, rest = _without_noise(launch, u, s, rest)
    if bool((s[:, -1] == 0).any()):
        u = _completed(launch, u, s)
    return u, torch.where(rest <= batches.negligible(m), s, torch.nan), vh


def _rotated(launch: Launcher, a: Tensor, sweeps: int, finished: bool) -> tuple[Tensor, ...]:
    """Return U, s, V^T and the largest cosines, of at most a tile of columns."""
    from trnsolver._kernels.limits import svd_instructions
    from trnsolver._kernels.svd import jacobi_svd

    m, n = a.shape[-2:]
    kernel = on_both_cores(launch, jacobi_svd)
    (tables,) = batches.TABLES((n + n % 2, 1))
    found: tuple[Tensor, ...] = batches.launched(
        launch, kernel, (a,), svd_instructions(m, n), tables, sweeps, finished
    )
    return found


def _without_noise(launch: Launcher, u: Tensor, s: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """Return singular values with rounding errors set to zero, and the cosines of the others.

    The columns of a matrix of low rank end as rounding errors of the largest one, which every sweep
    makes anew: they do not become orthogonal. Matrices that have converged are unchanged.
    """
    m, n = u.shape[-2:]
    open_ = rest > batches.negligible(m)
    noise = open_ & (s <= torch.finfo(torch.float32).eps * n * s.amax(-1, keepdim=True))
    kept = torch.where(noise.unsqueeze(-2), 0.0, u)
    with backend(launch.path):
        gram = gemm(1.0, kept, kept, transA=True)
    cosines = gram - torch.diag_embed(gram.diagonal(dim1=-2, dim2=-1))
    left = cosines.abs().amax((-2, -1)).unsqueeze(-1)
    return torch.where(noise, 0.0, s), torch.where(open_, left, rest)


def svd_of_groups(
    launch: Launcher, a: Tensor, groups: int, sweeps: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return U, s, V^T and the largest cosine between columns of U, by block Jacobi."""
    with backend(launch.path):
        return block_jacobi_svd(a, groups, sweeps, lambda x: _rotated(launch, x, 1, False)[:3])


def _completed(launch: Launcher, u: Tensor, s: Tensor) -> Tensor:
    """Return left vectors, completed by an orthonormal one for each singular value of zero.

    Missing vectors are replaced by random ones, orthogonalised against the others.
    """
    filled = torch.where(s.unsqueeze(-2) == 0, directions(u, u.shape[-1]), u)
    return qr_launch(launch, filled)[0]


def _orthogonal_to(launch: Launcher, u: Tensor) -> Tensor:
    """Return an orthonormal basis of what is orthogonal to orthonormal columns."""
    rows, count = u.shape[-2:]
    drawn = directions(u, rows - count).expand(*u.shape[:-1], rows - count)
    return _basis(launch, torch.cat([u, drawn], -1))[..., count:]


def directions(like: Tensor, count: int) -> Tensor:
    """Return random columns of length about 1."""
    generator, rows = torch.Generator().manual_seed(0), like.shape[-2]
    drawn = torch.randn(rows, count, generator=generator, dtype=like.dtype)
    return drawn.to(like.device) / rows**0.5


def svd_unsuited(a: Tensor, *rest: object) -> str:
    """Return why the kernel does not take matrices, or ""."""
    from trnsolver._kernels.limits import SVD_COLUMNS, SVD_ROWS, qr_bytes

    rows, columns = (real_length(a, side) for side in a.shape[-2:])
    if rows > SVD_ROWS or columns > SVD_COLUMNS:
        return f"the kernel takes up to {SVD_COLUMNS} columns and {SVD_ROWS} rows of real forms"
    if a.is_complex():
        return batches.too_large(qr_bytes(rows, columns))
    return ""


def _svd_unsuited(a: Tensor, max_sweeps: int, full: bool) -> str:
    from trnsolver._kernels.limits import qr_bytes

    rows = real_length(a, a.shape[-2])
    return svd_unsuited(a) or (batches.too_large(qr_bytes(rows, rows)) if full else "")


def _products(a: Tensor) -> tuple[Tensor, Tensor]:
    u, s, vh = (x.double() for x in svd(a))
    return (u * s.unsqueeze(-2)) @ vh, u.mT @ u


SVD = batches.Batched(
    "svd",
    dtypes=("float32", "complex64"),
    reference=_svd,
    launch=svd_launch,
    backward=_svd_backward,
    jvp=_svd_jvp,
    flops=batches.cubes(12.0),
    unsuited=_svd_unsuited,
    refined="trnsolver._doublefloat.singular:svd",
    examples={
        "nystrom": lambda: batches.definite_example(2),
        "polar": batches.definite_example,
        "rsvd": lambda: batches.definite_example(2, oversampling=1),
        "svd": batches.definite_example,
        "svdvals": batches.definite_example,
    },
    evidence=(
        batches.orthonormal_case(
            "jacobi_svd", "singular values", lambda: (random_tensor(140, 5),), _products
        ),
    ),
)
