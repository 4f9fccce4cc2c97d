"""The front of the Krylov methods for vectors of which each rank holds a part.

Every rank runs the same method on its parts. Products with the matrix are computed by all ranks
together, and scalars are summed over the ranks, so that all of them take the same decisions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trnsci.core.arguments import agree
from trnsci.core.distributed.agreement import agreement
from trnsci.core.distributed.collectives import all_reduce
from trnsci.core.distributed.failures import ending_together
from trnsci.core.distributed.groups import Ranks
from trnsci.core.distributed.rows import on_mesh, part_of, reverse_mode_only
from trnsci.core.errors import DTypeError, OperandError
from trnsci.core.iterations import OnFailure, Solution, checked_action
from trnsci.core.krylov.front import NARROW, Operands
from trnsci.core.krylov.operators import LinearOperator
from trnsci.core.krylov.runs import Product, Run, Watch
from trnsci.core.krylov.solve import Method, Stopping, System, solve

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


@dataclass(frozen=True)
class Sharded:
    """A square matrix whose products are computed by all ranks together.

    Attributes:
        product: Returns this rank's part of a product for its part of a vector.
        rows: Number of rows of this rank; None for a function.
        order: Number of rows of all ranks; None if unknown.
        data: The entries that this rank has; None for a function.
        offsets: First row of each rank, and the end; None if ranks exchange them in a product.
    """

    product: Callable[[Tensor], Tensor]
    rows: int | None = None
    order: int | None = None
    data: Tensor | None = None
    offsets: tuple[int, ...] | None = None


def solved_on_ranks(
    function: str,
    method: Method,
    prepare: Callable[[], tuple[Ranks, Sharded, Stopping]],
    operands: Operands,
    on_failure: OnFailure,
    *,
    group: ProcessGroup | None = None,
    columns: bool = False,
    check: bool = True,
) -> Solution:
    """Return the solution for a Hermitian matrix, whose x has the layout of b.

    Args:
        function: The public function, for messages.
        method: The iterative method.
        prepare: Returns the ranks, the matrix and the stopping rule, or raises; it communicates
            nothing.
        operands: b and x0, DTensors or this rank's parts; M maps parts to parts. Of A, the mesh of
            a DTensor is read.
        on_failure: Action if the method does not converge.
        group: Process group of operands that are no DTensors; None for the default one.
        columns: Whether b may have columns.
        check: Whether ranks compare their arguments first.

    Raises:
        DerivativeError: Forward mode or a transform of ``torch.func`` is active.
        DTypeError: A dtype does not fit, or an operand has the wrong type.
        FlagError: A DTensor is not Shard(0) on a mesh of the ranks of A.
        OperandError: The shapes do not fit.
    """
    b, x0, M = operands.b, operands.x0, operands.M
    with agreement(function, operands.A, b, group=group, check=check) as describe:
        reverse_mode_only(function)
        checked_action(function, on_failure)
        ranks, A, rule = prepare()
        part, mesh = part_of(ranks, "b", b, A.rows, A.order)
        start = None
        if x0 is not None:
            start, _ = part_of(ranks, "x0", x0, A.rows, A.order)
        _check(function, A, part, start, M, columns)
        tracked = torch.is_grad_enabled() and (
            A.data is None or A.data.requires_grad or part.requires_grad
        )
        describe(
            f"order {A.order}, columns {tuple(part.shape[1:])} in {part.dtype}, DTensor "
            f"{mesh is not None}, x0 {start is not None}, M {M is not None}, gradients {tracked}, "
            f"rtol {rule.tol}, atol {rule.atol}, max_iter {rule.limit}, on_failure {on_failure!r}, "
            f"layout {A.offsets}"
        )

    def together(
        op: LinearOperator, right: Tensor, x: Tensor, M: Product | None, watch: Watch
    ) -> Run:
        with ending_together(ranks):  # in backward too
            return method(op, right, x, M, watch)

    system = System(
        function,
        together,
        rule,
        M,
        hermitian=True,
        columns=columns,
        on_failure=on_failure,
        total=lambda value: all_reduce(value, ranks),
    )
    with torch.set_grad_enabled(tracked), ending_together(ranks):
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
