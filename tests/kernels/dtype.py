"""Twins about dtypes and operators, and about values that a format or an engine cannot hold."""

import ml_dtypes
import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import ALL, GEN2, GEN2_3, GEN3_UP, GEN4, bf16, f8, f32, i32, ints, stored, twin

# -- types that an operand may have --------------------------------------------------------------


@twin(f32(64, 32))
def bad_D001(a):
    exact = nl.ndarray((64, 32), dtype="float64", buffer=nl.sbuf)  # here
    nisa.dma_copy(dst=exact, src=a)
    return stored(exact)


def good_D001(a):
    exact = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=exact, src=a)
    return stored(exact)


@twin(i32(64, 32), i32(64, 128))
def bad_D002(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)  # here
    return stored(acc)


def good_D002(a, b):
    a_tile, b_tile = nl.load(a, dtype=nl.bfloat16), nl.load(b, dtype=nl.bfloat16)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)
    return stored(acc)


@twin(f32(64, 32), bf16(64, 128))
def bad_D003(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)  # here
    return stored(acc)


def good_D003(a, b):
    a_tile, b_tile = nl.load(a, dtype=nl.bfloat16), nl.load(b)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)
    return stored(acc)


@twin(bf16(64, 32), bf16(64, 128), targets=GEN2_3)
def bad_D004(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((32, 128), dtype=nl.bfloat16, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)  # here
    return stored(acc)


def good_D004(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)
    return stored(acc)


@twin(bf16(64, 32), bf16(64, 128), targets=ALL)
def bad_D004_half(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((32, 128), dtype=nl.float16, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)  # here
    return stored(acc)


def good_D004_half(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)
    return stored(acc)


_FN = f32(64, 32).astype(ml_dtypes.float8_e4m3fn)


@twin(_FN, bf16(64, 128), mended=(f8(64, 32), bf16(64, 128)))
def bad_D005(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)  # here
    return stored(acc)


def good_D005(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)
    return stored(acc)


@twin(bf16(64, 2, 32), bf16(64, 2, 128), targets=GEN3_UP)
def bad_D006(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, a_tile, b_tile, perf_mode=nisa.matmul_perf_mode.double_row)  # here
    return stored(acc)


def good_D006(a, b):
    a_tile, b_tile = nl.load(a, dtype=nl.float8_e4m3), nl.load(b, dtype=nl.float8_e4m3)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, a_tile, b_tile, perf_mode=nisa.matmul_perf_mode.double_row)
    return stored(acc)


@twin(bf16(64, 128))
def bad_D007(a):
    tile = nl.load(a)
    turned = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)  # here
    return stored(turned)


def good_D007(a):
    tile = nl.load(a)
    turned = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)
    return stored(turned)


@twin(f8(64, 128), targets=GEN3_UP)
def bad_D008(a):
    tile = nl.load(a)
    turned = nl.ndarray((128, 64), dtype=nl.float8_e4m3, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)  # here
    return stored(turned)


def good_D008(a):
    tile = nl.load(a, dtype=nl.bfloat16)
    turned = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)
    return stored(turned)


