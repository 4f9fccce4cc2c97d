"""QR factorizations; ``trnsolver.factor`` exports the same functions."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import torch
from torch import Tensor
from torch.linalg import solve_triangular

from trnblas import gemm
from trnsci.core.arguments import flag
from trnsci.core.backend.derivatives import Gradients, Needed, Tangents
from trnsci.core.backend.launch import Launcher
from trnsci.core.errors import DerivativeError, ShapeError
from trnsci.core.numbers.constants import Constants
from trnsci.core.numbers.conversions import array_of
from trnsci.core.numbers.planes import embedded, joined
from trnsci.core.numbers.values import (
    concrete,
    finite,
    inert,
    one_problem,
    power_below,
    untraced,
)
from trnsci.core.testing import random_tensor
from trnsolver._factors.forms import joined_blocks, with_real_diagonal
from trnsolver._library import kernels_wanted
from trnsolver._paths import batches
from trnsolver._paths import derivatives as rules
from trnsolver._paths.arguments import (
    any_matrix,
    batch_of,
    in_full_precision,
    not_positive_definite,
    restored_parts,
)
from trnsolver._paths.cuda.batched import batched_qr
from trnsolver._paths.cuda.launch import pays

__all__ = ["PivotedQR", "QRFactors", "cholqr2", "qr"]

_FEW = 1 << 14
"""Number of elements up to which reflections are faster on a CPU than seven small products."""

_USUAL = (1e-8, 1e8)
"""Magnitudes of entries whose squares can be summed in float32."""

_NEARLY = 0.5
"""``cholqr2`` fails if a diagonal element of its second Cholesky factor differs from 1 by more. The
difference is at most 5/64 for condition numbers below ``eps ** -0.5 / 8`` (Yamamoto, Nakatsukasa,
Yanagisawa and Fukaya 2015)."""


class QRFactors(NamedTuple):
    """``A = Q @ R``: orthonormal columns and an upper triangle."""

    Q: Tensor
    R: Tensor


class PivotedQR(NamedTuple):
    """``A[:, P] = Q @ R``; in a batch ``A.take_along_dim(P.unsqueeze(-2), -1)`` is that product."""

    Q: Tensor
    R: Tensor
    P: Tensor


@overload
def qr(A: Tensor, pivoting: Literal[False] = False) -> QRFactors: ...


@overload
def qr(A: Tensor, pivoting: Literal[True]) -> PivotedQR: ...


@overload
def qr(A: Tensor, pivoting: bool) -> QRFactors | PivotedQR: ...


def qr(A: Tensor, pivoting: bool = False) -> QRFactors | PivotedQR:
    """Return the reduced Q (m, k) and R (k, n) with ``A = Q @ R`` and ``k = min(m, n)``.

    The signs of the diagonal of R are not normalized.

    Args:
        A: Matrices (m, n).
        pivoting: Whether to return also the order P of the columns of A that are factored, in which
            the magnitudes on the diagonal of R decrease: those near zero show the rank. SciPy
            computes it on the host. Derivatives are for the order found, by torch's QR of the
            ordered columns, and need full rank.

    Raises:
        FlagError: pivoting is not a bool.
        NotFiniteError: A has a NaN or an infinity, and columns are ordered.
        DerivativeError: Columns are ordered, and A is differentiated without having full rank, or
            is batched by ``torch.vmap``.

    Example:
        >>> Q, R, P = qr(torch.tensor([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0]]), pivoting=True)
        >>> P, R.diagonal().abs()
        (tensor([2, 1, 0]), tensor([3., 2.]))
    """
    work = any_matrix("qr", "A", A)
    flag("qr", "pivoting", pivoting)
    if not pivoting:
        return QRFactors(*restored_parts(run_qr(work), A))
    q, r, order = _pivoted(work)
    q, r = restored_parts((q, r), A)
    return PivotedQR(q, r, order)


@in_full_precision
def cholqr2(A: Tensor) -> QRFactors:
    """Return Q and R by two Cholesky factorizations of Gram matrices (CholeskyQR2).

    R has a positive diagonal. Q is orthonormal to rounding for condition numbers of A below about
    ``eps ** -0.5``: 3e3 in float32, 6e7 in float64. For tall matrices it is several times faster
    than ``qr``, on a GPU many times. For small matrices on a CPU, where it would not be faster, the
    same factors are computed by reflections.

    Args:
        A: Matrices (m, n) with m >= n.

    Raises:
        NotPositiveDefiniteError: The Gram matrix is not positive definite in this precision: A is
            too ill-conditioned; use ``qr``.
        ShapeError: A has more columns than rows.
    """
    work = any_matrix("cholqr2", "A", A)
    m, n = work.shape[-2:]
    if m < n:
        raise ShapeError(
            f"cholqr2: A must have at least as many rows as columns, got shape {tuple(A.shape)}"
        )
    if kernels_wanted():
        return QRFactors(*restored_parts(_with_positive_diagonal(*run_qr(work)), A))
    if work.is_cpu and m * n <= _FEW:
        q, r = _with_positive_diagonal(*torch.linalg.qr(work))
        _independent(r)
        return QRFactors(*restored_parts((q, r), A))
    # Squares of extreme values overflow or underflow; scaling by a power of two is exact.
    unit = power_below(work)
    unit = 1.0 if _USUAL[0] < unit < _USUAL[1] else unit
    once, first, failed = _cholqr(work if unit == 1 else work / unit)
    q, second, again = _cholqr(once)
    if failed is not None and again is not None and second.numel():
        # If the columns of ``once`` are not nearly orthonormal, the first pass has failed.
        # Read one value only: each read waits for the device.
        off = torch.linalg.vector_norm(second.detach().diagonal(dim1=-2, dim2=-1) - 1, inf)
        failed = failed + again
        if not float(off + (failed.max() if failed.ndim else failed)) <= _NEARLY:
            reason = "columns are dependent, to rounding"
            raise not_positive_definite("cholqr2", "the Gram matrix of A", reason)
    r = second @ first
    return QRFactors(*restored_parts((q, r if unit == 1 else r * unit), A))


def _with_positive_diagonal(q: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """Return Q and R with a positive diagonal of R, which only the kernel guarantees."""
    diagonal = r.detach().diagonal(dim1=-2, dim2=-1).real
    signs = torch.copysign(torch.ones_like(diagonal), diagonal)
    return q * signs.unsqueeze(-2), r * signs.unsqueeze(-1)


def _independent(r: Tensor) -> None:
    """Raise if the Gram matrix of the columns is not positive definite to rounding."""
    if not concrete(r) or not r.numel():
        return
    sizes = r.detach().diagonal(dim1=-2, dim2=-1).real
    least = float((sizes.amin(-1) / sizes.amax(-1)).min()) ** 2
    if not least > torch.finfo(r.dtype).eps:  # NaN is not
        reason = f"the squared diagonal of R falls to {least:.1g} of its largest"
        raise not_positive_definite("cholqr2", "the Gram matrix of A", reason)


def _cholqr(a: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return Q, R, and a mask of failed factorizations if values can be read."""
    gram, failed = a.mH @ a, None
    if not concrete(a):
        lower = torch.linalg.cholesky(gram)  # checks when there are values
    else:
        lower, failed = torch.linalg.cholesky_ex(gram)
    return solve_triangular(lower.mH, a, upper=True, left=False), lower.mH, failed


