"""Twins about calls that were right in an earlier release."""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN3_UP, GEN4, bf16, f32, i32, twin, u32
from tiles import stored

# -- arguments that moved or went away -----------------------------------------------------------


@twin(f32(64, 32), f32(64, 32))
def bad_A003(a, total):
    tile = nl.load(a)
    nisa.dma_copy(dst=total, src=tile, dst_rmw_op=nl.add)  # here
    return total


def good_A003(a, total):
    tile = nl.load(a)
    nisa.dma_compute(dst=total, srcs=[tile, total], reduce_op=nl.add)
    return total


@twin(f32(64, 32), f32(64, 32))
def bad_A007(a, b):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_compute(out, [a, b], [1.0, 1.0], nl.add)  # here
    return out


def good_A007(a, b):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_compute(out, [a, b], reduce_op=nl.add, scales=[1.0, 1.0])
    return out


@twin(f32(64, 32))
def bad_A009(scores):
    tile = nl.load(scores)
    nisa.affine_select(tile, [[-1, 32]], 0, 1, tile, -1e30, nl.greater_equal)  # here
    return stored(tile)


def good_A009(scores):
    tile = nl.load(scores)
    nisa.affine_select(tile, [[-1, 32]], 1, tile, -1e30, nl.greater_equal, offset=0)
    return stored(tile)


@twin(f32(64, 32))
def bad_A010(a):
    count = nisa.register_alloc()
    nisa.register_move(count, imm=4)  # here
    return stored(nl.load(a))


def good_A010(a):
    count = nisa.register_alloc()
    nisa.register_move(count, src=nisa.register_alloc(4))
    return stored(nl.load(a))


@twin(f32(64, 32))
def bad_A026(a):
    tile = nl.load(a)
    exponential = nisa.activation(op=nl.exp, data=tile)  # here
    return stored(exponential)


def good_A026(a):
    tile = nl.load(a)
    exponential = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=exponential, op=nl.exp, data=tile)
    return stored(exponential)


@twin(f32(64, 32))
def bad_A027(a):
    tile = nl.load(a)
    nisa.activation(dst=tile, op=nl.exp, data=tile, mask=(tile.shape[1] > 16))  # here
    return stored(tile)


def good_A027(a):
    tile = nl.load(a)
    nisa.activation(dst=tile[:, 0:16], op=nl.exp, data=tile[:, 0:16])
    return stored(tile)


@twin(f32(64, 32))
def bad_A027_load(a):
    return stored(nl.load(a, mask=None))  # here


def good_A027_load(a):
    return stored(nl.load(a))


@twin(f32(64, 32))
def bad_A028(a):
    tile = nl.load(a)
    half = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=half, src=tile, dtype=nl.bfloat16)  # here
    return stored(half)


def good_A028(a):
    tile = nl.load(a)
    half = nl.ndarray((64, 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=half, src=tile)
    return stored(half)


@twin(bf16(64, 32), bf16(64, 128))
def bad_A032(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, nl.load(a), nl.load(b), psumAccumulateFlag=False)  # here
    return stored(acc)


def good_A032(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, nl.load(a), nl.load(b), accumulate=False)
    return stored(acc)


@twin(f32(64, 64))
def bad_A038(a):
    out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(2, precise_schedule=True):  # here
        nisa.dma_copy(dst=out[:, i * 32 : (i + 1) * 32], src=a[:, i * 32 : (i + 1) * 32])
    return out


def good_A038(a):
    out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        nisa.dma_copy(dst=out[:, i * 32 : (i + 1) * 32], src=a[:, i * 32 : (i + 1) * 32])
    return out


@twin(f32(64, 32))
def bad_A044(a):
    tile = nl.load(a)
    nl.device_print("tile", x=tile[0:1, 0:4])  # here
    return stored(tile)


def good_A044(a):
    tile = nl.load(a)
    nl.device_print("tile", tensor=tile[0:1, 0:4])
    return stored(tile)


# -- values that are read more strictly ----------------------------------------------------------


@twin(i32(64, 32))
def bad_A004(a):
    counts = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=counts, value=0.5)  # here
    return stored(nl.add(counts, nl.load(a)))


