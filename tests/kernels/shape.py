"""Twins about the shapes that instructions ask of their operands."""

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN3_UP, f32, i32, ints, twin, u32
from tiles import stored

# -- operands that must agree --------------------------------------------------------------------


@twin(f32(128, 32))
def S004(a):
    tile = nl.load(a)
    rows = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=rows, src=tile[1:33])  # bad here
    nisa.dma_copy(dst=rows, src=tile[1:33])  # good
    return stored(rows)


@twin(f32(128, 32))
def S004_half(a):
    tile = nl.load(a)
    nisa.activation(dst=tile[32:96], op=nl.exp, data=tile[32:96])  # bad here
    nisa.activation(dst=tile[32:64], op=nl.exp, data=tile[32:64])  # good
    nisa.activation(dst=tile[64:96], op=nl.exp, data=tile[64:96])  # good
    return stored(tile)


@twin(f32(64, 32), f32(1, 32))
def S005(a, bias):
    tile = nl.load(a)
    row = nl.load(bias)  # bad
    row = nl.ndarray((64, 32), dtype=bias.dtype, buffer=nl.sbuf)  # good
    nisa.dma_copy(dst=row, src=bias.ap([[0, 64], [1, 32]]))  # good
    nisa.tensor_tensor(dst=tile, data1=tile, data2=row, op=nl.add)  # here
    return stored(tile)


@twin(f32(64, 32), f32(1, 1))
def S005_bias(a, bias):
    tile, one = nl.load(a), nl.load(bias)  # bad
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=one)  # bad here
    tile = nl.load(a)  # good
    column = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.dma_copy(dst=column, src=bias.ap([[0, 64], [1, 1]]))  # good
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=column)  # good
    return stored(tile)


@twin(f32(64, 32), f32(32, 32))
def S006(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    total = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=a_tile, data2=b_tile, op=nl.add)  # bad here
    nisa.tensor_tensor(dst=total, data1=a_tile[0:32], data2=b_tile, op=nl.add)  # good
    return stored(total)


@twin(f32(64, 128))
def S007(a):
    tile = nl.load(a)
    half = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.sbuf)
    nisa.activation(dst=half, op=nl.exp, data=tile)  # bad here
    nisa.activation(dst=half, op=nl.exp, data=tile[:, 0:64])  # good
    return stored(half)


@twin(f32(64, 128), f32(64, 1))
def S008(a, bias):
    return stored(nl.add(nl.load(a), nl.load(bias)))  # bad here
    total = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.sbuf)  # good
    nisa.tensor_scalar(dst=total, data=nl.load(a), op0=nl.add, operand0=nl.load(bias))  # good
    return stored(total)  # good


@twin(f32(64, 1), f32(1, 32))
def S008_outer(a, b):
    return stored(nl.multiply(nl.load(a), nl.load(b)))  # bad here
    row = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.dma_copy(dst=row, src=b.ap([[0, 64], [1, 32]]))  # good
    nisa.tensor_scalar(dst=row, data=row, op0=nl.multiply, operand0=nl.load(a))  # good
    return stored(row)  # good


@twin(f32(64, 4, 16), f32(64, 4))
def S064(heads, scale):
    return stored(nl.multiply(nl.load(heads), nl.load(scale)))  # bad here
    wide = nl.ndarray((64, 4, 16), dtype=scale.dtype, buffer=nl.sbuf)  # good
    nisa.dma_copy(dst=wide, src=scale.ap([[4, 64], [1, 4], [0, 16]]))  # good
    return stored(nl.multiply(nl.load(heads), wide))  # good


@twin(f32(64, 32), f32(64, 4))
def S053(a, bias):
    tile, columns = nl.load(a), nl.load(bias)
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=columns)  # bad here
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=columns[:, 0:1])  # good
    return stored(tile)


@twin(f32(64, 32), f32(64, 32))
def S053_operand(a, b):
    tile, factors = nl.load(a), nl.load(b)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factors)  # bad here
    nisa.tensor_tensor(dst=tile, data1=tile, data2=factors, op=nl.multiply)  # good
    return stored(tile)


