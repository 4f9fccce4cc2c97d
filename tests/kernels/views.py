"""Twins about tensors themselves: their extents, their indices and the views made of them."""

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import f32, ints, twin, u32
from tiles import stored

# -- extents -------------------------------------------------------------------------------------


@twin(f32(256, 64))
def bad_S001(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((256, 64), dtype=a.dtype, buffer=nl.sbuf)  # here
    nisa.dma_copy(dst=tile, src=a)
    nisa.dma_copy(dst=out, src=tile)
    return out


def good_S001(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for r in range(0, 256, 128):
        tile = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[r : r + 128])
        nisa.dma_copy(dst=out[r : r + 128], src=tile)
    return out


@twin(f32(64))
def bad_S002(bias):
    tile = nl.ndarray((64,), dtype=bias.dtype, buffer=nl.sbuf)  # here
    nisa.dma_copy(dst=tile, src=bias)
    return stored(tile)


def good_S002(bias):
    tile = nl.ndarray((64, 1), dtype=bias.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=bias)
    return stored(tile)


@twin(f32(64, 128))
def bad_S003(a):
    tail = a.shape[1] % 64
    rest = nl.ndarray((64, tail), dtype=a.dtype, buffer=nl.sbuf)  # here
    assert rest.shape == (64, tail)
    return stored(nl.load(a))


def good_S003(a):
    tail = a.shape[1] % 64
    if tail > 0:
        rest = nl.ndarray((64, tail), dtype=a.dtype, buffer=nl.sbuf)
        assert rest.shape == (64, tail)
    return stored(nl.load(a))


@twin(f32(64, 32))
def bad_S065(a):
    blocks = nl.ndarray((64, 2, 2, 2, 2, 2), dtype=a.dtype, buffer=nl.sbuf)  # here
    nisa.dma_copy(dst=blocks, src=a)
    return stored(blocks)


def good_S065(a):
    blocks = nl.ndarray((64, 2, 2, 2, 4), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=blocks, src=a)
    return stored(blocks)


# -- indices -------------------------------------------------------------------------------------


@twin(f32(64, 100))
def bad_S009(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for c in range(0, 100, 64):
        tile = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[:, c : c + 64])  # here
        nisa.dma_copy(dst=out[:, c : c + 64], src=tile)
    return out


def good_S009(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for c in range(0, 100, 64):
        end = min(c + 64, 100)
        tile = nl.ndarray((64, end - c), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[:, c:end])
        nisa.dma_copy(dst=out[:, c:end], src=tile)
    return out


@twin(f32(4, 64, 32))
def bad_S009_integer(a):
    return stored(nl.load(a[4]))  # here


def good_S009_integer(a):
    return stored(nl.load(a[3]))


@twin(f32(4, 64, 32))
def bad_S010(a):
    return stored(nl.load(a[-1]))  # here


def good_S010(a):
    return stored(nl.load(a[a.shape[0] - 1]))


@twin(f32(64, 32))
def bad_S011(a):
    tile = nl.load(a)
    flipped = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=flipped, src=tile[:, ::-1])  # here
    return stored(flipped)


def good_S011(a):
    tile = nl.load(a)
    flipped = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=flipped, src=tile.ap([[32, 64], [-1, 32]], offset=31))
    return stored(flipped)


@twin(f32(64, 32))
def bad_S012(a):
    return stored(nl.load(a[:, [0, 8, 16, 24]]))  # here


def good_S012(a):
    return stored(nl.load(a[:, 0:32:8]))


@twin(f32(64, 32))
def bad_S012_too_many(a):
    return stored(nl.load(a[:, 0:8, 0:1]))  # here


def good_S012_too_many(a):
    return stored(nl.load(a[:, 0:8]))


@twin(f32(64, 32), u32(1, 1))
def bad_S012_tensor(a, i):
    index = nl.load(i)
    tile = nl.load(a)
    return stored(tile[:, index])  # here


