"""Twins about the 0.3.0 interface: arguments, engines and generations."""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import ALL, GEN2, GEN2_3, GEN3_UP, bf16, f8, f32, twin, u32
from tiles import stored

# -- DMA -----------------------------------------------------------------------------------------


@twin(bf16(64, 32), bf16(64, 128))
def A001(a, b):
    out = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))
    nisa.dma_copy(dst=out, src=acc)  # bad here
    product = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.tensor_copy(dst=product, src=acc)  # good
    nisa.dma_copy(dst=out, src=product)  # good
    return out


@twin(f32(64, 32), targets=GEN3_UP)
def A002(a):
    tile = nl.ndarray((64, 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, dge_mode=nisa.dge_mode.hwdge)  # bad here
    nisa.dma_copy(dst=tile, src=a, dge_mode=nisa.dge_mode.swdge)  # good
    return stored(tile)


@twin(f32(64, 32), targets=GEN3_UP)
def A035(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, engine=nisa.engine.sync)  # bad here
    hwdge = nisa.dge_mode.hwdge  # good
    nisa.dma_copy(dst=tile, src=a, dge_mode=hwdge, engine=nisa.engine.sync)  # good
    return stored(tile)


@twin(f32(64, 32), targets=GEN2)
def A036(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, dge_mode=nisa.dge_mode.hwdge)  # bad here
    nisa.dma_copy(dst=tile, src=a, dge_mode=nisa.dge_mode.unknown)  # good
    return stored(tile)


@twin(f32(64, 32), u32(16, 1, below=64), targets=GEN3_UP)
def A036_gather(table, rows):
    picked = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.sbuf)
    source = table.ap([[32, 16], [1, 32]], vector_offset=nl.load(rows))
    nisa.dma_copy(dst=picked, src=source, dge_mode=nisa.dge_mode.hwdge)  # bad here
    nisa.dma_copy(dst=picked, src=source, dge_mode=nisa.dge_mode.swdge)  # good
    return stored(picked)


@twin(f32(64, 32), u32(1, 1, below=32))
def A036_none(table, start):
    picked = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.sbuf)
    source = table.ap([[32, 16], [1, 32]], scalar_offset=nl.load(start))
    nisa.dma_copy(dst=picked, src=source, dge_mode=nisa.dge_mode.none)  # bad here
    nisa.dma_copy(dst=picked, src=source)  # good
    return stored(picked)


@twin(f32(64, 32))
def A036_transpose(a):
    turned = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=a, dge_mode=nisa.dge_mode.none)  # bad here
    nisa.dma_transpose(dst=turned, src=a)  # good
    return stored(turned)


# -- calls that do not fit -----------------------------------------------------------------------


@twin(f32(64, 32))
def A025(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op=nl.add, operand0=1.0)  # bad here
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)  # good
    return stored(tile)


@twin(f32(64, 32))
def A025_missing(a):
    tile = nl.load(a)
    nisa.tensor_scalar(tile, tile, nl.add)  # bad here
    nisa.tensor_scalar(tile, tile, nl.add, 1.0)  # good
    return stored(tile)


@twin(f32(64, 32))
def A025_number(a):
    tile = nl.load(a)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=2.0, op=nl.multiply)  # bad here
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)  # good
    return stored(tile)


@twin(f32(64, 32))
def A025_language(a):
    return stored(nl.load(a, buffer=nl.sbuf))  # bad here
    return stored(nl.load(a))  # good


@twin(f32(1, 32))
def A025_method(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a.broadcast(0, 64))  # bad here
    nisa.dma_copy(dst=tile, src=a.ap([[0, 64], [1, 32]]))  # good
    return stored(tile)


@twin(f32(64, 32))
def A037(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out[0:64, 0:32])  # bad here
    nl.store(out[0:64, 0:32], nl.load(a))  # good
    return out


@twin(f32(64, 64))
def A043(a):
    identity = nl.shared_identity_matrix(256, dtype=nl.float32)  # bad here
    identity = nl.shared_identity_matrix(64, dtype=nl.float32)  # good
    return stored(nl.matmul(nl.load(identity[0:64, 0:64]), nl.load(a), transpose_x=True))


