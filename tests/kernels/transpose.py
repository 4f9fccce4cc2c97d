"""Twins about transposes on the Tensor, Vector and DMA engines."""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN2, GEN3_UP, bf16, f8, f32, i32, twin, u32
from tiles import stored

# -- on the engines of a core --------------------------------------------------------------------


@twin(bf16(64, 128))
def S039(a):
    tile = nl.load(a)
    turned = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.psum)  # bad
    turned = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.psum)  # good
    nisa.nc_transpose(dst=turned, data=tile)  # here
    return stored(turned)


@twin(bf16(64, 256))
def S039_wide(a):
    tile = nl.load(a)
    turned = nl.ndarray((128, 2, 64), dtype=a.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)  # bad here
    for i in range(2):  # good
        nisa.nc_transpose(dst=turned[:, i], data=tile[:, i * 128 : (i + 1) * 128])
    return stored(turned)


@twin(bf16(64, 4, 16))
def S040(a):
    tile = nl.load(a)
    turned = nl.ndarray((16, 4, 64), dtype=a.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)  # bad here
    for i in range(4):  # good
        nisa.nc_transpose(dst=turned[:, i], data=tile[:, i])
    return stored(turned)


@twin(bf16(64, 128))
def D007(a):
    tile = nl.load(a)
    turned = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)  # bad
    turned = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.psum)  # good
    nisa.nc_transpose(dst=turned, data=tile)  # here
    return stored(turned)


@twin(f8(64, 128), targets=GEN3_UP)
def D008(a):
    tile = nl.load(a)  # bad
    turned = nl.ndarray((128, 64), dtype=nl.float8_e4m3, buffer=nl.psum)  # bad
    tile = nl.load(a, dtype=nl.bfloat16)  # good
    turned = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.psum)  # good
    nisa.nc_transpose(dst=turned, data=tile)  # here
    return stored(turned)


@twin(np.where(np.eye(64, 32) > 0, np.float32(np.nan), f32(64, 32)), targets=GEN2)
def D009(a):
    tile = nl.load(a)  # bad
    turned = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.psum)  # bad
    nisa.nc_transpose(dst=turned, data=tile)  # bad here
    turned = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.dma_transpose(dst=turned, src=a)  # good
    return stored(turned)


@twin(f32(64, 64))
def A046(a):
    tile = nl.load(a)
    turned = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile, engine=nisa.engine.vector)  # bad here
    nisa.nc_transpose(dst=turned, data=tile)  # good
    return stored(turned)


# -- by DMA --------------------------------------------------------------------------------------


@twin(bf16(32, 4, 64))
def S041(a):
    turned = nl.ndarray((64, 4, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=a, axes=(2, 0, 1))  # bad here
    nisa.dma_transpose(dst=turned, src=a, axes=(2, 1, 0))  # good
    return stored(turned)


@twin(bf16(32, 128), targets=GEN3_UP)
def S042(a):
    turned = nl.ndarray((128, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=a, dge_mode=nisa.dge_mode.hwdge)  # bad here
    for r in (0, 16):  # good
        part = turned[:, r : r + 16]
        nisa.dma_transpose(dst=part, src=a[r : r + 16], dge_mode=nisa.dge_mode.hwdge)
    return stored(turned)


@twin(bf16(64, 128), u32(24, 1, below=64), targets=GEN3_UP)
def S043(table, rows):
    index = nl.load(rows)  # bad
    picked = table.ap([[128, 24], [1, 128]], vector_offset=index)  # bad
    turned = nl.ndarray((128, 24), dtype=table.dtype, buffer=nl.sbuf)  # bad
    index = nl.load(rows[0:16])  # good
    picked = table.ap([[128, 16], [1, 128]], vector_offset=index)  # good
    turned = nl.ndarray((128, 16), dtype=table.dtype, buffer=nl.sbuf)  # good
    nisa.dma_transpose(dst=turned, src=picked, axes=(1, 0))  # here
    return stored(turned)


@twin(bf16(64, 128), i32(16, 1, below=64), targets=GEN3_UP)
def S043_index(table, rows):
    index = nl.load(rows)  # bad
    index = nl.load(rows, dtype=nl.uint32)  # good
    picked = table.ap([[128, 16], [1, 128]], vector_offset=index)
    turned = nl.ndarray((128, 16), dtype=table.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=picked, axes=(1, 0))  # here
    return stored(turned)


@twin(f32(16, 128), targets=GEN3_UP)
def D034(a):
    turned = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=a, dge_mode=nisa.dge_mode.hwdge)  # bad here
    nisa.dma_transpose(dst=turned, src=a)  # good
    return stored(turned)


@twin(f8(64, 128))
def D034_byte(a):
    tile = nl.load(a)  # bad
    tile = nl.load(a, dtype=nl.bfloat16)  # good
    turned = nl.ndarray((128, 64), dtype=tile.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=tile)  # here
    return stored(turned)


@twin(f8(64, 128), np.eye(64).astype(f8(1).dtype), targets=GEN3_UP)
def D008_matmul(a, one):
    turned = nl.ndarray((128, 64), dtype=nl.float8_e4m3, buffer=nl.psum)  # bad
    turned = nl.ndarray((128, 64), dtype=nl.uint16, buffer=nl.psum)  # good
    identity = nl.load(one)
    nisa.nc_matmul(dst=turned, stationary=nl.load(a), moving=identity, is_transpose=True)  # here
    return stored(turned)


@twin(f8(64, 128), targets=GEN3_UP)
def D008_wide(a):
    turned = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)  # bad
    turned = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.psum)  # good
    nisa.nc_transpose(dst=turned, data=nl.load(a))  # here
    return stored(turned)


@twin(f32(64, 128), 2 * np.eye(64, dtype=np.float32), targets=GEN3_UP)
def D049(a, scale):
    turned = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
    tile, twice = nl.load(a), nl.load(scale)
    nisa.nc_matmul(dst=turned, stationary=tile, moving=twice, is_transpose=True)  # bad here
    nisa.nc_matmul(dst=turned, stationary=tile, moving=twice)  # good
    return stored(turned)


@twin(
    np.where(np.eye(64, 32) > 0, np.float32(np.inf), f32(64, 32)),
    np.eye(64, dtype=np.float32),
    targets=GEN2,
)
def D009_matmul(a, one):
    turned = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.psum)  # bad
    tile, identity = nl.load(a), nl.load(one)  # bad
    nisa.nc_matmul(dst=turned, stationary=tile, moving=identity, is_transpose=True)  # bad here
    return stored(turned)  # bad
    turned = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.dma_transpose(dst=turned, src=a)  # good
    return stored(turned), stored(nl.load(one))  # good