def good_S012_tensor(a, i):
    index = nl.load(i)
    column = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=column, src=a.ap([[32, 64], [1, 1]], scalar_offset=index, indirect_dim=1))
    return stored(column)


@twin(f32(64, 32))
def bad_S012_range(a):
    return stored(nl.load(a[:, range(8)]))  # here


def good_S012_range(a):
    return stored(nl.load(a[:, 0:8]))


@twin(f32(64, 32))
def bad_S013(a):
    out = nl.ndarray((1, 64, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=a[None])  # here
    return out


def good_S013(a):
    out = nl.ndarray((1, 64, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=a.reshape((1, 64, 32)))
    return out


@twin(f32(64, 128))
def bad_S014(a):
    out = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.shared_hbm)
    for c in range(0, 129, 64):
        end = min(c + 64, 128)
        nisa.dma_copy(dst=out[:, c:end], src=a[:, c:end])  # here
    return out


def good_S014(a):
    out = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.shared_hbm)
    for c in range(0, 128, 64):
        end = min(c + 64, 128)
        nisa.dma_copy(dst=out[:, c:end], src=a[:, c:end])
    return out


@twin(f32(64, 4, 32))
def bad_S015(a):
    tile = nl.load(a)
    out = nl.ndarray((4, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile[3])  # here
    return out


def good_S015(a):
    tile = nl.load(a)
    out = nl.ndarray((4, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile[3:4])
    return out


# -- reshape and view ----------------------------------------------------------------------------


@twin(f32(64, 128))
def bad_S016(a):
    tile = nl.load(a)
    return stored(tile[:, 0:64].reshape((64, 4, 16)))  # here


def good_S016(a):
    tile = nl.load(a)
    return stored(tile.reshape((64, 8, 16))[:, 0:4])


@twin(f32(64, 128))
def bad_S017(a):
    return stored(nl.load(a).reshape((64, 4, -1)))  # here


def good_S017(a):
    return stored(nl.load(a).reshape((64, 4, 32)))


@twin(f32(64, 32))
def bad_S017_count(a):
    return stored(nl.load(a).reshape((64, 33)))  # here


def good_S017_count(a):
    return stored(nl.load(a).reshape((64, 2, 16)))


@twin(f32(64, 128))
def bad_S018(a):
    return stored(nl.load(a).reshape((32, 256)))  # here


def good_S018(a):
    return stored(nl.load(a.reshape((32, 256))))


@twin(ints("uint8", 64, 8))
def bad_S019(raw):
    tile = nl.load(raw)
    return stored(tile[:, 2:8].view(nl.int32))  # here


def good_S019(raw):
    tile = nl.load(raw)
    return stored(tile.view(nl.int32)[:, 0:2])


# -- access patterns -----------------------------------------------------------------------------


@twin(f32(64, 128))
def bad_S020(a):
    tile = nl.load(a)
    return stored(tile[:, 64:128].ap([[128, 64], [2, 32]]))  # here


def good_S020(a):
    tile = nl.load(a)
    return stored(tile.ap([[128, 64], [2, 32]], offset=64))


@twin(f32(64, 32))
def bad_S020_pattern(a):
    tile = nl.load(a).ap([[32, 64], [2, 16]])
    return stored(tile.ap([[16, 64], [2, 8]]))  # here


def good_S020_pattern(a):
    tile = nl.load(a)
    return stored(tile.ap([[32, 64], [4, 8]]))


@twin(f32(64, 128))
def bad_S021(a):
    tile = nl.load(a)
    evens = nl.ndarray((64, 65), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=evens, src=tile.ap([[128, 64], [2, 65]]))  # here
    return stored(evens)


def good_S021(a):
    tile = nl.load(a)
    evens = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=evens, src=tile.ap([[128, 64], [2, 64]]))
    return stored(evens)


@twin(f32(128, 64))
def bad_S021_hbm(a):
    tile = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a.ap([[64, 64], [1, 64]], offset=65 * 64))  # here
    return stored(tile)


def good_S021_hbm(a):
    tile = nl.ndarray((64, 64), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a.ap([[64, 64], [1, 64]], offset=64 * 64))
    return stored(tile)


