"""Spectral divide and conquer for matrices too large for one kernel, with Jacobi at the leaves.

The sign S of A - m I is computed by products only; (I + S) / 2 projects onto the eigenvectors above
m and (I - S) / 2 onto the others. Orthonormal bases Q of both, from products with random vectors,
make Q^T A Q block diagonal. The blocks are divided recursively until they are small enough for the
kernel. Nakatsukasa and Higham 2013, with polynomials instead of rational functions.

Products and triangular solutions are those of trnblas, on the backend that is set for it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from trnblas import trsm
from trnsci.core.errors import ConvergenceError
from trnsolver._factors.forms import product, symmetric_part

_STEEP = (3.4445, -4.7750, 2.0315)
"""A step with slope 3.4 at zero that keeps larger values between 0.7 and 1.2."""
_EXACT = (1.875, -1.25, 0.375)
"""A step that converges from there to 1, with cubic order."""
_STEEP_STEPS, _EXACT_STEPS = 12, 5
_PASSES, _SHIFTED = 3, 1
_TRIES = 4
_LONGEST_STEP = 2.0**-12


Factor = Callable[[Tensor], Tensor]
Eigh = Callable[[Tensor], tuple[Tensor, Tensor]]


def divided_eigh(a: Tensor, smallest: int, factor: Factor, small: Eigh) -> tuple[Tensor, Tensor]:
    """Return eigenvalues, ascending, and eigenvectors of one symmetric matrix.

    Args:
        a: Matrix, (n, n), of which the lower triangle is read.
        smallest: Largest order for ``small``.
        factor: Returns the lower Cholesky factor.
        small: Returns the eigenpairs of a small matrix.

    Raises:
        ConvergenceError: No division was found that separates the spectrum.
    """
    full = a.tril() + a.tril(-1).mT
    w, v = _divided(full, smallest, factor, small, float(full.abs().max()))
    # Rounding errors of the divisions accumulate; one refinement step removes most of them.
    projected = product(v, product(full, v, False), True)
    w, step = pair_correction(projected, product(v, v, True), _LONGEST_STEP)
    v = v + product(v, step, False)
    eye = torch.eye(v.shape[0], dtype=v.dtype, device=v.device)
    v = product(v, 1.5 * eye - 0.5 * product(v, v, True), False)
    w, places = w.sort()
    return w, v[:, places]


def _divided(
    a: Tensor, smallest: int, factor: Factor, small: Eigh, size: float
) -> tuple[Tensor, Tensor]:
    n = a.shape[0]
    if n <= smallest:
        return small(a)
    eps = torch.finfo(a.dtype).eps
    eye = torch.eye(n, dtype=a.dtype, device=a.device)
    middle = float(a.diagonal().mean())
    radius = float((a - middle * eye).abs().sum(-1).max())
    if radius <= 4 * n * eps * size:
        # All values are equal up to rounding errors of the whole matrix.
        return a.diagonal().clone(), eye
    for attempt in range(_TRIES):
        # If a value is too close to the split point, move it alternately up and down, ever further.
        at = middle + radius * 0.02 * attempt * (-1) ** attempt
        sign = _sign((a - at * eye) / radius)
        above = round((n + float(sign.trace())) / 2)
        if not 0 < above < n:
            continue
        basis = torch.cat(
            [_range(eye - sign, n - above, factor), _range(eye + sign, above, factor)], -1
        )
        basis = _orthogonalised(basis, factor)
        projected = product(basis, product(a, basis, False), True)
        low = n - above
        if float(projected[low:, :low].abs().max()) <= 20 * eps * max(size, radius):
            halves = (projected[:low, :low], projected[low:, low:])
            (w0, v0), (w1, v1) = (_divided(h, smallest, factor, small, size) for h in halves)
            vectors = [
                product(basis[:, :low].contiguous(), v0, False),
                product(basis[:, low:].contiguous(), v1, False),
            ]
            return torch.cat([w0, w1]), torch.cat(vectors, -1)
    raise ConvergenceError(
        f"eigh: {_TRIES} divisions of a spectrum of {n} values left its halves coupled"
    )


def _sign(x: Tensor) -> Tensor:
    """Return the sign of a symmetric matrix whose norm is at most 1."""
    for first, third, fifth in (_STEEP,) * _STEEP_STEPS + (_EXACT,) * _EXACT_STEPS:
        square = product(x, x, True)
        inner = third * square + fifth * product(square, square, True)
        x = first * x + product(inner, x, True)
        x = symmetric_part(x)
    return x


def _range(projector: Tensor, rank: int, factor: Factor) -> Tensor:
    """Return an orthonormal basis of the range of a projector, twice its scale, of known rank."""
    n = projector.shape[0]
    generator = torch.Generator().manual_seed(n)
    noise = torch.randn(n, rank, generator=generator, dtype=projector.dtype).to(projector.device)
    return _orthogonalised(product(projector, noise / n**0.5, True), factor)


def _orthogonalised(q: Tensor, factor: Factor) -> Tensor:
    """Return an orthonormal basis of the span of columns, by Cholesky factors of Gram matrices.

    The first pass is shifted, which makes it safe for columns that are nearly dependent.
    """
    eye = torch.eye(q.shape[1], dtype=q.dtype, device=q.device)
    for step in range(_PASSES):
        gram = product(q, q, True)
        if step < _SHIFTED:
            gram = gram + 16 * torch.finfo(q.dtype).eps * gram.abs().max() * eye
        q = trsm(1.0, factor(gram), q, side="right", uplo="lower", trans=True)
    return q


def pair_correction(projected: Tensor, gram: Tensor, most: float) -> tuple[Tensor, Tensor]:
    """Return eigenvalues, and E of the refined eigenvectors ``X + X @ E``.

    It is one step of Ogita and Aishima's refinement, 2018.

    If two eigenvalues are so close that the step would be too long, their vectors are only made
    orthogonal.

    Args:
        projected: X^T A X, (..., n, n).
        gram: X^T X.
        most: Longest step; the remaining error is its square.
    """
    eye = torch.eye(projected.shape[-1], dtype=projected.dtype, device=projected.device)
    rest = eye - gram
    values = projected.diagonal(dim1=-2, dim2=-1) / (1 - rest.diagonal(dim1=-2, dim2=-1))
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    step = (projected + values.unsqueeze(-2) * rest) / gaps
    half = 0.5 * rest
    # The vectors of a pair stay orthogonal only if both are corrected.
    short = step.abs() <= most
    step = torch.where(short & short.mT, step, half)
    return values, torch.where(eye.bool(), half, step)
