"""Fourier transforms of a batch of rows of 2^k points, by radix-4 and radix-2 Stockham stages.

A stage with radix r, s points per group and m remaining groups reads x[j, p, q] with j < r, p < m,
q < s and writes y[p, k, q]; the result of the last stage is in natural order:

    y[p, k, q] = exp(-2 pi i p k / (r m)) * sum over j of x[j, p, q] exp(-2 pi i j k / r)

Layout   rows on partitions, 128 at a time, both parts of a row on the free axis
Limits   2-D float32 or 16-bit operands, results in float32; a power of two from 2 to 4096 points
Cost     22 Vector instructions per radix-4 stage, each over both parts of a quarter of the row
Lever    every instruction processes a quarter of the free axis on all partitions. Rows stay in SBUF
         between stages, and permutations are access patterns of the writes. The Tensor engine is
         not used, so this kernel can run in parallel with one that keeps it busy.
Accuracy relative L2 error below 5e-7
"""

from __future__ import annotations

from trnfft._kernels.four_step_tiles import View, load, multiply_complex, part_of, store
from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import TILE

LARGEST = 4096
"""Largest number of points of a row. Two rows, the table and the terms of a stage take 26 bytes of
SBUF per partition and point; the smallest SBUF has 176 KiB."""


@nki.jit
def butterfly(
    x_re: Tile, x_im: Tile, constants: Tile, inverse: bool, scale: float
) -> tuple[Tile, Tile]:
    """Return the transforms of all rows times ``scale``, as real and imaginary part.

    Args:
        x_re: (batch, n) with n a power of two.
        x_im: The same shape.
        constants: (2, n), the roots of unity for the transform's direction.
        inverse: Whether the transform is inverse.
        scale: Factor of the results.
    """
    n = x_re.shape[1]
    steps = []
    step = 1
    while step < n:
        steps.append(step)
        step *= 4 if 4 * step <= n else 2
    return run_steps(x_re, x_im, constants, steps, inverse, scale)


@nki.jit
def butterfly_stage_kernel(
    x_re: Tile, x_im: Tile, constants: Tile, stage: int, inverse: bool
) -> tuple[Tile, Tile]:
    """Return the rows after one stage; ``butterfly`` is the sequence of stages 0, 1, ...

    Args:
        x_re: (batch, n) with n a power of two.
        x_im: The same shape.
        constants: As in ``butterfly``.
        stage: Index of the stage: log4(n) radix-4 stages, then one of radix 2 if n is not a power
            of four.
        inverse: Whether the transform is inverse.
    """
    return run_steps(x_re, x_im, constants, [4**stage], inverse, 1.0)


def run_steps(
    x_re: Tile, x_im: Tile, constants: Tile, steps: list[int], inverse: bool, scale: float
) -> tuple[Tile, Tile]:
    """Return all rows after stages with the given group sizes."""
    batch, n = x_re.shape
    out = []
    for _ in range(2):
        out.append(nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm))
    for r0 in range(0, batch, TILE):
        rows = min(TILE, batch - r0)
        table = None
        if 4 * steps[0] < n:  # a single group has no twiddles
            table = nl.ndarray((rows, 2, n), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=table, src=constants.ap(pattern=[[0, rows], [n, 2], [1, n]]))
        every_row = View(rows, 1, n, n, n, 0, rows * n, False)
        pair = load(every_row, [x_re, x_im], [r0 * n, r0 * n])
        for step in steps:
            pair = radix4(pair, table, step, inverse) if 4 * step <= n else radix2(pair)
        if scale != 1.0:
            nisa.activation(dst=pair, op=nl.copy, data=pair, scale=scale)
        store(every_row, out, r0 * n, pair)
    return out[0], out[1]


def radix2(x: Tile) -> Tile:
    """Return rows after the last stage, which has one group and therefore no twiddles."""
    rows, _, n = x.shape
    half = n // 2
    y = nl.ndarray((rows, 2, n), dtype=nl.float32, buffer=nl.sbuf)
    low, high = x[0:rows, 0:2, 0:half], x[0:rows, 0:2, half:n]
    nisa.tensor_tensor(dst=y[0:rows, 0:2, 0:half], data1=low, data2=high, op=nl.add)
    nisa.tensor_tensor(dst=y[0:rows, 0:2, half:n], data1=low, data2=high, op=nl.subtract)
    return y


def radix4(x: Tile, table: Tile | None, step: int, inverse: bool) -> Tile:
    """Return rows after a stage with ``step`` points per group."""
    rows, _, n = x.shape
    quarter = n // 4
    groups = quarter // step
    y = nl.ndarray((rows, 2, n), dtype=nl.float32, buffer=nl.sbuf)
    even, odd = combined(x, 0, nl.add), combined(x, quarter, nl.add)
    apart, rotated = combined(x, 0, nl.subtract), combined(x, quarter, nl.subtract)
    terms = []
    for op in (nl.add, nl.subtract):
        term = nl.ndarray((rows, 2, quarter), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=term, data1=even, data2=odd, op=op)
        terms.append(term)
    # -i (x + i y) is y - i x: multiplication by -i swaps the parts and negates one.
    for signs in ((nl.add, nl.subtract), (nl.subtract, nl.add)):
        term = nl.ndarray((rows, 2, quarter), dtype=nl.float32, buffer=nl.sbuf)
        for p in range(2):
            nisa.tensor_tensor(
                dst=term[0:rows, p, 0:quarter],
                data1=apart[0:rows, p, 0:quarter],
                data2=rotated[0:rows, 1 - p, 0:quarter],
                op=signs[p],
            )
        terms.append(term)
    first, third = (3, 2) if inverse else (2, 3)
    order = (0, first, 1, third)
    for k in range(4):
        data = terms[order[k]].reshape((rows, 2, groups, step))
        places = [[2 * n, rows], [4 * step, groups], [1, step]]
        dst = []
        for p in range(2):
            dst.append(y.ap(pattern=places, offset=p * n + k * step))
        if k == 0 or groups == 1:
            for p in range(2):
                nisa.tensor_copy(dst=dst[p], src=data[0:rows, p])
        else:
            # All points of group p have the twiddle exp(-2 pi i p k / (4 * groups)).
            angles = [[k * step, groups], [0, step]]
            cos = part_of(table, 0, angles, 0, 2)
            multiply_complex(dst, data, cos, part_of(table, 1, angles, 0, 2), False)
    return y


def combined(x: Tile, first: int, op: object) -> Tile:
    """Return both parts of the quarter at ``first`` combined with the quarter half a row later."""
    rows, _, n = x.shape
    quarter = n // 4
    out = nl.ndarray((rows, 2, quarter), dtype=nl.float32, buffer=nl.sbuf)
    second = first + 2 * quarter
    nisa.tensor_tensor(
        dst=out,
        data1=x[0:rows, 0:2, first : first + quarter],
        data2=x[0:rows, 0:2, second : second + quarter],
        op=op,
    )
    return out