# -- QR of validated matrices, on torch or on kernels ----------------------------------------------


_NOISE: Constants[tuple[int, int, bool]] = Constants(lambda key: (noise(*key),))


def run_qr(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the reduced factors of matrices of any shape."""
    if not kernels_wanted():
        return (pays("qr", a) and batched_qr(a, _qr_backward)) or _qr(a)
    rows, columns = a.shape[-2:]
    q, r = QR.of(a[..., : min(rows, columns)])
    if rows < columns:
        r = torch.cat([r, gemm(1.0, q, a[..., rows:], transA="C")], -1)
    return q, r


@untraced("its order depends on values", name="qr with pivoting")
def _pivoted(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return Q, R and the order of columns."""
    QR.refuse("no kernel orders columns")
    one_problem("qr", a, instead="a batch of matrices needs none")
    finite("qr", "A", a)
    if inert(a):
        return _ordered(a)
    (order,) = _Order.apply(a)  # type: ignore[no-untyped-call]
    q, r = _qr(a.take_along_dim(order.unsqueeze(-2), -1))
    sizes = r.detach().diagonal(dim1=-2, dim2=-1).abs()
    least = torch.finfo(sizes.dtype).eps * max(a.shape[-2:])
    if sizes.numel() and bool((sizes[..., -1] <= least * sizes[..., 0]).any()):
        raise DerivativeError("qr: A must have full rank to be differentiated with pivoting")
    return q, r, order


def _ordered(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return Q, R and the order of columns by SciPy; torch has no routine for them."""
    from scipy.linalg import qr

    m, n = a.shape[-2:]
    least, batch = min(m, n), a.shape[:-2]
    q, r = a.new_empty(*batch, m, least), a.new_empty(*batch, least, n)
    order = torch.arange(n, device=a.device).expand(*batch, n).contiguous()
    if a.numel():
        places = batch_of(q), batch_of(r), order.reshape(-1, n)
        for *into, matrix in zip(*places, batch_of(a.detach().cpu()), strict=True):
            found = qr(array_of(matrix), mode="economic", pivoting=True, check_finite=False)
            for place, part in zip(into, found, strict=True):
                place.copy_(torch.from_numpy(part))
    return q, r, order


class _Order(torch.autograd.Function):
    """The order of columns, of tensors that a transform of ``torch.func`` differentiates too."""

    @staticmethod
    def forward(a: Tensor) -> tuple[Tensor]:
        return (_ordered(a)[2],)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> None:
        return None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> tuple[None]:
        return (None,)


def _qr(a: Tensor) -> tuple[Tensor, Tensor]:
    q, r = torch.linalg.qr(a)
    return q, r


def qr_by_parts(real: Callable[..., Any], a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the factors with a positive diagonal of R, which are unique for full rank.

    For dependent columns they are not; the kernel keeps pairs of columns of the real form equal to
    one complex column.
    """
    q, r = real(embedded(a), True)
    return joined_blocks(q), with_real_diagonal(joined_blocks(r))


def _qr_backward(grads: Gradients, needed: Needed, a: Tensor, *, result: Any) -> Gradients:
    """Return (Gq + Q M) R^-T, with M the lower triangle of R Gr^T - Gq^T Q and its mirror."""
    q, r = result
    for_q, for_r = rules.or_zeros(grads[0], q), rules.or_zeros(grads[1], r)
    inner = rules.product(r, for_r.triu().mH) - rules.product(for_q.mH, q)
    mirrored = inner.tril(-1) + inner.tril(-1).mH + torch.diag_embed(rules.real_diagonal(inner))
    rotated = for_q + rules.product(q, mirrored)
    return (rules.solution(r.mH, rotated, upper=False, left=False),)


def _qr_jvp(tangents: Tangents, a: Tensor, *, result: Any) -> tuple[Tensor, Tensor]:
    """Return the tangents of Q and R, for m >= n."""
    q, r = result
    scaled = rules.solution(r, rules.given(tangents[0]), upper=True, left=False)
    inside = rules.product(q.mH, scaled)
    upper = inside.triu(1) + inside.tril(-1).mH + torch.diag_embed(rules.real_diagonal(inside))
    return scaled - rules.product(q, upper), rules.product(upper, r)


def qr_launch(launch: Launcher, a: Tensor, paired: bool = False) -> tuple[Tensor, Tensor]:
    """Return q (b, m, n), orthonormal to rounding for every matrix, and r (b, n, n) for m >= n.

    If ``paired``, all are real forms.
    """
    from trnsolver._kernels.limits import qr_instructions
    from trnsolver._kernels.qr import cholesky_qr

    m, n = a.shape[-2:]
    length = qr_instructions(m, n)
    a, root = batches.scaled(a)
    (drawn,) = _NOISE((m, n, paired))
    q, r = batches.launched(launch, cholesky_qr, (a,), length, drawn, paired)
    return q, r * root.unsqueeze(-1) * root.unsqueeze(-1)


def noise(rows: int, columns: int, paired: bool = False) -> np.ndarray:
    """Return random numbers, (1, rows, columns), with columns of length about 2^-22.

    Those that are paired are the real form of complex ones.
    """
    if paired:
        return embedded(joined(torch.from_numpy(noise(rows // 2, columns)))).numpy()
    drawn = np.random.default_rng((rows, columns)).standard_normal((1, rows, columns))
    return (drawn * (2.0**-22 / rows**0.5)).astype(np.float32)


def _qr_products(a: Tensor) -> tuple[Tensor, Tensor]:
    q, r = (x.double() for x in qr(a))
    return q @ r, q.mT @ q


QR = batches.Batched(
    "qr",
    reference=_qr,
    launch=qr_launch,
    backward=_qr_backward,
    jvp=_qr_jvp,
    by_parts=qr_by_parts,
    flops=batches.cubes(4.0),
    unsuited=batches.within("qr_bytes"),
    refined="trnsolver._doublefloat.columns:qr",
    examples={
        "cholqr2": batches.definite_example,
        "hutch_plus_plus": lambda: batches.definite_example(6),
        "qr": batches.definite_example,
    },
    evidence=(
        batches.orthonormal_case(
            "cholesky_qr", "QR", lambda: (random_tensor(140, 30),), _qr_products
        ),
    ),
)
