"""Vector arithmetic of the Krylov methods, for one vector and for several.

Inner products of one vector are Python numbers; those of several vectors in one tensor are
tensors that broadcast along the vectors. Both are summed in float64 for vectors of float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

Number: TypeAlias = Any
"""A Python number, or a tensor with one number for each vector."""

_LEAST = 1e-280
"""Squares below this have lost digits to underflow."""

_WIDENED: dict[torch.dtype, Callable[[Tensor], Tensor]] = {
    torch.float32: Tensor.double,
    torch.complex64: lambda v: v.to(torch.complex128),
}
"""Conversions to the dtype of sums."""


class Vectors:
    """Inner products, norms and updates of vectors.

    Args:
        dim: Dimension along which vectors lie in a tensor of several; None for one vector (n,).
        total: Sums scalars over all ranks that hold parts of the vectors.
        recorded: Whether derivatives or a graph are recorded: then no value is read on the host
            and no tensor is written in place.
    """

    def __init__(
        self,
        dim: int | None = None,
        total: Callable[[Tensor], Tensor] | None = None,
        recorded: bool = False,
    ) -> None:
        self.dim, self.recorded = dim, recorded
        self._total = total

    def inner(self, a: Tensor, b: Tensor) -> Number:
        """Return the real part of ``a^H b``."""
        widened = _WIDENED.get(a.dtype)
        if widened is not None:
            same, a = b is a, widened(a)
            b = a if same else widened(b)
        if self.dim is not None:
            found = torch.linalg.vecdot(a, b, dim=self.dim).unsqueeze(self.dim)
        elif self._total is None:
            return torch.vdot(a, b).item().real
        else:
            found = torch.vdot(a, b)
        found = found.real.contiguous() if found.is_complex() else found
        if self._total is not None:
            found = self._total(found)
        return found.item() if self.dim is None else found

    def root(self, square: Number) -> Number:
        """Return a norm from its square; it has no derivative, which would be infinite at zero."""
        return square.detach().sqrt() if isinstance(square, Tensor) else math.sqrt(square)

    def norm(self, v: Tensor) -> Number:
        """Return the Euclidean norm, without a derivative.

        The norm of a single vector is accurate where its square overflows or underflows; with
        ``dim``, squares that do so give infinity or 0.
        """
        square = self.inner(v, v)
        if isinstance(square, Tensor) or _LEAST < square < math.inf:
            return self.root(square)
        peak = self.peak(v)
        if not 0 < peak < math.inf:
            return peak
        unit = 2.0 ** (math.frexp(peak)[1] - 1)
        return self.root(self.inner(v / unit, v / unit)) * unit

    def peak(self, v: Tensor) -> Number:
        """Return the largest real or imaginary part, as float64; NaN if one is NaN.

        For vectors in parts on several ranks: the sum of the ranks' maxima, an upper bound.
        """
        v = v.detach()
        # A modulus may overflow.
        sizes = torch.maximum(v.real.abs(), v.imag.abs()) if v.is_complex() else v.abs()
        if not v.numel():
            found = sizes.new_zeros(()) if self.dim is None else sizes.sum(self.dim, keepdim=True)
        elif self.dim is None:
            found = sizes.max()
        else:
            found = sizes.amax(self.dim, keepdim=True)
        found = found.double()
        if self._total is not None:
            found = self._total(found)
        return found.item() if self.dim is None else found

    def zero(self, v: Tensor) -> bool:
        """Return whether all elements of all vectors are zero."""
        found = torch.any(v)
        if self._total is not None:
            found = self._total(found.double())
        return not bool(found)

    def some(self, mask: Any) -> bool:
        """Return whether a condition holds for any vector; True where values are not read."""
        return mask if isinstance(mask, bool) else self.recorded or bool(mask.any())

    def worst(self, numbers: Number) -> float:
        """Return the largest number of all vectors, NaN if one is NaN."""
        if not isinstance(numbers, Tensor):
            return float(numbers)
        return float(numbers.max()) if numbers.numel() else 0.0

    def ratio(self, above: Number, below: Number, where: Any) -> Number:
        """Return ``above / below``, 0 for vectors that do not meet a condition."""
        if isinstance(below, Tensor):
            # Masked twice: the derivative of a quotient by zero is NaN even where it is masked out.
            return torch.where(where, above / torch.where(where, below, 1.0), 0.0)
        return above / below if where else 0.0

    def plus(self, x: Tensor, factor: Number, v: Tensor) -> Tensor:
        """Return ``x + factor * v``, in place in x unless ``recorded``."""
        if not isinstance(factor, Tensor):
            return x.add_(v, alpha=factor)
        factor = factor.to(v.dtype)
        return x + factor * v if self.recorded else x.addcmul_(v, factor)

    def extended(self, z: Tensor, factor: Number, p: Tensor) -> Tensor:
        """Return ``z + factor * p``, in place in p unless ``recorded``."""
        if not isinstance(factor, Tensor):
            return torch.add(z, p, alpha=factor, out=p)
        factor = factor.to(p.dtype)
        return z + factor * p if self.recorded else p.mul_(factor).add_(z)


ONE = Vectors()
"""Arithmetic of one vector, on one process."""

norm: Callable[[Tensor], float] = ONE.norm


def inner(a: Tensor, b: Tensor) -> Any:
    """Return ``a^H b`` of two vectors as a Python number, complex for complex vectors."""
    widened = _WIDENED.get(a.dtype)
    if widened is not None:
        a, b = widened(a), widened(b)
    return torch.vdot(a, b).item()