@twin(f32(64, 32), f32(64, 32))
def bad_D032(a, mask):
    tile, predicate = nl.load(a), nl.load(mask)
    kept = nl.zeros((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=predicate, data=predicate, op0=nl.greater, operand0=0.0)
    nisa.tensor_copy_predicated(dst=kept, src=tile, predicate=predicate)  # here
    return stored(kept)


def good_D032(a, mask):
    tile, scores = nl.load(a), nl.load(mask)
    predicate = nl.ndarray((64, 32), dtype=nl.uint8, buffer=nl.sbuf)
    kept = nl.zeros((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=predicate, data=scores, op0=nl.greater, operand0=0.0)
    nisa.tensor_copy_predicated(dst=kept, src=tile, predicate=predicate)
    return stored(kept)


@twin(f32(64, 32), i32(64, 8, below=32), needs="nc_n_gather")
def bad_D032_index(a, columns):
    tile, index = nl.load(a), nl.load(columns)
    picked = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.nc_n_gather(dst=picked, data=tile, indices=index)  # here
    return stored(picked)


def good_D032_index(a, columns):
    tile, index = nl.load(a), nl.load(columns, dtype=nl.uint32)
    picked = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.nc_n_gather(dst=picked, data=tile, indices=index)
    return stored(picked)


@twin(f32(64, 32), ints("uint8", 64, 32, below=2))
def bad_D033(a, mask):
    kept = nl.zeros((64, 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    tile, predicate = nl.load(a), nl.load(mask)
    nisa.tensor_copy_predicated(dst=kept, src=tile, predicate=predicate)  # here
    return stored(kept)


def good_D033(a, mask):
    kept = nl.zeros((64, 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    tile, predicate = nl.load(a, dtype=nl.bfloat16), nl.load(mask)
    nisa.tensor_copy_predicated(dst=kept, src=tile, predicate=predicate)
    return stored(kept)


@twin(f32(16, 128), targets=GEN3_UP)
def bad_D034(a):
    turned = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=a, dge_mode=nisa.dge_mode.hwdge)  # here
    return stored(turned)


def good_D034(a):
    turned = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=a)
    return stored(turned)


@twin(i32(64, 32), ints("uint8", 64, 32, below=2))
def bad_D035(a, mask):
    tile, predicate = nl.load(a), nl.load(mask)
    kept = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.select_reduce(dst=kept, predicate=predicate, on_true=tile, on_false=0.0)  # here
    return stored(kept)


def good_D035(a, mask):
    tile, predicate = nl.load(a, dtype=nl.float32), nl.load(mask)
    kept = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.select_reduce(dst=kept, predicate=predicate, on_true=tile, on_false=0.0)
    return stored(kept)


@twin(bf16(64, 32), bf16(64, 1))
def bad_D036(a, scale):
    tile, column = nl.load(a), nl.load(scale)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=column)  # here
    return stored(tile)


def good_D036(a, scale):
    tile, column = nl.load(a), nl.load(scale, dtype=nl.float32)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=column)
    return stored(tile)


@twin(f32(64, 32))
def bad_D045(a):
    tile = nl.ndarray((64, 32), dtype=np.float32, buffer=nl.sbuf)  # here
    nisa.dma_copy(dst=tile, src=a)
    return stored(tile)


def good_D045(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    return stored(tile)


# -- operators -----------------------------------------------------------------------------------


@twin(f32(64, 32))
def bad_D011(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.bitwise_and, operand0=0x7FFFFFFF)  # here
    return stored(tile)


def good_D011(a):
    tile = nl.load(a)
    bits = tile.view(nl.uint32)
    nisa.tensor_scalar(dst=bits, data=bits, op0=nl.bitwise_and, operand0=0x7FFFFFFF)
    return stored(tile)


@twin(i32(64, 32, below=1000))
def bad_D012(a):
    tile = nl.load(a)
    low = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_scalar(low, tile, nl.bitwise_and, 255, op1=nl.add, operand1=1)  # here
    return stored(low)


def good_D012(a):
    tile = nl.load(a)
    low = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_scalar(low, tile, nl.bitwise_and, 255)
    nisa.tensor_scalar(low, low, nl.add, 1)
    return stored(low)


@twin(f32(64, 32), np.full((64, 32), 2.0, np.float32))
def bad_D013(a, b):
    ratio = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=ratio, data1=nl.load(a), data2=nl.load(b), op=nl.divide)  # here
    return stored(ratio)


def good_D013(a, b):
    ratio = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=ratio, data=nl.load(b))
    nisa.tensor_tensor(dst=ratio, data1=nl.load(a), data2=ratio, op=nl.multiply)
    return stored(ratio)


@twin(f32(64, 32), np.full((64, 32), 2.0, np.float32))
def bad_D013_function(a, b):
    return stored(nl.divide(nl.load(a), nl.load(b)))  # here


def good_D013_function(a, b):
    return stored(nl.multiply(nl.load(a), nl.reciprocal(nl.load(b))))


@twin(f32(64, 32))
def bad_D014(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.mod, operand0=4.0)  # here
    return stored(tile)


def good_D014(a):
    tile = nl.load(a)
    whole = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=whole, data=tile, op0=nl.multiply, operand0=0.25)
    nisa.scalar_tensor_tensor(tile, whole, nl.multiply, -4.0, nl.add, tile)
    return stored(tile)


@twin(f32(64, 32))
def bad_D022(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=np.add, operand0=1.0)  # here
    return stored(tile)


def good_D022(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    return stored(tile)


@twin(f32(64, 32))
def bad_D022_activation(a):
    tile = nl.load(a)
    nisa.activation(dst=tile, op=nl.add, data=tile)  # here
    return stored(tile)


def good_D022_activation(a):
    tile = nl.load(a)
    nisa.activation(dst=tile, op=nl.copy, data=tile)
    return stored(tile)


@twin(f32(64, 32), targets=GEN2)
def bad_D023(a):
    tile = nl.load(a)
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=-1.0)  # here
    return stored(tile)


def good_D023(a):
    tile = nl.load(a)
    bias = nl.full((64, 1), -1.0, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=bias)
    return stored(tile)


@twin(f32(64, 32), f32(64, 1))
def bad_D023_copy(a, shift):
    tile, bias = nl.load(a), nl.load(shift)
    nisa.activation(dst=tile, op=nl.copy, data=tile, bias=bias)  # here
    return stored(tile)


def good_D023_copy(a, shift):
    tile, bias = nl.load(a), nl.load(shift)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=bias)
    return stored(tile)


