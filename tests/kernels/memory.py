"""Twins about memory: what was written, what fits, which engine reaches what, what overlaps."""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN2_3, bf16, f32, stored, twin, u32

# -- reading what nobody wrote -------------------------------------------------------------------


@twin(f32(64, 100))
def bad_M001(a):
    tile = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[:, 0:100], src=a)
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)  # here
    return stored(total)


def good_M001(a):
    tile = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[:, 0:100], src=a)
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile[:, 0:100], axis=1)
    return stored(total)


@twin(bf16(64, 32), bf16(64, 128))
def bad_M002(a, b):
    acc = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc[:, 0:128], stationary=nl.load(a), moving=nl.load(b))
    result = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=acc)  # here
    return stored(result)


def good_M002(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc[:, 0:128], stationary=nl.load(a), moving=nl.load(b))
    result = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=acc)
    return stored(result)


@twin(f32(64, 32))
def bad_M005(a):
    scratch = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.private_hbm)
    tile = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=scratch)  # here
    return stored(tile)


def good_M005(a):
    scratch = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.private_hbm)
    tile = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=scratch, src=a)
    nisa.dma_copy(dst=tile, src=scratch)
    return stored(tile)


@twin(f32(64, 100))
def bad_M006(a):
    out = nl.ndarray((64, 100), dtype=a.dtype, buffer=nl.shared_hbm)  # here
    for c in range(100 // 32):
        nisa.dma_copy(dst=out[:, c * 32 : (c + 1) * 32], src=a[:, c * 32 : (c + 1) * 32])
    return out


def good_M006(a):
    out = nl.ndarray((64, 100), dtype=a.dtype, buffer=nl.shared_hbm)
    for c in range(0, 100, 32):
        end = min(c + 32, 100)
        nisa.dma_copy(dst=out[:, c:end], src=a[:, c:end])
    return out


# -- accumulation in PSUM ------------------------------------------------------------------------


@twin(bf16(128, 32), bf16(128, 128))
def bad_M003(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    a_tile, b_tile = nl.load(a), nl.load(b)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile, accumulate=True)  # here
    return stored(acc)


def good_M003(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    a_tile, b_tile = nl.load(a), nl.load(b)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile, accumulate=False)
    return stored(acc)


@twin(bf16(128, 32), bf16(128, 128), targets=GEN2_3)
def bad_M004(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    a_tile, b_tile = nl.load(a), nl.load(b)
    nisa.memset(dst=acc, value=0.0)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile, accumulate=True)  # here
    return stored(acc)


def good_M004(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    a_tile, b_tile = nl.load(a), nl.load(b)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile, accumulate=False)
    return stored(acc)


@twin(bf16(2, 64, 32), bf16(2, 64, 128))
def bad_M042(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    result = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    for k in range(2):
        nisa.nc_matmul(acc, nl.load(a[k]), nl.load(b[k]), accumulate=(k > 0))  # here
        nisa.tensor_copy(dst=result, src=acc)
    return stored(result)


def good_M042(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    result = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    for k in range(2):
        nisa.nc_matmul(acc, nl.load(a[k]), nl.load(b[k]), accumulate=(k > 0))
    nisa.tensor_copy(dst=result, src=acc)
    return stored(result)


@twin(bf16(64, 32), bf16(64, 256))
def bad_M043(a, b):
    out = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    tile = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    for n in (0, 128):
        nisa.nc_matmul(acc, nl.load(a), nl.load(b[:, n : n + 128]))  # here
        nisa.tensor_copy(dst=tile, src=acc)
        nisa.dma_copy(dst=out[:, n : n + 128], src=tile)
    return out


def good_M043(a, b):
    out = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    tile = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    for n in (0, 128):
        nisa.nc_matmul(acc, nl.load(a), nl.load(b[:, n : n + 128]), accumulate=False)
        nisa.tensor_copy(dst=tile, src=acc)
        nisa.dma_copy(dst=out[:, n : n + 128], src=tile)
    return out


# -- what fits -----------------------------------------------------------------------------------


@twin(f32(4, 16384))
def bad_M008(rows):
    total = nl.zeros((1, 512), dtype=nl.float32, buffer=nl.sbuf)
    tiles = []
    for i in range(4):
        tile = nl.ndarray((128, 16384), dtype=nl.float32, buffer=nl.sbuf)  # here
        nisa.dma_copy(dst=tile, src=rows.ap([[0, 128], [1, 16384]], offset=i * 16384))
        tiles.append(tile)
    for tile in tiles:
        nisa.tensor_tensor(dst=total, data1=total, data2=tile[0:1, 0:512], op=nl.add)
    return stored(total)


def good_M008(rows):
    total = nl.zeros((1, 512), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(4):
        tile = nl.ndarray((128, 16384), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=rows.ap([[0, 128], [1, 16384]], offset=i * 16384))
        nisa.tensor_tensor(dst=total, data1=total, data2=tile[0:1, 0:512], op=nl.add)
    return stored(total)


@twin(f32(1, 65536))
def bad_M009(a):
    tile = nl.ndarray((1, 65536), dtype=nl.float32, buffer=nl.sbuf)  # here
    nisa.dma_copy(dst=tile, src=a)
    return stored(tile)


def good_M009(a):
    out = nl.ndarray((1, 65536), dtype=nl.float32, buffer=nl.shared_hbm)
    for c in range(0, 65536, 8192):
        tile = nl.ndarray((1, 8192), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[:, c : c + 8192])
        nisa.dma_copy(dst=out[:, c : c + 8192], src=tile)
    return out


@twin(bf16(64, 128), bf16(9, 64, 128))
def bad_M010(a, b):
    out = nl.ndarray((9, 128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
    banks = []
    for i in range(9):
        acc = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)  # here
        nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b[i]))
        banks.append(acc)
    for i in range(9):
        nisa.tensor_copy(dst=tile, src=banks[i])
        nisa.dma_copy(dst=out[i], src=tile)
    return out


def good_M010(a, b):
    out = nl.ndarray((9, 128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(9):
        acc = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b[i]))
        nisa.tensor_copy(dst=tile, src=acc)
        nisa.dma_copy(dst=out[i], src=tile)
    return out


@twin(bf16(64, 32), bf16(64, 512), targets=GEN2_3)
def bad_M011(a, b):
    pairs = nl.ndarray((32, 1024), dtype=nl.float32, buffer=nl.psum)
    evens = pairs[:, 0:1024:2]
    nisa.nc_matmul(dst=evens, stationary=nl.load(a), moving=nl.load(b))  # here
    return stored(evens)


def good_M011(a, b):
    pairs = nl.ndarray((32, 1024), dtype=nl.float32, buffer=nl.psum)
    first = pairs[:, 0:512]
    nisa.nc_matmul(dst=first, stationary=nl.load(a), moving=nl.load(b))
    return stored(first)


@twin(bf16(64, 32), bf16(64, 512), targets=GEN2_3)
def bad_M012(a, b):
    banks = nl.ndarray((32, 1024), dtype=nl.float32, buffer=nl.psum)
    middle = banks[:, 256:768]
    nisa.nc_matmul(dst=middle, stationary=nl.load(a), moving=nl.load(b))  # here
    return stored(middle)


def good_M012(a, b):
    banks = nl.ndarray((32, 1024), dtype=nl.float32, buffer=nl.psum)
    second = banks[:, 512:1024]
    nisa.nc_matmul(dst=second, stationary=nl.load(a), moving=nl.load(b))
    return stored(second)


@twin(f32(64, 32), f32(64, 32))
def bad_M013(a, b):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    a_tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
    b_tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 32))  # here
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 512))
    nisa.dma_copy(dst=a_tile, src=a)
    nisa.dma_copy(dst=b_tile, src=b)
    nisa.tensor_tensor(dst=total, data1=a_tile, data2=b_tile, op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out


def good_M013(a, b):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    a_tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
    b_tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 128))
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 512))
    nisa.dma_copy(dst=a_tile, src=a)
    nisa.dma_copy(dst=b_tile, src=b)
    nisa.tensor_tensor(dst=total, data1=a_tile, data2=b_tile, op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out


@twin(f32(64, 32))
def bad_M014(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(96, 0))  # here
    nisa.dma_copy(dst=tile, src=a)
    nisa.dma_copy(dst=out, src=tile)
    return out


def good_M014(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(64, 0))
    nisa.dma_copy(dst=tile, src=a)
    nisa.dma_copy(dst=out, src=tile)
    return out


@twin(f32(16, 32))
def bad_M015(a):
    out = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.sbuf, address=(16, 0))  # here
    nisa.dma_copy(dst=tile, src=a)
    nisa.dma_copy(dst=out, src=tile)
    return out


