"""Matrix signs by products only; ``trnsolver.functions`` exports the same functions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from trnsci.core.arguments import whole
from trnsci.core.backend.launch import Launcher
from trnsci.core.errors import FlagError
from trnsci.core.examples import Case
from trnsci.core.iterations import OnFailure, checked_action, report_failure
from trnsci.core.numbers.products import matmul
from trnsci.core.numbers.values import concrete
from trnsci.core.testing import random_tensor
from trnsolver._factors.forms import by_form
from trnsolver._library import kernels_wanted
from trnsolver._paths import batches
from trnsolver._paths.arguments import any_matrix, batch_of, in_full_precision, restored, working

__all__ = ["msign", "orthogonalize"]

MUON = (3.4445, -4.775, 2.0315)
"""Coefficients of Muon's quintic step: large slope at zero, values near one."""

NEWTON_SCHULZ = (1.875, -1.25, 0.375)
"""The quintic step that converges to singular values of one, with third order."""

# From this aspect ratio on, steps on the Gram matrix are cheaper than on the whole matrix.
_GRAM = 2


@in_full_precision
def msign(A: Tensor, steps: int = 10, polish: int = 4, *, on_failure: OnFailure = "warn") -> Tensor:
    """Return ``U @ Vh`` of the singular value decomposition, by products only.

    ``steps`` quintic steps with a large slope raise singular values from about ``3.4 ** -steps`` of
    the largest to near 1; ``polish`` steps of third order then converge to 1 to rounding. With the
    defaults this holds for all above 1e-4 of the norm; smaller ones stay below 1.

    Args:
        A: Matrices (m, n).
        steps: Number of steps with a large slope.
        polish: Number of steps that converge.
        on_failure: ``"warn"``, ``"raise"`` or ``"ignore"`` if a singular value of the result is not
            1, because it is too small in A: ``polar`` takes matrices of any condition number. It is
            not checked where values cannot be read, and for matrices of zeros.

    Raises:
        ConvergenceError: A singular value is not 1, and ``on_failure`` is ``"raise"``.
        FlagError: A number of steps is negative.

    Example:
        >>> msign(torch.tensor([[3.0, 0.0], [0.0, -0.5]]))
        tensor([[ 1.,  0.],
                [ 0., -1.]])
    """
    work = any_matrix("msign", "A", A)
    checked_action("msign", on_failure)
    x = _scaled(work)
    for count, name, weights in ((steps, "steps", MUON), (polish, "polish", NEWTON_SCHULZ)):
        whole("msign", name, count, 0, error=FlagError)
        x = _quintic(x, count, weights)
    if on_failure != "ignore" and concrete(x):
        _report_signs(x.detach(), on_failure)
    return restored(x, A.dtype)


def _report_signs(x: Tensor, on_failure: OnFailure) -> None:
    """Report matrices, other than zero, whose singular values are not all 1."""
    flat = batch_of(x.mH if x.shape[-2] > x.shape[-1] else x)
    if not flat.numel():
        return
    gram = flat @ flat.mH
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    zero = flat.abs().amax((-2, -1)) == 0
    far = torch.where(zero, 0.0, torch.linalg.matrix_norm(gram - eye)).max()
    if not float(far) <= torch.finfo(far.dtype).eps ** 0.5:
        report_failure(
            f"msign: not converged: norm(X X^H - I) is {float(far):.3g}; the steps raise singular "
            f"values above about 1e-4 of the norm of A to 1, take more steps or polar",
            on_failure,
        )


@in_full_precision
def orthogonalize(
    A: Tensor,
    steps: int = 5,
    *,
    dtype: torch.dtype | None = None,
    coefficients: tuple[float, float, float] = MUON,
) -> Tensor:
    """Return A with all singular values replaced by about 1, as in the Muon optimizer.

    Five quintic Newton-Schulz steps bring singular values above 1 / 100 of the norm to between 0.7
    and 1.2, which is close enough for an optimizer. If one side is at least twice the other, the
    steps run on the Gram matrix of the shorter side, in float32, and the large matrix is read
    twice.

    Args:
        A: Matrices (m, n).
        steps: Number of steps.
        dtype: Dtype of the products in torch, such as bfloat16; None for the dtype of A. Kernels
            compute in float32.
        coefficients: Coefficients of a step, the odd polynomial ``a x + b x^3 + c x^5``.

    Raises:
        FlagError: The number of steps is negative.
    """
    x = _scaled(any_matrix("orthogonalize", "A", A))
    whole("orthogonalize", "steps", steps, 0, error=FlagError)
    if kernels_wanted():
        return _quintic(x, steps, coefficients).to(A.dtype)
    sides = sorted(x.shape[-2:])
    if sides[1] < _GRAM * sides[0]:
        x = x if dtype is None else x.to(dtype)
        return _quintic(x, steps, coefficients).to(A.dtype)
    return _in_gram_form(x, steps, coefficients, dtype).to(A.dtype)


