"""Pictures of patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from trnsci.core.arguments import whole
from trnsci.core.errors import DTypeError, ShapeError
from trnsparse.formats import BSRMatrix, SparseMatrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_pattern"]


def plot_pattern(A: SparseMatrix, ax: Axes | None = None, *, pixels: int = 400) -> Axes:
    """Draw where the entries of a matrix are, and return the axes.

    Each cell of the picture shows how much of it is stored, white for nothing. A matrix in blocks
    shows its blocks; others have cells so large that there are at most ``pixels`` to a side.

    Args:
        A: The matrix.
        ax: Where to draw; None makes a figure, which belongs to no window.
        pixels: Cells along the longer side, at most.
    """
    if not isinstance(A, SparseMatrix):
        raise DTypeError(f"plot_pattern: takes a sparse matrix, got {type(A).__name__}")
    pixels = whole("plot_pattern", "pixels", pixels, least=1, error=ShapeError)
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(layout="constrained").subplots()
    if isinstance(A, BSRMatrix):
        side, pattern, share = A.block_size, A.pattern, 1.0
    else:
        side = max(1, -(-max(A.shape) // pixels))
        pattern, share = A.to_csr().pattern, 1 / side**2
    cell = 1 if isinstance(A, BSRMatrix) else side
    grid = tuple(max(1, -(-size // side)) for size in A.shape)
    rows, columns = (index.cpu() // cell for index in (pattern.row_indices, pattern.indices))
    flat = torch.zeros(grid[0] * grid[1])
    flat.index_add_(0, rows * grid[1] + columns, torch.full((rows.numel(),), share))
    ends = (-0.5, grid[1] * side - 0.5, grid[0] * side - 0.5, -0.5)
    image = flat.clamp(max=1.0).reshape(grid).numpy()
    ax.imshow(image, cmap="Blues", vmin=0, vmax=1, extent=ends, interpolation="nearest")
    ax.set_xlim(-0.5, max(A.shape[1], 1) - 0.5)
    ax.set_ylim(max(A.shape[0], 1) - 0.5, -0.5)
    ax.set_title(repr(A), fontsize="small")
    return ax
