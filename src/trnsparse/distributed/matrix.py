"""Row-sharded matrices and their products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trnsci.core.arguments import agree, also_spelled
from trnsci.core.distributed.agreement import agreement, gradients
from trnsci.core.distributed.collectives import all_gather, all_reduce, all_to_all
from trnsci.core.distributed.groups import Ranks, ranks_of
from trnsci.core.distributed.layout import Layout, to_dtensor
from trnsci.core.distributed.rows import part_of, reverse_mode_only
from trnsci.core.errors import DTypeError, OperandError
from trnsci.core.iterations import OnFailure, Solution
from trnsci.core.krylov.front import Operands
from trnsci.core.krylov.on_ranks import Sharded, solved_on_ranks
from trnsci.core.krylov.runs import Product
from trnsci.core.krylov.short_recurrences import conjugate_gradients
from trnsci.core.krylov.solve import Stopping, stopping
from trnsparse._products.reductions import axis_of
from trnsparse.distributed.halo import (
    HaloPlan,
    balanced_rows,
    column_layout,
    halo_of,
    row_layout,
)
from trnsparse.formats import CSRMatrix, SparseMatrix

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class RowShardedCSR:
    """A matrix by rows, of which each rank holds a share of consecutive rows.

    Args:
        local: The rows of this rank, with columns of the whole matrix.
        layout: Layout of the rows, or the first row of each rank and the number of rows.
        group: The process group; None for the default one.
        columns: Layout of the columns, which is that of operands; None for that of the rows if the
            matrix is square, and that of ``torch.chunk`` if not.
        check: Whether ranks compare their arguments first.

    ``A @ X`` is this rank's part of the product with a vector (n,) or matrix (n, N) of which each
    rank has the rows in the layout of the columns; ``A.T`` and ``A.H`` have products with operands
    in the layout of the rows.

    Products sum the entries of a row in storage order, on any number of ranks. With another number
    of ranks an element differs by at most ``2 * k * u * (|A| |x|)_i``, the bound for two orders of
    summation, with k entries in the row and unit roundoff u. Solutions of ``cg`` meet the same
    tolerance.

    Raises:
        BackendError: There is no process group, or it does not contain this rank.
        OperandError: The rows are not those of this rank; on every rank.
    """

    @also_spelled("layout", "starts")
    def __init__(
        self,
        local: CSRMatrix,
        layout: Layout | Sequence[int],
        group: ProcessGroup | None = None,
        columns: Layout | None = None,
        *,
        check: bool = True,
    ) -> None:
        self.ranks = ranks_of("RowShardedCSR", group)
        self.group, self.rank, self.size = group, self.ranks.rank, self.ranks.size
        with agreement("RowShardedCSR", group=group, check=check) as describe:
            _check_kind("local", local, CSRMatrix)
            self.layout = row_layout(layout, local.shape[1], self.size)
            self.shape = (self.layout.offsets[-1], local.shape[1])
            self.columns = column_layout(columns, self.layout)
            if local.shape != (self.layout.sizes[self.rank], self.shape[1]):
                raise OperandError(
                    f"RowShardedCSR: rank {self.rank} must hold {self.layout.sizes[self.rank]} "
                    f"rows of {self.shape[1]} columns, got {local.shape}"
                )
            describe(f"{local.dtype}, layout {self.layout.offsets}, columns {self.columns.offsets}")
        first, last = self.columns.offsets[self.rank : self.rank + 2]
        indices = local.col_indices.to(torch.int64)
        own, halo = halo_of(indices, first, last)
        renamed = torch.empty_like(indices)
        renamed[own] = indices[own] - first
        renamed[~own] = torch.searchsorted(halo, indices[~own]) + (last - first)
        self.local = CSRMatrix(
            local.values,
            renamed.to(local.col_indices.dtype),
            local.row_ptrs,
            (local.shape[0], last - first + halo.numel()),
            validate=False,
        )
        self.plan = self._planned(halo)
        self._sent_rows = torch.cat(self.plan.send)

    @classmethod
    @also_spelled("layout", "starts")
    def from_csr(
        cls,
        A: SparseMatrix,
        group: ProcessGroup | None = None,
        layout: Layout | Sequence[int] | None = None,
        columns: Layout | None = None,
        *,
        check: bool = True,
    ) -> RowShardedCSR:
        """Return the sharded form of a matrix that every rank has.

        Without a layout, ranks have about the same number of entries. Operands that are DTensors
        need ``Layout.even``.
        """
        ranks = ranks_of("RowShardedCSR", group)
        with agreement("RowShardedCSR", group=group, check=check) as describe:
            _check_kind("A", A, SparseMatrix)
            csr = A.to_csr()
            if layout is None:
                layout = balanced_rows(csr.pattern.pointers, ranks.size)
            rows = row_layout(layout, A.shape[1], ranks.size)
            column_layout(columns, rows)
            local = csr[rows.rows(ranks.rank)]
            describe(f"A {A.shape} in {A.dtype}, layout {rows.offsets}, columns {columns}")
        return cls(local, rows, group, columns, check=False)

    def _planned(self, halo: Tensor) -> HaloPlan:
        """Exchange the indices of needed elements between all ranks."""
        ends = torch.tensor(self.columns.offsets[1:], device=halo.device)
        owner = torch.searchsorted(ends, halo, right=True)
        receive = torch.bincount(owner, minlength=self.size)
        ones = [1] * self.size
        received = receive.tolist()
        counts = all_to_all(receive, self.ranks, ones, ones).tolist()
        requested = all_to_all(halo, self.ranks, received, counts)
        total = all_reduce(torch.tensor(requested.numel(), device=halo.device), self.ranks)
        send = torch.split(requested - self.columns.offsets[self.rank], counts)
        return HaloPlan(self.rank, self.columns.offsets, send, tuple(received), int(total))

    @property
    def starts(self) -> tuple[int, ...]:
        """First row of the share of each rank, then the number of rows."""
        return self.layout.offsets

    @property
    def T(self) -> ShardedTranspose:
        """The transpose, for products."""
        return ShardedTranspose(self, conjugate=False)

    @property
    def H(self) -> ShardedTranspose:
        """The conjugate transpose, for products."""
        return ShardedTranspose(self, conjugate=True)

    def shard(self, whole: Tensor) -> Tensor:
        """Return the part of a vector or of rows that belongs to this rank."""
        if whole.shape[0] != self.shape[0]:
            raise OperandError(f"shard: takes {self.shape[0]} rows, got shape {tuple(whole.shape)}")
        return whole[self.layout.rows(self.rank)]

    def gather(self, part: Tensor) -> Tensor:
        """Return the whole of a sharded vector or of rows, on every rank.

        Raises:
            DTypeError: The part is not a strided tensor of floating-point or complex dtype.
            OperandError: It does not have the rows that belong to this rank.
        """
        with agreement("RowShardedCSR", group=self.group) as describe:
            rows = self.layout.sizes[self.rank]
            part, _ = part_of(self.ranks, "part", part, rows, self.shape[0])
            describe(f"part with columns {tuple(part.shape[1:])} in {part.dtype}")
        return all_gather(part, self.ranks, self.layout.sizes, gradient="replicated")

    def matmul(self, X: Tensor, *, check: bool = True) -> Tensor:
        """Return the product with a vector (n,) or matrix (n, N), by rows; a DTensor for a DTensor.

        Args:
            X: Rows in the layout of the columns of the matrix.
            check: Whether ranks compare their arguments first.

        Raises:
            DTypeError: X has another dtype than the matrix, or is no strided tensor.
            FlagError: X is a DTensor, but not Shard(0) on a mesh of these ranks.
            OperandError: X does not have the rows that belong to this rank.
        """
        return self._checked(X, self.columns, self.layout, self._product, check)

    def __matmul__(self, X: Tensor) -> Tensor:
        return self.matmul(X)

    def _checked(
        self, X: Tensor, rows: Layout, out: Layout, product: Product, check: bool
    ) -> Tensor:
        with agreement("RowShardedCSR", group=self.group, check=check) as describe:
            reverse_mode_only("RowShardedCSR")
            part, mesh = part_of(self.ranks, "X", X, rows.sizes[self.rank], rows.offsets[-1])
            agree("RowShardedCSR", "the matrix", self.local.values, "X", part)
            if part.ndim > 2:
                raise OperandError(
                    f"RowShardedCSR: X must be a vector or a matrix, got shape {tuple(part.shape)}"
                )
            tracked = gradients(self.local.values, part)
            describe(
                f"X with columns {tuple(part.shape[1:])}, a DTensor {mesh is not None}, {tracked}"
            )
        y = product(part)
        if mesh is None:
            return y
        return to_dtensor(y, Layout((out.offsets[-1], *y.shape[1:]), 0, out.offsets), mesh)

    def _product(self, part: Tensor) -> Tensor:
        """Return this rank's rows of ``A @ X``."""
        if self.size == 1:
            return self.local @ part
        sent = part.index_select(0, self._sent_rows)
        halo = all_to_all(sent, self.ranks, self.plan.sent_to, self.plan.receive)
        return self.local @ torch.cat([part, halo])

    def diagonal(self) -> Tensor:
        """Return this rank's part of the main diagonal.

        Raises:
            OperandError: The columns have another layout than the rows.
        """
        if self.columns.offsets != self.layout.offsets:
            raise OperandError(
                f"diagonal: the matrix must be square and its columns in the layout of its rows, "
                f"got shape {self.shape}"
            )
        return self.local.diagonal()

    @also_spelled("dim", "axis")
    def sum(self, dim: int | None = None, *, check: bool = True) -> Tensor:
        """Return the sum of all elements, on every rank, or this rank's part of those along a dim.

        Args:
            dim: None for all; 0 for sums over rows, in the layout of the columns; 1 for sums over
                columns, in the layout of the rows.
            check: Whether ranks compare their arguments first.
        """
        with agreement("RowShardedCSR", group=self.group, check=check) as describe:
            reverse_mode_only("RowShardedCSR")
            axis = axis_of("sum", dim)
            describe(f"sum along {axis}, {gradients(self.local.values)}")
        if axis is None:
            return all_reduce(self.local.sum(), self.ranks)
        if axis == 1:
            return self.local.sum(1)
        return self.T._product(self.local.values.new_ones(self.local.shape[0]))

    def operator(self, function: str) -> Sharded:
        """Return the matrix for the iterative methods of a function.

        Raises:
            OperandError: The columns have another layout than the rows.
        """
        if self.columns.offsets != self.layout.offsets:
            raise OperandError(
                f"{function}: A must be square and its columns in the layout of its rows, got "
                f"shape {self.shape}"
            )
        rows = self.layout.sizes[self.rank]
        offsets = self.layout.offsets
        return Sharded(self._product, rows, self.shape[0], self.local.values, offsets)

    def cg(
        self,
        b: Tensor,
        x0: Tensor | None = None,
        tol: float = 1e-6,
        max_iter: int = 1000,
        M: Product | None = None,
        *,
        on_failure: OnFailure = "warn",
        check: bool = True,
    ) -> Solution:
        """Solve ``A x = b`` for a symmetric positive definite matrix by conjugate gradients.

        Arguments are those of ``trnsparse.cg``, where each vector is this rank's part, or a
        DTensor; M maps parts to parts. Every rank returns its part of x, and the same iterations
        and residual. ``trnsolver.distributed`` has ``minres`` too.
        """

        def prepare() -> tuple[Ranks, Sharded, Stopping]:
            ranks = replace(self.ranks, function="cg")
            return ranks, self.operator("cg"), stopping("cg", tol, None, 0.0, max_iter, None)

        return solved_on_ranks(
            "cg",
            conjugate_gradients,
            prepare,
            Operands(self, b, x0, M),
            on_failure,
            group=self.group,
            columns=True,
            check=check,
        )