def good_M015(a):
    out = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.sbuf, address=(32, 0))
    nisa.dma_copy(dst=tile, src=a)
    nisa.dma_copy(dst=out, src=tile)
    return out


@twin(f32(64, 32))
def bad_M016(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))  # here
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # here
    nisa.dma_copy(dst=tile, src=a)
    nisa.activation(dst=total, op=nl.exp, data=tile)
    nisa.dma_copy(dst=out, src=total)
    return out


def good_M016(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 128))
    nisa.dma_copy(dst=tile, src=a)
    nisa.activation(dst=total, op=nl.exp, data=tile)
    nisa.dma_copy(dst=out, src=total)
    return out


@twin(f32(2, 64, 32))
def bad_M033(a):
    out = nl.ndarray((2, 64, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(2):
        tile = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf, name="tile")  # here
        nisa.dma_copy(dst=tile, src=a[i])
        nisa.dma_copy(dst=out[i], src=tile)
    return out


def good_M033(a):
    out = nl.ndarray((2, 64, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(2):
        tile = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf, name=f"tile_{i}")
        nisa.dma_copy(dst=tile, src=a[i])
        nisa.dma_copy(dst=out[i], src=tile)
    return out


# -- which engine reaches what -------------------------------------------------------------------


@twin(bf16(64, 32), bf16(64, 128), f32(32, 128))
def bad_M018(a, b, c):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    total = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))
    nisa.dma_compute(dst=total, srcs=[acc, c], reduce_op=nl.add)  # here
    return total


