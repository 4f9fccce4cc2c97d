"""Twins about room: what fits into SBUF and PSUM, and explicit addresses."""

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import bf16, f32, i32, twin
from tiles import stored

# -- what fits -----------------------------------------------------------------------------------


@twin(f32(4, 16384))
def M008(rows):
    total = nl.zeros((1, 512), dtype=nl.float32, buffer=nl.sbuf)
    tiles = []  # bad
    for i in range(4):
        tile = nl.ndarray((128, 16384), dtype=nl.float32, buffer=nl.sbuf)  # here
        nisa.dma_copy(dst=tile, src=rows.ap([[0, 128], [1, 16384]], offset=i * 16384))
        tiles.append(tile)  # bad
        nisa.tensor_tensor(dst=total, data1=total, data2=tile[0:1, 0:512], op=nl.add)  # good
    for tile in tiles:  # bad
        nisa.tensor_tensor(dst=total, data1=total, data2=tile[0:1, 0:512], op=nl.add)
    return stored(total)


@twin(f32(3, 64, 32))
def R002(a):
    out = nl.ndarray((3, 64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    slots = []
    for i in range(3):
        slot = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))  # bad here
        slot = nl.ndarray(  # good
            (64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, i % 2 * 128)
        )
        nisa.dma_copy(dst=slot, src=a[i])
        slots.append(slot)
        if i > 0:
            nisa.dma_copy(dst=out[i - 1], src=slots[i - 1])
    nisa.dma_copy(dst=out[2], src=slots[2])
    return out


@twin(f32(64, 32), f32(64, 32))
def M017(a, b):
    out = nl.ndarray((2, 64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    first = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
    nisa.dma_copy(dst=first, src=a)
    nisa.dma_copy(dst=out[0], src=first)
    second = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 32))  # bad here
    second = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 128))  # good
    nisa.dma_copy(dst=second, src=b)
    nisa.dma_copy(dst=out[1], src=second)
    return out


@twin(f32(1, 65536))
def M009(a):
    tile = nl.ndarray((1, 65536), dtype=nl.float32, buffer=nl.sbuf)  # bad here
    nisa.dma_copy(dst=tile, src=a)  # bad
    return stored(tile)  # bad
    out = nl.ndarray((1, 65536), dtype=nl.float32, buffer=nl.shared_hbm)  # good
    for c in range(0, 65536, 8192):  # good
        tile = nl.ndarray((1, 8192), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[:, c : c + 8192])
        nisa.dma_copy(dst=out[:, c : c + 8192], src=tile)
    return out  # good


@twin(bf16(64, 128), bf16(9, 64, 128))
def M010(a, b):
    out = nl.ndarray((9, 128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
    banks = []  # bad
    for i in range(9):  # bad
        acc = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)  # here
        nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b[i]))
        banks.append(acc)
    for i in range(9):
        nisa.tensor_copy(dst=tile, src=banks[i])  # bad
        acc = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)  # good
        nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b[i]))  # good
        nisa.tensor_copy(dst=tile, src=acc)  # good
        nisa.dma_copy(dst=out[i], src=tile)
    return out


@twin(bf16(64, 96), bf16(10, 64, 128))
def M010_three_quarters(a, b):
    out = nl.ndarray((10, 96, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((96, 128), dtype=nl.float32, buffer=nl.sbuf)
    banks = []  # bad
    for i in range(10):  # bad
        acc = nl.ndarray((96, 128), dtype=nl.float32, buffer=nl.psum)  # here
        nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b[i]))
        banks.append(acc)
    for i in range(10):
        nisa.tensor_copy(dst=tile, src=banks[i])  # bad
        acc = nl.ndarray((96, 128), dtype=nl.float32, buffer=nl.psum)  # good
        nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b[i]))  # good
        nisa.tensor_copy(dst=tile, src=acc)  # good
        nisa.dma_copy(dst=out[i], src=tile)
    return out


# -- addresses -----------------------------------------------------------------------------------


@twin(f32(64, 32), f32(64, 32))
def M013(a, b):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    a_tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
    b_tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 32))  # bad here
    b_tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 128))  # good
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 512))
    nisa.dma_copy(dst=a_tile, src=a)
    nisa.dma_copy(dst=b_tile, src=b)
    nisa.tensor_tensor(dst=total, data1=a_tile, data2=b_tile, op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out


@twin(f32(256, 32), i32(64, 1, below=256))
def M013_index_tile(table, index):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    rows = nl.ndarray((64, 1), dtype=nl.int32, buffer=nl.sbuf, address=(0, 0))
    got = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))  # bad here
    got = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 4))  # good
    nisa.dma_copy(dst=rows, src=index)
    nisa.memset(dst=got, value=0.0)
    view = table.ap(pattern=[[32, 64], [1, 32]], vector_offset=rows, indirect_dim=0)
    nisa.dma_copy(dst=got, src=view, oob_mode=nisa.oob_mode.skip)
    nisa.dma_copy(dst=out, src=got)
    return out


@twin(f32(64, 32))
def M014(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(96, 0))  # bad here
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(64, 0))  # good
    nisa.dma_copy(dst=tile, src=a)
    nisa.dma_copy(dst=out, src=tile)
    return out


@twin(f32(64, 32))
def M014_bytes(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 2**18))  # bad here
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 2**16))  # good
    nisa.dma_copy(dst=tile, src=a)
    nisa.dma_copy(dst=out, src=tile)
    return out


@twin(f32(16, 32))
def M015(a):
    out = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.sbuf, address=(16, 0))  # bad here
    tile = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.sbuf, address=(32, 0))  # good
    nisa.dma_copy(dst=tile, src=a)
    nisa.dma_copy(dst=out, src=tile)
    return out


@twin(f32(64, 32))
def M015_bytes(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 2))  # bad here
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 4))  # good
    nisa.dma_copy(dst=tile, src=a)
    nisa.dma_copy(dst=out, src=tile)
    return out


@twin(f32(64, 32))
def M016(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))  # here
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # bad here
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 128))  # good
    nisa.dma_copy(dst=tile, src=a)
    nisa.activation(dst=total, op=nl.exp, data=tile)
    nisa.dma_copy(dst=out, src=total)
    return out


# -- names ---------------------------------------------------------------------------------------


@twin(f32(2, 64, 32))
def M033(a):
    out = nl.ndarray((2, 64, 32), dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(2):
        tile = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf, name="tile")  # bad here
        tile = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf, name=f"tile_{i}")  # good
        nisa.dma_copy(dst=tile, src=a[i])
        nisa.dma_copy(dst=out[i], src=tile)
    return out