@twin(f32(64, 32))
def bad_D024(a):
    tile = nl.load(a)
    peak = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    reset = nisa.reduce_cmd.reset_reduce
    nisa.activation(tile, nl.exp, tile, None, 1.0, nl.maximum, peak, reset)  # here
    return stored(peak)


def good_D024(a):
    tile = nl.load(a)
    peak = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(tile, nl.exp, tile)
    nisa.tensor_reduce(dst=peak, op=nl.maximum, data=tile, axis=1)
    return stored(peak)


@twin(f32(64, 32))
def bad_D025(a):
    tile = nl.load(a)
    any_true = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=any_true, op=nl.greater, data=tile, axis=1)  # here
    return stored(any_true)


def good_D025(a):
    tile = nl.load(a)
    any_true = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=any_true, op=nl.logical_or, data=tile, axis=1)
    return stored(any_true)


@twin(i32(64, 32))
def bad_D026(a):
    tile = nl.load(a)
    bits = nl.ndarray((64, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=bits, op=nl.bitwise_or, data=tile, axis=1, negate=True)  # here
    return stored(bits)


def good_D026(a):
    tile = nl.load(a)
    bits = nl.ndarray((64, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=bits, op=nl.bitwise_or, data=tile, axis=1)
    return stored(bits)


@twin(f32(64, 32))
def bad_D027(a):
    tile = nl.load(a)
    product = nl.ndarray((1, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_partition_reduce(dst=product, op=nl.multiply, data=tile)  # here
    return stored(product)


def good_D027(a):
    tile = nl.load(a)
    product = nl.ndarray((1, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_partition_reduce(dst=product, op=nl.maximum, data=tile)
    return stored(product)


@twin(f32(64, 32), f32(64, 32))
def bad_D028(a, b):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_compute(dst=out, srcs=[a, b], reduce_op=nl.maximum)  # here
    return out


def good_D028(a, b):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_compute(dst=out, srcs=[a, b], reduce_op=nl.add)
    return out


@twin(f32(64, 32), f32(64, 32))
def bad_D028_scales(a, b):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_compute(dst=out, srcs=[a, b], reduce_op=nl.add, scales=[1.0, -1.0])  # here
    return out


def good_D028_scales(a, b):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_compute(dst=out, srcs=[a, b], reduce_op=nl.add, scales=[1.0, 1.0])
    return out


_BOUNDS = (np.zeros((64, 1), np.float32), np.full((64, 1), 16, np.float32))


@twin(f32(64, 32), *_BOUNDS, targets=GEN3_UP)
def bad_D029(scores, low, high):
    tile, first, last = nl.load(scores), nl.load(low), nl.load(high)
    nisa.range_select(tile, tile, nl.greater_equal, nl.not_equal, first, last)  # here
    return stored(tile)


def good_D029(scores, low, high):
    tile, first, last = nl.load(scores), nl.load(low), nl.load(high)
    nisa.range_select(tile, tile, nl.greater_equal, nl.less, first, last)
    return stored(tile)


@twin(f32(64, 32), *_BOUNDS, targets=GEN3_UP)
def bad_D029_fill(scores, low, high):
    tile, first, last = nl.load(scores), nl.load(low), nl.load(high)
    above, below = nl.greater_equal, nl.less
    nisa.range_select(tile, tile, above, below, first, last, on_false_value=-1e9)  # here
    return stored(tile)


def good_D029_fill(scores, low, high):
    tile, first, last = nl.load(scores), nl.load(low), nl.load(high)
    above, below = nl.greater_equal, nl.less
    nisa.range_select(tile, tile, above, below, first, last, on_false_value=-3.4028235e38)
    return stored(tile)


@twin(f32(64, 32), *_BOUNDS, targets=GEN3_UP)
def bad_D030(scores, low, high):
    tile, first, last = nl.load(scores), nl.load(low), nl.load(high)
    above, below = nl.greater_equal, nl.less
    nisa.range_select(tile, tile, above, below, first, last, range_start=2**24)  # here
    return stored(tile)


def good_D030(scores, low, high):
    tile, first, last = nl.load(scores), nl.load(low), nl.load(high)
    above, below = nl.greater_equal, nl.less
    nisa.range_select(tile, tile, above, below, first, last, range_start=2**20)
    return stored(tile)


# -- values --------------------------------------------------------------------------------------

_LARGE = np.array([[2**24 + 1, 2**24 + 3]] * 64, np.int32)
_SMALL = np.array([[1, 3]] * 64, np.int32)


@twin(f32(64, 32), np.full((64, 32), 0.5, np.float32))
def bad_D010(a, b):
    acc = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.psum)
    a_tile, b_tile = nl.load(a), nl.load(b)
    nisa.nc_matmul(acc, a_tile, b_tile, is_moving_onezero=True)  # here
    return stored(acc)


def good_D010(a, b):
    acc = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.psum)
    a_tile, b_tile = nl.load(a), nl.load(b)
    nisa.nc_matmul(acc, a_tile, b_tile)
    return stored(acc)


@twin(np.where(np.eye(64, 32) > 0, np.float32(np.nan), f32(64, 32)), targets=GEN2)
def bad_D009(a):
    tile = nl.load(a)
    turned = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)  # here
    return stored(turned)


def good_D009(a):
    turned = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=a)
    return stored(turned)


@twin(_LARGE)
def bad_D016(counters):
    tile = nl.load(counters)
    nisa.tensor_tensor(tile, tile, tile, nl.add, engine=nisa.engine.vector)  # here
    return stored(tile)


def good_D016(counters):
    tile = nl.load(counters)
    nisa.tensor_tensor(tile, tile, tile, nl.add)
    return stored(tile)


@twin(_LARGE)
def bad_D016_scalar(counters):
    tile = nl.load(counters)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1)  # here
    return stored(tile)


def good_D016_scalar(counters):
    tile = nl.load(counters)
    ones = nl.full((64, 2), 1, dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=ones, op=nl.add)
    return stored(tile)


@twin(_LARGE)
def bad_D017(counters):
    return stored(nl.copy(nl.load(counters)))  # here


def good_D017(counters):
    copy = nl.ndarray((64, 2), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=nl.load(counters))
    return stored(copy)


@twin(_LARGE)
def bad_D017_cast(counters):
    out = nl.ndarray((64, 2), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=counters)  # here
    return out


def good_D017_cast(counters):
    out = nl.ndarray((64, 2), dtype=nl.int32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=counters)
    return out


@twin(_SMALL)
def bad_D018(counters):
    tile = nl.load(counters)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=2**24 + 1)  # here
    return stored(tile)