@twin(f32(64, 32))
def A048(a):
    tile = nl.load(a)
    wide = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=wide, value=tile[:, 0:1])  # bad here
    nisa.tensor_copy(dst=wide, src=tile.ap([[32, 64], [0, 128]]))  # good
    return stored(wide)


@twin(f32(32, 32))
def A048_mask(a):
    tile = nl.load(a)
    swapped = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.sbuf)
    mask = nl.ndarray((1, 32), dtype=nl.int32, buffer=nl.sbuf)  # bad
    nisa.iota(dst=mask, pattern=[[1, 32]])  # bad
    mask = []  # good
    for i in range(32):  # good
        mask.append(i)
    nisa.nc_stream_shuffle(dst=swapped, src=tile, shuffle_mask=mask)  # here
    return stored(swapped)


# -- engines and generations ---------------------------------------------------------------------


@twin(f32(64, 32), targets=GEN2_3)
def A033(a):
    tile = nl.load(a)
    nisa.exponential(dst=tile, src=tile)  # bad here
    nisa.activation(dst=tile, op=nl.exp, data=tile)  # good
    return stored(tile)


@twin(f8(64, 2, 32), f8(64, 2, 128), targets=GEN2)
def A033_double_row(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    a_tile, b_tile = nl.load(a), nl.load(b)
    nisa.nc_matmul(acc, a_tile, b_tile, perf_mode=nisa.matmul_perf_mode.double_row)  # bad here
    for k in range(2):  # good
        nisa.nc_matmul(acc, a_tile[:, k], b_tile[:, k])
    return stored(acc)


@twin(f32(64, 32), np.zeros((64, 1), np.float32), np.ones((64, 1), np.float32), targets=GEN2)
def A033_range_select(scores, low, high):
    tile, first, last = nl.load(scores), nl.load(low), nl.load(high)
    nisa.range_select(tile, tile, nl.greater_equal, nl.less, first, last)  # bad here
    place = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.iota(place, [[1, 32]], 0, 0)  # good
    inside = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.tensor_scalar(inside, place, nl.greater_equal, first)  # good
    nisa.tensor_scalar(place, place, nl.less, last)  # good
    nisa.tensor_tensor(inside, inside, place, nl.multiply)  # good
    nisa.tensor_tensor(tile, tile, inside, nl.multiply)  # good
    return stored(tile)


@twin(f32(64, 32), targets=ALL)
def A034(a):
    tile = nl.load(a)
    copy = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=tile, engine=nisa.engine.tensor)  # bad here
    nisa.tensor_copy(dst=copy, src=tile, engine=nisa.engine.vector)  # good
    return stored(copy)


@twin(f32(64, 32), targets=GEN2)
def A034_scalar(a):
    tile = nl.load(a)
    copy = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=tile, engine=nisa.engine.scalar)  # bad here
    nisa.activation(dst=copy, op=nl.copy, data=tile)  # good
    return stored(copy)


@twin(f32(64, 32))
def A034_gpsimd(a):
    tile = nl.load(a)
    nisa.tensor_scalar(tile, tile, nl.add, 1.0, engine=nisa.engine.gpsimd)  # bad here
    nisa.tensor_scalar(tile, tile, nl.add, 1.0, engine=nisa.engine.vector)  # good
    return stored(tile)


@twin(abs(f32(64, 32)), f32(64, 32))
def A034_power(a, b):
    tile = nl.load(a)
    nisa.tensor_tensor(tile, tile, nl.load(b), nl.power, engine=nisa.engine.vector)  # bad here
    nisa.tensor_tensor(tile, tile, nl.load(b), nl.power, engine=nisa.engine.gpsimd)  # good
    return stored(tile)


@twin(f32(64, 32), targets=("gen3",))
def A034_maximum(a):
    tile = nl.load(a)
    nisa.tensor_scalar(tile, tile, nl.maximum, 0.0, engine=nisa.engine.scalar)  # bad here
    nisa.activation(tile, nl.relu, tile)  # good
    return stored(tile)
