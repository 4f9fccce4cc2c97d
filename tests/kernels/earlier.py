"""Twins about calls that were right in an earlier release."""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN3_UP, GEN4, bf16, f32, i32, twin, u32
from tiles import stored

# -- arguments that moved or went away -----------------------------------------------------------


@twin(f32(64, 32), f32(64, 32))
def A003(a, total):
    tile = nl.load(a)
    nisa.dma_copy(dst=total, src=tile, dst_rmw_op=nl.add)  # bad here
    nisa.dma_compute(dst=total, srcs=[tile, total], reduce_op=nl.add)  # good
    return total


@twin(f32(64, 32), f32(64, 32))
def A007(a, b):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_compute(out, [a, b], [1.0, 1.0], nl.add)  # bad here
    nisa.dma_compute(out, [a, b], reduce_op=nl.add, scales=[1.0, 1.0])  # good
    return out


@twin(f32(64, 32))
def A009(scores):
    tile = nl.load(scores)
    nisa.affine_select(tile, [[-1, 32]], 0, 1, tile, -1e30, nl.greater_equal)  # bad here
    nisa.affine_select(tile, [[-1, 32]], 1, tile, -1e30, nl.greater_equal, offset=0)  # good
    return stored(tile)


@twin(f32(64, 32))
def A010(a):
    count = nisa.register_alloc()
    nisa.register_move(count, imm=4)  # bad here
    nisa.register_move(count, src=nisa.register_alloc(4))  # good
    return stored(nl.load(a))


@twin(f32(64, 32))
def A026(a):
    tile = nl.load(a)
    exponential = nisa.activation(op=nl.exp, data=tile)  # bad here
    exponential = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.activation(dst=exponential, op=nl.exp, data=tile)  # good
    return stored(exponential)


@twin(f32(64, 32))
def A027(a):
    tile = nl.load(a)
    nisa.activation(dst=tile, op=nl.exp, data=tile, mask=(tile.shape[1] > 16))  # bad here
    nisa.activation(dst=tile[:, 0:16], op=nl.exp, data=tile[:, 0:16])  # good
    return stored(tile)


@twin(f32(64, 32))
def A027_load(a):
    return stored(nl.load(a, mask=None))  # bad here
    return stored(nl.load(a))  # good


@twin(f32(64, 32))
def A028(a):
    tile = nl.load(a)
    half = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # bad
    nisa.tensor_copy(dst=half, src=tile, dtype=nl.bfloat16)  # bad here
    half = nl.ndarray((64, 32), dtype=nl.bfloat16, buffer=nl.sbuf)  # good
    nisa.tensor_copy(dst=half, src=tile)  # good
    return stored(half)


@twin(bf16(64, 32), bf16(64, 128))
def A032(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, nl.load(a), nl.load(b), psumAccumulateFlag=False)  # bad here
    nisa.nc_matmul(acc, nl.load(a), nl.load(b), accumulate=False)  # good
    return stored(acc)


@twin(f32(64, 64))
def A038(a):
    out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(2, precise_schedule=True):  # bad here
        nisa.dma_copy(dst=out[:, i * 32 : (i + 1) * 32], src=a[:, i * 32 : (i + 1) * 32])
    for i in nl.affine_range(2):  # good
        nisa.dma_copy(dst=out[:, i * 32 : (i + 1) * 32], src=a[:, i * 32 : (i + 1) * 32])
    return out


@twin(f32(64, 32))
def A044(a):
    tile = nl.load(a)
    nl.device_print("tile", x=tile[0:1, 0:4])  # bad here
    nl.device_print("tile", tensor=tile[0:1, 0:4])  # good
    return stored(tile)


# -- values that are read more strictly ----------------------------------------------------------


@twin(i32(64, 32))
def A004(a):
    counts = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=counts, value=0.5)  # bad here
    nisa.memset(dst=counts, value=0)  # good
    return stored(nl.add(counts, nl.load(a)))


@twin(i32(64, 32))
def A004_whole(a):
    counts = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=counts, value=0.0)  # bad here
    nisa.memset(dst=counts, value=0)  # good
    return stored(nl.add(counts, nl.load(a)))


@twin(f32(64, 32), targets=GEN4)
def A005(a):
    packed = nl.ndarray((64, 8), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    nisa.memset(dst=packed, value=1)  # bad here
    nisa.memset(dst=packed, value=0)  # good
    return stored(nl.load(a)), stored(packed)


@twin(f32(64, 8, 16))
def A006(a):
    total = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=nl.load(a), axis=1)  # bad here
    nisa.tensor_reduce(dst=total, op=nl.add, data=nl.load(a), axis=2)  # good
    return stored(total)


@twin(f32(64, 32))
def A013(a):
    tile = nl.load(a)
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=total, src=tile, engine=5)  # bad here
    nisa.tensor_copy(dst=total, src=tile, engine=nisa.engine.vector)  # good
    return stored(total)


@twin(f32(64, 32))
def A013_dge_mode(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, dge_mode=3)  # bad here
    nisa.dma_copy(dst=tile, src=a, dge_mode=nisa.dge_mode.none)  # good
    return stored(tile)


_THREE = np.int64(3)


@twin(f32(64, 32))
def A013_numpy_integer(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, dge_mode=_THREE)  # bad here
    nisa.dma_copy(dst=tile, src=a, dge_mode=nisa.dge_mode.none)  # good
    return stored(tile)


@twin(f32(64, 32))
def A014(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer="sbuf")  # bad here
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.dma_copy(dst=tile, src=a)
    return stored(tile)


@twin(f32(64, 32), targets=GEN3_UP)
def A015(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    hwdge = nisa.dge_mode.hwdge
    nisa.dma_copy(dst=tile, src=a, dge_mode=hwdge, engine=nisa.dma_engine.dma)  # bad here
    nisa.dma_copy(dst=tile, src=a, dge_mode=hwdge, engine=nisa.engine.scalar)  # good
    return stored(tile)


# -- names that are gone -------------------------------------------------------------------------


@twin(f32(64, 32), u32(1, 1, below=16))
def A021(a, start):
    tile, first = nl.load(a), nl.load(start)  # bad
    first = nl.load(start)  # good
    window = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf)
    source = tile.ap([[32, 64], [1, 16]], scalar_offset=first, indirect_dim=1)  # bad
    nisa.tensor_copy_dynamic_src(window, source)  # bad here
    source = a.ap([[32, 64], [1, 16]], scalar_offset=first, indirect_dim=1)  # good
    nisa.dma_copy(window, source)  # good
    return stored(window)


@twin(f32(64, 32))
def A029(a):
    rows = nl.arange(64)  # bad here
    rows = slice(0, 64)  # good
    return stored(nl.load(a[rows]))


@twin(f32(64, 32), f32(64, 32))
def A030(a, total):
    nl.atomic_rmw(total, nl.load(a), op=nl.add)  # bad here
    nisa.dma_compute(total, [total, nl.load(a)], reduce_op=nl.add)  # good
    return total
