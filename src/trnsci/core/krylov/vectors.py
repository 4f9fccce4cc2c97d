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
_SHORT, _LEAST_SHORT = 2**12, 1e-24
"""Sums of so few products lose few digits in float32, unless they are as small as this."""

_WIDENED: dict[torch.dtype, Callable[[Tensor], Tensor]] = {
    torch.float32: Tensor.double,
    torch.complex64: lambda v: v.to(torch.complex128),
}
"""Conversions to the dtype of sums."""


class Vectors:
    """Inner products, norms and updates of one vector (n,); scalars are Python numbers.

    Args:
        total: Sums scalars over all ranks that hold parts of the vector.
    """

    def __init__(self, total: Callable[[Tensor], Tensor] | None = None) -> None:
        self.total = total

    def inner(self, a: Tensor, b: Tensor) -> Number:
        """Return the real part of ``a^H b``."""
        widened = _WIDENED.get(a.dtype)
        if widened is not None:
            same, a = b is a, widened(a)
            b = a if same else widened(b)
        found = torch.vdot(a, b)
        if self.total is None:
            return found.item().real
        return self.total(_real(found)).item()

    def short_inner(self, a: Tensor, b: Tensor) -> Number:
        """Return ``inner(a, b)``; few numbers of usual size are added in their own dtype."""
        if len(a) <= _SHORT and self.total is None:
            found = torch.vdot(a, b).item().real
            if _LEAST_SHORT < abs(found) < math.inf:
                return found
        return self.inner(a, b)

    root: Callable[[Number], Number] = staticmethod(math.sqrt)
    """The norm from its square, without the derivative, which is infinite at zero."""

    def norm(self, v: Tensor) -> Number:
        """Return the Euclidean norm, without a derivative.

        It is accurate even where its square overflows or underflows.
        """
        square = self.inner(v, v)
        if _LEAST < square < math.inf:
            return math.sqrt(square)
        peak = self.peak(v)
        if not 0 < peak < math.inf:
            return peak
        unit = 2.0 ** (math.frexp(peak)[1] - 1)
        return math.sqrt(self.inner(v / unit, v / unit)) * unit

    def peak(self, v: Tensor) -> Number:
        """Return the largest magnitude of a real or imaginary part; NaN if one is NaN.

        For vectors in parts on several ranks: the sum of the ranks' maxima, an upper bound.
        """
        v = _parts(v)
        found = torch.linalg.vector_norm(v, math.inf) if v.numel() else v.new_zeros(())
        return found.item() if self.total is None else self.total(found.double()).item()

    def zero(self, v: Tensor) -> bool:
        """Return whether all elements of all vectors are zero."""
        found = torch.any(v)
        if self.total is not None:
            found = self.total(found.double())
        return not bool(found)

    some: Callable[[Any], bool] = staticmethod(bool)
    """Whether a condition holds for any vector."""

    worst: Callable[[Number], float] = staticmethod(float)
    """The largest of the numbers of all vectors; NaN if one is NaN."""

    @staticmethod
    def ratio(above: Number, below: Number, where: Any) -> Number:
        """Return ``above / below``, 0 for vectors that do not meet a condition."""
        return above / below if where else 0.0

    def plus(self, x: Tensor, factor: Number, v: Tensor) -> Tensor:
        """Return ``x + factor * v``, in place in x."""
        return x.add_(v, alpha=factor)

    def extended(self, z: Tensor, factor: Number, p: Tensor) -> Tensor:
        """Return ``z + factor * p``, in place in p."""
        return torch.add(z, p, alpha=factor, out=p)


class Several(Vectors):
    """The operations of ``Vectors`` for several vectors in one tensor.

    Their scalars are tensors that broadcast along the vectors. The norm is infinite where its
    square overflows, and 0 where that underflows.

    Args:
        dim: The dimension of the vectors' elements.
        total: As in ``Vectors``.
        recorded: Whether derivatives or a graph are recorded. Then no value is read on the host
            and no tensor is written in place.
    """

    def __init__(
        self,
        dim: int,
        total: Callable[[Tensor], Tensor] | None = None,
        recorded: bool = False,
    ) -> None:
        super().__init__(total)
        self.dim, self.recorded = dim, recorded

    def inner(self, a: Tensor, b: Tensor) -> Number:
        """Return the real parts of ``a^H b``."""
        widened = _WIDENED.get(a.dtype)
        if widened is not None:
            same, a = b is a, widened(a)
            b = a if same else widened(b)
        found = torch.linalg.vecdot(a, b, dim=self.dim).unsqueeze(self.dim)
        found = _real(found)
        return found if self.total is None else self.total(found)

    short_inner = inner

    @staticmethod
    def root(square: Number) -> Number:
        """Return the norms from their squares, without derivatives."""
        return square.detach().sqrt()

    def norm(self, v: Tensor) -> Number:
        """Return the Euclidean norms."""
        return self.root(self.inner(v, v))

    def peak(self, v: Tensor) -> Number:
        """Return the largest magnitude of a real or imaginary part of each vector."""
        sizes = _parts(v).abs()
        if v.is_complex():
            sizes = sizes.amax(-1)
        found = (sizes.amax if v.numel() else sizes.sum)(self.dim, keepdim=True).double()
        return found if self.total is None else self.total(found)

    def some(self, mask: Any) -> bool:
        """Return whether a condition holds for any vector; True if ``recorded``."""
        return self.recorded or bool(mask.any())

    @staticmethod
    def worst(numbers: Number) -> float:
        """Return the largest of the numbers; NaN if one is NaN."""
        return float(numbers.max()) if numbers.numel() else 0.0

    @staticmethod
    def ratio(above: Number, below: Number, where: Any) -> Number:
        """Return ``above / below``; 0 where ``where`` is False."""
        # Masked twice: the derivative of a quotient by zero is NaN even where it is masked out.
        return torch.where(where, above / torch.where(where, below, 1.0), 0.0)

    def plus(self, x: Tensor, factor: Number, v: Tensor) -> Tensor:
        """Return ``x + factor * v``, in place in x unless ``recorded``."""
        factor = factor.to(v.dtype)
        return x + factor * v if self.recorded else x.addcmul_(v, factor)

    def extended(self, z: Tensor, factor: Number, p: Tensor) -> Tensor:
        """Return ``z + factor * p``, in place in p unless ``recorded``."""
        factor = factor.to(p.dtype)
        return z + factor * p if self.recorded else p.mul_(factor).add_(z)


def _real(v: Tensor) -> Tensor:
    return v.real.contiguous() if v.is_complex() else v


def _parts(v: Tensor) -> Tensor:
    """Return real elements, or the parts of complex ones in a last dimension of 2."""
    # Not the moduli, which can overflow.
    return torch.view_as_real(v.detach().resolve_conj()) if v.is_complex() else v.detach()


ONE = Vectors()
"""Arithmetic of one vector, on one process."""

norm: Callable[[Tensor], float] = ONE.norm


def inner(a: Tensor, b: Tensor) -> Any:
    """Return ``a^H b`` of two vectors as a Python number, complex for complex vectors."""
    widened = _WIDENED.get(a.dtype)
    if widened is not None:
        a, b = widened(a), widened(b)
    return torch.vdot(a, b).item()
