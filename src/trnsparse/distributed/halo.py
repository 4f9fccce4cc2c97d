"""Halos of row-sharded matrices: the elements that ranks exchange, and their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from trnsci.core.arguments import whole
from trnsci.core.distributed.layout import Layout
from trnsci.core.distributed.plans import Communication, Step, agreement_step, all_reduced
from trnsci.core.errors import DTypeError, FlagError, OperandError
from trnsparse.formats import SparseMatrix


def balanced_rows(row_ptrs: Tensor, parts: int) -> list[int]:
    """Return the bounds of ``parts`` shares of consecutive rows.

    Shares have about the same number of entries, where each row counts as one more entry.
    """
    parts = whole("balanced_rows", "parts", parts, least=1, error=FlagError)
    work = row_ptrs.diff() + 1
    return list(Layout.by_weight(work.shape, 0, work, parts).offsets)


@dataclass(frozen=True)
class HaloPlan:
    """Communication plan of a rank for a product.

    Attributes:
        rank: The rank of the plan.
        starts: Index of the first element of each rank's share of a vector, then its length.
        send: For each rank, the indices in this rank's share of the elements to send to it.
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


def plan(
    function: Literal["matmul", "transposed", "RowShardedCSR"],
    A: SparseMatrix,
    layout: Layout | int,
    columns: Layout | None = None,
    *,
    right_sides: int = 1,
) -> Communication:
    """Return the communication of a product with a sharded matrix, without a process group.

    Args:
        function: ``"matmul"`` for ``A @ X``, ``"transposed"`` for ``A.T @ X`` and ``A.H @ X``, or
            ``"RowShardedCSR"`` for the constructor.
        A: The whole matrix.
        layout: Layout of its rows, or a number of ranks that share its entries.
        columns: Layout of its columns; None as in ``RowShardedCSR``.
        right_sides: Number of columns of X.

    Raises:
        FlagError: ``function`` is not one of these, or a number is too small.
        OperandError: A layout does not fit the matrix.
        DTypeError: A is no sparse matrix, or a layout is no ``Layout``.
    """
    if function not in ("matmul", "transposed", "RowShardedCSR"):
        raise FlagError(
            f"plan: function must be 'matmul', 'transposed' or 'RowShardedCSR', got {function!r}"
        )
    if not isinstance(A, SparseMatrix):
        raise DTypeError(f"plan: A must be a sparse matrix, got {type(A).__name__}")
    if columns is not None and not isinstance(columns, Layout):
        raise DTypeError(f"plan: columns must be a Layout or None, got {type(columns).__name__}")
    right_sides = whole("plan", "right_sides", right_sides, 0, error=FlagError)
    csr = A.to_csr()
    ranks = layout.ranks if isinstance(layout, Layout) else layout
    if not isinstance(layout, Layout):
        ranks = whole("plan", "layout", layout, 1, error=FlagError)
        layout = row_layout(balanced_rows(csr.pattern.pointers, ranks), A.shape[1], ranks)
    if layout.offsets[-1] != A.shape[0]:
        raise OperandError(f"plan: layout must have {A.shape[0]} rows, got {layout.offsets[-1]}")
    columns = column_layout(columns, layout)
    ends = torch.tensor(columns.offsets[1:])
    pointers, indices = csr.pattern.pointers.cpu(), csr.pattern.indices.cpu()
    needed = []  # elements that each rank needs of each other one
    for rank in range(ranks):
        at = layout.rows(rank)
        entries = indices[int(pointers[at.start]) : int(pointers[at.stop])].to(torch.int64)
        _, halo = halo_of(entries, columns.offsets[rank], columns.offsets[rank + 1])
        owners = torch.searchsorted(ends, halo, right=True)
        needed.append(torch.bincount(owners, minlength=ranks))
    table = torch.stack(needed)
    halos, sent = table.sum(1).tolist(), table.sum(0).tolist()
    peers = [int((table > 0).sum(dim).max()) for dim in (1, 0)]
    item = right_sides * A.dtype.itemsize
    entries_of = pointers[torch.tensor(layout.offsets)].diff().tolist()
    backward: tuple[Step, ...] = ()
    if function == "RowShardedCSR":
        every = (8 * (ranks - 1),) * ranks
        steps = [
            agreement_step((ranks,)),
            Step("all_to_all", "numbers of needed elements", every, ranks - 1),
            Step("all_to_all", "needed elements", tuple(8 * n for n in sent), peers[1]),
            Step(
                "all_reduce",
                "elements sent by all",
                (all_reduced(8, ranks),) * ranks,
                2 * (ranks - 1),
            ),
        ]
    else:
        there, back = (
            Step("all_to_all", what, tuple(n * item for n in counts), messages)
            for what, counts, messages in (
                ("halo of X", halos, peers[0]),
                ("sums for other ranks", sent, peers[1]),
            )
        )
        compute = _computed(entries_of, layout.sizes, columns.sizes, halos, right_sides, A.dtype)
        steps = [agreement_step((ranks,)), there, compute]
        if function != "matmul":
            steps[1:] = [compute, back]
        backward = (back if function == "matmul" else there,)
    peak = tuple(
        _bytes_of_product(entries, m, n, halo, out, A.dtype.itemsize, right_sides)
        for entries, m, n, halo, out in zip(
            entries_of, layout.sizes, columns.sizes, halos, sent, strict=True
        )
    )
    problem = f"{A.shape[0]} x {A.shape[1]}, {csr.nnz} entries in {A.dtype}, {right_sides} columns"
    return Communication(
        function, problem, (ranks,), tuple(steps), peak.__getitem__, None, backward
    )


