"""Twins about the shapes that instructions ask of their operands."""

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN3_UP, f32, i32, ints, twin, u32
from tiles import stored

# -- operands that must agree --------------------------------------------------------------------


@twin(f32(128, 32))
def bad_S004(a):
    tile = nl.load(a)
    rows = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=rows, src=tile[1:33])  # here
    return stored(rows)


def good_S004(a):
    tile = nl.load(a)
    rows = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=tile[1:33])
    return stored(rows)


@twin(f32(128, 32))
def bad_S004_half(a):
    tile = nl.load(a)
    nisa.activation(dst=tile[32:96], op=nl.exp, data=tile[32:96])  # here
    return stored(tile)


def good_S004_half(a):
    tile = nl.load(a)
    nisa.activation(dst=tile[32:64], op=nl.exp, data=tile[32:64])
    nisa.activation(dst=tile[64:96], op=nl.exp, data=tile[64:96])
    return stored(tile)


@twin(f32(64, 32), f32(1, 32))
def bad_S005(a, bias):
    tile = nl.load(a)
    row = nl.load(bias)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=row, op=nl.add)  # here
    return stored(tile)


def good_S005(a, bias):
    tile = nl.load(a)
    row = nl.ndarray((64, 32), dtype=bias.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=row, src=bias.ap([[0, 64], [1, 32]]))
    nisa.tensor_tensor(dst=tile, data1=tile, data2=row, op=nl.add)
    return stored(tile)


@twin(f32(64, 32), f32(1, 1))
def bad_S005_bias(a, bias):
    tile, one = nl.load(a), nl.load(bias)
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=one)  # here
    return stored(tile)


def good_S005_bias(a, bias):
    tile = nl.load(a)
    column = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=column, src=bias.ap([[0, 64], [1, 1]]))
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=column)
    return stored(tile)


@twin(f32(64, 32), f32(32, 32))
def bad_S006(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    total = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=a_tile, data2=b_tile, op=nl.add)  # here
    return stored(total)


def good_S006(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    total = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=a_tile[0:32], data2=b_tile, op=nl.add)
    return stored(total)


@twin(f32(64, 128))
def bad_S007(a):
    tile = nl.load(a)
    half = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.sbuf)
    nisa.activation(dst=half, op=nl.exp, data=tile)  # here
    return stored(half)


def good_S007(a):
    tile = nl.load(a)
    half = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.sbuf)
    nisa.activation(dst=half, op=nl.exp, data=tile[:, 0:64])
    return stored(half)


@twin(f32(64, 128), f32(64, 1))
def bad_S008(a, bias):
    return stored(nl.add(nl.load(a), nl.load(bias)))  # here


def good_S008(a, bias):
    total = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=total, data=nl.load(a), op0=nl.add, operand0=nl.load(bias))
    return stored(total)


@twin(f32(64, 1), f32(1, 32))
def bad_S008_outer(a, b):
    return stored(nl.multiply(nl.load(a), nl.load(b)))  # here


def good_S008_outer(a, b):
    row = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=row, src=b.ap([[0, 64], [1, 32]]))
    nisa.tensor_scalar(dst=row, data=row, op0=nl.multiply, operand0=nl.load(a))
    return stored(row)


@twin(f32(64, 4, 16), f32(64, 4))
def bad_S064(heads, scale):
    return stored(nl.multiply(nl.load(heads), nl.load(scale)))  # here


def good_S064(heads, scale):
    wide = nl.ndarray((64, 4, 16), dtype=scale.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=wide, src=scale.ap([[4, 64], [1, 4], [0, 16]]))
    return stored(nl.multiply(nl.load(heads), wide))


@twin(f32(64, 32), f32(64, 4))
def bad_S053(a, bias):
    tile, columns = nl.load(a), nl.load(bias)
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=columns)  # here
    return stored(tile)


def good_S053(a, bias):
    tile, columns = nl.load(a), nl.load(bias)
    nisa.activation(dst=tile, op=nl.exp, data=tile, bias=columns[:, 0:1])
    return stored(tile)


@twin(f32(64, 32), f32(64, 32))
def bad_S053_operand(a, b):
    tile, factors = nl.load(a), nl.load(b)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factors)  # here
    return stored(tile)


def good_S053_operand(a, b):
    tile, factors = nl.load(a), nl.load(b)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=factors, op=nl.multiply)
    return stored(tile)


