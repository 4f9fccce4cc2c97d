"""Operations on a batch of problems: what the declarations of trnsolver share.

Operands of a launch are float32 tensors with exactly one leading batch dimension, ``b`` in the
docstrings, which is 1 for a single problem. Complex ones become real forms of twice the order, by
the ``by_parts`` of an operation; ``svd`` and ``pinv``, which take several launches, take complex64
themselves. Results are contiguous and have the shapes of the references. NaN in them stands for a
matrix without a factor, or an iteration without convergence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.operation import Operation
from trnsci.core.examples import Case, Example, example
from trnsci.core.numbers.constants import Constants
from trnsci.core.numbers.planes import real_length
from trnsci.core.testing import random_tensor, unit_roundoff
from trnsolver._eigen.tournament import packed_tables
from trnsolver._library import LIBRARY, kernels_wanted
from trnsolver._paths.arguments import batch_of

SWEEPS = 12
"""Largest number of Jacobi sweeps on a kernel: twice the number for order 256."""

REFINED = ("float32", "float64", "complex64", "complex128")
"""Dtypes of operations at doublefloat."""
_OF_FLOAT32 = ("launch", "by_parts", "examples", "evidence")
"""Declarations that an operation at doublefloat does not have from that in float32."""


class Batched(Operation):
    """An operation on one batch of problems: ``vmap`` makes the batch larger.

    Rules for derivatives get the result.

    Args:
        name: Name of the operation.
        dtypes: As in ``Operation``.
        refined: Launch at the level doublefloat, ``"module:function"``, of real and complex
            operands; it is that of a second operation with the same reference and derivatives.
        **declaration: Other arguments of ``Operation``.
    """

    def __init__(
        self,
        name: str,
        dtypes: tuple[str, ...] = ("float32",),
        refined: str = "",
        **declaration: Any,
    ) -> None:
        self._refined: Batched | None = None
        if refined:
            kept = {key: of for key, of in declaration.items() if key not in _OF_FLOAT32}
            self._refined = Batched(
                f"doublefloat_{name}", REFINED, launch=refined, doublefloat=True, **kept
            )
        super().__init__(
            LIBRARY,
            name,
            batched=self._folded,
            autocast="float32",
            dtypes=dtypes,
            holomorphic=False,
            from_result="backward" in declaration,
            **declaration,
        )

    def of(self, a: Tensor, *args: Any) -> Any:
        """Return the results for matrices with any batch dimensions."""
        choice = kernels_wanted()
        if choice is None:
            return self.reference(a, *args)
        chosen = self._refined if choice.widening and self._refined else self
        found, batch = chosen.called(choice, batch_of(a), *args), a.shape[:-2]
        if isinstance(found, Tensor):
            return found.reshape((*batch, *found.shape[1:]))
        return tuple(part.reshape((*batch, *part.shape[1:])) for part in found)

    def _folded(self, info: Any, in_dims: Sequence[int | None], *args: Any) -> tuple[Any, Any]:
        return folded(self, info, in_dims, args)


def folded(
    function: Callable[..., Any], info: Any, in_dims: Sequence[int | None], args: Sequence[Any]
) -> tuple[Any, Any]:
    """Return the results of a function of batches under ``vmap``: it makes the batch larger."""
    size = info.batch_size
    sizes, flat = (size, 0), []
    for arg, dim in zip(args, in_dims, strict=True):
        if isinstance(arg, Tensor):
            front = arg.expand(size, *arg.shape) if dim is None else arg.movedim(dim, 0)
            sizes = size, front.shape[1]
            arg = front.flatten(0, 1)
        flat.append(arg)
    result = function(*flat)
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


def within(nbytes: str) -> Callable[..., str]:
    """Return the check of a kernel whose bytes per partition this function of ``limits`` gives."""

    def unsuited(a: Tensor, *rest: Any) -> str:
        from trnsolver._kernels import limits

        return too_large(getattr(limits, nbytes)(*(real_length(a, side) for side in a.shape[-2:])))

    return unsuited


def too_large(nbytes: int) -> str:
    """Return the reason to reject a problem of so many bytes per partition, or ""."""
    from trnsolver._kernels.limits import SBUF_BYTES as most

    return "" if nbytes <= most else f"the kernel needs {nbytes} of {most} bytes per partition"


# -- launches --------------------------------------------------------------------------------------

TABLES: Constants[tuple[int, int]] = Constants(lambda key: (packed_tables(*key),))


def launched(
    launch: Launcher, kernel: Any, tensors: tuple[Tensor, ...], length: int, *rest: Any
) -> Any:
    """Return the results of a kernel for a batch, split into launches of limited program length.

    Args:
        launch: The launcher.
        kernel: A kernel whose program grows with the batch, and whose results are batches.
        tensors: The batched arguments.
        length: Number of instructions for one matrix of the batch.
        *rest: The other arguments.
    """
    from trnsolver._kernels.limits import PROGRAM

    count, most = tensors[0].shape[0], max(1, PROGRAM // length)
    if count <= most:
        return launch(kernel, *tensors, *rest)
    parts = []
    for first in range(0, count, most):
        parts.append(launch(kernel, *(x[first : first + most] for x in tensors), *rest))
    if isinstance(parts[0], Tensor):
        return torch.cat(parts)
    return tuple(torch.cat(results) for results in zip(*parts, strict=True))


def scaled(a: Tensor, lower: bool = False) -> tuple[Tensor, Tensor]:
    """Return matrices divided by powers of four near their largest entries, and their roots.

    Kernels compute squares in float32, and a device may replace numbers below its smallest normal
    one by zero. The division is exact, except for entries that are far below the largest.

    Args:
        a: Matrices, (batch, m, n).
        lower: Whether only lower triangles are read.
    """
    root = root_of_power((a.tril() if lower else a).abs().amax((-2, -1), keepdim=True))
    return a / root / root, root.squeeze(-1)


def root_of_power(sizes: Tensor) -> Tensor:
    """Return roots of the powers of four near numbers, 1 for those not positive and finite.

    Numbers are divided twice by the root: the power itself or its inverse may overflow.
    """
    halves = torch.frexp(sizes).exponent // 2
    return torch.where((sizes > 0) & (sizes < torch.inf), torch.exp2(halves.to(sizes.dtype)), 1.0)


def negligible(n: int) -> float:
    """Return the tolerance of off-diagonal entries, relative to the largest entry of the matrix.

    Each product of the last sweep rounds once, with varying signs; the residual stays below
    ``20 * eps * n``.
    """
    return 4 * torch.finfo(torch.float32).eps * n


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


def orthonormal_case(
    kernel: str,
    title: str,
    inputs: Callable[[], tuple[Tensor]],
    products: Callable[[Tensor], tuple[Tensor, Tensor]],
    public: bool = True,
) -> Case:
    """Return the case of orthonormal factors: their products are a matrix and the identity."""

    def exact(a: Tensor) -> tuple[Tensor, Tensor]:
        return a, torch.eye(a.shape[-1]).expand(*a.shape[:-2], a.shape[-1], a.shape[-1])

    return Case(kernel, title, inputs, products, exact, "the matrix itself", rows_bound, public)


def rows_bound(a: Tensor) -> float:
    """Return the bound of residual and orthogonality: forty roundings for each row."""
    return 40 * unit_roundoff(torch.float32) * a.shape[-2]


def condition_bound(a: Tensor, *rest: Tensor) -> float:
    """Return forty roundings for each row, times the condition number."""
    condition = float(torch.linalg.cond(a.double()).max())
    return 40 * unit_roundoff(torch.float32) * a.shape[-1] * condition