def good_A004(a):
    counts = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=counts, value=0)
    return stored(nl.add(counts, nl.load(a)))


@twin(i32(64, 32))
def bad_A004_whole(a):
    counts = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=counts, value=0.0)  # here
    return stored(nl.add(counts, nl.load(a)))


def good_A004_whole(a):
    counts = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=counts, value=0)
    return stored(nl.add(counts, nl.load(a)))


@twin(f32(64, 32), targets=GEN4)
def bad_A005(a):
    packed = nl.ndarray((64, 8), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    nisa.memset(dst=packed, value=1)  # here
    return stored(nl.load(a)), stored(packed)


def good_A005(a):
    packed = nl.ndarray((64, 8), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    nisa.memset(dst=packed, value=0)
    return stored(nl.load(a)), stored(packed)


@twin(f32(64, 8, 16))
def bad_A006(a):
    total = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=nl.load(a), axis=1)  # here
    return stored(total)


def good_A006(a):
    total = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=nl.load(a), axis=2)
    return stored(total)


@twin(f32(64, 32))
def bad_A013(a):
    tile = nl.load(a)
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=total, src=tile, engine=5)  # here
    return stored(total)


def good_A013(a):
    tile = nl.load(a)
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=total, src=tile, engine=nisa.engine.vector)
    return stored(total)


@twin(f32(64, 32))
def bad_A013_dge_mode(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, dge_mode=3)  # here
    return stored(tile)


def good_A013_dge_mode(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, dge_mode=nisa.dge_mode.none)
    return stored(tile)


_THREE = np.int64(3)


@twin(f32(64, 32))
def bad_A013_numpy_integer(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, dge_mode=_THREE)  # here
    return stored(tile)


def good_A013_numpy_integer(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, dge_mode=nisa.dge_mode.none)
    return stored(tile)


@twin(f32(64, 32))
def bad_A014(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer="sbuf")  # here
    nisa.dma_copy(dst=tile, src=a)
    return stored(tile)


def good_A014(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    return stored(tile)


@twin(f32(64, 32), targets=GEN3_UP)
def bad_A015(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    hwdge = nisa.dge_mode.hwdge
    nisa.dma_copy(dst=tile, src=a, dge_mode=hwdge, engine=nisa.dma_engine.dma)  # here
    return stored(tile)


def good_A015(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    hwdge = nisa.dge_mode.hwdge
    nisa.dma_copy(dst=tile, src=a, dge_mode=hwdge, engine=nisa.engine.scalar)
    return stored(tile)


# -- names that are gone -------------------------------------------------------------------------


@twin(f32(64, 32), u32(1, 1, below=16))
def bad_A021(a, start):
    tile, first = nl.load(a), nl.load(start)
    window = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf)
    source = tile.ap([[32, 64], [1, 16]], scalar_offset=first, indirect_dim=1)
    nisa.tensor_copy_dynamic_src(window, source)  # here
    return stored(window)


def good_A021(a, start):
    first = nl.load(start)
    window = nl.ndarray((64, 16), dtype=nl.float32, buffer=nl.sbuf)
    source = a.ap([[32, 64], [1, 16]], scalar_offset=first, indirect_dim=1)
    nisa.dma_copy(window, source)
    return stored(window)


@twin(f32(64, 32))
def bad_A029(a):
    rows = nl.arange(64)  # here
    return stored(nl.load(a[rows]))


def good_A029(a):
    rows = slice(0, 64)
    return stored(nl.load(a[rows]))


@twin(f32(64, 32), f32(64, 32))
def bad_A030(a, total):
    nl.atomic_rmw(total, nl.load(a), op=nl.add)  # here
    return total


def good_A030(a, total):
    nisa.dma_compute(total, [total, nl.load(a)], reduce_op=nl.add)
    return total
