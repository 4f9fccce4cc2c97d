"""Kernel launches: each function maps the arguments of an operation to one kernel launch.

Each function has the name of its operation and takes a launcher and the operation's arguments.
Kernels take any shape, so nothing is padded. Importing this module imports NKI.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnblas._kernels import batched as batched_kernels
from trnblas._kernels import energy as energy_kernels
from trnblas._kernels import gemm as gemm_kernels
from trnblas._kernels import gemmt as gemmt_kernels
from trnblas._kernels import symm as symm_kernels
from trnblas._kernels import syrk as syrk_kernels
from trnblas._kernels import trmm as trmm_kernels
from trnblas._kernels import trsm as trsm_kernels
from trnblas._kernels.tiling_syrk import syrk_tiling
from trnsci.core.backend.launch import Launcher
from trnsci.core.dtypes import dtype_name
from trnsci.core.tiles.tiling import Blocks, Layout
from trnsci.core.tiles.tiling_gemm import gemm_tiling

__all__ = [
    "batched_gemm",
    "batched_pair_energy",
    "batched_trsm",
    "gemm",
    "gemmt",
    "mp2_energy",
    "pair_energy",
    "symm",
    "syr2k",
    "syrk",
    "trmm",
    "trsm",
]


def _product(kernel: Any) -> Callable[..., Tensor]:
    """Return the launch function of a ``gemm`` kernel, for one matrix or a batch."""

    def launched(
        launch: Launcher,
        a: Tensor,
        b: Tensor,
        c: Tensor | None,
        alpha: float,
        beta: float,
        trans_a: str,
        trans_b: str,
    ) -> Tensor:
        transposed = trans_a != "N", trans_b != "N"
        return launch(kernel, a, b, c, alpha, beta, *transposed, _gemm_blocks(a, b, *transposed))

    return launched


gemm = _product(gemm_kernels.gemm)
batched_gemm = _product(batched_kernels.batched_gemm)


def gemmt(
    launch: Launcher,
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: float,
    beta: float,
    trans_a: str,
    trans_b: str,
    upper: bool,
) -> Tensor:
    transposed = trans_a != "N", trans_b != "N"
    depth, size = a.shape if transposed[0] else a.mT.shape
    dense = transposed[0] and not transposed[1]
    blocks = syrk_tiling(size, depth, dtype_name(a.dtype), layout=_layout(dense), operands=2).blocks
    return launch(gemmt_kernels.gemmt, a, b, c, alpha, beta, *transposed, upper, blocks)


def symm(
    launch: Launcher,
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: float,
    beta: float,
    left: bool,
    upper: bool,
) -> Tensor:
    rows, columns = b.shape
    stored: Layout = "upper" if upper else "lower"
    layouts: tuple[Layout, Layout] = (stored, "rows") if left else ("columns", stored)
    tiling = gemm_tiling(
        rows, columns, a.shape[0], dtype_name(a.dtype), a_layout=layouts[0], b_layout=layouts[1]
    )
    return launch(symm_kernels.symm, a, b, c, alpha, beta, left, upper, tiling.blocks)


def syrk(
    launch: Launcher, a: Tensor, c: Tensor | None, alpha: float, beta: float, trans: str
) -> Tensor:
    transposed = trans != "N"
    return launch(syrk_kernels.syrk, a, c, alpha, beta, transposed, _syrk_blocks(a, transposed, 1))


def syr2k(
    launch: Launcher,
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: float,
    beta: float,
    trans: str,
) -> Tensor:
    transposed = trans != "N"
    return launch(
        syrk_kernels.syr2k, a, b, c, alpha, beta, transposed, _syrk_blocks(a, transposed, 2)
    )


def _triangular(kernel: Any) -> Callable[..., Tensor]:
    """Return the launch function of a kernel with a triangular operand."""

    def launched(
        launch: Launcher,
        a: Tensor,
        b: Tensor,
        alpha: float,
        left: bool,
        upper: bool,
        trans: str,
        unit: bool,
    ) -> Tensor:
        return launch(kernel, a, b, alpha, left, upper, trans != "N", unit)

    return launched


trsm = _triangular(trsm_kernels.trsm)
batched_trsm = _triangular(trsm_kernels.batched_trsm)
trmm = _triangular(trmm_kernels.trmm)


def mp2_energy(
    launch: Launcher,
    t_flat: Tensor,
    eps_occ_chunk: Tensor,
    eps_occ_full: Tensor,
    eps_vir: Tensor,
) -> Tensor:
    energies = (_energies(x) for x in (eps_occ_chunk, eps_occ_full, eps_vir))
    return launch(energy_kernels.mp2_energy, t_flat, *energies).reshape(())


def pair_energy(
    launch: Launcher, b_i: Tensor, b_j: Tensor, eps_i: float, eps_j: float, eps_vir: Tensor
) -> Tensor:
    # Energies are data, not constants of the program: one program serves all pairs.
    of_i, of_j = (torch.full((1,), e, dtype=torch.float32) for e in (eps_i, eps_j))
    kernel = energy_kernels.pair_energy
    return launch(kernel, b_i, b_j, of_i, of_j, _energies(eps_vir)).reshape(())


def batched_pair_energy(launch: Launcher, b: Tensor, eps_occ: Tensor, eps_vir: Tensor) -> Tensor:
    kernel = energy_kernels.batched_pair_energy
    return launch(kernel, b, _energies(eps_occ), _energies(eps_vir)).reshape(())


def _gemm_blocks(a: Tensor, b: Tensor, transposed_a: bool, transposed_b: bool) -> Blocks:
    rows, depth = (a.mT if transposed_a else a).shape[-2:]
    columns = b.shape[-2 if transposed_b else -1]
    batch = max(a.shape[0] if a.ndim == 3 else 1, b.shape[0] if b.ndim == 3 else 1)
    shared = "a" if a.ndim < b.ndim else "b" if b.ndim < a.ndim else ""
    return gemm_tiling(
        rows,
        columns,
        depth,
        dtype_name(a.dtype),
        a_layout=_layout(transposed_a),
        b_layout=_layout(not transposed_b),
        batch=batch,
        shared=shared,
    ).blocks


def _syrk_blocks(a: Tensor, transposed: bool, operands: int) -> Blocks:
    size, depth = (a.mT if transposed else a).shape
    return syrk_tiling(
        size, depth, dtype_name(a.dtype), layout=_layout(transposed), operands=operands
    ).blocks


def _layout(contraction_on_rows: bool) -> Layout:
    return "rows" if contraction_on_rows else "columns"


def _energies(values: Tensor) -> Tensor:
    """Return orbital energies in the form of the kernels: float32, 1-D."""
    return values.reshape(-1).to(torch.float32)