def _scaled(a: Tensor) -> Tensor:
    """Return matrices scaled to singular values of at most 1; zero matrices are unchanged."""
    a = a / peak(a)
    size = torch.linalg.matrix_norm(a, keepdim=True)
    return a / torch.where(size > 0, size, 1.0)


def peak(a: Tensor) -> Tensor:
    """Return the largest magnitude of each matrix, 1 for zeros, to avoid overflow of squares."""
    if not a.numel():
        return a.new_ones(()).real
    largest = a.detach().abs().amax((-2, -1), keepdim=True)
    return torch.where(largest > 0, largest, 1.0)


def _quintic(x: Tensor, steps: int, coefficients: tuple[float, float, float]) -> Tensor:
    """Return the result of quintic steps on matrices with singular values of at most 1.

    Each step is ``X <- first X + (third G + fifth G^2) X`` with the Gram matrix ``G = X X^H`` of
    the shorter side.
    """
    found: Tensor = MSIGN.of(x, steps, *coefficients)
    return found


def _fixed_msign(a: Tensor, steps: int, first: float, third: float, fifth: float) -> Tensor:
    return quintic_steps(matmul, a, steps, first, third, fifth)


def quintic_steps(
    multiply: Callable[[Tensor, Tensor], Tensor],
    a: Tensor,
    steps: int,
    first: float,
    third: float,
    fifth: float,
) -> Tensor:
    """Return the result of quintic steps with the products of a function."""
    tall = a.shape[-2] > a.shape[-1]
    x = a.mH if tall else a
    for _ in range(steps):
        gram = multiply(x, x.mH)
        x = first * x + multiply(third * gram + fifth * multiply(gram, gram), x)
    return x.mH if tall else x


def _in_gram_form(
    x: Tensor, steps: int, coefficients: tuple[float, float, float], dtype: torch.dtype | None
) -> Tensor:
    """Return the same by steps on the Gram matrix of the shorter side."""
    tall = x.shape[-2] > x.shape[-1]
    x = x.mH if tall else x
    given = x if dtype is None else x.to(dtype)
    # In bfloat16 a Gram matrix could have negative eigenvalues, which the steps amplify.
    exact = working(given)
    product = gram_steps(exact @ exact.mH, steps, coefficients)
    x = matmul(product.to(given.dtype), given)
    return x.mH if tall else x


def _msign_launch(
    launch: Launcher, a: Tensor, steps: int, first: float, third: float, fifth: float
) -> Tensor:
    from trnsolver._kernels.limits import msign_instructions
    from trnsolver._kernels.newton_schulz import msign

    if steps == 0:
        return a.clone()
    length = msign_instructions(a.shape[-2], a.shape[-1], steps)
    found: Tensor = batches.launched(launch, msign, (a,), length, steps, first, third, fifth)
    return found


def gram_steps(gram: Tensor, steps: int, coefficients: tuple[float, float, float]) -> Tensor:
    """Return the product of the polynomials P of all steps ``G <- P G P`` on Gram matrices."""
    first, third, fifth = coefficients
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    product = eye.expand_as(gram)
    for _ in range(steps):
        step = first * eye + third * gram + fifth * (gram @ gram)
        product = step @ product
        gram = step @ gram @ step
    return product


def _exact_sign(a: Tensor) -> Tensor:
    u, _, vh = torch.linalg.svd(a.double(), full_matrices=False)
    return u @ vh


MSIGN = batches.Batched(
    "msign",
    reference=_fixed_msign,
    launch=_msign_launch,
    by_parts=by_form,
    flops=batches.cubes_per_step(6.0),
    unsuited=batches.within("msign_bytes"),
    refined="trnsolver._doublefloat.functions:msign",
    examples={"msign": batches.definite_example, "orthogonalize": batches.definite_example},
    evidence=(
        Case(
            "msign",
            "sign of a matrix",
            lambda: (torch.eye(40, 20) + 0.3 * random_tensor(40, 20) / 40**0.5,),
            lambda a: msign(a),
            _exact_sign,
            "torch in float64",
            batches.condition_bound,
        ),
    ),
)
