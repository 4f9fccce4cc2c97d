"""The front of the Krylov methods for vectors of which each rank holds a part.

Every rank runs the same method on its parts. Products with the matrix are computed by all ranks
together, and scalars are summed over the ranks, so that all of them take the same decisions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from trnsci.core.arguments import agree, floating
from trnsci.core.distributed.agreement import agreement
from trnsci.core.distributed.collectives import all_reduce
from trnsci.core.distributed.groups import Ranks, ranks_of_mesh
from trnsci.core.distributed.layout import local_of, split_dims, with_local
from trnsci.core.errors import DerivativeError, DTypeError, FlagError, OperandError
from trnsci.core.failures import OnFailure, checked_action
from trnsci.core.interop import forward_level, transform_level
from trnsci.core.iterations import Solution
from trnsci.core.krylov.front import NARROW, Operands
from trnsci.core.krylov.operators import LinearOperator
from trnsci.core.krylov.solve import Method, Stopping, System, solve

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

__all__ = ["Sharded", "is_dtensor", "on_mesh", "part_of", "reverse_mode_only", "solved_on_ranks"]


@dataclass(frozen=True)
class Sharded:
    """A square matrix whose products are computed by all ranks together.

    Attributes:
        product: Returns this rank's part of a product for its part of a vector.
        rows: Number of rows of this rank; None for a function.
        order: Number of rows of all ranks; None if unknown.
        data: The entries that this rank has; None for a function.
    """

    product: Callable[[Tensor], Tensor]
    rows: int | None = None
    order: int | None = None
    data: Tensor | None = None


def is_dtensor(x: Any) -> bool:
    """Return whether x is a DTensor, which is imported for subclasses of ``Tensor`` only."""
    if not isinstance(x, Tensor) or type(x) in (Tensor, torch.nn.Parameter):
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(x, DTensor)


def part_of(
    ranks: Ranks, name: str, x: Any, rows: int | None = None, order: int | None = None
) -> tuple[Tensor, DeviceMesh | None]:
    """Return this rank's rows of a DTensor, and its mesh; a plain tensor is the rows itself.

    Args:
        ranks: The ranks of the call.
        name: The argument, for messages.
        x: A DTensor that is Shard(0) on a mesh of these ranks, or this rank's rows.
        rows: Number of rows that this rank must have; None for any.
        order: Number of rows that all ranks must have; None for any.

    Raises:
        DTypeError: x is neither a DTensor nor a plain strided tensor.
        FlagError: The DTensor is not Shard(0), or its mesh has other ranks.
        OperandError: The number of rows is not that of the matrix.
        ShapeError: The part of a DTensor is not that of ``torch.chunk``.
    """
    function, mesh = ranks.function, None
    if is_dtensor(x):
        mesh = x.device_mesh
        (of_mesh,) = ranks_of_mesh(function, mesh, (1,))
        there, here = (dist.get_process_group_ranks(each.group) for each in (of_mesh, ranks))
        if there != here:
            raise FlagError(
                f"{function}: {name} must be on a mesh of the ranks {here}, got {there}"
            )
        if split_dims(function, name, x) != (0,):
            raise FlagError(
                f"{function}: {name} must be Shard(0) along the mesh, got {tuple(x.placements)}"
            )
        if order is not None and x.shape[0] != order:
            raise OperandError(
                f"{function}: {name} must have {order} rows, got shape {tuple(x.shape)}"
            )
        part = local_of(function, name, x)
    else:
        plain = isinstance(x, Tensor) and type(x) in (Tensor, torch.nn.Parameter)
        if not plain or x.layout is not torch.strided:
            kind = x.layout if plain else type(x).__name__
            raise DTypeError(
                f"{function}: {name} must be a DTensor, or a strided tensor of this rank's rows, "
                f"got {kind}"
            )
        part = x
    floating(function, name, part)
    if part.ndim == 0 or (rows is not None and part.shape[0] != rows):
        wanted = "rows" if rows is None else f"the {rows} rows of the matrix"
        raise OperandError(
            f"{function}: {name} must have {wanted} on rank {ranks.rank} of {ranks.size}, got "
            f"shape {tuple(part.shape)}"
        )
    return part, mesh


def on_mesh(local: Tensor, rows: int, mesh: DeviceMesh | None) -> Tensor:
    """Return this rank's rows as a DTensor with a number of rows; as they are without a mesh."""
    if mesh is None:
        return local
    from torch.distributed.tensor import Shard

    return with_local(local, mesh, (Shard(0),), (rows, *local.shape[1:]))


