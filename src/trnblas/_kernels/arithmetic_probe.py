"""Single operations whose rounding the double-float kernels rely on, each on given operands.

Layout   operands (128, columns), the same on each partition: 128 repetitions of each operation;
         digits (K, columns) for one product
Limits   up to 512 columns; K a multiple of 128
Cost     one instruction of each kind
Lever    none: it shows what each engine does with rounding, subnormal numbers and exact sums
"""

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import TILE

VECTOR, GPSIMD = nisa.engine.vector, nisa.engine.gpsimd
KINDS = (
    "Vector sum",
    "Vector difference",
    "Vector product",
    "GpSimd sum",
    "GpSimd difference",
    "Vector digit",
    "Scalar copy",
    "bfloat16 value",
    "float16 value",
    "reciprocal",
)
"""The results, in order. A digit is (a + shift) - shift; values are rounded to the dtype."""


@nki.jit
def arithmetic_probe(a: Tile, b: Tile, left: Tile, right: Tile, shift: float) -> tuple[Tile, Tile]:
    """Return (10, 128, columns) results of the operations, and a product of digits.

    Args:
        a: (128, columns).
        b: (128, columns).
        left: (K, rows), digits in bfloat16.
        right: (K, columns of the product), digits in bfloat16.
        shift: The number that rounds ``a`` to a digit.
    """
    rows, columns = a.shape
    out = nl.ndarray((10, rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    first = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    second = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=first, src=a)
    nisa.dma_copy(dst=second, src=b)
    results = []
    for _ in range(10):
        results.append(nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf))
    nisa.tensor_tensor(dst=results[0], data1=first, data2=second, op=nl.add, engine=VECTOR)
    nisa.tensor_tensor(dst=results[1], data1=first, data2=second, op=nl.subtract, engine=VECTOR)
    nisa.tensor_tensor(dst=results[2], data1=first, data2=second, op=nl.multiply, engine=VECTOR)
    nisa.tensor_tensor(dst=results[3], data1=first, data2=second, op=nl.add, engine=GPSIMD)
    nisa.tensor_tensor(dst=results[4], data1=first, data2=second, op=nl.subtract, engine=GPSIMD)
    nisa.tensor_scalar(
        dst=results[5],
        data=first,
        op0=nl.add,
        operand0=shift,
        op1=nl.subtract,
        operand1=shift,
        engine=VECTOR,
    )
    nisa.activation(dst=results[6], op=nl.copy, data=first)
    bfloat16_values = nl.ndarray((rows, columns), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.activation(dst=bfloat16_values, op=nl.copy, data=first)
    nisa.tensor_copy(dst=results[7], src=bfloat16_values)
    float16_values = nl.ndarray((rows, columns), dtype=nl.float16, buffer=nl.sbuf)
    nisa.activation(dst=float16_values, op=nl.copy, data=first)
    nisa.tensor_copy(dst=results[8], src=float16_values)
    nisa.reciprocal(dst=results[9], data=first)
    for k in range(10):
        nisa.dma_copy(dst=out[k], src=results[k])
    return out, product(left, right)


def product(left: Tile, right: Tile) -> Tile:
    """Return the product of digits, summed in PSUM."""
    depth, rows = left.shape
    columns = right.shape[1]
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    sums = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
    for k in range(0, depth, TILE):
        stationary = nl.ndarray((TILE, rows), dtype=left.dtype, buffer=nl.sbuf)
        moving = nl.ndarray((TILE, columns), dtype=right.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=stationary, src=left[k : k + TILE, 0:rows])
        nisa.dma_copy(dst=moving, src=right[k : k + TILE, 0:columns])
        nisa.nc_matmul(dst=sums, stationary=stationary, moving=moving, accumulate=k > 0)
    tile = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=sums)
    nisa.dma_copy(dst=out, src=tile)
    return out
