"""Small but complete kernels, as people write them; none of them may have a finding."""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import bf16, f32, guard, i32
from tiles import stored


@guard(f32(100, 300))
def softmax(a):
    tile = nl.load(a)
    peak = nl.ndarray((100, 1), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((100, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=peak, op=nl.maximum, data=tile, axis=1, negate=True)
    reset = nisa.reduce_cmd.reset_reduce
    nisa.activation(tile, nl.exp, tile, peak, 1.0, nl.add, total, reset)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
    return stored(tile)


@guard(f32(64, 64))
def causal_softmax(scores):
    tile = nl.load(scores)
    lowest = -3.4028235e38
    nisa.affine_select(tile, [[-1, 64]], 1, tile, lowest, cmp_op=nl.greater_equal)
    peak = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=peak, op=nl.maximum, data=tile, axis=1, negate=True)
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=peak)
    return stored(tile)


@guard(f32(64, 1024))
def layer_norm(a):
    tile = nl.load(a)
    stats = nl.ndarray((64, 2, 6), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(2):
        nisa.bn_stats(dst=stats[:, i], data=tile[:, nl.ds(i * 512, 512)])
    moments = nl.ndarray((64, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_aggr(dst=moments, data=stats)
    scale = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(scale, moments[:, 1:2], nl.add, 1e-5, op1=nl.power, operand1=-0.5)
    mean = moments[:, 0:1]
    nisa.tensor_scalar(tile, tile, nl.subtract, mean, op1=nl.multiply, operand1=scale)
    return stored(tile)


@guard(bf16(2, 128, 128), bf16(2, 128, 512))
def matmul_in_eight_banks(a, b):
    out = nl.ndarray((8, 128, 512), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    banks = []
    for i in range(8):
        acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum, name=f"bank_{i}")
        for k in range(2):
            nisa.nc_matmul(acc, nl.load(a[k]), nl.load(b[k]))
        banks.append(acc)
    for i in range(8):
        tile = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.activation(dst=tile, op=nl.copy, data=banks[i])
        nisa.dma_copy(dst=out[i], src=tile)
    return out


@guard(bf16(64, 32), bf16(64, 256))
def matmul_in_halves_of_a_bank(a, b):
    acc = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.psum)
    result = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.sbuf)
    for n in (0, 128):
        half = nl.ds(n, 128)
        nisa.nc_matmul(acc[:, half], nl.load(a), nl.load(b[:, half]))
        nisa.tensor_copy(dst=result[:, half], src=acc[:, half])
    return stored(result)


@guard(bf16(64, 32), bf16(64, 128))
def matmul_over_a_cleared_tile(a, b):
    acc = nl.zeros((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, nl.load(a), nl.load(b), accumulate=False)
    return stored(acc), stored(acc)


@guard(f32(64, 32))
def quantise(a):
    tile = nl.load(a)
    levels = nl.ndarray((64, 32), dtype=nl.int8, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=100.0)
    nisa.tensor_scalar(levels, tile, nl.maximum, -127.0, op1=nl.minimum, operand1=127.0)
    nisa.tensor_scalar(dst=tile, data=levels, op0=nl.multiply, operand0=0.01)
    return stored(levels), stored(tile)


@guard(f32(64, 64))
def running_sum_in_place(a):
    tile = nl.load(a)
    ones = nl.ones((64, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor_scan(tile, ones, tile, 0.0, nl.multiply, nl.add)
    return stored(tile)


@guard(i32(64, 32, below=100))
def keep_large_integers(a):
    tile = nl.load(a)
    large = nl.ndarray((64, 32), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=large, data=tile, op0=nl.greater, operand0=50)
    kept = nl.full((64, 32), -1, dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_copy_predicated(dst=kept, src=tile, predicate=large)
    return stored(kept)


@guard(f32(16, 32), np.random.default_rng(0).permutation(64)[:16, None].astype(np.uint32))
def scatter_rows(updates, rows):
    table = nl.zeros((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    target = table.ap([[32, 16], [1, 32]], vector_offset=nl.load(rows))
    nisa.dma_copy(dst=target, src=nl.load(updates))
    return table


@guard(f32(64, 32))
def two_slots_in_turn(a):
    out = nl.ndarray((4, 64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    slots = []
    for i in range(2):
        slots.append(nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, name=f"slot_{i}"))
    for i in range(4):
        slot = slots[i % 2]
        nisa.dma_copy(dst=slot, src=a)
        nisa.tensor_scalar(dst=slot, data=slot, op0=nl.multiply, operand0=float(i))
        nisa.dma_copy(dst=out[i], src=slot)
    return out


@guard(f32(64, 32))
def even_and_odd_columns(a):
    tile = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[:, 0:64:2], src=a)
    nisa.dma_copy(dst=tile[:, 1:64:2], src=a)
    column = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=column, src=tile[:, 5])
    return stored(tile), stored(column), stored(tile.view(nl.bfloat16)[:, 1:128:2])


@guard(f32(64, 32))
def zeros_around_a_small_block(a):
    out = nl.zeros((256, 4096), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[0:64, 0:32], src=a)
    return out


@guard(f32(2, 64, 32))
def argument_written_and_returned(cache):
    nisa.dma_copy(dst=cache[0], src=nl.load(cache[1]))
    return cache
