"""Orderings of rows and columns: for a narrow band, or for few dense blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trnsci.core.arguments import whole
from trnsci.core.errors import FlagError, OperandError
from trnsci.core.numbers.values import untraced
from trnsparse.formats import BSRMatrix, CSRMatrix, SparseMatrix

__all__ = ["BlockOrdering", "bandwidth", "block_ordering", "permuted", "rcm"]


def permuted(A: SparseMatrix, rows: Tensor, columns: Tensor | None = None) -> CSRMatrix:
    """Return the matrix with permuted rows and columns.

    Args:
        A: A matrix of any format.
        rows: The row of A at each position.
        columns: The column of A at each position; None uses ``rows``, for a square A.
    """
    columns = rows if columns is None else columns
    return A.to_csr()[rows, :][:, columns]


def bandwidth(A: SparseMatrix) -> int:
    """Return the largest distance of an entry from the diagonal."""
    pattern = A.to_csr().pattern
    if not pattern.entries:
        return 0
    return int((pattern.row_indices - pattern.indices).abs().max())


@untraced()
def rcm(A: SparseMatrix) -> Tensor:
    """Return the reverse Cuthill-McKee ordering of a square matrix, which reduces its bandwidth.

    The pattern need not be symmetric: that of ``A + A.T`` is used. ``permuted(A, rcm(A))`` is the
    reordered matrix.

    Raises:
        OperandError: A is not square.
    """
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    if A.shape[0] != A.shape[1]:
        raise OperandError(f"rcm: A must be square, got {A.shape}")
    order = reverse_cuthill_mckee(_graph(A), symmetric_mode=True)
    return torch.from_numpy(order.astype(np.int64)).to(A.device)


@dataclass(frozen=True)
class BlockOrdering:
    """An ordering of rows and columns for blocks, with block counts.

    Attributes:
        method: The method: ``"natural"``, ``"rcm"`` or ``"clusters"``.
        block_size: Rows and columns of a block.
        rows: The row of the matrix at each position.
        columns: The column of the matrix at each position.
        n_blocks: Number of blocks in this ordering.
        natural_blocks: Number of blocks in the given order.
        fill: Number of entries over elements of stored blocks, in this ordering.
    """

    method: str
    block_size: int
    rows: Tensor
    columns: Tensor
    n_blocks: int
    natural_blocks: int
    fill: float

    def apply(self, A: SparseMatrix) -> BSRMatrix:
        """Return the reordered matrix in BSR format."""
        return permuted(A, self.rows, self.columns).to_bsr(self.block_size)

    def matmul(self, blocks: BSRMatrix, b: Tensor) -> Tensor:
        """Return the product of the original matrix with b, from the reordered ``blocks``."""
        product = blocks @ b.index_select(0, self.columns)
        return torch.empty_like(product).index_copy(0, self.rows, product)

    def __str__(self) -> str:
        return (
            f"{self.method}: {self.n_blocks} blocks of {self.block_size}, {self.fill:.1%} filled; "
            f"{self.natural_blocks} in the order given"
        )


@untraced()
def block_ordering(A: SparseMatrix, block_size: int = 128) -> BlockOrdering:
    """Return the ordering, of those tried, with the fewest stored blocks.

    Candidates are the given order; reverse Cuthill-McKee, for meshes and chains; and clustering,
    which groups rows with equal block columns, then columns with equal block rows, for shuffled
    matrices. It is a heuristic: fewer blocks may be possible.

    Raises:
        FlagError: ``block_size`` is below 1.
    """
    size = whole("block_ordering", "block_size", block_size, least=1, error=FlagError)
    csr = A.to_csr().detach().cpu()
    rows, columns = (a.numpy() for a in (csr.pattern.row_indices, csr.col_indices))
    natural = tuple(np.arange(n) for n in csr.shape)
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {"natural": (natural[0], natural[1])}
    found["clusters"] = _clusters(rows, columns, csr.shape, size)
    if csr.shape[0] == csr.shape[1]:
        band = rcm(csr).numpy()
        found["rcm"] = (band, band)
    counts = {name: _count(rows, columns, order, csr.shape, size) for name, order in found.items()}
    best = min(counts, key=lambda name: (counts[name], name != "natural"))
    elements = counts[best] * size**2
    row_order, column_order = (
        torch.from_numpy(o.astype(np.int64)).to(A.device) for o in found[best]
    )
    fill = csr.nnz / elements if elements else 0.0
    return BlockOrdering(best, size, row_order, column_order, counts[best], counts["natural"], fill)


def _clusters(
    rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int], size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return row and column orderings by similarity, each computed on the other's blocks."""
    orders = [np.arange(n) for n in shape]
    best, fewest = (orders[0], orders[1]), np.inf
    for width in (
        1,
        size,
        size,
        size,
    ):  # first by single rows and columns, independent of their order
        for side, (own, other) in enumerate(((rows, columns), (columns, rows))):
            place = np.empty(shape[1 - side], np.int64)
            place[orders[1 - side]] = np.arange(shape[1 - side])
            orders[side] = _alike(own, place[other] // width, shape[side])
        count = _count(rows, columns, (orders[0], orders[1]), shape, size)
        if count < fewest:
            best, fewest = (orders[0].copy(), orders[1].copy()), count
    return best


def _alike(own: np.ndarray, groups: np.ndarray, size: int, hashes: int = 6) -> np.ndarray:
    """Return an ordering of ``size`` items that groups items with similar sets of groups.

    Items are sorted by MinHash: two items have equal hashes with a probability equal to the
    Jaccard similarity of their sets of groups (Broder, 1997).
    """
    if not own.size:
        return np.arange(size)
    rng = np.random.default_rng(0)
    keys = []
    for _ in range(hashes):
        value = rng.permutation(int(groups.max()) + 1)[groups]
        smallest = np.full(size, np.iinfo(np.int64).max)
        np.minimum.at(smallest, own, value)
        keys.append(smallest)
    return np.lexsort(keys[::-1])


def _count(
    rows: np.ndarray,
    columns: np.ndarray,
    order: tuple[np.ndarray, np.ndarray],
    shape: tuple[int, int],
    size: int,
) -> int:
    """Return the number of blocks with an entry."""
    places = []
    for entries, chosen in ((rows, order[0]), (columns, order[1])):
        place = np.empty(chosen.size, np.int64)
        place[chosen] = np.arange(chosen.size)
        places.append(place[entries] // size)
    return int(np.unique(places[0] * -(-shape[1] // size) + places[1]).size)


def _graph(A: SparseMatrix) -> object:
    """Return the pattern of ``A + A.T`` as a SciPy matrix."""
    from scipy.sparse import csr_array

    csr = A.to_csr().detach().cpu()
    ones = np.ones(csr.nnz, np.int8)
    indices, pointers = (
        a.numpy().astype(np.int32) for a in (csr.pattern.indices, csr.pattern.pointers)
    )
    pattern = csr_array((ones, indices, pointers), shape=csr.shape)
    return (pattern + pattern.T).tocsr()
