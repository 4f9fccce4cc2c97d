"""Twins about the last, shorter step of a loop over one tile, and kernels that do it right."""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import f32, guard, twin
from tiles import hbm, sbuf, stored


@twin(f32(8, 100))
def S067(a):
    total = nl.zeros((8, 1), dtype=nl.float32, buffer=nl.sbuf)
    part = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.sbuf)
    tile = nl.ndarray((8, 64), dtype=nl.float32, buffer=nl.sbuf)
    for c in range(0, 100, 64):
        width = min(64, 100 - c)
        nisa.dma_copy(dst=tile[0:8, 0:width], src=a[0:8, c : c + width])
        nisa.tensor_reduce(dst=part, op=nl.add, data=tile, axis=1)  # bad here
        nisa.tensor_reduce(dst=part, op=nl.add, data=tile[0:8, 0:width], axis=1)  # good
        nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)
    return stored(total)


@twin(f32(100, 16), f32(100, 32))
def S068(a, b):
    acc = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.psum)
    a_tile = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf)
    b_tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    for k in range(0, 100, 64):
        rows = min(64, 100 - k)
        nisa.dma_copy(dst=a_tile[0:rows], src=a[k : k + rows])
        nisa.dma_copy(dst=b_tile[0:rows], src=b[k : k + rows])
        nisa.nc_matmul(acc, a_tile, b_tile, accumulate=(k > 0))  # bad here
        nisa.nc_matmul(acc, a_tile[0:rows], b_tile[0:rows], accumulate=(k > 0))  # good
    return stored(acc)


@guard(f32(100, 16), f32(100, 32))
def G04_cleared_tail(a, b):
    """Rows of one operand that are zero keep the old ones of the other out of the sum."""
    acc = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.psum)
    a_tile, b_tile = sbuf((64, 16)), sbuf((64, 32))
    for k in range(0, 100, 64):
        rows = min(64, 100 - k)
        nisa.memset(dst=a_tile, value=0.0)
        nisa.dma_copy(dst=a_tile[0:rows], src=a[k : k + rows])
        nisa.dma_copy(dst=b_tile[0:rows], src=b[k : k + rows])
        nisa.nc_matmul(acc, a_tile, b_tile, accumulate=(k > 0))
    return stored(acc)


@guard(f32(100, 16))
def G04_computed_whole_and_stored_in_part(a):
    """Rows that nobody stores may be computed with."""
    out, tile = hbm((100, 16)), sbuf((64, 16))
    for r in range(0, 100, 64):
        rows = min(64, 100 - r)
        nisa.dma_copy(dst=tile[0:rows], src=a[r : r + rows])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[r : r + rows], src=tile[0:rows])
    return out


@guard(f32(8, 100), np.repeat(np.float32([[1, 0]]), 64, axis=1).repeat(8, axis=0))
def G04_masked_tail(a, mask):
    """A mask takes old columns out of a sum."""
    total, part, tile = sbuf((8, 1)), sbuf((8, 1)), sbuf((8, 64))
    keep, kept = sbuf((8, 128)), sbuf((8, 64))
    nisa.memset(dst=total, value=0.0)
    nisa.dma_copy(dst=keep, src=mask)
    for c in range(0, 100, 64):
        width = min(64, 100 - c)
        nisa.dma_copy(dst=tile[0:8, 0:width], src=a[0:8, c : c + width])
        columns = keep[0:8, 64 - width : 128 - width]
        nisa.tensor_tensor(dst=kept, data1=tile, data2=columns, op=nl.multiply)
        nisa.tensor_reduce(dst=part, op=nl.add, data=kept, axis=1)
        nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)
    return stored(total)
