"""Twins about values that a format or an engine cannot hold, and arguments that bear on them."""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN2, GEN3_UP, GEN4, bf16, f16, f32, i32, ints, twin
from tiles import stored

# -- integers in float32 -------------------------------------------------------------------------

_LARGE = np.array([[2**24 + 1, 2**24 + 3]] * 64, np.int32)
_SMALL = np.array([[1, 3]] * 64, np.int32)
_ONES = np.ones((64, 32), np.float32)


@twin(np.array([[-8, 8]] * 64, np.int32), fixed=(np.array([[8, 16]] * 64, np.int32),))
def D015(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.right_shift, operand0=2)  # here
    return stored(tile)


@twin(_LARGE)
def D016(counters):
    tile = nl.load(counters)
    nisa.tensor_tensor(tile, tile, tile, nl.add, engine=nisa.engine.vector)  # bad here
    nisa.tensor_tensor(tile, tile, tile, nl.add)  # good
    return stored(tile)


@twin(_LARGE)
def D016_scalar(counters):
    tile = nl.load(counters)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1)  # bad here
    ones = nl.full((64, 2), 1, dtype=nl.int32, buffer=nl.sbuf)  # good
    nisa.tensor_tensor(dst=tile, data1=tile, data2=ones, op=nl.add)  # good
    return stored(tile)


@twin(_LARGE)
def D017(counters):
    return stored(nl.copy(nl.load(counters)))  # bad here
    copy = nl.ndarray((64, 2), dtype=nl.int32, buffer=nl.sbuf)  # good
    nisa.tensor_copy(dst=copy, src=nl.load(counters))  # good
    return stored(copy)  # good


@twin(_LARGE)
def D017_cast(counters):
    out = nl.ndarray((64, 2), dtype=nl.float32, buffer=nl.shared_hbm)  # bad
    out = nl.ndarray((64, 2), dtype=nl.int32, buffer=nl.shared_hbm)  # good
    nisa.dma_copy(dst=out, src=counters)  # here
    return out


@twin(_SMALL)
def D018(counters):
    tile = nl.load(counters)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=2**24 + 1)  # bad here
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=2**24)  # good
    return stored(tile)


_EXACT, _INEXACT = np.int32(2**24), np.int32(2**24 + 1)
_WIDE_EXACT, _WIDE_INEXACT = np.int64(2**24), np.int64(2**24 + 1)


@twin(_SMALL)
def D018_numpy_integer(counters):
    tile = nl.load(counters)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=_INEXACT)  # bad here
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=_EXACT)  # good
    return stored(tile)


@twin(f32(64, 32))
def D018_memset_numpy_integer(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=_WIDE_INEXACT)  # bad here
    nisa.memset(dst=tile, value=_WIDE_EXACT)  # good
    return stored(nl.add(tile, nl.load(a)))


@twin(f32(64, 32))
def D018_memset(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=2**24 + 1)  # bad here
    nisa.memset(dst=tile, value=2**24)  # good
    return stored(nl.add(tile, nl.load(a)))


@twin(f32(8, 300))
def D018_positions(a):
    positions = nl.ndarray((8, 300), dtype=nl.bfloat16, buffer=nl.sbuf)  # bad
    positions = nl.ndarray((8, 300), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.iota(dst=positions, pattern=[[1, 300]])  # here
    return stored(nl.add(positions, nl.load(a)))


@twin(_LARGE, _SMALL)
def D047(counters, steps):
    out = nl.ndarray((64, 2), dtype=nl.int32, buffer=nl.shared_hbm)  # bad
    nisa.dma_compute(dst=out, srcs=[counters, steps], reduce_op=nl.add)  # bad here
    return out  # bad
    total = nl.ndarray((64, 2), dtype=nl.int32, buffer=nl.sbuf)  # good
    nisa.tensor_tensor(dst=total, data1=nl.load(counters), data2=nl.load(steps), op=nl.add)  # good
    return stored(total)  # good


# -- conversions ---------------------------------------------------------------------------------

_WIDE = np.array([[-20.0, 300.0]] * 64, np.float32)


@twin(_WIDE)
def D019(a):
    levels = nl.ndarray((64, 2), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_copy(dst=levels, src=nl.load(a))  # bad here
    nisa.tensor_scalar(levels, nl.load(a), nl.maximum, 0.0, op1=nl.minimum, operand1=255.0)  # good
    return stored(levels)


@twin(np.where(np.eye(64, 32) > 0, np.float32(np.nan), np.float32(1)), fixed=(_ONES,))
def D019_nan(a):
    whole = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=whole, src=nl.load(a))  # here
    return stored(whole)


@twin(np.array([[1.0, 1e6]] * 64, np.float32))
def D020(a):
    half = nl.ndarray((64, 2), dtype=nl.float16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=half, src=nl.load(a))  # bad here
    nisa.tensor_scalar(dst=half, data=nl.load(a), op0=nl.multiply, operand0=0.01)  # good
    return stored(half)


@twin(np.full((64, 32), 300, np.float32))
def D020_fp8(a):
    small = nl.ndarray((64, 32), dtype=nl.float8_e4m3, buffer=nl.sbuf)
    nisa.activation(dst=small, op=nl.copy, data=nl.load(a))  # bad here
    nisa.activation(dst=small, op=nl.copy, data=nl.load(a), scale=0.5)  # good
    return stored(small)


@twin(np.full((64, 32), 300, np.float32))
def D020_dma(a):
    out = nl.ndarray((64, 32), dtype=nl.float8_e4m3, buffer=nl.shared_hbm)  # bad
    out = nl.ndarray((64, 32), dtype=nl.float8_e5m2, buffer=nl.shared_hbm)  # good
    nisa.dma_copy(dst=out, src=a)  # here
    return out


# -- functions -----------------------------------------------------------------------------------


@twin(np.array([[0.5, 10.0]] * 64, np.float32))
def D021(angles):
    tile = nl.load(angles)
    turns = nl.ndarray((64, 2), dtype=nl.int32, buffer=nl.sbuf)  # good
    nisa.tensor_scalar(dst=turns, data=tile, op0=nl.multiply, operand0=0.15915494)  # good
    nisa.scalar_tensor_tensor(tile, turns, nl.multiply, -6.2831853, nl.add, tile)  # good
    nisa.activation(dst=tile, op=nl.sin, data=tile)  # here
    return stored(tile)


@twin(np.zeros((64, 32), np.float32))
def D021_log(a):
    return stored(nl.log(nl.load(a)))  # bad here
    tile = nl.load(a)  # good
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=1e-12)  # good
    return stored(nl.log(tile))  # good