@twin(f32(64, 32))
def S053_initial(a):
    tile = nl.load(a)
    sums = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    ones = nl.ones((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor_scan(sums, ones, tile, tile[:, 0:2], nl.multiply, nl.add)  # bad here
    nisa.tensor_tensor_scan(sums, ones, tile, tile[:, 0:1], nl.multiply, nl.add)  # good
    return stored(sums)


@twin(f32(64, 32))
def S054(a):
    tile = nl.load(a)
    total = nl.ndarray((64, 2), dtype=nl.float32, buffer=nl.sbuf)  # bad
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.activation_reduce(tile, nl.exp, tile, reduce_op=nl.add, reduce_res=total)  # here
    return stored(total)


@twin(f32(64, 32), ints("uint8", 64, 16, below=2))
def S055(a, mask):
    kept = nl.zeros((64, 32), dtype=a.dtype, buffer=nl.sbuf)  # bad
    kept = nl.zeros((64, 16), dtype=a.dtype, buffer=nl.sbuf)  # good
    tile, predicate = nl.load(a), nl.load(mask)
    nisa.tensor_copy_predicated(dst=kept, src=tile, predicate=predicate)  # bad here
    nisa.tensor_copy_predicated(dst=kept, src=tile[:, 0:16], predicate=predicate)  # good
    return stored(kept)


@twin(f32(64, 128))
def S058(a):
    tile = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)  # bad here
    nisa.dma_copy(dst=tile, src=a[:, 0:64])  # good
    return stored(tile)


@twin(ints("uint8", 1, 70000))
def S060(raw):
    tile = nl.load(raw)
    moved = nl.ndarray((1, 70000), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_copy(dst=moved, src=tile)  # bad here
    for c in range(0, 70000, 35000):  # good
        nisa.tensor_copy(dst=moved[:, c : c + 35000], src=tile[:, c : c + 35000])
    return stored(moved)


@twin(f32(64, 32))
def S071(a):
    tile = nl.load(a)
    total = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=tile[0:32], data2=tile[32:64], op=nl.add)  # bad here
    lower = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.sbuf)  # good
    nisa.tensor_copy(dst=lower, src=tile[32:64])  # good
    nisa.tensor_tensor(dst=total, data1=tile[0:32], data2=lower, op=nl.add)  # good
    return stored(total)


# -- reductions ----------------------------------------------------------------------------------


@twin(f32(64, 32))
def S044(a):
    tile = nl.load(a)
    total = nl.ndarray((1, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=0)  # bad here
    nisa.tensor_partition_reduce(dst=total, op=nl.add, data=tile)  # good
    return stored(total)


@twin(f32(64, 8, 16))
def S045(a):
    tile = nl.load(a)
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=2)  # bad here
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=(1, 2))  # good
    return stored(total)


