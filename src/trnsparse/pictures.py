"""Plots of sparsity patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from trnsci.core.arguments import whole
from trnsci.core.errors import DTypeError, FlagError
from trnsparse.formats import BSRMatrix, SparseMatrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_pattern"]


def plot_pattern(A: SparseMatrix, ax: Axes | None = None, *, pixels: int = 400) -> Axes:
    """Plot the sparsity pattern of a matrix, and return the axes.

    The shade of a cell is the share of its elements that is stored, white for none. The cells of a
    BSR matrix are its blocks; otherwise they are sized to have at most ``pixels`` per side.

    Args:
        A: The matrix.
        ax: Axes to draw on; None creates a figure without a window.
        pixels: Largest number of cells along the longer side.
    """
    if not isinstance(A, SparseMatrix):
        raise DTypeError(f"plot_pattern: takes a sparse matrix, got {type(A).__name__}")
    pixels = whole("plot_pattern", "pixels", pixels, least=1, error=FlagError)
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
    flat = torch.zeros(grid[0] * grid[1], device="cpu")
    flat.index_add_(0, rows * grid[1] + columns, torch.full((rows.numel(),), share, device="cpu"))
    ends = (-0.5, grid[1] * side - 0.5, grid[0] * side - 0.5, -0.5)
    image = flat.clamp(max=1.0).reshape(grid).numpy()
    ax.imshow(image, cmap="Blues", vmin=0, vmax=1, extent=ends, interpolation="nearest")
    ax.set_xlim(-0.5, max(A.shape[1], 1) - 0.5)
    ax.set_ylim(max(A.shape[0], 1) - 0.5, -0.5)
    ax.set_title(repr(A), fontsize="small")
    return ax
