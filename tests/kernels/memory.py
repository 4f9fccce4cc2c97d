"""Twins about memory: what was written, which engine reaches what, what overlaps."""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN3_UP, bf16, f32, twin, u32
from tiles import stored

# -- reading what nobody wrote -------------------------------------------------------------------


@twin(f32(64, 100))
def M001(a):
    tile = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[:, 0:100], src=a)
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)  # bad here
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile[:, 0:100], axis=1)  # good
    return stored(total)


@twin(bf16(64, 32), bf16(64, 128))
def M002(a, b):
    acc = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.psum)  # bad
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)  # good
    nisa.nc_matmul(dst=acc[:, 0:128], stationary=nl.load(a), moving=nl.load(b))
    result = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.sbuf)  # bad
    result = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.tensor_copy(dst=result, src=acc)  # here
    return stored(result)


@twin(f32(64, 32))
def M005(a):
    scratch = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.private_hbm)
    tile = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=scratch, src=a)  # good
    nisa.dma_copy(dst=tile, src=scratch)  # here
    return stored(tile)


@twin(f32(64, 100))
def M006(a):
    out = nl.ndarray((64, 100), dtype=a.dtype, buffer=nl.shared_hbm)  # here
    for c in range(100 // 32):  # bad
        nisa.dma_copy(dst=out[:, c * 32 : (c + 1) * 32], src=a[:, c * 32 : (c + 1) * 32])
    for c in range(0, 100, 32):  # good
        end = min(c + 32, 100)
        nisa.dma_copy(dst=out[:, c:end], src=a[:, c:end])
    return out


# -- which engine reaches what -------------------------------------------------------------------


@twin(bf16(64, 32), bf16(64, 128), f32(32, 128))
def M018(a, b, c):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    total = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))
    nisa.dma_compute(dst=total, srcs=[acc, c], reduce_op=nl.add)  # bad here
    product = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.tensor_copy(dst=product, src=acc)  # good
    nisa.dma_compute(dst=total, srcs=[product, c], reduce_op=nl.add)  # good
    return total


@twin(f32(64, 32))
def M018_copy(a):
    acc = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.psum)
    nisa.dma_copy(dst=acc, src=a)  # bad here
    nisa.tensor_copy(dst=acc, src=nl.load(a))  # good
    return stored(acc)


@twin(f32(64, 32))
def M021(a):
    result = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=result, op=nl.exp, data=a)  # bad here
    nisa.activation(dst=result, op=nl.exp, data=nl.load(a))  # good
    return stored(result)


@twin(f32(64, 32))
def M021_result(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)  # bad
    nisa.activation(dst=out, op=nl.exp, data=nl.load(a))  # bad here
    return out  # bad
    result = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.activation(dst=result, op=nl.exp, data=nl.load(a))  # good
    return stored(result)  # good


@twin(f32(64, 32))
def M049(a):
    return stored(nl.multiply(a, 2.0))  # bad here
    return stored(nl.multiply(nl.load(a), 2.0))  # good


@twin(bf16(64, 32), bf16(64, 128))
def M022(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))
    result = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=acc, engine=nisa.engine.gpsimd)  # bad here
    nisa.tensor_copy(dst=result, src=acc, engine=nisa.engine.vector)  # good
    return stored(result)


@twin(np.abs(f32(64, 32)))
def M022_power(a):
    tile = nl.load(a)
    result = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.psum)  # bad
    result = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.tensor_tensor(dst=result, data1=tile, data2=tile, op=nl.power)  # here
    return stored(result)


@twin(bf16(64, 32), bf16(64, 128))
def M023(a, b):
    acc = nl.ndarray((32, 2, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc[:, 0], stationary=nl.load(a), moving=nl.load(b))
    nisa.nc_matmul(dst=acc[:, 1], stationary=nl.load(a), moving=nl.load(b))
    total = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=acc[:, 0], data2=acc[:, 1], op=nl.add)  # bad here
    nisa.tensor_copy(dst=total, src=acc[:, 1])  # good
    nisa.tensor_tensor(dst=total, data1=acc[:, 0], data2=total, op=nl.add)  # good
    return stored(total)


