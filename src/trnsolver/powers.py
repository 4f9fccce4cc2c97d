"""Powers and square roots of square matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.arguments import whole
from trnsci.core.backend.derivatives import Gradients, Needed, Tangents
from trnsci.core.backend.launch import Launcher
from trnsci.core.examples import Case
from trnsci.core.numbers.values import finite
from trnsci.core.testing import random_tensor, unit_roundoff
from trnsolver._factors.forms import by_form
from trnsolver._library import no_kernel
from trnsolver._matrix_functions.roots import ROOT
from trnsolver._paths import batches
from trnsolver._paths import derivatives as rules
from trnsolver._paths.arguments import batch_of, in_full_precision, restored, square_matrix
from trnsolver.direct import inv

__all__ = ["matrix_power", "sqrtm"]


@in_full_precision
def matrix_power(A: Tensor, n: int) -> Tensor:
    """Return A to the power n, by repeated squaring.

    Args:
        A: Square matrices.
        n: Exponent; a negative one takes the inverse, and 0 gives the identity.

    Raises:
        SingularMatrixError: n is negative and a matrix is singular.
        ShapeError: A is not square.
        DTypeError: n is not an integer.

    Example:
        >>> matrix_power(torch.tensor([[1.0, 1.0], [1.0, 0.0]]), 10)
        tensor([[89., 55.],
                [55., 34.]])
    """
    n = whole("matrix_power", "n", n)
    work = square_matrix("matrix_power", "A", A)
    if n < 0:
        work, n = inv(work), -n
    if n == 0 or not work.numel():
        return restored(torch.linalg.matrix_power(work, n), A.dtype)
    return restored(POWER.of(work, n), A.dtype)


@in_full_precision
def sqrtm(A: Tensor) -> Tensor:
    """Return X with ``X @ X = A``, whose eigenvalues have positive real parts.

    By SciPy's Schur method on the host. X has the dtype of A.

    Args:
        A: Square matrices; a real one must have no negative eigenvalue, whose root is complex.

    Raises:
        ConvergenceError: A matrix has no such root, or none that is real; convert it to a complex
            dtype for a complex root.
        NotFiniteError: A has a NaN or an infinity.
        ShapeError: A is not square.
        DerivativeError: In a derivative, for a singular matrix.

    Example:
        >>> sqrtm(torch.tensor([[5.0, 4.0], [4.0, 5.0]]))
        tensor([[2.0000, 1.0000],
                [1.0000, 2.0000]])
    """
    no_kernel("sqrtm")
    work = square_matrix("sqrtm", "A", A)
    finite("sqrtm", "A", work)
    return restored(ROOT(batch_of(work)).reshape(work.shape), A.dtype)


# -- the operation ---------------------------------------------------------------------------------


def _power(a: Tensor, exponent: int) -> Tensor:
    return torch.linalg.matrix_power(a, exponent)


def _along(a: Tensor, direction: Tensor, exponent: int) -> Tensor:
    """Return the derivative of the power of A, the upper right block of ``[[A, T], [0, A]]^n``."""
    n = a.shape[-1]
    upper = torch.cat([a, direction], -1)
    lower = torch.cat([torch.zeros_like(a), a], -1)
    found: Tensor = POWER(torch.cat([upper, lower], -2), exponent)[..., :n, n:]
    return found


def _power_backward(
    grad: Tensor, needed: Needed, a: Tensor, exponent: int, *, result: Tensor
) -> Gradients:
    return _along(a.mH, grad, exponent), None


def _power_jvp(tangents: Tangents, a: Tensor, exponent: int, *, result: Tensor) -> Tensor:
    return _along(a, rules.given(tangents[0]), exponent)


def _power_launch(launch: Launcher, a: Tensor, exponent: int) -> Tensor:
    """Return the powers (b, n, n)."""
    from trnsolver._kernels.limits import power_instructions
    from trnsolver._kernels.powers import matrix_power as kernel

    length = power_instructions(a.shape[-1], exponent)
    found: Tensor = batches.launched(launch, kernel, (a,), length, exponent)
    return found


def _power_bound(a: Tensor) -> float:
    """Return n roundings for each of the products, whose terms are positive."""
    return 13 * a.shape[-1] * unit_roundoff(torch.float32)


POWER = batches.Batched(
    "matrix_power",
    reference=_power,
    launch=_power_launch,
    backward=_power_backward,
    jvp=_power_jvp,
    by_parts=by_form,
    flops=lambda a, n: 2.0 * a.shape[-1] * a.numel() * (n.bit_length() + n.bit_count() - 2),
    unsuited=batches.up_to("POWER_ORDER"),
    examples={"matrix_power": lambda: batches.definite_example(3)},
    evidence=(
        Case(
            "matrix_power",
            "power of a matrix",
            lambda: (random_tensor(140, 140).abs() / 112,),
            lambda a: matrix_power(a, 13),
            lambda a: torch.linalg.matrix_power(a.double(), 13),
            "torch in float64",
            _power_bound,
        ),
    ),
)