@twin(f32(64, 32))
def S046(a):
    tile = nl.load(a)
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # bad
    total = nl.ndarray((1, 32), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.tensor_partition_reduce(dst=total, op=nl.add, data=tile)  # here
    return stored(total)


@twin(f32(64, 1024))
def S047(a):
    tile = nl.load(a)
    stats = nl.ndarray((64, 6), dtype=nl.float32, buffer=nl.sbuf)  # bad
    stats = nl.ndarray((64, 12), dtype=nl.float32, buffer=nl.sbuf)  # good
    moments = nl.ndarray((64, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_stats(dst=stats, data=tile)  # bad here
    nisa.bn_stats(dst=stats[:, 0:6], data=tile[:, 0:512])  # good
    nisa.bn_stats(dst=stats[:, 6:12], data=tile[:, 512:1024])  # good
    nisa.bn_aggr(dst=moments, data=stats)
    return stored(moments)


@twin(f32(64, 8))
def S047_aggregate(stats):
    moments = nl.ndarray((64, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_aggr(dst=moments, data=nl.load(stats))  # bad here
    tile = nl.load(stats)  # good
    partial = nl.ndarray((64, 6), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.bn_stats(dst=partial, data=tile)  # good
    nisa.bn_aggr(dst=moments, data=partial)  # good
    return stored(moments)


@twin(f32(64, 4))
def S048(a):
    tile = nl.load(a)  # bad
    padded = nl.full((64, 8), -1e30, dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.dma_copy(dst=padded[:, 0:4], src=a)  # good
    top = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.max8(dst=top, src=tile)  # bad here
    nisa.max8(dst=top, src=padded)  # good
    return stored(top)


@twin(f32(64, 32))
def S062(a):
    return stored(nl.sum(nl.load(a), axis=0))  # bad here
    return stored(nl.sum(nl.load(a), axis=1))  # good


@twin(f32(64, 8, 16))
def S062_middle(a):
    return stored(nl.max(nl.load(a), axis=1))  # bad here
    return stored(nl.max(nl.load(a), axis=2))  # good


# -- gathers, selections and patterns ------------------------------------------------------------


@twin(f32(40, 32), ints("uint16", 40, 4, below=32))
def S049(a, columns):
    tile, index = nl.load(a), nl.load(columns)
    picked = nl.ndarray((40, 64), dtype=a.dtype, buffer=nl.sbuf)  # bad
    nisa.local_gather(dst=picked, src_buffer=tile, index=index)  # bad here
    picked = nl.ndarray((32, 64), dtype=a.dtype, buffer=nl.sbuf)  # good
    nisa.local_gather(dst=picked, src_buffer=tile[0:32], index=index[0:32])  # good
    return stored(picked)


@twin(f32(64, 32), u32(64, 8, below=64))
def S050(a, columns):
    tile, index = nl.load(a), nl.load(columns)
    picked = nl.ndarray((64, 8), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=index, data=index, op0=nl.minimum, operand0=31)  # good
    nisa.nc_n_gather(dst=picked, data=tile, indices=index)  # here
    return stored(picked)


@twin(f32(32, 32))
def S051(a):
    tile = nl.load(a)
    swapped = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.nc_stream_shuffle(dst=swapped, src=tile, shuffle_mask=[1, 0] * 8)  # bad here
    nisa.nc_stream_shuffle(dst=swapped, src=tile, shuffle_mask=[1, 0] * 16)  # good
    return stored(swapped)


@twin(f32(64, 32))
def S052(a):
    tile = nl.load(a)
    index = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=index, pattern=[[1, 64]])  # bad here
    nisa.iota(dst=index, pattern=[[1, 32]])  # good
    return stored(tile), stored(index)


@twin(f32(64, 32))
def S052_mask(scores):
    tile = nl.load(scores)
    nisa.affine_select(tile, [[-1, 64]], 1, tile, -1e30, cmp_op=nl.greater_equal)  # bad here
    nisa.affine_select(tile, [[-1, 32]], 1, tile, -1e30, cmp_op=nl.greater_equal)  # good
    return stored(tile)


@twin(i32(1, 64, below=4))
def S056(segments):
    ids = nl.load(segments)
    bounds = nl.ndarray((1, 64, 2), dtype=nl.int32, buffer=nl.sbuf)  # bad
    bounds = nl.ndarray((1, 2, 64), dtype=nl.int32, buffer=nl.sbuf)  # good
    nisa.sequence_bounds(dst=bounds, segment_ids=ids)  # here
    return stored(bounds)


@twin(i32(1, 64, below=2), targets=GEN3_UP)
def S057(mask):
    flags = nl.load(mask)
    found = nl.ndarray((1, 64), dtype=nl.int32, buffer=nl.sbuf)  # bad
    found = nl.ndarray((1, 65), dtype=nl.int32, buffer=nl.sbuf)  # good
    nisa.nonzero_with_count(dst=found, src=flags)  # here
    return stored(found)


@twin(f32(64, 4))
def S063(a):
    return stored(nl.broadcast_to(nl.load(a), (64, 32)))  # bad here
    return stored(nl.broadcast_to(nl.load(a[:, 0:1]), (64, 32)))  # good


@twin(f32(64, 32))
def S063_rank(a):
    return stored(nl.broadcast_to(nl.load(a), (64, 4, 32)))  # bad here
    return stored(nl.broadcast_to(nl.load(a).reshape((64, 1, 32)), (64, 4, 32)))  # good
