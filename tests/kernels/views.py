"""Twins about tensors themselves: their extents, their indices and the views made of them."""

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import f32, ints, twin, u32
from tiles import stored

# -- extents -------------------------------------------------------------------------------------


@twin(f32(256, 64))
def S001(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((256, 64), dtype=a.dtype, buffer=nl.sbuf)  # bad here
    nisa.dma_copy(dst=tile, src=a)  # bad
    nisa.dma_copy(dst=out, src=tile)  # bad
    for r in range(0, 256, 128):  # good
        tile = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[r : r + 128])
        nisa.dma_copy(dst=out[r : r + 128], src=tile)
    return out


@twin(f32(64))
def S002(bias):
    tile = nl.ndarray((64,), dtype=bias.dtype, buffer=nl.sbuf)  # bad here
    tile = nl.ndarray((64, 1), dtype=bias.dtype, buffer=nl.sbuf)  # good
    nisa.dma_copy(dst=tile, src=bias)
    return stored(tile)


@twin(f32(64, 128))
def S003(a):
    tail = a.shape[1] % 64
    rest = nl.ndarray((64, tail), dtype=a.dtype, buffer=nl.sbuf)  # bad here
    assert rest.shape == (64, tail)  # bad
    if tail > 0:  # good
        rest = nl.ndarray((64, tail), dtype=a.dtype, buffer=nl.sbuf)
        assert rest.shape == (64, tail)
    return stored(nl.load(a))


@twin(f32(64, 32))
def S065(a):
    blocks = nl.ndarray((64, 2, 2, 2, 2, 2), dtype=a.dtype, buffer=nl.sbuf)  # bad here
    blocks = nl.ndarray((64, 2, 2, 2, 4), dtype=a.dtype, buffer=nl.sbuf)  # good
    nisa.dma_copy(dst=blocks, src=a)
    return stored(blocks)


# -- indices -------------------------------------------------------------------------------------


@twin(f32(64, 100))
def S009(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for c in range(0, 100, 64):
        tile = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.sbuf)  # bad
        nisa.dma_copy(dst=tile, src=a[:, c : c + 64])  # bad here
        nisa.dma_copy(dst=out[:, c : c + 64], src=tile)  # bad
        end = min(c + 64, 100)  # good
        tile = nl.ndarray((64, end - c), dtype=a.dtype, buffer=nl.sbuf)  # good
        nisa.dma_copy(dst=tile, src=a[:, c:end])  # good
        nisa.dma_copy(dst=out[:, c:end], src=tile)  # good
    return out


@twin(f32(4, 64, 32))
def S009_integer(a):
    return stored(nl.load(a[4]))  # bad here
    return stored(nl.load(a[3]))  # good


@twin(f32(4, 64, 32))
def S010(a):
    return stored(nl.load(a[-1]))  # bad here
    return stored(nl.load(a[a.shape[0] - 1]))  # good


@twin(f32(64, 32))
def S011(a):
    tile = nl.load(a)
    flipped = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=flipped, src=tile[:, ::-1])  # bad here
    nisa.tensor_copy(dst=flipped, src=tile.ap([[32, 64], [-1, 32]], offset=31))  # good
    return stored(flipped)


@twin(f32(64, 32))
def S012(a):
    return stored(nl.load(a[:, [0, 8, 16, 24]]))  # bad here
    return stored(nl.load(a[:, 0:32:8]))  # good


@twin(f32(64, 32))
def S012_too_many(a):
    return stored(nl.load(a[:, 0:8, 0:1]))  # bad here
    return stored(nl.load(a[:, 0:8]))  # good


@twin(f32(64, 32), u32(1, 1))
def S012_tensor(a, i):
    index = nl.load(i)
    tile = nl.load(a)  # bad
    return stored(tile[:, index])  # bad here
    column = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.dma_copy(  # good
        dst=column, src=a.ap([[32, 64], [1, 1]], scalar_offset=index, indirect_dim=1)
    )
    return stored(column)  # good


@twin(f32(64, 32))
def S012_range(a):
    return stored(nl.load(a[:, range(8)]))  # bad here
    return stored(nl.load(a[:, 0:8]))  # good


@twin(f32(64, 32))
def S013(a):
    out = nl.ndarray((1, 64, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=a[None])  # bad here
    nisa.dma_copy(dst=out, src=a.reshape((1, 64, 32)))  # good
    return out


@twin(f32(64, 128))
def S014(a):
    out = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.shared_hbm)
    for c in range(0, 129, 64):  # bad
        end = min(c + 64, 128)
        nisa.dma_copy(dst=out[:, c:end], src=a[:, c:end])  # here
    for c in range(0, 128, 64):  # good
        end = min(c + 64, 128)
        nisa.dma_copy(dst=out[:, c:end], src=a[:, c:end])
    return out


