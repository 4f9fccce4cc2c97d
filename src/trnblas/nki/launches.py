"""Launches of trnblas' kernels by other libraries, whose launchers count them.

Importing this module imports NKI.
"""

from __future__ import annotations

from torch import Tensor

from trnblas._paths.level_launches import doublefloat_gemm
from trnblas._precise.slicing import MOST_DEPTH, PROMISE
from trnsci.core.backend.launch import Launcher

__all__ = ["MOST_DEPTH", "doublefloat_product"]


def doublefloat_product(launch: Launcher, a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b`` in the dtype of ``a`` at ``"doublefloat"``; see ``trnblas.gemm``.

    Args:
        launch: Launcher of the calling operation.
        a: Matrix or batch, in float32 or float64, with a contraction up to ``MOST_DEPTH``.
        b: Matrix or batch that broadcasts with that of ``a``.
    """
    return doublefloat_gemm(launch, a, b, PROMISE, False, False)