def good_D018(counters):
    tile = nl.load(counters)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=2**24)
    return stored(tile)


_WIDE = np.array([[-20.0, 300.0]] * 64, np.float32)


@twin(_WIDE)
def bad_D019(a):
    levels = nl.ndarray((64, 2), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_copy(dst=levels, src=nl.load(a))  # here
    return stored(levels)


def good_D019(a):
    levels = nl.ndarray((64, 2), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_scalar(levels, nl.load(a), nl.maximum, 0.0, op1=nl.minimum, operand1=255.0)
    return stored(levels)


@twin(np.array([[1.0, 1e6]] * 64, np.float32))
def bad_D020(a):
    half = nl.ndarray((64, 2), dtype=nl.float16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=half, src=nl.load(a))  # here
    return stored(half)


def good_D020(a):
    half = nl.ndarray((64, 2), dtype=nl.float16, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=half, data=nl.load(a), op0=nl.multiply, operand0=0.01)
    return stored(half)


@twin(np.array([[0.5, 10.0]] * 64, np.float32))
def bad_D021(angles):
    tile = nl.load(angles)
    nisa.activation(dst=tile, op=nl.sin, data=tile)  # here
    return stored(tile)


def good_D021(angles):
    tile = nl.load(angles)
    turns = nl.ndarray((64, 2), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=turns, data=tile, op0=nl.multiply, operand0=0.15915494)
    nisa.scalar_tensor_tensor(tile, turns, nl.multiply, -6.2831853, nl.add, tile)
    nisa.activation(dst=tile, op=nl.sin, data=tile)
    return stored(tile)


@twin(np.array([[0.0, 2.0]] * 64, np.float32))
def bad_D042(a):
    tile = nl.load(a)
    nisa.reciprocal(dst=tile, data=tile)  # here
    return stored(tile)


def good_D042(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1e-6)
    nisa.reciprocal(dst=tile, data=tile)
    return stored(tile)


@twin(f32(64, 32), targets=GEN4)
def bad_D046(a):
    tile = nl.load(a)
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    command = nisa.reduce_cmd.reset_reduce
    nisa.exponential(tile, tile, 0.0, total, command, reduce_init=1.0)  # here
    return stored(total)


def good_D046(a):
    tile = nl.load(a)
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    command = nisa.reduce_cmd.load_reduce
    nisa.exponential(tile, tile, 0.0, total, command, reduce_init=1.0)
    return stored(total)


@twin(_LARGE, _SMALL)
def bad_D047(counters, steps):
    out = nl.ndarray((64, 2), dtype=nl.int32, buffer=nl.shared_hbm)
    nisa.dma_compute(dst=out, srcs=[counters, steps], reduce_op=nl.add)  # here
    return out


def good_D047(counters, steps):
    total = nl.ndarray((64, 2), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=nl.load(counters), data2=nl.load(steps), op=nl.add)
    return stored(total)
