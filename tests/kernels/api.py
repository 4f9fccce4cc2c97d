"""Twins about the 0.3.0 interface: arguments, engines and generations."""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import ALL, GEN2, GEN2_3, GEN3_UP, bf16, f8, f32, twin, u32
from tiles import stored

# -- DMA -----------------------------------------------------------------------------------------


@twin(bf16(64, 32), bf16(64, 128))
def bad_A001(a, b):
    out = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))
    nisa.dma_copy(dst=out, src=acc)  # here
    return out


def good_A001(a, b):
    out = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))
    product = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=product, src=acc)
    nisa.dma_copy(dst=out, src=product)
    return out


@twin(f32(64, 32), targets=GEN3_UP)
def bad_A002(a):
    tile = nl.ndarray((64, 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, dge_mode=nisa.dge_mode.hwdge)  # here
    return stored(tile)


def good_A002(a):
    tile = nl.ndarray((64, 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, dge_mode=nisa.dge_mode.swdge)
    return stored(tile)


@twin(f32(64, 32), targets=GEN3_UP)
def bad_A035(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, engine=nisa.engine.sync)  # here
    return stored(tile)


def good_A035(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    hwdge = nisa.dge_mode.hwdge
    nisa.dma_copy(dst=tile, src=a, dge_mode=hwdge, engine=nisa.engine.sync)
    return stored(tile)


@twin(f32(64, 32), targets=GEN2)
def bad_A036(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, dge_mode=nisa.dge_mode.hwdge)  # here
    return stored(tile)


def good_A036(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, dge_mode=nisa.dge_mode.unknown)
    return stored(tile)


@twin(f32(64, 32), u32(16, 1, below=64), targets=GEN3_UP)
def bad_A036_gather(table, rows):
    picked = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.sbuf)
    source = table.ap([[32, 16], [1, 32]], vector_offset=nl.load(rows))
    nisa.dma_copy(dst=picked, src=source, dge_mode=nisa.dge_mode.hwdge)  # here
    return stored(picked)


def good_A036_gather(table, rows):
    picked = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.sbuf)
    source = table.ap([[32, 16], [1, 32]], vector_offset=nl.load(rows))
    nisa.dma_copy(dst=picked, src=source, dge_mode=nisa.dge_mode.swdge)
    return stored(picked)


@twin(f32(64, 32), u32(1, 1, below=32))
def bad_A036_none(table, start):
    picked = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.sbuf)
    source = table.ap([[32, 16], [1, 32]], scalar_offset=nl.load(start))
    nisa.dma_copy(dst=picked, src=source, dge_mode=nisa.dge_mode.none)  # here
    return stored(picked)


def good_A036_none(table, start):
    picked = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.sbuf)
    source = table.ap([[32, 16], [1, 32]], scalar_offset=nl.load(start))
    nisa.dma_copy(dst=picked, src=source)
    return stored(picked)


@twin(f32(64, 32))
def bad_A036_transpose(a):
    turned = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=a, dge_mode=nisa.dge_mode.none)  # here
    return stored(turned)


def good_A036_transpose(a):
    turned = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=a)
    return stored(turned)


# -- calls that do not fit -----------------------------------------------------------------------


@twin(f32(64, 32))
def bad_A025(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op=nl.add, operand0=1.0)  # here
    return stored(tile)


def good_A025(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    return stored(tile)


@twin(f32(64, 32))
def bad_A025_missing(a):
    tile = nl.load(a)
    nisa.tensor_scalar(tile, tile, nl.add)  # here
    return stored(tile)


def good_A025_missing(a):
    tile = nl.load(a)
    nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    return stored(tile)


@twin(f32(64, 32))
def bad_A025_number(a):
    tile = nl.load(a)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=2.0, op=nl.multiply)  # here
    return stored(tile)


def good_A025_number(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    return stored(tile)


@twin(f32(64, 32))
def bad_A025_language(a):
    return stored(nl.load(a, buffer=nl.sbuf))  # here


def good_A025_language(a):
    return stored(nl.load(a))


@twin(f32(1, 32))
def bad_A025_method(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a.broadcast(0, 64))  # here
    return stored(tile)


def good_A025_method(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a.ap([[0, 64], [1, 32]]))
    return stored(tile)


@twin(f32(64, 32))
def bad_A037(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out[0:64, 0:32])  # here
    return out


def good_A037(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out[0:64, 0:32], nl.load(a))
    return out


@twin(f32(64, 64))
def bad_A043(a):
    identity = nl.shared_identity_matrix(256, dtype=nl.float32)  # here
    return stored(nl.matmul(nl.load(identity[0:64, 0:64]), nl.load(a), transpose_x=True))


def good_A043(a):
    identity = nl.shared_identity_matrix(64, dtype=nl.float32)
    return stored(nl.matmul(nl.load(identity[0:64, 0:64]), nl.load(a), transpose_x=True))


@twin(f32(64, 32))
def bad_A048(a):
    tile = nl.load(a)
    wide = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=wide, value=tile[:, 0:1])  # here
    return stored(wide)


