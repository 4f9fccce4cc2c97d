"""Solutions of square systems and determinants at doublefloat, each as one operation.

At other levels a solution is a factorization and two triangular solutions, see ``direct``, and
torch computes determinants.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.backend.derivatives import Gradients, Needed, Tangents
from trnsci.core.numbers.values import concrete, only_finite
from trnsolver._paths import batches
from trnsolver._paths import derivatives as rules
from trnsolver._paths.arguments import batch_of, batch_shape, singular


def refined_solution(function: str, a: Tensor, columns: Tensor) -> Tensor:
    """Return the solution of square systems at doublefloat.

    Raises:
        SingularMatrixError: A matrix is singular.
    """
    batch = batch_shape(a, columns)
    flat = (batch_of(x.expand(*batch, *x.shape[-2:])) for x in (a, columns))
    found: Tensor = SYSTEM(*flat)
    if concrete(found) and bool(found.isnan().any()) and only_finite(a) and only_finite(columns):
        raise singular(function, "A", "a pivot is zero")
    return found.reshape((*batch, *columns.shape[-2:]))


def refined_determinant(a: Tensor, logarithm: bool) -> tuple[Tensor, Tensor]:
    """Return determinants at doublefloat and zeros, or signs and logarithms of magnitudes."""
    first, second = DETERMINANT.of(a, logarithm)
    return first, second


def _solve(a: Tensor, b: Tensor) -> Tensor:
    return torch.linalg.solve(a, b)


def _backward(grad: Tensor, needed: Needed, a: Tensor, b: Tensor, *, result: Tensor) -> Gradients:
    """Return -Z X^H for A and Z for B, where A^H Z = G."""
    pulled = SYSTEM(a.mH, grad)
    return -rules.product(pulled, result.mH) if needed[0] else None, pulled


def _jvp(tangents: Tangents, a: Tensor, b: Tensor, *, result: Tensor) -> Tensor:
    """Return the solution for TB - TA X."""
    of_a, of_b = tangents
    right = torch.zeros_like(b) if of_b is None else of_b
    found: Tensor = SYSTEM(a, right if of_a is None else right - rules.product(of_a, result))
    return found


SYSTEM = batches.Batched(
    "doublefloat_solve",
    batches.REFINED,
    reference=_solve,
    launch="trnsolver._doublefloat.systems:solution",
    doublefloat=True,
    backward=_backward,
    jvp=_jvp,
    flops=lambda a, b: 2.0 * a.numel() * (a.shape[-1] / 3 + b.shape[-1]),
    unsuited=batches.up_to("LU_ORDER"),
)


def _determinant(a: Tensor, logarithm: bool) -> tuple[Tensor, Tensor]:
    if logarithm:
        sign, size = torch.linalg.slogdet(a)
        return sign, size
    value = torch.linalg.det(a)
    return value, torch.zeros_like(value.real)


DETERMINANT = batches.Batched(
    "doublefloat_determinant",
    batches.REFINED,
    reference=_determinant,
    launch="trnsolver._doublefloat.systems:determinant",
    doublefloat=True,
    flops=batches.cubes(2 / 3),
    unsuited=batches.up_to("LU_ORDER"),
    examples={"det": batches.definite_example, "slogdet": batches.definite_example},
)