@twin(f32(64, 32), targets=GEN2)
def D023(a):
    tile = nl.load(a)
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=-1.0)  # bad here
    bias = nl.full((64, 1), -1.0, dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=bias)  # good
    return stored(tile)


@twin(f32(64, 32), f32(64, 1))
def D023_copy(a, shift):
    tile, bias = nl.load(a), nl.load(shift)
    nisa.activation(dst=tile, op=nl.copy, data=tile, bias=bias)  # bad here
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=bias)  # good
    return stored(tile)


@twin(f32(64, 32), f32(64, 1), targets=GEN2)
def D023_reciprocal(a, shift):
    tile, bias = nl.load(a), nl.load(shift)
    nisa.activation(dst=tile, op=nl.reciprocal, data=tile, bias=bias)  # bad here
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=bias)  # good
    nisa.activation(dst=tile, op=nl.reciprocal, data=tile)  # good
    return stored(tile)


@twin(f32(64, 32), f32(64, 1))
def D023_tfloat32(a, shift):
    tile, bias = nl.load(a), nl.load(shift, dtype=nl.tfloat32)  # bad
    tile, bias = nl.load(a), nl.load(shift)  # good
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=bias)  # here
    return stored(tile)


@twin(i32(64, 32, below=4))
def D040(flags):
    return stored(nl.logical_not(nl.load(flags)))  # bad here
    return stored(nl.equal(nl.load(flags), 0))  # good


@twin(np.array([[0.0, 2.0]] * 64, np.float32))
def D042(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1e-6)  # good
    nisa.reciprocal(dst=tile, data=tile)  # here
    return stored(tile)


@twin(np.full((64, 2), np.inf, np.float32), fixed=(f32(64, 2),))
def D042_infinities(a):
    tile = nl.load(a)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.subtract)  # here
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    return stored(tile)


@twin(np.full((64, 32), 200, np.float32))
def D042_overflow(a):
    return stored(nl.exp(nl.load(a)))  # bad here
    tile = nl.load(a)  # good
    nisa.activation(dst=tile, op=nl.exp, data=tile, scale=0.25)  # good
    return stored(tile)  # good


@twin(f32(64, 32), targets=GEN4)
def D046(a):
    tile = nl.load(a)
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    command = nisa.reduce_cmd.reset_reduce  # bad
    command = nisa.reduce_cmd.load_reduce  # good
    nisa.exponential(tile, tile, 0.0, total, command, reduce_init=1.0)  # here
    return stored(total)


# -- ranges and masks ----------------------------------------------------------------------------

_BOUNDS = (np.zeros((64, 1), np.float32), np.full((64, 1), 16, np.float32))


@twin(f32(64, 32), *_BOUNDS, targets=GEN3_UP)
def D029(scores, low, high):
    tile, first, last = nl.load(scores), nl.load(low), nl.load(high)
    nisa.range_select(tile, tile, nl.greater_equal, nl.not_equal, first, last)  # bad here
    nisa.range_select(tile, tile, nl.greater_equal, nl.less, first, last)  # good
    return stored(tile)


@twin(f32(64, 32), *_BOUNDS, targets=GEN3_UP)
def D029_fill(scores, low, high):
    tile, first, last = nl.load(scores), nl.load(low), nl.load(high)
    above, below = nl.greater_equal, nl.less
    nisa.range_select(tile, tile, above, below, first, last, on_false_value=-1e9)  # bad here
    nisa.range_select(tile, tile, above, below, first, last, on_false_value=-3.4028235e38)  # good
    return stored(tile)


