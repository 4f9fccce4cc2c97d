"""A few eigenpairs of a matrix over the ranks of a process group, by the Lanczos method."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trnsci.core.arguments import also_spelled
from trnsci.core.distributed.agreement import agreement
from trnsci.core.distributed.collectives import all_reduce
from trnsci.core.distributed.failures import ending_together
from trnsci.core.distributed.layout import Layout
from trnsci.core.distributed.rows import on_mesh, part_of, reverse_mode_only
from trnsci.core.errors import DerivativeError, DTypeError, FlagError, OperandError
from trnsci.core.iterations import OnFailure, checked_action, report_iteration
from trnsci.core.krylov.front import NARROW
from trnsci.core.krylov.lanczos import RitzPairs, Which, lanczos
from trnsci.core.krylov.on_ranks import Sharded
from trnsci.core.krylov.operators import LinearOperator, as_operator
from trnsci.core.numbers.conversions import widest
from trnsolver.distributed._rows import Where, layout_of
from trnsolver.distributed.iterative import sharded_matrix
from trnsolver.lanczos import BoundedEigenpairs, LanczosInfo, draws, report_of, wanted_pairs
from trnsparse.distributed import RowShardedCSR

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


@also_spelled("max_iter", "maxiter")
def eigsh(
    A: Any,
    k: int = 6,
    *,
    which: Which = "LM",
    v0: Tensor | None = None,
    ncv: int | None = None,
    max_iter: int = 1000,
    tol: float | None = None,
    seed: int = 0,
    on_failure: OnFailure = "warn",
    group: ProcessGroup | None = None,
    layout: Layout | None = None,
    check: bool = True,
) -> BoundedEigenpairs:
    """Return k eigenvalues, ascending, and eigenvectors of a symmetric (Hermitian) matrix.

    Every rank returns the same values and bounds, and its rows of the vectors: a DTensor if A or
    v0 is one. There are no gradients.

    Args:
        A: A ``trnsparse.distributed.RowShardedCSR``; a DTensor that is Shard(0), or this rank's
            rows, of a dense matrix; or a function that maps parts of vectors to parts of products.
        k: Number of pairs.
        which: As in ``trnsolver.eigsh``.
        v0: First vector, a DTensor that is Shard(0) or this rank's part; needed if A is a function.
        ncv: Number of basis vectors; None as in ``trnsolver.eigsh``.
        max_iter: Limit of restarts; ``maxiter`` is accepted too.
        tol: Tolerance of the residual norm relative to the largest magnitude of a value; None, and
            anything below, for 16 eps.
        seed: Seed of random vectors.
        on_failure: ``"warn"``, ``"raise"`` or ``"ignore"`` if the iteration does not converge.
        group: Process group of plain tensors and functions; None for the default one.
        layout: Layout of the rows of a plain A; None asks every rank for its number of rows.
        check: Whether ranks compare their arguments first.

    Raises:
        BackendError: There is no process group, or it does not contain this rank.
        ConvergenceError: The iteration did not converge, and ``on_failure`` is ``"raise"``.
        DerivativeError: A or v0 is being differentiated.
        FlagError: k or another option is out of range, or a DTensor is not Shard(0).
        OperandError: The shapes do not fit, or products show that A is not Hermitian.
    """
    where, sparse = Where(group, layout, check), isinstance(A, RowShardedCSR)
    told = f"k {k}, which {which!r}, ncv {ncv}, max_iter {max_iter}, tol {tol}, seed {seed}"
    there = A.group if sparse else group
    with agreement("eigsh", A, v0, group=there, check=check) as describe:
        reverse_mode_only("eigsh")
        checked_action("eigsh", on_failure)
        if sparse:
            where.only_plain("eigsh", "a RowShardedCSR")
            ranks = replace(A.ranks, function="eigsh")
        else:
            ranks = where.ranks_for("eigsh", A, v0)
        matrix = sharded_matrix(ranks, A, layout)
        start, mesh = None, getattr(A, "device_mesh", None)
        if v0 is not None:
            start, other = part_of(ranks, "v0", v0, matrix.rows, matrix.order)
            mesh = mesh or other
        like = _like(matrix, start)
        if matrix.order is not None:
            wanted_pairs("eigsh", matrix.order, k, which, ncv, max_iter, tol, like.dtype)
        describe(
            f"order {matrix.order} in {like.dtype}, {told}, v0 {start is not None}, on_failure "
            f"{on_failure!r}, DTensor {mesh is not None}, layout {matrix.offsets}"
        )
    with torch.no_grad(), ending_together(ranks):
        offsets = matrix.offsets or layout_of(like, ranks).offsets
        order = offsets[-1]
        wanted = wanted_pairs("eigsh", order, k, which, ncv, max_iter, tol, like.dtype)
        draw = draws(like, order, seed, slice(*offsets[ranks.rank : ranks.rank + 2]))
        product = as_operator("eigsh", LinearOperator(matrix.product), like)

        def total(x: Tensor) -> Tensor:
            return all_reduce(x, ranks)

        first = draw() if start is None else start.detach().to(like.dtype)
        found = lanczos("eigsh", product, first, draw, wanted, total)
        w, X, info = _measured(product, matrix, found, order, total)
    report_iteration("eigsh", info, len(info.residuals), on_failure)
    return BoundedEigenpairs(w, on_mesh(X, order, mesh), info)


def _like(matrix: Sharded, start: Tensor | None) -> Tensor:
    """Return a vector in the dtype and on the device of this rank's parts of vectors."""
    for x in (matrix.data, start):
        if x is not None and x.requires_grad and torch.is_grad_enabled():
            raise DerivativeError("eigsh: has no gradients over ranks; detach A and v0")
    if matrix.data is None:
        if start is None:
            raise FlagError("eigsh: v0 must be given if A is a function")
        like = start
    else:
        assert matrix.rows is not None, "a matrix has rows"
        like = matrix.data.new_empty(matrix.rows)
    if like.dtype in NARROW:
        raise DTypeError(f"eigsh: takes float32, float64 and complex matrices, got {like.dtype}")
    if like.ndim != 1:
        raise OperandError(f"eigsh: v0 must be a vector, got shape {tuple(like.shape)}")
    if start is not None and start.is_complex() and not like.is_complex():
        raise DTypeError(f"eigsh: v0 is complex, where A is real: {start.dtype}")
    return like


