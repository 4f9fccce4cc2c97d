"""Error measures of the eigenpairs of one matrix, of which the lower triangle is read.

The measure is ``norm(A v - w v) / norm(A)`` with the spectral norm of A. It is computed in float64,
with a bound on its rounding and the lower bound ``norm(A v) / norm(v)`` of ``norm(A)``, so that it
is never reported too small. Where the rounding decides, products are repeated in twice float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, Self, TypeAlias, TypeVar

import torch
from torch import Tensor

from trnsolver._eigen.doubled import doubled_residual, rounding_of_doubled

Pairs: TypeAlias = tuple[Tensor, Tensor]

_EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class EighInfo:
    """Accuracy of eigenpairs.

    Attributes:
        converged: Whether every residual is at most the tolerance.
        tol: The tolerance.
        backward_error: Bound on the largest ``norm(A v - w v) / norm(A)``: the measured one, plus a
            bound on its rounding error.
        forward_error: Bound on the distance of every value from an exact one: the largest
            ``norm(A v - w v)``, plus a bound on its rounding error.
        orthogonality: Largest entry of ``V^H V - I``.
        method: The method that computed the result.
        iterations: Number of its iterations.
        precision: Precision of each stage, in order.
    """

    converged: bool
    tol: float
    backward_error: float
    forward_error: float
    orthogonality: float
    method: str
    iterations: int
    precision: tuple[str, ...]


Info = TypeVar("Info")


class InformedPairs(tuple[Tensor, Tensor], Generic[Info]):
    """``(eigenvalues, eigenvectors)`` with ``info``."""

    info: Info

    def __new__(cls, eigenvalues: Tensor, eigenvectors: Tensor, info: Info) -> Self:
        """Return the pair with its information."""
        made = super().__new__(cls, (eigenvalues, eigenvectors))
        made.info = info
        return made

    def __getnewargs__(self) -> tuple[Tensor, Tensor, Info]:  # copies and pickles
        return (*self, self.info)

    @property
    def eigenvalues(self) -> Tensor:
        """Eigenvalues, ascending."""
        return self[0]

    @property
    def eigenvectors(self) -> Tensor:
        """Eigenvectors, as columns."""
        return self[1]


def judged(a: Tensor, found: Pairs, size: float, computed: EighInfo) -> EighInfo:
    """Return the accuracy of pairs.

    Args:
        a: The matrix.
        found: Values, ascending, and vectors, as columns.
        size: Frobenius norm of A, with both triangles as given.
        computed: The tolerance, and how the pairs were computed; its errors are not read.
    """
    (w, v), tol = found, computed.tol
    n, k = v.shape
    # The pairs may have derivatives; their accuracy has none.
    pairs = _Pairs(a.detach(), w.detach(), v.detach(), size)
    measure = pairs.measure() if k else _Measure(0.0, 0.0, 0.0, 0.0)
    if measure.least() <= tol < measure.most():
        measure = pairs.measure(doubled=True)
    if (k < n or measure.norm == 0) and not measure.most() <= tol:
        measure = measure._replace(norm=max(measure.norm, pairs.longest_column()))
    relative, off = measure.most(), measure.off
    good = math.isfinite(relative) and relative <= tol and off <= max(tol, rounding_of(v))
    # The length of a vector is off by half of its orthogonality error.
    bound = (measure.residual + measure.rounding) / (1 - off) if off < 1 else math.inf
    return replace(
        computed, converged=good, backward_error=relative, forward_error=bound, orthogonality=off
    )


def rounding_of(a: Tensor) -> float:
    """Return the bound on the orthogonality error of computed vectors."""
    return 10 * a.shape[-2] * torch.finfo(a.dtype).eps


def frobenius_norm(a: Tensor) -> float:
    """Return the root of the sum of squares, which may overflow or have a NaN."""
    return float(torch.linalg.vector_norm(a.detach()))


class _Measure(NamedTuple):
    """Errors of pairs.

    Attributes:
        residual: Largest norm of a residual.
        rounding: Bound on the error of that norm, and of ``norm``.
        norm: Lower bound of the norm of the matrix.
        off: Largest entry of ``V^H V - I``.
    """

    residual: float
    rounding: float
    norm: float
    off: float

    def least(self) -> float:
        """Return the measured residual over the norm."""
        return self.residual / self.norm if self.norm > 0 else self.residual

    def most(self) -> float:
        """Return a bound on the exact residual over the exact norm."""
        above, below = self.residual + self.rounding, self.norm - self.rounding
        if above == 0:
            return 0.0
        return above / below * (1 + 8 * _EPS) if below > 0 else math.inf


class _Pairs:
    """A matrix, and approximate eigenpairs, in float64."""

    def __init__(self, a: Tensor, w: Tensor, v: Tensor, size: float) -> None:
        wide = torch.complex128 if a.is_complex() else torch.float64
        lower = a.tril()
        if a.is_complex():  # the diagonal is real
            lower = torch.complex(lower.real, lower.imag.tril(-1))
        self._a = (lower + lower.tril(-1).mH).to(wide)
        self._w, self._v, self._size = w.to(torch.float64), v.to(wide), size

    def measure(self, doubled: bool = False) -> _Measure:
        """Return the errors, with residuals in float64 or in twice that."""
        a, w, v = self._a, self._w, self._v
        n, k = v.shape
        image = a @ v
        lengths = torch.linalg.vector_norm(v, dim=0)
        norm = float((torch.linalg.vector_norm(image, dim=0) / lengths).max())
        rest = doubled_residual(a, v, w) if doubled else image - v * w
        residual = float(torch.linalg.vector_norm(rest, dim=0).max())
        eye = torch.eye(k, dtype=v.dtype, device=v.device)
        off = float((v.mH @ v - eye).abs().max())
        # n + 4 operations on values of norm at most sqrt(2) * size, twice as many for complex ones.
        operations = (2 if a.is_complex() else 1) * (n + 4)
        scale = operations * 2**0.5 * self._size * max(1.0, float(lengths.max()))
        if doubled:
            scale = scale * rounding_of_doubled(2 * n) + operations * residual
        return _Measure(residual, _EPS * scale, norm, off)

    def longest_column(self) -> float:
        """Return the largest norm of a column, a lower bound of the spectral norm."""
        if not self._a.numel():
            return 0.0
        return float(torch.linalg.vector_norm(self._a, dim=0).max())