@twin(bf16(64, 128))
def M024(a):
    out = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.shared_hbm)  # bad
    nisa.dma_transpose(dst=out, src=a)  # bad here
    return out  # bad
    turned = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)  # good
    nisa.dma_transpose(dst=turned, src=a)  # good
    return stored(turned)  # good


@twin(f32(64, 32))
def M024_iota(a):
    index = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.psum)  # bad
    index = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)  # good
    nisa.iota(dst=index, pattern=[[1, 32]])  # here
    return stored(nl.load(a)), stored(index)


@twin(bf16(64, 32), bf16(64, 128))
def M025(a, b):
    out = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.matmul(nl.load(a), nl.load(b), transpose_x=True))  # bad here
    product = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.tensor_copy(dst=product, src=nl.matmul(nl.load(a), nl.load(b), transpose_x=True))  # good
    nl.store(out, product)  # good
    return out


@twin(bf16(32, 64))
def M028(a):
    scratch = nl.ndarray((32, 64), dtype=a.dtype, buffer=nl.private_hbm)  # bad
    nisa.dma_copy(dst=scratch, src=a)  # bad
    return stored(nl.load_transpose2d(scratch))  # bad here
    return stored(nl.load_transpose2d(a))  # good


# -- overlaps ------------------------------------------------------------------------------------


@twin(f32(64, 32))
def M030(a):
    tile = nl.load(a)
    nisa.tensor_copy(dst=tile[:, 1:32], src=tile[:, 0:31])  # bad here
    shifted = nl.ndarray((64, 31), dtype=a.dtype, buffer=nl.sbuf)  # good
    nisa.tensor_copy(dst=shifted, src=tile[:, 0:31])  # good
    nisa.tensor_copy(dst=tile[:, 1:32], src=shifted)  # good
    return stored(tile)


@twin(f32(64, 32))
def M030_dma(a):
    tile = nl.load(a)
    nisa.dma_copy(dst=tile[1:64], src=tile[0:63])  # bad here
    nisa.dma_copy(dst=tile[1:64], src=a[0:63])  # good
    return stored(tile)


@twin(f32(64, 32))
def M030_hbm(a):
    nisa.dma_copy(dst=a[1:64], src=a[0:63])  # bad here
    tile = nl.load(a[0:63])  # good
    nisa.dma_copy(dst=a[1:64], src=tile)  # good
    return a


@twin(f32(64, 32))
def M031(a):
    tile = nl.load(a)
    last = nl.ndarray((64, 8), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=last.ap([[8, 64], [0, 4], [1, 8]]), src=tile)  # bad here
    nisa.tensor_copy(dst=last, src=tile[:, 24:32])  # good
    return stored(last)


@twin(f32(64, 32))
def M032(a):
    tile = nl.load(a)
    result = nl.ndarray((64, 33), dtype=nl.float32, buffer=nl.sbuf)
    total = result[:, 31:32]  # bad
    total = result[:, 32:33]  # good
    nisa.activation_reduce(result[:, 0:32], nl.exp, tile, nl.add, total)  # here
    return stored(total)


# -- indices that come from data -----------------------------------------------------------------

# The last four indices are padding, far beyond any table.
_ROWS_WITH_PADDING = np.where(np.arange(16) < 12, np.arange(16), 10**6).astype(np.uint32)[:, None]


@twin(f32(64, 32), _ROWS_WITH_PADDING)
def M036(table, rows):
    picked = nl.zeros((16, 32), dtype=table.dtype, buffer=nl.sbuf)
    source = table.ap([[32, 16], [1, 32]], vector_offset=nl.load(rows))
    nisa.dma_copy(dst=picked, src=source)  # bad here
    nisa.dma_copy(dst=picked, src=source, oob_mode=nisa.oob_mode.skip)  # good
    return stored(picked)