@twin(f32(64, 32), *_BOUNDS, targets=GEN3_UP)
def D030(scores, low, high):
    tile, first, last = nl.load(scores), nl.load(low), nl.load(high)
    above, below = nl.greater_equal, nl.less
    nisa.range_select(tile, tile, above, below, first, last, range_start=2**24)  # bad here
    nisa.range_select(tile, tile, above, below, first, last, range_start=2**20)  # good
    return stored(tile)


@twin(bf16(64, 32), *_BOUNDS, targets=GEN3_UP)
def D031(scores, low, high):
    tile, first, last = nl.load(scores), nl.load(low), nl.load(high)
    peak = nl.ndarray((64, 1), dtype=nl.bfloat16, buffer=nl.sbuf)  # bad
    peak = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)  # good
    above, below = nl.greater_equal, nl.less
    nisa.range_select(tile, tile, above, below, first, last, reduce_res=peak)  # here
    return stored(tile), stored(peak)


@twin(bf16(32, 32))
def D031_affine_select(scores):
    tile = nl.load(scores)
    nisa.affine_select(tile, [[-1, 32]], 1, tile, -3.4028235e38, cmp_op=nl.greater)  # bad
    nisa.affine_select(tile, [[-1, 32]], 1, tile, -30000.0, cmp_op=nl.greater)  # good
    peak = nl.ndarray((32, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=peak, op=nl.maximum, data=tile, axis=1, negate=True)
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=peak)  # here
    return stored(tile)


@twin(f32(32, 32), np.eye(32, dtype=np.uint8) * 0)
def D031_predicate(scores, kept):
    tile = nl.ndarray((32, 32), dtype=nl.bfloat16, buffer=nl.sbuf)  # bad
    tile = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.memset(dst=tile, value=-3.4028235e38)
    half = nl.load(scores, dtype=nl.bfloat16)  # bad
    nisa.tensor_copy_predicated(dst=tile, src=half, predicate=nl.load(kept))  # bad
    nisa.tensor_copy_predicated(dst=tile, src=nl.load(scores), predicate=nl.load(kept))  # good
    peak = nl.ndarray((32, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=peak, op=nl.maximum, data=tile, axis=1)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=peak)  # here
    return stored(tile)


# -- constants that the tile cannot hold -----------------------------------------------------------


@twin(f32(64, 32))
def D019_memset(a):
    codes = nl.ndarray(a.shape, dtype=nl.int8, buffer=nl.sbuf)  # bad
    codes = nl.ndarray(a.shape, dtype=nl.int16, buffer=nl.sbuf)  # good
    nisa.memset(dst=codes, value=300)  # here
    return stored(nl.load(a)), stored(codes)


@twin(f32(64, 32))
def D020_memset(a):
    scales = nl.ndarray(a.shape, dtype=nl.float8_e4m3, buffer=nl.sbuf)  # bad
    scales = nl.ndarray(a.shape, dtype=nl.float8_e5m2, buffer=nl.sbuf)  # good
    nisa.memset(dst=scales, value=1000.0)  # here
    return stored(nl.load(a)), stored(scales)


@twin(f32(64, 512))
def D019_iota(a):
    columns = nl.ndarray(a.shape, dtype=nl.uint8, buffer=nl.sbuf)  # bad
    columns = nl.ndarray(a.shape, dtype=nl.uint16, buffer=nl.sbuf)  # good
    nisa.iota(dst=columns, pattern=[[1, 512]])  # here
    return stored(nl.load(a)), stored(columns)


@twin(f16(64, 32))
def D020_fill(scores):
    tile = nl.load(scores)
    nisa.affine_select(tile, [[-1, 32]], 1, tile, -1e9, cmp_op=nl.greater_equal)  # bad here
    nisa.affine_select(tile, [[-1, 32]], 1, tile, -6e4, cmp_op=nl.greater_equal)  # good
    return stored(tile)


@twin(f16(64, 32), ints("uint8", 64, 32, below=2))
def D020_predicated(scores, mask):
    tile = nl.load(scores)
    nisa.tensor_copy_predicated(dst=tile, src=-1e9, predicate=nl.load(mask))  # bad here
    nisa.tensor_copy_predicated(dst=tile, src=-6e4, predicate=nl.load(mask))  # good
    return stored(tile)


_HUGE = np.full((64, 32), 1e38, np.float32)


@twin(_HUGE, fixed=(f32(64, 32),))
def D042_matmul(a):
    total = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.psum)
    tile = nl.load(a)
    nisa.nc_matmul(dst=total, stationary=tile, moving=tile)  # here
    return stored(total)


# -- floats as integers, and integers that wrap ----------------------------------------------------


@twin(f32(64, 32))
def D050(a):
    whole = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)  # bad
    whole = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.tensor_copy(dst=whole, src=nl.load(a))  # here
    return stored(whole)


@twin(np.full((64, 2), 2**30, np.int32), fixed=(np.full((64, 2), 2**29, np.int32),))
def D051(counters):
    tile = nl.load(counters)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)  # here
    return stored(tile)