def _measured(
    product: LinearOperator,
    matrix: Sharded,
    found: RitzPairs,
    order: int,
    total: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor, LanczosInfo]:
    """Return values, this rank's rows of the vectors, and the report with measured residuals."""
    X = found.vectors.mT.contiguous()
    real, k = X.real.dtype, X.shape[1]
    if found.reason == "diverged":
        return found.values.to(X.device, real), X, report_of(found, found.matvecs + k)
    image = torch.stack([widest(product(v)) for v in X.mT], 1)
    wide = widest(X)
    unit = max(found.norm, torch.finfo(torch.float64).tiny)  # so that squares do not overflow
    sums = [(wide.conj() * image / unit).sum(0).real, wide.abs().square().sum(0)]
    quotients, squares = total(torch.stack(sums))
    w = (quotients / squares * unit).to(real)
    chosen = w.argsort()
    rest = image / unit - wide * (w.double() / unit)
    rests = (total(rest.abs().square().sum(0)) / squares).sqrt() * unit
    bounds = (rests + _rounding(matrix, X.dtype, found.norm, order, total))[chosen]
    return w[chosen], X[:, chosen].contiguous(), report_of(found, found.matvecs + k, bounds)


def _rounding(
    matrix: Sharded,
    dtype: torch.dtype,
    norm: float,
    order: int,
    total: Callable[[Tensor], Tensor],
) -> float:
    """Return a bound on the error of a product with a unit vector.

    That of entries is the rounding of sums of at most ``order`` terms, times the Frobenius norm.
    Products of a function are assumed to be accurate to ``sqrt(n) eps norm(A)``.
    """
    eps = torch.finfo(dtype).eps
    if matrix.data is None:
        return math.sqrt(order) * eps * norm
    unit = norm or 1.0
    square = float(total((widest(matrix.data.detach()) / unit).abs().square().sum()[None]))
    return (4 if dtype.is_complex else 1) * (order + 3) * eps * math.sqrt(square) * unit
