"""Products at doublefloat, and what float32 kernels contribute: first results and corrections.

Operands are batches (b, m, n) in float64 or complex128.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from trnblas.nki.launches import doublefloat_product, float64_triangular_solution
from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.operation import Operation
from trnsci.core.errors import KernelError
from trnsci.core.interop import is_fake
from trnsci.core.numbers.conversions import widest
from trnsci.core.numbers.planes import embedded, joined, parts
from trnsolver._factors.forms import columns, joined_columns, of_columns

REACHED = 2.0**-44
"""The largest residual that is accepted, relative to its terms.

With the error of the product that measured it, 2**-45, it is at most 2**-43.
"""
CLOSE = 2.0**-6
"""The largest first correction, relative to what is corrected; the next is below its square."""


def product(launch: Launcher, a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b`` at doublefloat."""
    if not a.shape[-1] * a.numel() * b.numel():
        return a @ b  # zeros
    if a.is_complex():
        return joined(doublefloat_product(launch, parts(a), embedded(b)))
    return doublefloat_product(launch, a, b)


def solved_left(
    launch: Launcher, triangle: Tensor, right: Tensor, upper: bool, refined: bool = False
) -> Tensor:
    """Return ``triangle^-1 @ right`` with the digits of float32, or at doublefloat."""
    if not right.numel():
        return right
    diagonal = triangle.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
    # With a unit diagonal, triangles of complex numbers are triangles of real blocks.
    unit, sides = triangle / diagonal, right / diagonal
    if not unit.is_complex():
        return float64_triangular_solution(launch, unit, sides, upper, refined)
    found = float64_triangular_solution(launch, of_columns(unit), columns(sides), upper, refined)
    return joined_columns(found)


def solved_right(launch: Launcher, left: Tensor, triangle: Tensor, upper: bool) -> Tensor:
    """Return ``left @ triangle^-1`` with the digits of float32."""
    return solved_left(launch, triangle.mT, left.mT, not upper).mT


def in_single(operation: Operation, launch: Launcher, a: Tensor, *args: Any) -> Any:
    """Return the results of a float32 operation, widened."""
    given = a.to(torch.complex64 if a.is_complex() else torch.float32)
    compute = operation.launch
    assert not isinstance(compute, str), "launches of float32 are functions"
    run = partial(compute, launch)
    by_parts = operation.by_parts if a.is_complex() else None
    found = run(given, *args) if by_parts is None else by_parts(run, given, *args)
    return tuple(map(widest, found)) if isinstance(found, tuple) else widest(found)


def only_finite(function: str, *operands: Tensor) -> None:
    """Raise KernelError for operands that float32 kernels cannot scale.

    Raises:
        KernelError: An element is NaN or infinite.
    """
    if not all(is_fake(x) or bool(torch.isfinite(x).all()) for x in operands):
        raise KernelError(f"{function}: an operand has a NaN or an infinity: nothing to refine")


def exponents(values: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    """Return the exponents of largest moduli, which are in [1/2, 1) times the power; 0 for 0."""
    return torch.frexp(values.abs().amax(dim, keepdim=True)).exponent


def times_power(values: Tensor, powers: Tensor) -> Tensor:
    """Return ``values * 2**powers``; half of a power at a time is in the range of float64."""
    half = powers // 2
    return values * torch.exp2(half.double()) * torch.exp2((powers - half).double())


def leading(x: Tensor, most: float) -> int:
    """Return the largest k for which the norms of all leading (k, k) blocks are at most so large.

    A block with a NaN is not.
    """
    squares = x.abs().square().nan_to_num(torch.inf, torch.inf)
    norms = squares.cumsum(-1).cumsum(-2).diagonal(dim1=-2, dim2=-1).sqrt()
    return int((norms <= most).sum(-1).min())


class Progress:
    """Residuals of successive corrections; they have to fall until one is accepted.

    The residual of a first result is no measure of the next one, which has the square of a
    correction: that may be as large as ``CLOSE``.

    Args:
        function: What is computed, for the message.
    """

    def __init__(self, function: str) -> None:
        self._function = function
        self._before = 0.0

    def ended(self, residual: float, accepted: float = REACHED) -> bool:
        """Return whether a residual is accepted.

        Raises:
            KernelError: It is not, nor at most half of the one before.
        """
        if residual <= accepted:
            return True
        halved = not self._before or residual <= self._before / 2
        if not halved or residual == float("inf"):
            raise KernelError(
                f"{self._function}: refinement stopped at a residual of {residual:.3g}, above "
                f"{accepted:.3g}"
            )
        self._before = residual if self._before else max(residual, CLOSE)
        return False


def relative(residual: Tensor, rows: Tensor, columns: Tensor) -> float:
    """Return the largest modulus of a residual of ``rows @ columns``, over the norms of the two."""
    norm = torch.linalg.vector_norm
    terms = norm(rows, dim=-1, keepdim=True) * norm(columns, dim=-2, keepdim=True)
    return float((residual.abs() / terms.clamp_min(torch.finfo(torch.float64).tiny)).max())
