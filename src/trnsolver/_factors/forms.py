"""Products, symmetric parts, and complex matrices as real ones, see ``trnsci.core.numbers.planes``.

The real form of a complex matrix has blocks ``[[a, b], [-b, a]]``. It is a sum of a matrix and its
transpose, a product, or an inverse where the complex matrix is one with its adjoint. Factors that
are unique, such as triangles with a real positive diagonal, are then the real forms of the complex
factors. Eigenvectors are not: all eigenvalues occur twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnblas import gemm
from trnsci.core.numbers.planes import embedded, joined, parts


def product(x: Tensor, y: Tensor, transposed: bool) -> Tensor:
    """Return ``x @ y`` or ``x.mT @ y`` in float32: a lower level is not meant for factors."""
    return gemm(1.0, x, y, transA=transposed, precision="float32")


def symmetric_part(x: Tensor) -> Tensor:
    """Return ``(X + X.mH) / 2`` of matrices, halved first so that sums cannot overflow."""
    half = 0.5 * x
    return half + half.mH


def with_real_diagonal(a: Tensor) -> Tensor:
    """Return complex matrices without the imaginary parts of their diagonals."""
    imaginary = a.imag.diagonal(dim1=-2, dim2=-1)
    return torch.complex(a.real, a.imag - torch.diag_embed(imaginary))


def of_columns(a: Tensor) -> Tensor:
    """Return the real form of matrices that multiply columns, as ``columns`` has them."""
    return embedded(a.mT).mT


def columns(x: Tensor) -> Tensor:
    """Return columns as real ones of twice the length."""
    return parts(x.mT).mT


def joined_columns(x: Tensor) -> Tensor:
    """Return the complex columns of ``columns``."""
    return joined(x.mT).mT


def joined_blocks(x: Tensor) -> Tensor:
    """Return the complex matrices of real forms, from one of the two copies."""
    return joined(x[..., ::2, :])


def by_form(real: Callable[..., Any], a: Tensor, *rest: Any) -> Any:
    """Return matrix functions of complex matrices, from those of their real forms.

    The first result is a matrix; others, such as residuals, are those of the real form.
    """
    found = real(embedded(a), *rest)
    if isinstance(found, Tensor):
        return joined_blocks(found)
    return joined_blocks(found[0]), *found[1:]


def orthonormal_half(frames: Tensor) -> tuple[Tensor, Tensor]:
    """Return n orthonormal vectors out of 2n of length 1 that form tight frames, and their places.

    Frames are eigenvectors of a real form, orthonormal there: an eigenvalue of multiplicity m has
    2m vectors of a complex space of dimension m. The vector that is farthest from those chosen is
    the next one. After k of m it is at least ``sqrt(2 (m - k) / (2m - k))`` away, so that rounding
    is not amplified, and mixed with others by rounding over the distance of their eigenvalues only,
    which leaves residuals as they are.

    Args:
        frames: Vectors as columns, (batch, n, 2n).
    """
    batch, n, count = frames.shape
    found = torch.zeros_like(frames[..., :n])
    left = torch.ones(batch, count, dtype=found.real.dtype, device=found.device)
    places = []
    for k in range(n):
        place = left.argmax(-1, keepdim=True)
        vector = frames.gather(-1, place.unsqueeze(-2).expand(batch, n, 1))
        for _ in range(2):
            vector = vector - found @ (found.mH @ vector)
        vector = vector / torch.linalg.vector_norm(vector, dim=-2, keepdim=True)
        found[..., k] = vector.squeeze(-1)
        left = left - (vector.mH @ frames).squeeze(-2).abs().square()
        left = left.scatter(-1, place, -torch.inf)
        places.append(place)
    return found, torch.cat(places, -1)
