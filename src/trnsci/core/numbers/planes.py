"""Complex numbers as real ones, for kernels that are real.

A complex matrix product is one real product of the same kernel, with four times the work:

    parts(A @ B) == parts(A) @ embedded(B)

``parts`` of (..., m, k) is (..., m, 2k): the real and the imaginary part of each number are
neighbours, as in memory. ``embedded`` of (..., k, n) is (..., 2k, 2n): the number a + ib at (i, j)
is the block ``[[a, b], [-b, a]]`` at (2i, 2j), so that ``[x, y]`` times the block is
``[ax - by, ay + bx]``. A matrix on the left of column vectors is ``embedded(A.mT).mT``, with blocks
``[[a, -b], [b, a]]``, and the columns of B are those of ``parts(B.mT).mT``. Triangles and symmetry
of matrices of blocks stay; a diagonal block is triangular only if its number is real.

A real or imaginary part is a real sum of 2k products; by Cauchy and Schwarz the sum of their moduli
is at most the entry of ``|A| @ |B|``. So the error of each part is at most the bound of a real
product with 2k terms, relative to ``|A| @ |B|``, and the error of the complex number is at most
sqrt(2) times as large. If the bound of a real product grows in proportion to k, the bound of the
complex product is 2 sqrt(2) times the bound of a real product with k terms. The algorithm with
three real products has error bounds by norms of whole matrices only, and is not used.
"""

from __future__ import annotations

import torch
from torch import Tensor


def parts(x: Tensor) -> Tensor:
    """Return real and imaginary parts as neighbours: (..., n) is (..., 2n). A view, if possible."""
    return torch.view_as_real(x.resolve_conj()).flatten(-2)


def joined(values: Tensor) -> Tensor:
    """Return the complex numbers of ``parts``: (..., 2n) is (..., n)."""
    shape = (*values.shape[:-1], values.shape[-1] // 2, 2)
    return torch.view_as_complex(values.reshape(shape).contiguous())


def embedded(x: Tensor) -> Tensor:
    """Return each number a + ib as a block ``[[a, b], [-b, a]]``: (..., k, n) is (..., 2k, 2n)."""
    # The imaginary part of a conjugate is a view that vmap does not have.
    real, imaginary = torch.view_as_real(x.resolve_conj()).unbind(-1)
    upper, lower = torch.stack([real, imaginary], -1), torch.stack([-imaginary, real], -1)
    return torch.stack([upper, lower], -3).flatten(-4, -3).flatten(-2)


def real_length(x: Tensor, length: int) -> int:
    """Return the terms of a real sum for ``length`` numbers of a dtype: twice those of complex."""
    return 2 * length if x.is_complex() else length
