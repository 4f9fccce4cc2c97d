"""Twins about the types of operands and the operators of instructions."""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN4, bf16, f32, i32, ints, twin
from kernels.mx import words
from tiles import stored

# -- types of operands ---------------------------------------------------------------------------


@twin(f32(64, 32))
def D001(a):
    exact = nl.ndarray((64, 32), dtype="float64", buffer=nl.sbuf)  # bad here
    exact = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.dma_copy(dst=exact, src=a)
    return stored(exact)


@twin(f32(64, 32), f32(64, 32))
def D032(a, mask):
    tile, predicate = nl.load(a), nl.load(mask)  # bad
    tile, scores = nl.load(a), nl.load(mask)  # good
    predicate = nl.ndarray((64, 32), dtype=nl.uint8, buffer=nl.sbuf)  # good
    kept = nl.zeros((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=predicate, data=predicate, op0=nl.greater, operand0=0.0)  # bad
    nisa.tensor_scalar(dst=predicate, data=scores, op0=nl.greater, operand0=0.0)  # good
    nisa.tensor_copy_predicated(dst=kept, src=tile, predicate=predicate)  # here
    return stored(kept)


@twin(f32(64, 32), i32(64, 8, below=32))
def D032_index(a, columns):
    tile, index = nl.load(a), nl.load(columns)  # bad
    tile, index = nl.load(a), nl.load(columns, dtype=nl.uint32)  # good
    picked = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.nc_n_gather(dst=picked, data=tile, indices=index)  # here
    return stored(picked)


@twin(words(64, 8), targets=GEN4)
def D032_packed(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)  # bad here
    return stored(tile)  # bad
    copy = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)  # good
    nisa.tensor_copy(dst=copy, src=tile)  # good
    return stored(copy)  # good


@twin(words(64, 8), targets=GEN4)
def D032_unpacked(a):
    tile = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)  # bad
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)  # good
    nisa.dma_copy(dst=tile, src=a)  # here
    return stored(tile)


@twin(f32(64, 32), ints("uint8", 64, 32, below=2))
def D033(a, mask):
    kept = nl.zeros((64, 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    tile, predicate = nl.load(a), nl.load(mask)  # bad
    tile, predicate = nl.load(a, dtype=nl.bfloat16), nl.load(mask)  # good
    nisa.tensor_copy_predicated(dst=kept, src=tile, predicate=predicate)  # here
    return stored(kept)


@twin(i32(64, 32), ints("uint8", 64, 32, below=2))
def D035(a, mask):
    tile, predicate = nl.load(a), nl.load(mask)  # bad
    tile, predicate = nl.load(a, dtype=nl.float32), nl.load(mask)  # good
    kept = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.select_reduce(dst=kept, predicate=predicate, on_true=tile, on_false=0.0)  # here
    return stored(kept)


@twin(i32(64, 32))
def D035_cumulative(a):
    tile = nl.load(a)  # bad
    tile = nl.load(a, dtype=nl.float32)  # good
    nisa.tensor_scalar_cumulative(tile, tile, nl.multiply, nl.add, 1.0)  # here
    return stored(tile)


@twin(bf16(64, 32), bf16(64, 1))
def D036(a, scale):
    tile, column = nl.load(a), nl.load(scale)  # bad
    tile, column = nl.load(a), nl.load(scale, dtype=nl.float32)  # good
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=column)  # here
    return stored(tile)


@twin(f32(64, 32), bf16(64, 1))
def D036_scale(a, scale):
    tile = nl.load(a)
    nisa.activation(dst=tile, op=nl.exp, data=tile, scale=nl.load(scale))  # bad here
    nisa.activation(dst=tile, op=nl.exp, data=tile, scale=nl.load(scale, dtype=nl.float32))  # good
    return stored(tile)


@twin(f32(64, 32))
def D045(a):
    tile = nl.ndarray((64, 32), dtype=np.float32, buffer=nl.sbuf)  # bad here
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.dma_copy(dst=tile, src=a)
    return stored(tile)


@twin(f32(64, 32))
def D045_load(a):
    return stored(nl.load(a, dtype=np.float16))  # bad here
    return stored(nl.load(a, dtype=nl.float16))  # good


# -- operators -----------------------------------------------------------------------------------


@twin(f32(64, 32))
def D011(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.bitwise_and, operand0=0x7FFFFFFF)  # bad here
    bits = tile.view(nl.uint32)  # good
    nisa.tensor_scalar(dst=bits, data=bits, op0=nl.bitwise_and, operand0=0x7FFFFFFF)  # good
    return stored(tile)


@twin(f32(64, 32))
def D011_reduce(a):
    bits = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)  # bad
    nisa.tensor_reduce(dst=bits, op=nl.bitwise_or, data=nl.load(a), axis=1)  # bad here
    bits = nl.ndarray((64, 1), dtype=nl.uint32, buffer=nl.sbuf)  # good
    nisa.tensor_reduce(dst=bits, op=nl.bitwise_or, data=nl.load(a).view(nl.uint32), axis=1)  # good
    return stored(bits)


@twin(i32(64, 32))
def D011_float_immediate(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.left_shift, operand0=2.0)  # bad here
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.left_shift, operand0=2)  # good
    return stored(tile)


_TWO = np.int32(2)
_TWO_AS_FLOAT = np.float32(2)