@twin(f32(64, 32), np.array([[60]], np.uint32), fixed=(f32(64, 32), np.array([[48]], np.uint32)))
def M036_scalar(table, start):
    first = nl.load(start)
    window = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=window, src=table.ap([[32, 16], [1, 32]], scalar_offset=first))  # here
    return stored(window)


@twin(f32(64, 32), _ROWS_WITH_PADDING)
def M037(table, rows):
    picked = nl.ndarray((16, 32), dtype=table.dtype, buffer=nl.sbuf)
    nisa.memset(dst=picked, value=0.0)  # good
    source = table.ap([[32, 16], [1, 32]], vector_offset=nl.load(rows))
    nisa.dma_copy(dst=picked, src=source, oob_mode=nisa.oob_mode.skip)  # here
    return stored(picked[0:12])


@twin(bf16(64, 128), _ROWS_WITH_PADDING, targets=GEN3_UP)
def M038(table, rows):
    turned = nl.zeros((128, 16), dtype=table.dtype, buffer=nl.sbuf)
    source = table.ap([[128, 16], [1, 128]], vector_offset=nl.load(rows))  # bad
    index = nl.load(rows)  # good
    nisa.tensor_scalar(dst=index, data=index, op0=nl.minimum, operand0=63)  # good
    source = table.ap([[128, 16], [1, 128]], vector_offset=index)  # good
    nisa.dma_transpose(dst=turned, src=source, oob_mode=nisa.oob_mode.skip)  # here
    return stored(turned)


@twin(f32(64, 32), u32(1, 1, below=16))
def M039(a, start):
    tile, first = nl.load(a), nl.load(start)  # bad
    first = nl.load(start)  # good
    window = nl.ndarray((64, 16), dtype=a.dtype, buffer=nl.sbuf)
    source = tile.ap([[32, 64], [1, 16]], scalar_offset=first, indirect_dim=1)  # bad
    source = a.ap([[32, 64], [1, 16]], scalar_offset=first, indirect_dim=1)  # good
    nisa.dma_copy(dst=window, src=source)  # here
    return stored(window)


_REPEATED = np.array([[3], [5], [3], [9]], np.uint32)
_UNIQUE = np.array([[3], [5], [4], [9]], np.uint32)


@twin(f32(64, 32), f32(4, 32), _REPEATED, fixed=(f32(64, 32), f32(4, 32), _UNIQUE))
def M040(table, updates, rows):
    tile = nl.load(updates)
    target = table.ap([[32, 4], [1, 32]], vector_offset=nl.load(rows))
    nisa.dma_compute(dst=target, srcs=[target, tile], reduce_op=nl.add)  # here
    return table


@twin(f32(64, 6))
def M031_interleaved(a):
    spread = nl.zeros((64, 8), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=spread.ap([[8, 64], [2, 3], [2, 2]]), src=nl.load(a))  # bad here
    nisa.tensor_copy(dst=spread.ap([[8, 64], [2, 3], [3, 2]]), src=nl.load(a))  # good
    return stored(spread)


@twin(f32(64, 32))
def M031_sink(a):
    sink = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)  # bad
    nisa.activation(dst=sink.ap([[1, 64], [0, 32]]), op=nl.square, data=nl.load(a))  # bad here
    return stored(sink)  # bad
    squares = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.activation(dst=squares, op=nl.square, data=nl.load(a))  # good
    return stored(squares)  # good


@twin(f32(64, 32))
def M030_shuffle(a):
    tile = nl.load(a)
    nisa.nc_stream_shuffle(dst=tile[:, 1:32], src=tile[:, 0:31], shuffle_mask=[0] * 32)  # bad here
    nisa.nc_stream_shuffle(dst=tile[:, 1:32], src=tile[:, 1:32], shuffle_mask=[0] * 32)  # good
    return stored(tile)