def _check_kind(name: str, x: Any, kind: type) -> None:
    if not isinstance(x, kind):
        raise DTypeError(f"RowShardedCSR: {name} must be a {kind.__name__}, got {type(x).__name__}")


@dataclass(frozen=True)
class ShardedTranspose:
    """The transpose of a row-sharded matrix: its products exchange the halo in reverse.

    Attributes:
        matrix: The matrix.
        conjugate: Whether it is the conjugate transpose.
    """

    matrix: RowShardedCSR
    conjugate: bool

    def matmul(self, X: Tensor, *, check: bool = True) -> Tensor:
        """Return the product with X, whose rows are in the layout of the rows of the matrix.

        The result is in the layout of its columns. Arguments and errors are those of
        ``RowShardedCSR.matmul``.
        """
        A = self.matrix
        return A._checked(X, A.layout, A.columns, self._product, check)

    def __matmul__(self, X: Tensor) -> Tensor:
        return self.matmul(X)

    def _product(self, part: Tensor) -> Tensor:
        A = self.matrix
        # conj(A.T @ conj(x)) is A.H @ x.
        x = part.conj().resolve_conj() if self.conjugate else part
        found = A.local.transposed_view() @ x
        if A.size > 1:
            own = A.columns.sizes[A.rank]
            back = all_to_all(found[own:], A.ranks, A.plan.receive, A.plan.sent_to)
            found = found[:own].index_add(0, A._sent_rows, back)
        return found.conj().resolve_conj() if self.conjugate else found
