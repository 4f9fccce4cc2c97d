"""Eigenvalues and eigenvectors of general square matrices; ``eigen`` has symmetric ones.

Results are complex, also of real matrices. float16 and bfloat16 are computed in float32, and the
results are complex64: torch computes with no narrower complex numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnsci.core.errors import DerivativeError
from trnsci.core.errors.matrices import TorchLinAlgError
from trnsci.core.numbers.values import batched, finite, inert, shapes_are_static
from trnsolver._library import no_kernel
from trnsolver._paths.arguments import in_full_precision, restored, spectral_error, square_matrix
from trnsolver.eigen import Eigenpairs

__all__ = ["eig", "eigvals"]


@in_full_precision
def eig(A: Tensor) -> Eigenpairs:
    """Return w (n,) and V (n, n) with ``A @ V = V * w``: eigenvalues and right eigenvectors.

    The order of eigenvalues is LAPACK's. Eigenvectors have norm 1 and any phase, by which a
    function that is differentiated must not change.

    Args:
        A: Square matrices.

    Returns:
        Complex values and vectors.

    Raises:
        NotFiniteError: A has a NaN or an infinity.
        ConvergenceError: The algorithm did not converge.
        DerivativeError: Eigenvectors of equal eigenvalues are differentiated, or eigenvalues of a
            matrix that has no basis of eigenvectors.
        ShapeError: A is not square.

    Example:
        >>> w, V = eig(torch.tensor([[0.0, -1.0], [1.0, 0.0]]))
        >>> w.imag.sort().values
        tensor([-1.,  1.])
    """
    no_kernel("eig")
    w, v = _pairs("eig", square_matrix("eig", "A", A))
    return Eigenpairs(_in_dtype(w, A.dtype), _in_dtype(v, A.dtype))


@in_full_precision
def eigvals(A: Tensor) -> Tensor:
    """Return the eigenvalues (n,) of square matrices, complex and in LAPACK's order.

    Args:
        A: Square matrices.

    Raises:
        NotFiniteError: A has a NaN or an infinity.
        ConvergenceError: The algorithm did not converge.
        DerivativeError: They are differentiated, and the matrix has no basis of eigenvectors.
        ShapeError: A is not square.
    """
    no_kernel("eigvals")
    work = square_matrix("eigvals", "A", A)
    if not inert(work):
        return _in_dtype(_pairs("eigvals", work, vectors=False)[0], A.dtype)
    return _in_dtype(_computed("eigvals", torch.linalg.eigvals, work), A.dtype)


def _pairs(function: str, a: Tensor, vectors: bool = True) -> tuple[Tensor, Tensor]:
    """Return pairs whose derivatives are refused where there are none."""
    w, v = _computed(function, torch.linalg.eig, a)
    if inert(a) or not a.numel() or torch.compiler.is_compiling():  # a graph reads no values
        return w, v
    fixed_w, fixed_v = w.detach(), v.detach()
    w = _checked(w, lambda: _has_basis(function, fixed_v))
    if vectors:
        v = _checked(v, lambda: _are_apart(function, fixed_w))
    return w, v


def _computed(function: str, routine: Callable[[Tensor], Any], a: Tensor) -> Any:
    finite(function, "A", a)
    try:
        return routine(a)
    except TorchLinAlgError as error:
        raise spectral_error(function, a, error) from None


def _in_dtype(value: Tensor, dtype: torch.dtype) -> Tensor:
    return value if dtype in (torch.float16, torch.bfloat16) else restored(value, dtype)


# -- derivatives that do not exist -----------------------------------------------------------------


class _Checked(torch.autograd.Function):
    """The identity, with a check before it is differentiated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, check: Callable[[], None]) -> Tensor:
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.check = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        ctx.check()
        return grad, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, check: None) -> Tensor:
        ctx.check()
        return tangent.clone()


def _checked(value: Tensor, check: Callable[[], None]) -> Tensor:
    found: Tensor = _Checked.apply(value, check)  # type: ignore[no-untyped-call]
    return found


def _hidden(value: Tensor) -> bool:
    """Return whether values cannot be read: then a derivative that does not exist is not finite."""
    return shapes_are_static() or value.is_meta or batched(value)


def _has_basis(function: str, v: Tensor) -> None:
    """Raise if unit eigenvectors are dependent to rounding, as those of a Jordan block are."""
    if _hidden(v):
        return
    least = torch.linalg.svdvals(v)[..., -1]
    if bool((least <= v.shape[-1] * torch.finfo(v.dtype).eps).any()):
        raise DerivativeError(
            f"{function}: A has no basis of eigenvectors, so that its eigenvalues have no "
            f"derivatives"
        )


def _are_apart(function: str, w: Tensor) -> None:
    """Raise if two eigenvalues are equal to rounding."""
    if _hidden(w):
        return
    n = w.shape[-1]
    gaps = (w.unsqueeze(-1) - w.unsqueeze(-2)).abs() + torch.diag(w.real.new_full((n,), torch.inf))
    least = n * torch.finfo(w.dtype).eps * w.abs().amax(-1)
    if bool((gaps.amin((-2, -1)) <= least).any()):
        raise DerivativeError(
            f"{function}: eigenvectors of equal eigenvalues have no derivatives; eigvals has those "
            f"of the values"
        )
