"""The relaxation of SSOR, estimated from the smallest eigenvalue of the scaled matrix."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from trnsparse._products.row_products import RowMatrix, csr_product
from trnsparse.formats import CSRMatrix

_STEPS = 6
_NULL = 64
"""Eigenvalues and norms up to this many roundings are zero; the scaled diagonal is 1."""
_SINGULAR = 1.7
"""Relaxation where the smooth vector is a null vector, as on a grid without a boundary condition:
the iterations hardly change between 1.5 and 1.85."""
_MOST = 1.95
"""More than this is a gain only for eigenvalues that so few steps do not find."""


def relaxation(lower: CSRMatrix, diagonal: Tensor) -> float:
    """Return a relaxation between 1 and 1.95 for SSOR, by a few steps of the Lanczos method.

    It is ``2 / (1 + sqrt(2 e))``, near the best one for SSOR (Young, Iterative Solution of Large
    Linear Systems, 1971), with e the smallest eigenvalue of the matrix scaled to a diagonal of
    ones; 1 for a matrix that is not positive definite. The vector to start from is smooth, as the
    eigenvectors of small eigenvalues of meshes and graphs are. e is estimated from above, and so
    the relaxation from below, which is the safe side.

    Args:
        lower: Lower triangle of a Hermitian matrix, with its diagonal.
        diagonal: The diagonal.
    """
    if not bool((diagonal.real > 0).all()):
        return 1.0
    smooth = diagonal.real.sqrt().to(lower.dtype)
    least = _least_eigenvalue(lower, diagonal, smooth)
    if abs(least) <= _NULL * torch.finfo(lower.dtype).eps:
        return _SINGULAR
    if not least > 0:
        return 1.0
    return min(max(2 / (1 + math.sqrt(2 * least)), 1.0), _MOST)


def _least_eigenvalue(lower: CSRMatrix, diagonal: Tensor, start: Tensor) -> float:
    """Return an estimate from above by the Lanczos method, NaN for a matrix that is not finite."""
    # Six products are no work for kernels.
    below, above = (RowMatrix(half.values, half.pattern) for half in (lower, lower.H.to_csr()))
    scale = diagonal.real.rsqrt()
    v, before = start / torch.linalg.vector_norm(start), torch.zeros_like(start)
    alphas: list[float] = []
    betas: list[float] = []
    for _ in range(min(_STEPS, len(start))):
        scaled = scale * v
        both = csr_product(below, scaled) + csr_product(above, scaled)
        image = scale * (both - diagonal * scaled)
        if betas:
            image -= betas[-1] * before
        alphas.append(float(torch.vdot(v, image).real))
        image -= alphas[-1] * v
        betas.append(float(torch.linalg.vector_norm(image)))
        if not betas[-1] > _NULL * torch.finfo(lower.dtype).eps:  # v spans an invariant space
            break
        before, v = v, image / betas[-1]
    beside = betas[: len(alphas) - 1]
    matrix = np.diag(alphas) + np.diag(beside, 1) + np.diag(beside, -1)
    return float(np.linalg.eigvalsh(matrix)[0]) if np.isfinite(matrix).all() else math.nan
