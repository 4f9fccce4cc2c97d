"""Row-sharded sparse matrices over the ranks of a process group.

Each rank has consecutive rows of the matrix and the matching part of every vector. For a product it
receives only the halo: the elements of other ranks in the columns of its entries. The exchange is
planned once; the plan reports the number of bytes that each product sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from trnsci.core.arguments import agree, whole
from trnsci.core.errors import DTypeError, FlagError, OperandError
from trnsci.core.failures import OnFailure, checked_action, report_iteration
from trnsci.core.iterations import Solution
from trnsci.core.krylov import (
    LinearOperator,
    Product,
    Vectors,
    as_preconditioner,
    run_system,
    solution,
    stopping,
)
from trnsci.core.krylov.cg import conjugate_gradients
from trnsparse.formats import CSRMatrix, SparseMatrix

__all__ = ["HaloPlan", "RowShardedCSR", "balanced_rows"]


def balanced_rows(row_ptrs: Tensor, parts: int) -> list[int]:
    """Return the bounds of ``parts`` shares of consecutive rows.

    Shares have about the same number of entries, where each row counts as one more entry.
    """
    parts = whole("balanced_rows", "parts", parts, least=1, error=FlagError)
    rows = row_ptrs.shape[0] - 1
    work = row_ptrs.detach().cpu().to(torch.int64) + torch.arange(rows + 1)
    goals = torch.arange(1, parts, dtype=torch.float64) * (float(work[-1]) / parts)
    inner = torch.searchsorted(work.to(torch.float64), goals).clamp(max=rows)
    return [0, *inner.tolist(), rows]


@dataclass(frozen=True)
class HaloPlan:
    """Communication plan of a rank for a product.

    Attributes:
        rank: The rank of the plan.
        starts: First element of the share of each rank, then the length of a vector.
        send: For each rank, the elements of the own share to send to it.
        receive: Number of elements received from each rank.
        total: Number of elements that all ranks together send for a product.
    """

    rank: int
    starts: tuple[int, ...]
    send: tuple[Tensor, ...]
    receive: tuple[int, ...]
    total: int

    @property
    def sent_to(self) -> tuple[int, ...]:
        """Number of elements sent to each rank."""
        return tuple(part.numel() for part in self.send)

    @property
    def sent(self) -> int:
        """Number of elements that this rank sends for each column of a product."""
        return sum(self.sent_to)

    @property
    def halo(self) -> int:
        """Number of elements that this rank receives for each column of a product."""
        return sum(self.receive)

    def bytes_sent(self, columns: int = 1, dtype: torch.dtype = torch.float32) -> int:
        """Return the bytes of payload that this rank sends for a product."""
        return self.sent * columns * dtype.itemsize

    def total_bytes(self, columns: int = 1, dtype: torch.dtype = torch.float32) -> int:
        """Return the bytes of payload that all ranks together send for a product."""
        return self.total * columns * dtype.itemsize

    def __str__(self) -> str:
        own = self.starts[self.rank + 1] - self.starts[self.rank]
        peers = sum(bool(count) for count in self.receive)
        return (
            f"rank {self.rank} of {len(self.send)}: {own} elements of its own, {self.halo} from "
            f"{peers} others, {self.sent} sent; {self.total} sent by all for each column"
        )


class RowShardedCSR:
    """A square matrix by rows, of which each rank holds a share of consecutive rows.

    Args:
        local: The rows of this rank, with columns of the whole matrix.
        starts: First row of the share of each rank, then the number of rows.
        group: The process group; None for the default one.

    Vectors are sharded as the rows are: rank r has elements ``starts[r]`` to ``starts[r + 1]``.

    Products sum the entries of a row in storage order, on any number of ranks. With another number
    of ranks an element differs by at most ``2 * k * u * (|A| |x|)_i``, the bound for two orders of
    summation, with k entries in the row and unit roundoff u. Solutions of ``cg`` meet the same
    tolerance.

    Raises:
        OperandError: The matrix is not square, or the rows are not those of this rank.
    """

    def __init__(
        self, local: CSRMatrix, starts: Sequence[int], group: dist.ProcessGroup | None = None
    ) -> None:
        self.group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.starts = tuple(starts)
        if len(self.starts) != self.size + 1 or list(self.starts) != sorted(self.starts):
            raise OperandError(
                f"RowShardedCSR: starts must be {self.size + 1} numbers that do not decrease, "
                f"got {self.starts}"
            )
        first, last = self.starts[self.rank], self.starts[self.rank + 1]
        if local.shape != (last - first, self.starts[-1]):
            raise OperandError(
                f"RowShardedCSR: rank {self.rank} must hold {last - first} rows of "
                f"{self.starts[-1]} columns, got {local.shape}"
            )
        self.shape = (self.starts[-1], self.starts[-1])
        columns = local.col_indices.to(torch.int64)
        own = (columns >= first) & (columns < last)
        halo, place = torch.unique(columns[~own], return_inverse=True)
        renamed = torch.empty_like(columns)
        renamed[own] = columns[own] - first
        renamed[~own] = place + (last - first)
        width = last - first + halo.numel()
        self.local = CSRMatrix(
            local.values,
            renamed.to(local.col_indices.dtype),
            local.row_ptrs,
            (last - first, width),
            validate=False,
        )
        self.plan = self._planned(halo)

    @classmethod
    def from_csr(
        cls,
        A: SparseMatrix,
        group: dist.ProcessGroup | None = None,
        starts: Sequence[int] | None = None,
    ) -> RowShardedCSR:
        """Return the sharded form of a matrix that every rank has, with about equal shares."""
        if A.shape[0] != A.shape[1]:
            raise OperandError(f"RowShardedCSR: the matrix must be square, got {A.shape}")
        csr = A.to_csr()
        size = dist.get_world_size(group)
        cuts = (
            tuple(starts)
            if starts is not None
            else tuple(balanced_rows(csr.pattern.pointers, size))
        )
        if len(cuts) != size + 1:
            raise OperandError(f"RowShardedCSR: starts must be {size + 1} numbers, got {cuts}")
        rank = dist.get_rank(group)
        return cls(csr[cuts[rank] : cuts[rank + 1]], cuts, group)

    def _planned(self, halo: Tensor) -> HaloPlan:
        """Exchange the indices of needed elements between all ranks."""
        cpu = halo.cpu()
        owner = torch.searchsorted(torch.tensor(self.starts[1:]), cpu, right=True)
        receive = torch.bincount(owner, minlength=self.size)
        counts = torch.empty(self.size, dtype=torch.int64)
        dist.all_to_all_single(counts, receive, group=self.group)
        requested = torch.empty(int(counts.sum()), dtype=torch.int64)
        dist.all_to_all_single(requested, cpu, counts.tolist(), receive.tolist(), group=self.group)
        total = torch.tensor(requested.numel())
        dist.all_reduce(total, group=self.group)
        first = self.starts[self.rank]
        send = torch.split((requested - first).to(halo.device), counts.tolist())
        return HaloPlan(self.rank, self.starts, send, tuple(receive.tolist()), int(total))

    def shard(self, whole: Tensor) -> Tensor:
        """Return the part of a vector or of rows that belongs to this rank."""
        if whole.shape[0] != self.shape[0]:
            raise OperandError(f"shard: takes {self.shape[0]} rows, got shape {tuple(whole.shape)}")
        return whole[self.starts[self.rank] : self.starts[self.rank + 1]]

    def gather(self, part: Tensor) -> Tensor:
        """Return the whole of a sharded vector or of rows, on every rank."""
        sizes = [b - a for a, b in zip(self.starts, self.starts[1:], strict=False)]
        # gloo gathers parts of equal length only.
        longest = max(sizes)
        padded = part.new_zeros(longest, *part.shape[1:])
        padded[: part.shape[0]] = part
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded, group=self.group)
        return torch.cat([p[:n] for p, n in zip(parts, sizes, strict=True)])

    def matmul(self, part: Tensor) -> Tensor:
        """Return this rank's part of the product with a sharded vector (n,) or matrix (n, N).

        Gradients by the operand are sent back to the owners of its elements, so all ranks must
        compute them together, like the product.
        """
        agree("RowShardedCSR", "the matrix", self.local.values, "the operand", part)
        own = self.starts[self.rank + 1] - self.starts[self.rank]
        if part.ndim not in (1, 2) or part.shape[0] != own:
            raise OperandError(
                f"RowShardedCSR: rank {self.rank} takes its {own} rows, got {tuple(part.shape)}"
            )
        if self.size == 1:
            return self.local @ part
        return self.local @ torch.cat([part, _exchange(part, self.plan, self.group)])

    __matmul__ = matmul

    def diagonal(self) -> Tensor:
        """Return this rank's part of the main diagonal."""
        return self.local.diagonal()

    def cg(
        self,
        b: Tensor,
        x0: Tensor | None = None,
        tol: float = 1e-6,
        max_iter: int = 1000,
        M: Product | None = None,
        *,
        on_failure: OnFailure = "warn",
    ) -> Solution:
        """Solve ``A x = b`` for a symmetric positive definite matrix by conjugate gradients.

        Arguments are those of ``trnsparse.cg``, where each vector is this rank's part; M maps parts
        to parts. Every rank returns its part of x, and the same iterations and residual.
        """
        checked_action("cg", on_failure)
        rule = stopping("cg", tol, None, 0.0, max_iter, None)
        if b.dtype in (torch.float16, torch.bfloat16):
            raise DTypeError(f"cg: takes float32, float64 and complex vectors, got {b.dtype}")
        if x0 is not None and x0.shape != b.shape:
            raise OperandError(
                f"cg: x0 must have the shape of b, got {tuple(x0.shape)} and {tuple(b.shape)}"
            )
        space = Vectors(None if b.ndim == 1 else 0, self._summed)
        op = LinearOperator(self.matmul)
        with torch.no_grad():
            inverse = as_preconditioner("cg", M, b, columns=True)
            start = None if x0 is None else x0.detach()
            run = run_system(conjugate_gradients, op, b.detach(), start, inverse, rule, space)
        found = solution(run.x, [run])
        report_iteration("cg", found.info, found.iterations, on_failure)
        return found

    def _summed(self, part: Tensor) -> Tensor:
        """Return the sum over all ranks; every rank gets the same bits."""
        dist.all_reduce(part, group=self.group)
        return part


class _Exchange(torch.autograd.Function):
    """The halo of a sharded operand; its gradient is sent back to the owners."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, plan: HaloPlan, group: dist.ProcessGroup | None) -> Tensor:
        """Return the elements of other ranks that this rank needs."""
        ctx.others = plan, group, part.shape
        outgoing = part.index_select(0, torch.cat(plan.send))
        return _sent(outgoing, plan.sent_to, plan.receive, group)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the sum of the gradients from other ranks at the own elements."""
        plan, group, shape = ctx.others
        back = _sent(grads[0].contiguous(), plan.receive, plan.sent_to, group)
        zeros = grads[0].new_zeros(shape)
        return zeros.index_add(0, torch.cat(plan.send), back), None, None


_exchange: Any = _Exchange.apply


def _sent(
    outgoing: Tensor,
    sizes_out: Sequence[int],
    sizes_in: Sequence[int],
    group: dist.ProcessGroup | None,
) -> Tensor:
    incoming = outgoing.new_empty(sum(sizes_in), *outgoing.shape[1:])
    dist.all_to_all_single(incoming, outgoing, list(sizes_in), list(sizes_out), group=group)
    return incoming
