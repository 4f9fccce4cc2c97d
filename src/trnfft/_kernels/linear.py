"""The complex linear layer x @ w.T + b in split parts, of any shape, in one launch.

Layout   x as rows x inputs, w as outputs x inputs, b as outputs, in separate parts
Limits   x and w 2-D, each extent at least 1; float32, bfloat16 or float16, operands and result of
         one dtype. Without a bias both of its parts are None.
Cost     as ``complex_gemm``, and one transpose on chip of each tile of w that is loaded
Lever    as ``complex_gemm``; the bias is added in the copy from PSUM, before the rounding
"""

from __future__ import annotations

from trnfft._kernels.complex_gemm_parts import PartsProduct, multiply_parts, new_outputs
from trnsci.core.nki import nki
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.tiling import Blocks


@nki.jit
def complex_linear(
    x_re: Tile,
    x_im: Tile,
    w_re: Tile,
    w_im: Tile,
    b_re: Tile | None,
    b_im: Tile | None,
    blocks: Blocks,
) -> tuple[Tile, Tile]:
    """Return the real and imaginary parts of ``x @ w.T + b`` in the dtype of ``x_re``.

    Args:
        x_re: (rows, inputs).
        x_im: (rows, inputs).
        w_re: (outputs, inputs).
        w_im: (outputs, inputs).
        b_re: (outputs,), or None.
        b_im: (outputs,), or None with ``b_re``.
        blocks: The ``blocks`` of ``parts_tiling(rows, outputs, inputs, dtype, bias=...,
            right_layout="columns")``.
    """
    outs = new_outputs(x_re.shape[0], w_re.shape[0], 2, x_re.dtype)
    biases = None if b_re is None else [b_re, b_im]
    multiply_parts(PartsProduct(outs, [x_re, x_im], [w_re, w_im], "columns", biases), blocks)
    return outs[0], outs[1]