@twin(f32(64, 4, 32))
def S015(a):
    tile = nl.load(a)
    out = nl.ndarray((4, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile[3])  # bad here
    nisa.dma_copy(dst=out, src=tile[3:4])  # good
    return out


# -- reshape and view ----------------------------------------------------------------------------


@twin(f32(64, 128))
def S016(a):
    tile = nl.load(a)
    return stored(tile[:, 0:64].reshape((64, 4, 16)))  # bad here
    return stored(tile.reshape((64, 8, 16))[:, 0:4])  # good


@twin(f32(64, 128))
def S017(a):
    return stored(nl.load(a).reshape((64, 4, -1)))  # bad here
    return stored(nl.load(a).reshape((64, 4, 32)))  # good


@twin(f32(64, 32))
def S017_count(a):
    return stored(nl.load(a).reshape((64, 33)))  # bad here
    return stored(nl.load(a).reshape((64, 2, 16)))  # good


@twin(f32(64, 128))
def S018(a):
    return stored(nl.load(a).reshape((32, 256)))  # bad here
    return stored(nl.load(a.reshape((32, 256))))  # good


@twin(ints("uint8", 64, 8))
def S019(raw):
    tile = nl.load(raw)
    return stored(tile[:, 2:8].view(nl.int32))  # bad here
    return stored(tile.view(nl.int32)[:, 0:2])  # good


# -- access patterns -----------------------------------------------------------------------------


@twin(f32(64, 128))
def S020(a):
    tile = nl.load(a)
    return stored(tile[:, 64:128].ap([[128, 64], [2, 32]]))  # bad here
    return stored(tile.ap([[128, 64], [2, 32]], offset=64))  # good


@twin(f32(64, 32))
def S020_pattern(a):
    tile = nl.load(a).ap([[32, 64], [2, 16]])  # bad
    return stored(tile.ap([[16, 64], [2, 8]]))  # bad here
    tile = nl.load(a)  # good
    return stored(tile.ap([[32, 64], [4, 8]]))  # good


@twin(f32(64, 128))
def S021(a):
    tile = nl.load(a)
    evens = nl.ndarray((64, 65), dtype=a.dtype, buffer=nl.sbuf)  # bad
    nisa.tensor_copy(dst=evens, src=tile.ap([[128, 64], [2, 65]]))  # bad here
    evens = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.sbuf)  # good
    nisa.tensor_copy(dst=evens, src=tile.ap([[128, 64], [2, 64]]))  # good
    return stored(evens)


@twin(f32(128, 64))
def S021_hbm(a):
    tile = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a.ap([[64, 64], [1, 64]], offset=65 * 64))  # bad here
    nisa.dma_copy(dst=tile, src=a.ap([[64, 64], [1, 64]], offset=64 * 64))  # good
    return stored(tile)


@twin(f32(64, 128))
def S022(a):
    tile = nl.load(a)
    odd_rows = tile.ap([[256, 32], [1, 128]])  # bad here
    return stored(odd_rows)  # bad
    first_rows = tile.ap([[128, 32], [1, 128]])  # good
    return stored(first_rows)  # good


@twin(ints("uint8", 2, 70000))
def S023(raw):
    tile = nl.load(raw)
    samples = nl.ndarray((2, 2), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_copy(dst=samples, src=tile.ap([[70000, 2], [40000, 2]]))  # bad here
    nisa.tensor_copy(dst=samples, src=tile.ap([[70000, 2], [20000, 2]]))  # good
    return stored(samples)


@twin(f32(64, 32), u32(16, 1, below=4))
def S024(table, rows):
    index = nl.load(rows)
    start = nl.load(rows[0:1])  # bad
    picked = nl.ndarray((16, 32), dtype=table.dtype, buffer=nl.sbuf)
    source = table.ap([[32, 16], [1, 32]], vector_offset=index, scalar_offset=start)  # bad here
    source = table.ap([[32, 16], [1, 32]], vector_offset=index)  # good
    nisa.dma_copy(dst=picked, src=source)
    return stored(picked)


@twin(f32(64, 32), u32(16, 1, below=64))
def S025(table, rows):
    index = nl.load(rows, dtype=nl.float32)  # bad
    index = nl.load(rows)  # good
    picked = nl.ndarray((16, 32), dtype=table.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=picked, src=table.ap([[32, 16], [1, 32]], vector_offset=index))  # here
    return stored(picked)


@twin(f32(64, 32), u32(1, 4, below=32))
def S025_scalar(table, columns):
    index = nl.load(columns)
    picked = nl.ndarray((64, 1), dtype=table.dtype, buffer=nl.sbuf)
    column = table.ap([[32, 64], [1, 1]], scalar_offset=index, indirect_dim=1)  # bad here
    column = table.ap([[32, 64], [1, 1]], scalar_offset=index[0:1, 2:3], indirect_dim=1)  # good
    nisa.dma_copy(dst=picked, src=column)
    return stored(picked)


@twin(f32(64, 32), u32(16, 1, below=64))
def S026(table, rows):
    index = nl.load(rows)
    total = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.sbuf)
    picked = table.ap([[32, 16], [1, 32]], vector_offset=index)  # bad
    picked = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.dma_copy(dst=picked, src=table.ap([[32, 16], [1, 32]], vector_offset=index))  # good
    nisa.activation(dst=total, op=nl.exp, data=picked)  # here
    return stored(total)


@twin(f32(64, 16))
def S027(a):
    tile = nl.load(a)
    halves = tile.ap([[16, 64], [1, 16]], dtype=nl.uint16)  # bad here
    halves = tile.ap([[32, 64], [1, 32]], dtype=nl.uint16)  # good
    return stored(halves)