def good_M018(a, b, c):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    total = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))
    product = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=product, src=acc)
    nisa.dma_compute(dst=total, srcs=[product, c], reduce_op=nl.add)
    return total


@twin(bf16(32, 64), bf16(64, 128))
def bad_M019(a, b):
    turned = nl.ndarray((64, 32), dtype=nl.bfloat16, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=nl.load(a))
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=turned, moving=nl.load(b))  # here
    return stored(acc)


def good_M019(a, b):
    turned = nl.ndarray((64, 32), dtype=nl.bfloat16, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=nl.load(a))
    at = nl.ndarray((64, 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=at, src=turned)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=at, moving=nl.load(b))
    return stored(acc)


@twin(bf16(64, 32), bf16(64, 128))
def bad_M020(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))  # here
    return stored(acc)


def good_M020(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))
    return stored(acc)


@twin(f32(64, 32))
def bad_M021(a):
    result = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=result, op=nl.exp, data=a)  # here
    return stored(result)


def good_M021(a):
    result = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=result, op=nl.exp, data=nl.load(a))
    return stored(result)


@twin(bf16(64, 32), bf16(64, 128))
def bad_M022(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))
    result = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=acc, engine=nisa.engine.gpsimd)  # here
    return stored(result)


def good_M022(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))
    result = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=acc, engine=nisa.engine.vector)
    return stored(result)


@twin(bf16(64, 32), bf16(64, 128))
def bad_M023(a, b):
    acc = nl.ndarray((32, 2, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc[:, 0], stationary=nl.load(a), moving=nl.load(b))
    nisa.nc_matmul(dst=acc[:, 1], stationary=nl.load(a), moving=nl.load(b))
    total = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=acc[:, 0], data2=acc[:, 1], op=nl.add)  # here
    return stored(total)


def good_M023(a, b):
    acc = nl.ndarray((32, 2, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc[:, 0], stationary=nl.load(a), moving=nl.load(b))
    nisa.nc_matmul(dst=acc[:, 1], stationary=nl.load(a), moving=nl.load(b))
    total = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=total, src=acc[:, 1])
    nisa.tensor_tensor(dst=total, data1=acc[:, 0], data2=total, op=nl.add)
    return stored(total)


@twin(bf16(64, 128))
def bad_M024(a):
    out = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_transpose(dst=out, src=a)  # here
    return out


def good_M024(a):
    turned = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=a)
    return stored(turned)


@twin(f32(64, 32))
def bad_M024_iota(a):
    index = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.psum)
    nisa.iota(dst=index, pattern=[[1, 32]])  # here
    return stored(nl.load(a)), stored(index)


def good_M024_iota(a):
    index = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=index, pattern=[[1, 32]])
    return stored(nl.load(a)), stored(index)


@twin(bf16(64, 32), bf16(64, 128))
def bad_M025(a, b):
    out = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.matmul(nl.load(a), nl.load(b), transpose_x=True))  # here
    return out


def good_M025(a, b):
    out = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    product = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=product, src=nl.matmul(nl.load(a), nl.load(b), transpose_x=True))
    nl.store(out, product)
    return out


@twin(bf16(32, 64))
def bad_M028(a):
    scratch = nl.ndarray((32, 64), dtype=a.dtype, buffer=nl.private_hbm)
    nisa.dma_copy(dst=scratch, src=a)
    return stored(nl.load_transpose2d(scratch))  # here


def good_M028(a):
    return stored(nl.load_transpose2d(a))


