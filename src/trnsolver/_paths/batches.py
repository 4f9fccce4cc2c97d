"""Operations on a batch of problems: what the declarations of trnsolver share.

Operands are float32 tensors with exactly one leading batch dimension, ``b`` below, which is 1 for a
single problem. Complex ones become real forms of twice the order, by the ``by_parts`` of an
operation; ``svd`` and ``pinv``, which take several launches, take complex64 themselves.
``trnsolver._paths.kernel_path`` has a function of each name, which takes a ``Launcher`` and these
arguments and returns contiguous tensors of these shapes::

    eigh(launch, a (b, n, n), max_sweeps)         -> w (b, n) ascending, v (b, n, n)
    cholesky(launch, a (b, n, n))                 -> lower factor (b, n, n), zeros above
    lu(launch, a (b, m, n), paired)               -> P (b, m, m), L (b, m, k), U (b, k, n); paired:
                                                     a is ``parts`` (b, m, 2 n), L, U real forms
    qr(launch, a (b, m, n)), m >= n               -> q (b, m, n), r (b, n, n), zeros below
    svd(launch, a (b, m, n), max_sweeps, full), m >= n
                                                  -> u (b, m, n), s (b, n) descending, vh (b, n, n);
                                                     if full, u (b, m, m)
    pinv(launch, a (b, m, n), rcond, max_sweeps), m >= n
                                                  -> p (b, n, m), s (b, n) descending
    inv_sqrt_spd_ns(launch, a (b, n, n), max_iter, tol)
                                                  -> z (b, n, n), steps (b,), residual (b,)
    msign(launch, a (b, m, n), steps, first, third, fifth)
                                                  -> (b, m, n)
    cg(launch, a (b, n, n), rhs (b, n), x0 (b, n), tol, max_iter)
                                                  -> x (b, n), residuals (b, max_iter + 1)

``eigh`` and ``cholesky`` read the lower triangle of ``a`` only. ``max_sweeps`` bounds the sweeps of
Jacobi rotations; a result that has not converged within it has NaN in ``w`` or ``s``. A matrix that
is not positive definite gives NaN on the diagonal of its factor, a singular one a zero, or nearly
zero, on that of ``U``. ``qr`` is orthogonal to rounding for every matrix. Otherwise results are
those of the references.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from trnsci.core.backend.operation import Operation
from trnsci.core.examples import Example, example
from trnsci.core.numbers.planes import real_length
from trnsci.core.testing import random_tensor, unit_roundoff
from trnsolver._library import LIBRARY
from trnsolver._paths.arguments import batch_of

SWEEPS = 12
"""Largest number of Jacobi sweeps on a kernel: twice the number for order 256."""


class Batched(Operation):
    """An operation on one batch of problems: ``vmap`` makes the batch larger."""

    def __init__(
        self, name: str, dtypes: tuple[str, ...] = ("float32",), **declaration: Any
    ) -> None:
        super().__init__(
            LIBRARY,
            name,
            launch=f"trnsolver._paths.kernel_path:{name}",
            batched=self._folded,
            autocast="float32",
            dtypes=dtypes,
            holomorphic=False,
            **declaration,
        )

    def of(self, a: Tensor, *args: Any) -> Any:
        """Return the results for matrices with any batch dimensions."""
        found, batch = self(batch_of(a), *args), a.shape[:-2]
        if isinstance(found, Tensor):
            return found.reshape(*batch, *found.shape[1:])
        return tuple(part.reshape(*batch, *part.shape[1:]) for part in found)

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


def cubes(factor: float) -> Callable[..., float]:
    """Return the flops of a factorization: ``factor * b * m * n * min(m, n)``."""
    return lambda a, *rest: factor * a.numel() * min(a.shape[-2:])


def cubes_per_step(factor: float) -> Callable[..., float]:
    """Return the flops of an iteration: ``factor`` cubes for each of the steps (argument 2)."""
    return lambda a, steps, *rest: factor * steps * a.numel() * min(a.shape[-2:])


def up_to(limit: str) -> Callable[..., str]:
    """Return the check of a kernel with a largest order, which has this name in ``limits``."""

    def unsuited(a: Tensor, *rest: Any) -> str:
        from trnsolver._kernels import limits

        order = getattr(limits, limit)
        if real_length(a, max(a.shape[-2:])) <= order:
            return ""
        return f"the kernel takes orders up to {order // real_length(a, 1)}"

    return unsuited


def too_large(nbytes: int) -> str:
    """Return the reason to reject a problem of so many bytes per partition, or ""."""
    from trnsolver._kernels.limits import SBUF_BYTES as most

    return "" if nbytes <= most else f"the kernel needs {nbytes} of {most} bytes per partition"


# -- examples and evidence -------------------------------------------------------------------------


def definite_example(*more: Any, **options: Any) -> Example:
    """Return a call with a positive definite matrix of order 4, and further arguments."""
    a = random_tensor(4, 4)
    return example(a @ a.mT + 4 * torch.eye(4), *more, **options)


def definite_system() -> Example:
    """Return a call with a positive definite matrix of order 4 and a right-hand side."""
    return definite_example(random_tensor(4, seed=3))


def definite(n: int) -> Tensor:
    """Return a positive definite matrix with a condition number below 10."""
    x = random_tensor(n, n) / n**0.5
    return x @ x.mT + torch.eye(n)


def with_identity(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return what products of factors are: the matrix, and the identity for orthonormal ones."""
    return a, torch.eye(a.shape[-1]).expand(*a.shape[:-2], a.shape[-1], a.shape[-1])


def rows_bound(a: Tensor) -> float:
    """Return the bound of residual and orthogonality: forty roundings for each row."""
    return 40 * unit_roundoff(torch.float32) * a.shape[-2]


def condition_bound(a: Tensor, *rest: Tensor) -> float:
    """Return forty roundings for each row, times the condition number."""
    condition = float(torch.linalg.cond(a.double()).max())
    return 40 * unit_roundoff(torch.float32) * a.shape[-1] * condition
