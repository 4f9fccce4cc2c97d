"""The operations of trnsolver that have a kernel, each declared once.

Operands are float32 tensors with exactly one leading batch dimension, ``b`` below, which is 1 for a
single problem. ``trnsolver._paths.kernel_path`` has a function of each name, which takes a
``Launcher`` and these arguments and returns contiguous float32 tensors of these shapes::

    eigh(launch, a (b, n, n), max_sweeps)         -> w (b, n) ascending, v (b, n, n)
    cholesky(launch, a (b, n, n))                 -> lower factor (b, n, n), zeros above
    lu(launch, a (b, n, n))                       -> P, L, U, all (b, n, n), a = P L U
    qr(launch, a (b, m, n)), m >= n               -> q (b, m, n), r (b, n, n), zeros below
    svd(launch, a (b, m, n), max_sweeps), m >= n  -> u (b, m, n), s (b, n) descending, vh (b, n, n)
    pinv(launch, a (b, m, n), rcond, max_sweeps), m >= n
                                                  -> p (b, n, m), s (b, n) descending
    inv_sqrt_spd_ns(launch, a (b, n, n), max_iter, tol)
                                                  -> z (b, n, n), steps (b,), residual (b,)
    msign(launch, a (b, m, n), steps, first, third, fifth)
                                                  -> (b, m, n), see ``fixed_msign``
    cg(launch, a (b, n, n), rhs (b, n), x0 (b, n), tol, max_iter)
                                                  -> x (b, n), residuals (b, max_iter + 1)

``eigh`` and ``cholesky`` read the lower triangle of ``a`` only. ``max_sweeps`` bounds the sweeps of
Jacobi rotations; a result that has not converged within it has NaN in ``w`` or ``s``. A matrix that
is not positive definite gives NaN on the diagonal of its factor, a singular one a zero, or nearly
zero, on that of ``U``. ``qr`` is orthogonal to rounding for every matrix. Otherwise results are
those of the references in ``torch_path``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trnsci.core.backend.derivatives import Gradients, Needed, Tangents
from trnsci.core.backend.operation import Operation
from trnsolver._kernels import limits as limits
from trnsolver._library import LIBRARY
from trnsolver._paths import derivatives as rules
from trnsolver._paths import torch_path


class _Batched(Operation):
    """An operation on one batch of problems: ``vmap`` makes the batch larger."""

    def __init__(self, name: str, **declaration: Any) -> None:
        super().__init__(
            LIBRARY,
            name,
            launch=f"trnsolver._paths.kernel_path:{name}",
            batched=self._folded,
            autocast="float32",
            dtypes=("float32",),
            **declaration,
        )

    def _folded(self, info: Any, in_dims: Sequence[int | None], *args: Any) -> tuple[Any, Any]:
        size = info.batch_size
        sizes, flat = (size, 0), []
        for arg, dim in zip(args, in_dims, strict=True):
            if isinstance(arg, Tensor):
                front = arg.expand(size, *arg.shape) if dim is None else arg.movedim(dim, 0)
                sizes = size, front.shape[1]
                arg = front.flatten(0, 1)
            flat.append(arg)
        result = self(*flat)
        if isinstance(result, tuple):
            return tuple(part.unflatten(0, sizes) for part in result), (0,) * len(result)
        return result.unflatten(0, sizes), 0


def _cubes(factor: float) -> Any:
    """Return the flops of a factorization: ``factor * b * m * n * min(m, n)``."""

    def flops(a: Tensor, *rest: Any) -> float:
        return factor * a.numel() * min(a.shape[-2:])

    return flops


def _per_step(factor: float) -> Any:
    """Return the flops of an iteration: ``factor`` cubes for each of the steps (argument 2)."""

    def flops(a: Tensor, steps: int, *rest: Any) -> float:
        return factor * steps * a.numel() * min(a.shape[-2:])

    return flops


def _up_to(order: int) -> Any:
    """Return the check of a kernel with a largest order: a reason to reject, or ""."""

    def unsuited(a: Tensor, *rest: Any) -> str:
        return "" if a.shape[-1] <= order else f"the kernel takes orders up to {order}"

    return unsuited


def _too_large(nbytes: int) -> str:
    most = limits.SBUF_BYTES
    return "" if nbytes <= most else f"the kernel needs {nbytes} of {most} bytes per partition"


def _lu_unsuited(a: Tensor) -> str:
    if a.shape[-1] != a.shape[-2]:
        return "the kernel takes square matrices"
    return _up_to(limits.LU_ORDER)(a)


def _qr_unsuited(a: Tensor) -> str:
    rows, columns = a.shape[-2:]
    if rows < columns:
        return "the kernel takes at least as many rows as columns"
    return _too_large(limits.qr_bytes(rows, columns))


def _svd_unsuited(a: Tensor, *rest: Any) -> str:
    rows, columns = a.shape[-2:]
    if rows < columns:
        return "the kernel takes at least as many rows as columns"
    if rows > limits.SVD_ROWS or columns > limits.SVD_COLUMNS:
        return f"the kernel takes up to {limits.SVD_COLUMNS} columns and {limits.SVD_ROWS} rows"
    return ""


def _msign_unsuited(a: Tensor, *rest: Any) -> str:
    rows, columns = a.shape[-2:]
    return _too_large(limits.msign_bytes(rows, columns))


EIGH = _Batched(
    "eigh",
    reference=torch_path.torch_eigh,
    backward=rules.eigh_backward,
    jvp=rules.eigh_jvp,
    from_result=True,
    flops=_cubes(9.0),
    unsuited=_up_to(limits.DIVIDED_ORDER),
)
CHOLESKY = _Batched(
    "cholesky",
    reference=torch_path.torch_cholesky,
    backward=rules.cholesky_backward,
    jvp=rules.cholesky_jvp,
    from_result=True,
    flops=_cubes(1 / 3),
    unsuited=_up_to(limits.CHOLESKY_ORDER),
)
LU = _Batched(
    "lu",
    reference=torch_path.torch_lu,
    backward=rules.lu_backward,
    jvp=rules.lu_jvp,
    from_result=True,
    flops=_cubes(2 / 3),
    unsuited=_lu_unsuited,
)
QR = _Batched(
    "qr",
    reference=torch_path.torch_qr,
    backward=rules.qr_backward,
    jvp=rules.qr_jvp,
    from_result=True,
    flops=_cubes(4.0),
    unsuited=_qr_unsuited,
)
SVD = _Batched(
    "svd",
    reference=torch_path.torch_svd,
    backward=rules.svd_backward,
    jvp=rules.svd_jvp,
    from_result=True,
    flops=_cubes(12.0),
    unsuited=_svd_unsuited,
)
PINV = _Batched(
    "pinv",
    reference=torch_path.torch_pinv,
    backward=rules.pinv_backward,
    jvp=rules.pinv_jvp,
    from_result=True,
    flops=_cubes(14.0),
    unsuited=_svd_unsuited,
)
INV_SQRT_SPD_NS = _Batched(
    "inv_sqrt_spd_ns",
    reference=torch_path.fixed_inv_sqrt,
    flops=_per_step(6.0),
    unsuited=_up_to(limits.ROOT_ORDER),
)
MSIGN = _Batched(
    "msign",
    reference=torch_path.fixed_msign,
    flops=_per_step(6.0),
    unsuited=_msign_unsuited,
)


def cg_backward(
    grads: Gradients,
    needed: Needed,
    a: Tensor,
    b: Tensor,
    x0: Tensor,
    tol: float,
    max_iter: int,
    *,
    result: Any,
) -> Gradients:
    """Return -y x^T and y with A y = Gx: the derivatives of the solution, not of the steps to it.

    The initial solution and the residuals have no derivatives.
    """
    given = torch.zeros_like(result[0]) if grads[0] is None else grads[0]
    y, _ = CG(a, given, torch.zeros_like(x0), tol, max_iter)
    for_a = -y.unsqueeze(-1) * result[0].unsqueeze(-2) if needed[0] else None
    return for_a, y if needed[1] else None, None, None, None


def cg_jvp(
    tangents: Tangents,
    a: Tensor,
    b: Tensor,
    x0: Tensor,
    tol: float,
    max_iter: int,
    *,
    result: Any,
) -> tuple[Tensor, Tensor]:
    """Return the solution of A y = Tb - Ta x."""
    x, norms = result
    right = torch.zeros_like(b) if tangents[1] is None else tangents[1]
    if tangents[0] is not None:
        right = right - (tangents[0] @ x.unsqueeze(-1)).squeeze(-1)
    y, _ = CG(a, right, torch.zeros_like(x0), tol, max_iter)
    return y, torch.zeros_like(norms)


CG = _Batched(
    "cg",
    reference=torch_path.fixed_cg,
    fake=torch_path.cg_shape,
    backward=cg_backward,
    jvp=cg_jvp,
    from_result=True,
    flops=lambda a, b, x0, tol, max_iter: 2.0 * a.numel() * max_iter,
    unsuited=_up_to(limits.CG_ORDER),
)


# -- pieces, of single matrices --------------------------------------------------------------------


def _rotated(even: Tensor, odd: Tensor, c: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    return c * even - s * odd, s * even + c * odd


def _matvec(a: Tensor, v: Tensor) -> Tensor:
    # No products that autocast would change here and below: reflections need float32.
    return (a * v.mT).sum(-1, keepdim=True)


def _rank2_update(a: Tensor, u: Tensor, v: Tensor) -> Tensor:
    return a - u * v.mT - v * u.mT


def _piece(name: str, **declaration: Any) -> Operation:
    launch = f"trnsolver._paths.kernel_path:{name}"
    return Operation(
        LIBRARY, name, launch=launch, autocast="float32", dtypes=("float32",), **declaration
    )


ROTATE_PAIRS = _piece(
    "rotate_pairs", reference=_rotated, flops=lambda even, *rest: 6.0 * even.numel()
)
MATVEC = _piece("matvec", reference=_matvec, flops=lambda a, v: 2.0 * a.numel())
RANK2_UPDATE = _piece(
    "rank2_update", reference=_rank2_update, flops=lambda a, *rest: 4.0 * a.numel()
)