@twin(f32(64, 128))
def bad_S022(a):
    tile = nl.load(a)
    odd_rows = tile.ap([[256, 32], [1, 128]])  # here
    return stored(odd_rows)


def good_S022(a):
    tile = nl.load(a)
    first_rows = tile.ap([[128, 32], [1, 128]])
    return stored(first_rows)


@twin(ints("uint8", 2, 70000))
def bad_S023(raw):
    tile = nl.load(raw)
    samples = nl.ndarray((2, 2), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_copy(dst=samples, src=tile.ap([[70000, 2], [40000, 2]]))  # here
    return stored(samples)


def good_S023(raw):
    tile = nl.load(raw)
    samples = nl.ndarray((2, 2), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_copy(dst=samples, src=tile.ap([[70000, 2], [20000, 2]]))
    return stored(samples)


@twin(f32(64, 32), u32(16, 1, below=4))
def bad_S024(table, rows):
    index = nl.load(rows)
    start = nl.load(rows[0:1])
    picked = nl.ndarray((16, 32), dtype=table.dtype, buffer=nl.sbuf)
    source = table.ap([[32, 16], [1, 32]], vector_offset=index, scalar_offset=start)  # here
    nisa.dma_copy(dst=picked, src=source)
    return stored(picked)


def good_S024(table, rows):
    index = nl.load(rows)
    picked = nl.ndarray((16, 32), dtype=table.dtype, buffer=nl.sbuf)
    source = table.ap([[32, 16], [1, 32]], vector_offset=index)
    nisa.dma_copy(dst=picked, src=source)
    return stored(picked)


@twin(f32(64, 32), u32(16, 1, below=64))
def bad_S025(table, rows):
    index = nl.load(rows, dtype=nl.float32)
    picked = nl.ndarray((16, 32), dtype=table.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=picked, src=table.ap([[32, 16], [1, 32]], vector_offset=index))  # here
    return stored(picked)


def good_S025(table, rows):
    index = nl.load(rows)
    picked = nl.ndarray((16, 32), dtype=table.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=picked, src=table.ap([[32, 16], [1, 32]], vector_offset=index))
    return stored(picked)


@twin(f32(64, 32), u32(1, 4, below=32))
def bad_S025_scalar(table, columns):
    index = nl.load(columns)
    picked = nl.ndarray((64, 1), dtype=table.dtype, buffer=nl.sbuf)
    column = table.ap([[32, 64], [1, 1]], scalar_offset=index, indirect_dim=1)  # here
    nisa.dma_copy(dst=picked, src=column)
    return stored(picked)


def good_S025_scalar(table, columns):
    index = nl.load(columns)
    picked = nl.ndarray((64, 1), dtype=table.dtype, buffer=nl.sbuf)
    column = table.ap([[32, 64], [1, 1]], scalar_offset=index[0:1, 2:3], indirect_dim=1)
    nisa.dma_copy(dst=picked, src=column)
    return stored(picked)


@twin(f32(64, 32), u32(16, 1, below=64))
def bad_S026(table, rows):
    index = nl.load(rows)
    total = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.sbuf)
    picked = table.ap([[32, 16], [1, 32]], vector_offset=index)
    nisa.activation(dst=total, op=nl.exp, data=picked)  # here
    return stored(total)


def good_S026(table, rows):
    index = nl.load(rows)
    total = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.sbuf)
    picked = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=picked, src=table.ap([[32, 16], [1, 32]], vector_offset=index))
    nisa.activation(dst=total, op=nl.exp, data=picked)
    return stored(total)


@twin(f32(64, 16))
def bad_S027(a):
    tile = nl.load(a)
    halves = tile.ap([[16, 64], [1, 16]], dtype=nl.uint16)  # here
    return stored(halves)


def good_S027(a):
    tile = nl.load(a)
    halves = tile.ap([[32, 64], [1, 32]], dtype=nl.uint16)
    return stored(halves)