@twin(i32(64, 32))
def D011_numpy_float(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.left_shift, operand0=_TWO_AS_FLOAT)  # bad here
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.left_shift, operand0=_TWO)  # good
    return stored(tile)


@twin(i32(64, 32, below=1000))
def D012(a):
    tile = nl.load(a)
    low = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_scalar(low, tile, nl.bitwise_and, 255, op1=nl.add, operand1=1)  # bad here
    nisa.tensor_scalar(low, tile, nl.bitwise_and, 255)  # good
    nisa.tensor_scalar(low, low, nl.add, 1)  # good
    return stored(low)


@twin(i32(64, 32))
def D012_engine(a):
    tile = nl.load(a)
    nisa.tensor_tensor(tile, tile, tile, nl.bitwise_or, engine=nisa.engine.gpsimd)  # bad here
    nisa.tensor_tensor(tile, tile, tile, nl.bitwise_or, engine=nisa.engine.vector)  # good
    return stored(tile)


@twin(f32(64, 32), np.full((64, 32), 2.0, np.float32))
def D013(a, b):
    ratio = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=ratio, data1=nl.load(a), data2=nl.load(b), op=nl.divide)  # bad here
    nisa.reciprocal(dst=ratio, data=nl.load(b))  # good
    nisa.tensor_tensor(dst=ratio, data1=nl.load(a), data2=ratio, op=nl.multiply)  # good
    return stored(ratio)


@twin(f32(64, 32), np.full((64, 32), 2.0, np.float32))
def D013_function(a, b):
    return stored(nl.divide(nl.load(a), nl.load(b)))  # bad here
    return stored(nl.multiply(nl.load(a), nl.reciprocal(nl.load(b))))  # good


@twin(f32(64, 32))
def D014(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.mod, operand0=4.0)  # bad here
    whole = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)  # good
    nisa.tensor_scalar(dst=whole, data=tile, op0=nl.multiply, operand0=0.25)  # good
    nisa.scalar_tensor_tensor(tile, whole, nl.multiply, -4.0, nl.add, tile)  # good
    return stored(tile)


@twin(f32(64, 32))
def D014_power(a):
    return stored(nl.power(nl.load(a), 2.0))  # bad here
    return stored(nl.square(nl.load(a)))  # good


@twin(f32(64, 32))
def D022(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=np.add, operand0=1.0)  # bad here
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)  # good
    return stored(tile)


@twin(f32(64, 32))
def D022_activation(a):
    tile = nl.load(a)
    nisa.activation(dst=tile, op=nl.add, data=tile)  # bad here
    nisa.activation(dst=tile, op=nl.copy, data=tile)  # good
    return stored(tile)


@twin(f32(64, 32))
def D022_string(a):
    tile = nl.load(a)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op="add")  # bad here
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)  # good
    return stored(tile)


@twin(f32(64, 32))
def D022_unary(a):
    tile = nl.load(a)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.exp)  # bad here
    nisa.activation(dst=tile, op=nl.exp, data=tile)  # good
    return stored(tile)


# -- operators of a reduction --------------------------------------------------------------------


@twin(f32(64, 32))
def D024(a):
    tile = nl.load(a)
    peak = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    reset = nisa.reduce_cmd.reset_reduce  # bad
    nisa.activation(tile, nl.exp, tile, None, 1.0, nl.maximum, peak, reset)  # bad here
    nisa.activation(tile, nl.exp, tile)  # good
    nisa.tensor_reduce(dst=peak, op=nl.maximum, data=tile, axis=1)  # good
    return stored(peak)


@twin(f32(64, 32))
def D024_command(a):
    tile = nl.load(a)
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    command = nisa.reduce_cmd.reset_reduce
    nisa.activation(tile, nl.exp, tile, reduce_res=total, reduce_cmd=command)  # bad here
    nisa.activation(tile, nl.exp, tile, None, 1.0, nl.add, total, command)  # good
    return stored(total)


@twin(f32(64, 32))
def D025(a):
    tile = nl.load(a)
    any_true = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=any_true, op=nl.greater, data=tile, axis=1)  # bad here
    nisa.tensor_reduce(dst=any_true, op=nl.logical_or, data=tile, axis=1)  # good
    return stored(any_true)


@twin(i32(64, 32))
def D026(a):
    tile = nl.load(a)
    bits = nl.ndarray((64, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=bits, op=nl.bitwise_or, data=tile, axis=1, negate=True)  # bad here
    nisa.tensor_reduce(dst=bits, op=nl.bitwise_or, data=tile, axis=1)  # good
    return stored(bits)


@twin(f32(64, 32))
def D027(a):
    tile = nl.load(a)
    product = nl.ndarray((1, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_partition_reduce(dst=product, op=nl.multiply, data=tile)  # bad here
    nisa.tensor_partition_reduce(dst=product, op=nl.maximum, data=tile)  # good
    return stored(product)


@twin(f32(64, 32), f32(64, 32))
def D028(a, b):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_compute(dst=out, srcs=[a, b], reduce_op=nl.maximum)  # bad here
    nisa.dma_compute(dst=out, srcs=[a, b], reduce_op=nl.add)  # good
    return out


@twin(f32(64, 32), f32(64, 32))
def D028_scales(a, b):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_compute(dst=out, srcs=[a, b], reduce_op=nl.add, scales=[1.0, -1.0])  # bad here
    nisa.dma_compute(dst=out, srcs=[a, b], reduce_op=nl.add, scales=[1.0, 1.0])  # good
    return out
