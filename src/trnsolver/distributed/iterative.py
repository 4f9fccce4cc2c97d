"""Conjugate gradients and MINRES for matrices over the ranks of a process group.

Every rank runs the method on its parts of the vectors; all take the same steps and report the same
residual. Gradients of b and of the entries of A are those of the exact solution, by one more
system; all ranks must compute them together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from trnsci.core.arguments import also_spelled
from trnsci.core.distributed.collectives import all_gather
from trnsci.core.distributed.groups import Ranks
from trnsci.core.distributed.layout import Layout
from trnsci.core.distributed.rows import part_of
from trnsci.core.errors import OperandError
from trnsci.core.iterations import OnFailure, Solution
from trnsci.core.krylov.front import Operands
from trnsci.core.krylov.on_ranks import Sharded, solved_on_ranks
from trnsci.core.krylov.runs import Callback
from trnsci.core.krylov.short_recurrences import conjugate_gradients
from trnsci.core.krylov.short_recurrences import minres as minres_method
from trnsci.core.krylov.solve import Method, Stopping, stopping
from trnsolver.distributed._rows import Where, check_layout, layout_of
from trnsparse.distributed import RowShardedCSR

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


@also_spelled("max_iter", "maxiter")
def cg(
    A: Any,
    b: Tensor,
    x0: Tensor | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    M: Any = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    callback: Callback | None = None,
    on_failure: OnFailure = "warn",
    group: ProcessGroup | None = None,
    layout: Layout | None = None,
    check: bool = True,
) -> Solution:
    """Return the solution for a symmetric (Hermitian) positive definite A by conjugate gradients.

    Args:
        A: A ``trnsparse.distributed.RowShardedCSR``; a DTensor that is Shard(0), or this rank's
            rows, of a dense matrix; or a function that maps parts of vectors to parts of products.
        b: Right-hand side (n,), or columns (n, k) that share products: a DTensor that is Shard(0),
            or the rows of this rank.
        x0: Initial guess, like b; None for zero.
        tol: Tolerance of the residual relative to b.
        max_iter: Limit of iterations; ``maxiter`` is accepted too.
        M: Approximate inverse of A: a function that maps parts to parts.
        rtol: SciPy's name for ``tol``; takes precedence over it.
        atol: Absolute tolerance of the norm of the residual.
        callback: Called with a ``Progress`` after each iteration, whose x is this rank's part.
        on_failure: ``"warn"``, ``"raise"`` or ``"ignore"`` if the method does not converge.
        group: Process group of plain tensors and functions; None for the default one.
        layout: Layout of the rows of a plain A; None asks every rank for its number of rows.
        check: Whether ranks compare their arguments first.

    Returns:
        ``(x, iterations, residual)`` as from ``trnsolver.cg``; x has the layout of b.

    Raises:
        BackendError: There is no process group, or it does not contain this rank.
        ConvergenceError: The method did not converge, and ``on_failure`` is ``"raise"``.
        DerivativeError: Forward mode or a transform of ``torch.func`` is active.
        FlagError: A DTensor is not Shard(0), or its mesh is not that of A; a tolerance is negative.
        ShapeError: The shapes do not fit.
    """
    rule = tol, rtol, atol, max_iter, callback
    given = Operands(A, b, x0, M)
    where = Where(group, layout, check)
    return _solved("cg", conjugate_gradients, given, rule, on_failure, where)


@also_spelled("max_iter", "maxiter")
def minres(
    A: Any,
    b: Tensor,
    x0: Tensor | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    M: Any = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    callback: Callback | None = None,
    on_failure: OnFailure = "warn",
    group: ProcessGroup | None = None,
    layout: Layout | None = None,
    check: bool = True,
) -> Solution:
    """Return the solution for a symmetric (Hermitian) A, definite or not.

    The arguments are those of ``cg``, but b is a vector; M must be positive definite.
    """
    rule = tol, rtol, atol, max_iter, callback
    given = Operands(A, b, x0, M)
    where = Where(group, layout, check)
    return _solved("minres", minres_method, given, rule, on_failure, where)


def _solved(
    function: str,
    method: Method,
    operands: Operands,
    rule: tuple[Any, ...],
    on_failure: OnFailure,
    where: Where,
) -> Solution:
    A = operands.A
    sparse = isinstance(A, RowShardedCSR)

    def prepare() -> tuple[Ranks, Sharded, Stopping]:
        if sparse:
            where.only_plain(function, "a RowShardedCSR")
            ranks = replace(A.ranks, function=function)
        else:
            ranks = where.ranks_for(function, A, operands.b)
        return ranks, sharded_matrix(ranks, A, where.layout), stopping(function, *rule)

    return solved_on_ranks(
        function,
        method,
        prepare,
        operands,
        on_failure,
        group=A.group if sparse else where.group,
        columns=method is conjugate_gradients,
        check=where.check,
    )


def sharded_matrix(ranks: Ranks, A: Any, layout: Layout | None) -> Sharded:
    """Return a matrix of any accepted kind; nothing is communicated before the first product."""
    function = ranks.function
    if isinstance(A, RowShardedCSR):
        return A.operator(function)
    if not isinstance(A, Tensor) and callable(A):
        return Sharded(A)
    local, mesh = part_of(ranks, "A", A)
    if local.ndim != 2:
        raise OperandError(f"{function}: A must be a matrix, got shape {tuple(local.shape)}")
    if mesh is not None:
        layout = Layout.of(A)
    if layout is not None:
        check_layout(ranks, layout, local)
    sizes: list[int] = []

    def product(v: Tensor) -> Tensor:
        if not sizes:
            found = layout or layout_of(local, ranks)
            if found.offsets[-1] != local.shape[1]:
                raise OperandError(
                    f"{function}: A must be square, got {found.offsets[-1]} x {local.shape[1]}"
                )
            sizes.extend(found.sizes)
        return local @ all_gather(v, ranks, sizes, gradient="partial")

    offsets = None if layout is None else layout.offsets
    return Sharded(product, local.shape[0], local.shape[1], local, offsets)