@twin(f32(64, 32), f32(64, 32))  # here
def bad_M029(a, cache):  # here
    tile = nl.load(a)
    nisa.dma_copy(dst=cache, src=tile)
    return stored(tile)


def good_M029(a, cache):
    tile = nl.load(a)
    nisa.dma_copy(dst=cache, src=tile)
    return stored(tile), cache


# -- overlaps ------------------------------------------------------------------------------------


@twin(f32(64, 32))
def bad_M030(a):
    tile = nl.load(a)
    nisa.tensor_copy(dst=tile[:, 1:32], src=tile[:, 0:31])  # here
    return stored(tile)


def good_M030(a):
    tile = nl.load(a)
    shifted = nl.ndarray((64, 31), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=shifted, src=tile[:, 0:31])
    nisa.tensor_copy(dst=tile[:, 1:32], src=shifted)
    return stored(tile)


@twin(f32(64, 32))
def bad_M031(a):
    tile = nl.load(a)
    last = nl.ndarray((64, 8), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=last.ap([[8, 64], [0, 4], [1, 8]]), src=tile)  # here
    return stored(last)


def good_M031(a):
    tile = nl.load(a)
    last = nl.ndarray((64, 8), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=last, src=tile[:, 24:32])
    return stored(last)


# -- indices that come from data -----------------------------------------------------------------

_ROWS_WITH_PADDING = np.where(np.arange(16) < 12, np.arange(16), 10**6).astype(np.uint32)[:, None]


@twin(f32(64, 32), _ROWS_WITH_PADDING)
def bad_M036(table, rows):
    picked = nl.zeros((16, 32), dtype=table.dtype, buffer=nl.sbuf)
    source = table.ap([[32, 16], [1, 32]], vector_offset=nl.load(rows))
    nisa.dma_copy(dst=picked, src=source)  # here
    return stored(picked)


def good_M036(table, rows):
    picked = nl.zeros((16, 32), dtype=table.dtype, buffer=nl.sbuf)
    source = table.ap([[32, 16], [1, 32]], vector_offset=nl.load(rows))
    nisa.dma_copy(dst=picked, src=source, oob_mode=nisa.oob_mode.skip)
    return stored(picked)


@twin(f32(64, 32), _ROWS_WITH_PADDING)
def bad_M037(table, rows):
    picked = nl.ndarray((16, 32), dtype=table.dtype, buffer=nl.sbuf)
    source = table.ap([[32, 16], [1, 32]], vector_offset=nl.load(rows))
    nisa.dma_copy(dst=picked, src=source, oob_mode=nisa.oob_mode.skip)  # here
    return stored(picked[0:12])


def good_M037(table, rows):
    picked = nl.ndarray((16, 32), dtype=table.dtype, buffer=nl.sbuf)
    nisa.memset(dst=picked, value=0.0)
    source = table.ap([[32, 16], [1, 32]], vector_offset=nl.load(rows))
    nisa.dma_copy(dst=picked, src=source, oob_mode=nisa.oob_mode.skip)
    return stored(picked[0:12])


@twin(f32(64, 32), u32(1, 1, below=16))
def bad_M039(a, start):
    tile, first = nl.load(a), nl.load(start)
    window = nl.ndarray((64, 16), dtype=a.dtype, buffer=nl.sbuf)
    source = tile.ap([[32, 64], [1, 16]], scalar_offset=first, indirect_dim=1)
    nisa.dma_copy(dst=window, src=source)  # here
    return stored(window)


def good_M039(a, start):
    tile, first = nl.load(a), nl.load(start)
    window = nl.ndarray((64, 16), dtype=a.dtype, buffer=nl.sbuf)
    source = tile.ap([[32, 64], [1, 16]], scalar_offset=first, indirect_dim=1)
    nisa.tensor_copy(dst=window, src=source)
    return stored(window)


_REPEATED = np.array([[3], [5], [3], [9]], np.uint32)
_UNIQUE = np.array([[3], [5], [4], [9]], np.uint32)


@twin(f32(64, 32), f32(4, 32), _REPEATED, mended=(f32(64, 32), f32(4, 32), _UNIQUE))
def bad_M040(table, updates, rows):
    tile = nl.load(updates)
    target = table.ap([[32, 4], [1, 32]], vector_offset=nl.load(rows))
    nisa.dma_compute(dst=target, srcs=[target, tile], reduce_op=nl.add)  # here
    return table


def good_M040(table, updates, rows):
    tile = nl.load(updates)
    target = table.ap([[32, 4], [1, 32]], vector_offset=nl.load(rows))
    nisa.dma_compute(dst=target, srcs=[target, tile], reduce_op=nl.add)
    return table