def reverse_mode_only(function: str) -> None:
    """Raise ``DerivativeError`` inside of forward mode and of transforms of ``torch.func``."""
    if forward_level() >= 0 or transform_level() is not None:
        raise DerivativeError(
            f"{function}: ranks have gradients by backward() and torch.autograd.grad only, not "
            f"forward mode and torch.func"
        )


def solved_on_ranks(
    method: Method,
    ranks: Ranks,
    prepare: Callable[[], tuple[Sharded, Stopping]],
    operands: Operands,
    on_failure: OnFailure,
    *,
    columns: bool = False,
    check: bool = True,
) -> Solution:
    """Return the solution for a Hermitian matrix, whose x has the layout of b.

    Args:
        method: The iterative method.
        ranks: The ranks, and the function that is called.
        prepare: Returns the matrix and the stopping rule, or raises; it communicates nothing.
        operands: b and x0, DTensors or this rank's parts; M maps parts to parts. Its A is not read.
        on_failure: Action if the method does not converge.
        columns: Whether b may have columns.
        check: Whether ranks compare their arguments first.

    Raises:
        DerivativeError: Forward mode or a transform of ``torch.func`` is active.
        DTypeError: A dtype does not fit, or an operand has the wrong type.
        FlagError: A DTensor is not Shard(0) on a mesh of the ranks of A.
        OperandError: The shapes do not fit.
    """
    function, b, x0, M = ranks.function, operands.b, operands.x0, operands.M
    reverse_mode_only(function)
    device = b.device if isinstance(b, Tensor) else "cpu"
    with agreement([ranks], device, check=check) as describe:
        checked_action(function, on_failure)
        A, rule = prepare()
        part, mesh = part_of(ranks, "b", b, A.rows, A.order)
        start = None
        if x0 is not None:
            start, _ = part_of(ranks, "x0", x0, A.rows, A.order)
        _check(function, A, part, start, M, columns)
        tracked = torch.is_grad_enabled() and (
            A.data is None or A.data.requires_grad or part.requires_grad
        )
        describe(
            f"order {A.order}, columns {tuple(part.shape[1:])} in {part.dtype}, "
            f"x0 {start is not None}, M {M is not None}, gradients {tracked}, rtol {rule.tol}, "
            f"atol {rule.atol}, max_iter {rule.limit}, on_failure {on_failure!r}"
        )
    system = System(
        function,
        method,
        rule,
        M,
        hermitian=True,
        columns=columns,
        on_failure=on_failure,
        total=lambda value: all_reduce(value, ranks),
    )
    with torch.set_grad_enabled(tracked):
        found = solve(system, LinearOperator(A.product), part, start)
        x = on_mesh(found.x, b.shape[0], mesh)
    return Solution(x, found.iterations, found.residual, found.info)


def _check(
    function: str, A: Sharded, part: Tensor, start: Tensor | None, M: Any, columns: bool
) -> None:
    if part.dtype in NARROW:
        raise DTypeError(
            f"{function}: takes float32, float64 and complex vectors, got {part.dtype}"
        )
    if part.ndim > 1 + columns:
        wanted = "a vector, or a matrix of columns" if columns else "a vector"
        raise OperandError(f"{function}: b must be {wanted}, got shape {tuple(part.shape)}")
    if A.data is not None:
        agree(function, "A", A.data, "b", part)
    if start is not None:
        if start.shape != part.shape:
            raise OperandError(
                f"{function}: x0 must have the shape of b, got {tuple(start.shape)} and "
                f"{tuple(part.shape)}"
            )
        agree(function, "x0", start, "b", part)
    if M is not None and not callable(M):
        raise DTypeError(
            f"{function}: M must be a function of a rank's part, got {type(M).__name__}"
        )
