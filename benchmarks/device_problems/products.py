"""Matrix products and triangular systems of trnblas."""

from __future__ import annotations

import torch

import trnblas
from device_problems.problem import Problem
from trnsci.core.tiles.hardware import ITEMSIZE

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "complex64": torch.complex64}
_PARTS = {"complex64": "float32"}
"""The dtype of the parts; a product of complex numbers is four of them."""


def gemm(
    m: int, k: int, n: int, dtype: str = "float32", *, batch: int = 0, goal_us: float | None = None
) -> Problem:
    """Return a product of (m, k) and (k, n), or a batch of them."""

    def prepare():
        lead = (batch,) if batch else ()
        a, b = (torch.zeros(*lead, *shape, dtype=_DTYPES[dtype]) for shape in ((m, k), (k, n)))
        multiply = trnblas.batched_gemm if batch else trnblas.gemm
        return lambda: multiply(1.0, a, b)

    count = max(1, batch)
    parts = _PARTS.get(dtype, dtype)
    many = 2 if dtype in _PARTS else 1
    return Problem(
        f"{f'batched_gemm {batch} x' if batch else 'gemm'} {m} x {k} x {n} {dtype}",
        "trnblas",
        prepare,
        count * (m * k + k * n + m * n) * many * ITEMSIZE[parts],
        2 * count * m * k * n * many**2,
        goal_us=goal_us,
        dtype=parts,
    )


def trsm(order: int, columns: int, dtype: str = "float32", goal_us: float | None = None) -> Problem:
    """Return a system with a lower triangle, of which only that is read."""

    def prepare():
        a, b = (torch.eye(order, size, dtype=_DTYPES[dtype]) for size in (order, columns))
        return lambda: trnblas.trsm(1.0, a, b, uplo="lower")

    many = 2 if dtype in _PARTS else 1
    return Problem(
        f"trsm {order} x {columns}{'' if many == 1 else ' ' + dtype}",
        "trnblas",
        prepare,
        4 * many * (order * (order + 1) // 2 + 2 * order * columns),
        many**2 * order * order * columns,
        goal_us=goal_us,
    )


PROBLEMS = (
    trsm(1024, 512, goal_us=105),
    gemm(256, 256, 256, batch=64, goal_us=175),
    gemm(1024, 1024, 1024, goal_us=138),
    # 4.2 and 4.5 times the real ones of the same size.
    gemm(1024, 1024, 1024, "complex64", goal_us=580),
    trsm(1024, 512, "complex64", goal_us=472),
    gemm(2048, 2048, 2048, "bfloat16", goal_us=275),
    gemm(2048, 2048, 2048, goal_us=949),
    gemm(4096, 4096, 4096, "bfloat16", goal_us=1937),
)
LARGER = (
    trsm(1536, 512),
    trsm(1024, 768),
    gemm(384, 384, 384, batch=64),
    gemm(256, 256, 256, batch=96),
    gemm(1536, 1536, 1536),
    gemm(3072, 3072, 3072, "bfloat16"),
)
ODD = (
    trsm(1000, 500),
    trsm(129, 77),
    gemm(250, 257, 131, batch=37),
    gemm(1000, 1001, 999),
    gemm(1000, 1001, 999, "complex64"),
    trsm(1000, 500, "complex64"),
    gemm(1999, 2001, 2003, "bfloat16"),
)
