"""Singular value decompositions; ``trnsolver.factor`` exports the same functions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from trnsci.core.errors import ConvergenceError
from trnsci.core.errors.matrices import TorchLinAlgError
from trnsci.core.examples import Case
from trnsci.core.numbers.planes import real_length
from trnsci.core.numbers.values import finite, only_finite
from trnsci.core.testing import random_tensor
from trnsolver._library import kernels_wanted
from trnsolver._paths import batches
from trnsolver._paths import derivatives as rules
from trnsolver._paths.arguments import any_matrix, restored, restored_parts, spectral_error
from trnsolver._paths.cuda.batched import batched_svd
from trnsolver._paths.cuda.launch import pays

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
        if not full_matrices and pays("svd", a) and (found := batched_svd(a)) is not None:
            return found
        u, s, vh = torch.linalg.svd(a, full_matrices=full_matrices)
    except TorchLinAlgError as error:
        raise spectral_error(function, a, error) from None
    return u, s, vh


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
    backward=rules.svd_backward,
    jvp=rules.svd_jvp,
    from_result=True,
    flops=batches.cubes(12.0),
    unsuited=_svd_unsuited,
    examples={
        "nystrom": lambda: batches.definite_example(2),
        "polar": batches.definite_example,
        "rsvd": lambda: batches.definite_example(2, oversampling=1),
        "svd": batches.definite_example,
        "svdvals": batches.definite_example,
    },
    evidence=(
        Case(
            "jacobi_svd",
            "singular values",
            lambda: (random_tensor(140, 5),),
            _products,
            batches.with_identity,
            "the matrix itself",
            batches.rows_bound,
        ),
    ),
)
