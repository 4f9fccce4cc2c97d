"""Launches of matrix products, of any dtype that a kernel takes."""

from __future__ import annotations

from torch import Tensor

from trnsci.core.backend.launch import Launcher
from trnsci.core.numbers.conversions import dtype_name
from trnsci.core.tiles.tiling import Layout
from trnsci.core.tiles.tiling_gemm import gemm_tiling


def gemm_launch(
    launch: Launcher,
    alpha: float,
    A: Tensor,
    B: Tensor,
    beta: float,
    C: Tensor | None,
    trans_a: str,
    trans_b: str,
    many: int = 1,
    wide: bool = False,
) -> Tensor:
    """Return a product by a kernel.

    With ``many`` = 2 the operands and the result are the ``parts`` of complex matrices. With
    ``wide`` the result of 16-bit operands is float32; real operands are then multiplied without
    factors, C or flags.
    """
    from trnblas._kernels.batched import batched_gemm
    from trnblas._kernels.bfloat16 import bfloat16_gemm
    from trnblas._kernels.complex_gemm import complex_gemm
    from trnblas._kernels.gemm import gemm

    left, right = trans_a != "N", trans_b != "N"
    rows, depth = A.shape[-2], A.shape[-1] // many
    if left:
        rows, depth = A.shape[-1] // many, A.shape[-2]
    blocks = gemm_tiling(
        rows,
        B.shape[-2] if right else B.shape[-1] // many,
        depth,
        dtype_name(A.dtype),
        a_layout=layout(left),
        b_layout=layout(not right),
        batch=max(x.shape[0] if x.ndim == 3 else 1 for x in (A, B)),
        shared="a" if A.ndim < B.ndim else "b" if B.ndim < A.ndim else "",
        parts=many,
    ).blocks
    result: Tensor
    if many == 2:
        result = launch(complex_gemm, A, B, C, alpha, beta, left, right, wide, blocks)
    elif wide:
        result = launch(bfloat16_gemm, A, B, blocks)
    else:
        kernel = gemm if A.ndim == B.ndim == 2 else batched_gemm
        result = launch(kernel, A, B, C, alpha, beta, left, right, blocks)
    return result


def layout(contraction_on_rows: bool) -> Layout:
    """Return the name of the layout with the contraction on rows, or on columns."""
    return "rows" if contraction_on_rows else "columns"