def good_A048(a):
    tile = nl.load(a)
    wide = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=wide, src=tile.ap([[32, 64], [0, 128]]))
    return stored(wide)


@twin(f32(32, 32))
def bad_A048_mask(a):
    tile = nl.load(a)
    swapped = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.sbuf)
    mask = nl.ndarray((1, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=mask, pattern=[[1, 32]])
    nisa.nc_stream_shuffle(dst=swapped, src=tile, shuffle_mask=mask)  # here
    return stored(swapped)


def good_A048_mask(a):
    tile = nl.load(a)
    swapped = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.sbuf)
    mask = []
    for i in range(32):
        mask.append(i)
    nisa.nc_stream_shuffle(dst=swapped, src=tile, shuffle_mask=mask)
    return stored(swapped)


# -- engines and generations ---------------------------------------------------------------------


@twin(f32(64, 32), targets=GEN2_3)
def bad_A033(a):
    tile = nl.load(a)
    nisa.exponential(dst=tile, src=tile)  # here
    return stored(tile)


def good_A033(a):
    tile = nl.load(a)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    return stored(tile)


@twin(f8(64, 2, 32), f8(64, 2, 128), targets=GEN2)
def bad_A033_double_row(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    a_tile, b_tile = nl.load(a), nl.load(b)
    nisa.nc_matmul(acc, a_tile, b_tile, perf_mode=nisa.matmul_perf_mode.double_row)  # here
    return stored(acc)


def good_A033_double_row(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    a_tile, b_tile = nl.load(a), nl.load(b)
    for k in range(2):
        nisa.nc_matmul(acc, a_tile[:, k], b_tile[:, k])
    return stored(acc)


@twin(f32(64, 32), np.zeros((64, 1), np.float32), np.ones((64, 1), np.float32), targets=GEN2)
def bad_A033_range_select(scores, low, high):
    tile, first, last = nl.load(scores), nl.load(low), nl.load(high)
    nisa.range_select(tile, tile, nl.greater_equal, nl.less, first, last)  # here
    return stored(tile)


def good_A033_range_select(scores, low, high):
    tile, first, last = nl.load(scores), nl.load(low), nl.load(high)
    place = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.iota(place, [[1, 32]], 0, 0)
    inside = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(inside, place, nl.greater_equal, first)
    nisa.tensor_scalar(place, place, nl.less, last)
    nisa.tensor_tensor(inside, inside, place, nl.multiply)
    nisa.tensor_tensor(tile, tile, inside, nl.multiply)
    return stored(tile)


@twin(f32(64, 32), targets=ALL)
def bad_A034(a):
    tile = nl.load(a)
    copy = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=tile, engine=nisa.engine.tensor)  # here
    return stored(copy)


def good_A034(a):
    tile = nl.load(a)
    copy = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=tile, engine=nisa.engine.vector)
    return stored(copy)


@twin(f32(64, 32), targets=GEN2)
def bad_A034_scalar(a):
    tile = nl.load(a)
    copy = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=tile, engine=nisa.engine.scalar)  # here
    return stored(copy)


def good_A034_scalar(a):
    tile = nl.load(a)
    copy = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=copy, op=nl.copy, data=tile)
    return stored(copy)


@twin(f32(64, 32))
def bad_A034_gpsimd(a):
    tile = nl.load(a)
    nisa.tensor_scalar(tile, tile, nl.add, 1.0, engine=nisa.engine.gpsimd)  # here
    return stored(tile)


def good_A034_gpsimd(a):
    tile = nl.load(a)
    nisa.tensor_scalar(tile, tile, nl.add, 1.0, engine=nisa.engine.vector)
    return stored(tile)


@twin(abs(f32(64, 32)), f32(64, 32))
def bad_A034_power(a, b):
    tile = nl.load(a)
    nisa.tensor_tensor(tile, tile, nl.load(b), nl.power, engine=nisa.engine.vector)  # here
    return stored(tile)


def good_A034_power(a, b):
    tile = nl.load(a)
    nisa.tensor_tensor(tile, tile, nl.load(b), nl.power, engine=nisa.engine.gpsimd)
    return stored(tile)


@twin(f32(64, 32), targets=("gen3",))
def bad_A034_maximum(a):
    tile = nl.load(a)
    nisa.tensor_scalar(tile, tile, nl.maximum, 0.0, engine=nisa.engine.scalar)  # here
    return stored(tile)


def good_A034_maximum(a):
    tile = nl.load(a)
    nisa.activation(tile, nl.relu, tile)
    return stored(tile)