@twin(f32(64, 32))
def bad_S053_initial(a):
    tile = nl.load(a)
    sums = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    ones = nl.ones((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor_scan(sums, ones, tile, tile[:, 0:2], nl.multiply, nl.add)  # here
    return stored(sums)


def good_S053_initial(a):
    tile = nl.load(a)
    sums = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    ones = nl.ones((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor_scan(sums, ones, tile, tile[:, 0:1], nl.multiply, nl.add)
    return stored(sums)


@twin(f32(64, 32))
def bad_S054(a):
    tile = nl.load(a)
    total = nl.ndarray((64, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(tile, nl.exp, tile, reduce_op=nl.add, reduce_res=total)  # here
    return stored(total)


def good_S054(a):
    tile = nl.load(a)
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(tile, nl.exp, tile, reduce_op=nl.add, reduce_res=total)
    return stored(total)


@twin(f32(64, 32), ints("uint8", 64, 16, below=2))
def bad_S055(a, mask):
    kept = nl.zeros((64, 32), dtype=a.dtype, buffer=nl.sbuf)
    tile, predicate = nl.load(a), nl.load(mask)
    nisa.tensor_copy_predicated(dst=kept, src=tile, predicate=predicate)  # here
    return stored(kept)


def good_S055(a, mask):
    kept = nl.zeros((64, 16), dtype=a.dtype, buffer=nl.sbuf)
    tile, predicate = nl.load(a), nl.load(mask)
    nisa.tensor_copy_predicated(dst=kept, src=tile[:, 0:16], predicate=predicate)
    return stored(kept)


@twin(f32(64, 128))
def bad_S058(a):
    tile = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)  # here
    return stored(tile)


def good_S058(a):
    tile = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a[:, 0:64])
    return stored(tile)


@twin(ints("uint8", 1, 70000))
def bad_S060(raw):
    tile = nl.load(raw)
    moved = nl.ndarray((1, 70000), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_copy(dst=moved, src=tile)  # here
    return stored(moved)


def good_S060(raw):
    tile = nl.load(raw)
    moved = nl.ndarray((1, 70000), dtype=nl.uint8, buffer=nl.sbuf)
    for c in range(0, 70000, 35000):
        nisa.tensor_copy(dst=moved[:, c : c + 35000], src=tile[:, c : c + 35000])
    return stored(moved)


@twin(f32(64, 32))
def bad_S071(a):
    tile = nl.load(a)
    total = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=tile[0:32], data2=tile[32:64], op=nl.add)  # here
    return stored(total)


def good_S071(a):
    tile = nl.load(a)
    total = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.sbuf)
    lower = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=lower, src=tile[32:64])
    nisa.tensor_tensor(dst=total, data1=tile[0:32], data2=lower, op=nl.add)
    return stored(total)


# -- reductions ----------------------------------------------------------------------------------


@twin(f32(64, 32))
def bad_S044(a):
    tile = nl.load(a)
    total = nl.ndarray((1, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=0)  # here
    return stored(total)


def good_S044(a):
    tile = nl.load(a)
    total = nl.ndarray((1, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_partition_reduce(dst=total, op=nl.add, data=tile)
    return stored(total)


@twin(f32(64, 8, 16))
def bad_S045(a):
    tile = nl.load(a)
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=2)  # here
    return stored(total)


def good_S045(a):
    tile = nl.load(a)
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=(1, 2))
    return stored(total)


@twin(f32(64, 32))
def bad_S046(a):
    tile = nl.load(a)
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_partition_reduce(dst=total, op=nl.add, data=tile)  # here
    return stored(total)


def good_S046(a):
    tile = nl.load(a)
    total = nl.ndarray((1, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_partition_reduce(dst=total, op=nl.add, data=tile)
    return stored(total)


@twin(f32(64, 1024))
def bad_S047(a):
    tile = nl.load(a)
    stats = nl.ndarray((64, 6), dtype=nl.float32, buffer=nl.sbuf)
    moments = nl.ndarray((64, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_stats(dst=stats, data=tile)  # here
    nisa.bn_aggr(dst=moments, data=stats)
    return stored(moments)


def good_S047(a):
    tile = nl.load(a)
    stats = nl.ndarray((64, 12), dtype=nl.float32, buffer=nl.sbuf)
    moments = nl.ndarray((64, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_stats(dst=stats[:, 0:6], data=tile[:, 0:512])
    nisa.bn_stats(dst=stats[:, 6:12], data=tile[:, 512:1024])
    nisa.bn_aggr(dst=moments, data=stats)
    return stored(moments)


@twin(f32(64, 8))
def bad_S047_aggregate(stats):
    moments = nl.ndarray((64, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_aggr(dst=moments, data=nl.load(stats))  # here
    return stored(moments)


def good_S047_aggregate(stats):
    moments = nl.ndarray((64, 2), dtype=nl.float32, buffer=nl.sbuf)
    tile = nl.load(stats)
    partial = nl.ndarray((64, 6), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_stats(dst=partial, data=tile)
    nisa.bn_aggr(dst=moments, data=partial)
    return stored(moments)


@twin(f32(64, 4))
def bad_S048(a):
    tile = nl.load(a)
    top = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.max8(dst=top, src=tile)  # here
    return stored(top)


def good_S048(a):
    padded = nl.full((64, 8), -1e30, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=padded[:, 0:4], src=a)
    top = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.max8(dst=top, src=padded)
    return stored(top)


@twin(f32(64, 32))
def bad_S062(a):
    return stored(nl.sum(nl.load(a), axis=0))  # here


def good_S062(a):
    return stored(nl.sum(nl.load(a), axis=1))


@twin(f32(64, 8, 16))
def bad_S062_middle(a):
    return stored(nl.max(nl.load(a), axis=1))  # here


def good_S062_middle(a):
    return stored(nl.max(nl.load(a), axis=2))


# -- gathers, selections and patterns ------------------------------------------------------------


@twin(f32(40, 32), ints("uint16", 40, 4, below=32))
def bad_S049(a, columns):
    tile, index = nl.load(a), nl.load(columns)
    picked = nl.ndarray((40, 64), dtype=a.dtype, buffer=nl.sbuf)
    nisa.local_gather(dst=picked, src_buffer=tile, index=index)  # here
    return stored(picked)


def good_S049(a, columns):
    tile, index = nl.load(a), nl.load(columns)
    picked = nl.ndarray((32, 64), dtype=a.dtype, buffer=nl.sbuf)
    nisa.local_gather(dst=picked, src_buffer=tile[0:32], index=index[0:32])
    return stored(picked)


@twin(f32(64, 32), u32(64, 8, below=64))
def bad_S050(a, columns):
    tile, index = nl.load(a), nl.load(columns)
    picked = nl.ndarray((64, 8), dtype=a.dtype, buffer=nl.sbuf)
    nisa.nc_n_gather(dst=picked, data=tile, indices=index)  # here
    return stored(picked)


def good_S050(a, columns):
    tile, index = nl.load(a), nl.load(columns)
    picked = nl.ndarray((64, 8), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=index, data=index, op0=nl.minimum, operand0=31)
    nisa.nc_n_gather(dst=picked, data=tile, indices=index)
    return stored(picked)


@twin(f32(32, 32))
def bad_S051(a):
    tile = nl.load(a)
    swapped = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.nc_stream_shuffle(dst=swapped, src=tile, shuffle_mask=[1, 0] * 8)  # here
    return stored(swapped)


def good_S051(a):
    tile = nl.load(a)
    swapped = nl.ndarray((32, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.nc_stream_shuffle(dst=swapped, src=tile, shuffle_mask=[1, 0] * 16)
    return stored(swapped)


@twin(f32(64, 32))
def bad_S052(a):
    tile = nl.load(a)
    index = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=index, pattern=[[1, 64]])  # here
    return stored(tile), stored(index)


def good_S052(a):
    tile = nl.load(a)
    index = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=index, pattern=[[1, 32]])
    return stored(tile), stored(index)


@twin(f32(64, 32))
def bad_S052_mask(scores):
    tile = nl.load(scores)
    nisa.affine_select(tile, [[-1, 64]], 1, tile, -1e30, cmp_op=nl.greater_equal)  # here
    return stored(tile)


def good_S052_mask(scores):
    tile = nl.load(scores)
    nisa.affine_select(tile, [[-1, 32]], 1, tile, -1e30, cmp_op=nl.greater_equal)
    return stored(tile)


@twin(i32(1, 64, below=4))
def bad_S056(segments):
    ids = nl.load(segments)
    bounds = nl.ndarray((1, 64, 2), dtype=nl.int32, buffer=nl.sbuf)
    nisa.sequence_bounds(dst=bounds, segment_ids=ids)  # here
    return stored(bounds)


def good_S056(segments):
    ids = nl.load(segments)
    bounds = nl.ndarray((1, 2, 64), dtype=nl.int32, buffer=nl.sbuf)
    nisa.sequence_bounds(dst=bounds, segment_ids=ids)
    return stored(bounds)


@twin(i32(1, 64, below=2), targets=GEN3_UP)
def bad_S057(mask):
    flags = nl.load(mask)
    found = nl.ndarray((1, 64), dtype=nl.int32, buffer=nl.sbuf)
    nisa.nonzero_with_count(dst=found, src=flags)  # here
    return stored(found)


def good_S057(mask):
    flags = nl.load(mask)
    found = nl.ndarray((1, 65), dtype=nl.int32, buffer=nl.sbuf)
    nisa.nonzero_with_count(dst=found, src=flags)
    return stored(found)


@twin(f32(64, 4))
def bad_S063(a):
    return stored(nl.broadcast_to(nl.load(a), (64, 32)))  # here


def good_S063(a):
    return stored(nl.broadcast_to(nl.load(a[:, 0:1]), (64, 32)))


@twin(f32(64, 32))
def bad_S063_rank(a):
    return stored(nl.broadcast_to(nl.load(a), (64, 4, 32)))  # here


def good_S063_rank(a):
    return stored(nl.broadcast_to(nl.load(a).reshape((64, 1, 32)), (64, 4, 32)))