def _computed(
    entries: Sequence[int],
    rows: Sequence[int],
    own: Sequence[int],
    halos: Sequence[int],
    columns: int,
    dtype: torch.dtype,
) -> Step:
    """Return the local product: entries with their indices, operand and result, once."""
    per_term = 8 if dtype.is_complex else 2
    flops = tuple(per_term * columns * count for count in entries)
    moved = tuple(
        count * (dtype.itemsize + 8) + 8 * (m + 1) + (n + halo + m) * columns * dtype.itemsize
        for count, m, n, halo in zip(entries, rows, own, halos, strict=True)
    )
    return Step("compute", "local product", (0,) * len(rows), 0, flops, moved)


def _bytes_of_product(
    entries: int, rows: int, own: int, halo: int, sent: int, size: int, columns: int
) -> int:
    """Return the bytes of a product: matrix, operand, buffers and result.

    If it is not one call of a library, the pattern is transposed or expanded, and entries are
    multiplied one by one and then summed.
    """
    pointers = 8 * (rows + 1) + 16 * (own + halo + 2)  # of rows, and of a transposed pattern
    matrix = entries * (size + 8) + pointers + 8 * sent
    terms = entries * ((2 * columns + 1) * size + 32)
    operands = 2 * (own + halo) + 2 * rows + halo + sent
    return matrix + terms + operands * columns * size


def halo_of(indices: Tensor, first: int, last: int) -> tuple[Tensor, Tensor]:
    """Return which columns are in a range, and the others, in order and once."""
    own = (indices >= first) & (indices < last)
    return own, torch.unique(indices[~own])


def row_layout(layout: Layout | Sequence[int], columns: int, ranks: int) -> Layout:
    """Return the checked layout of the rows of a matrix."""
    if not isinstance(layout, (Layout, Sequence)):
        raise OperandError(
            f"RowShardedCSR: layout must be a Layout or offsets, got {type(layout).__name__}"
        )
    offsets = layout.offsets if isinstance(layout, Layout) else tuple(layout)
    if len(offsets) != ranks + 1 or list(offsets) != sorted(offsets) or offsets[0] != 0:
        raise OperandError(
            f"RowShardedCSR: layout must have {ranks + 1} offsets that start with 0 and do not "
            f"decrease, got {offsets}"
        )
    if isinstance(layout, Layout) and layout.dim != 0:
        raise OperandError(f"RowShardedCSR: layout must split dimension 0, got {layout.dim}")
    return Layout((offsets[-1], columns), 0, offsets)


def column_layout(columns: Layout | None, rows: Layout) -> Layout:
    """Return the checked layout of the columns of a matrix, as one of rows of X."""
    m, n = rows.shape
    if columns is None:
        if m == n:
            return Layout((n,), 0, rows.offsets)
        return Layout.even((n,), 0, rows.ranks)
    if columns.ranks != rows.ranks or columns.offsets[-1] != n:
        raise OperandError(
            f"RowShardedCSR: columns must be a layout of {n} elements on {rows.ranks} ranks, got "
            f"offsets {columns.offsets}"
        )
    return Layout((n,), 0, columns.offsets)
