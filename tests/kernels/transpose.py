"""Twins about transposes on the Tensor, Vector and DMA engines."""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN2, GEN3_UP, bf16, f8, f32, i32, twin, u32
from tiles import stored

# -- on the engines of a core --------------------------------------------------------------------


@twin(bf16(64, 128))
def bad_S039(a):
    tile = nl.load(a)
    turned = nl.ndarray((64, 128), dtype=a.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)  # here
    return stored(turned)


def good_S039(a):
    tile = nl.load(a)
    turned = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)
    return stored(turned)


@twin(bf16(64, 256))
def bad_S039_wide(a):
    tile = nl.load(a)
    turned = nl.ndarray((128, 2, 64), dtype=a.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)  # here
    return stored(turned)


def good_S039_wide(a):
    tile = nl.load(a)
    turned = nl.ndarray((128, 2, 64), dtype=a.dtype, buffer=nl.psum)
    for i in range(2):
        nisa.nc_transpose(dst=turned[:, i], data=tile[:, i * 128 : (i + 1) * 128])
    return stored(turned)


@twin(bf16(64, 4, 16))
def bad_S040(a):
    tile = nl.load(a)
    turned = nl.ndarray((16, 4, 64), dtype=a.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)  # here
    return stored(turned)


def good_S040(a):
    tile = nl.load(a)
    turned = nl.ndarray((16, 4, 64), dtype=a.dtype, buffer=nl.psum)
    for i in range(4):
        nisa.nc_transpose(dst=turned[:, i], data=tile[:, i])
    return stored(turned)


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


@twin(f32(64, 64))
def bad_A046(a):
    tile = nl.load(a)
    turned = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile, engine=nisa.engine.vector)  # here
    return stored(turned)


def good_A046(a):
    tile = nl.load(a)
    turned = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)
    return stored(turned)


# -- by DMA --------------------------------------------------------------------------------------


@twin(bf16(32, 4, 64))
def bad_S041(a):
    turned = nl.ndarray((64, 4, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=a, axes=(2, 0, 1))  # here
    return stored(turned)


def good_S041(a):
    turned = nl.ndarray((64, 4, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=a, axes=(2, 1, 0))
    return stored(turned)


@twin(bf16(32, 128), targets=GEN3_UP)
def bad_S042(a):
    turned = nl.ndarray((128, 32), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=a, dge_mode=nisa.dge_mode.hwdge)  # here
    return stored(turned)


def good_S042(a):
    turned = nl.ndarray((128, 32), dtype=a.dtype, buffer=nl.sbuf)
    for r in (0, 16):
        part = turned[:, r : r + 16]
        nisa.dma_transpose(dst=part, src=a[r : r + 16], dge_mode=nisa.dge_mode.hwdge)
    return stored(turned)


@twin(bf16(64, 128), u32(24, 1, below=64), targets=GEN3_UP)
def bad_S043(table, rows):
    index = nl.load(rows)
    picked = table.ap([[128, 24], [1, 128]], vector_offset=index)
    turned = nl.ndarray((128, 24), dtype=table.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=picked, axes=(1, 0))  # here
    return stored(turned)


def good_S043(table, rows):
    index = nl.load(rows[0:16])
    picked = table.ap([[128, 16], [1, 128]], vector_offset=index)
    turned = nl.ndarray((128, 16), dtype=table.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=picked, axes=(1, 0))
    return stored(turned)


@twin(bf16(64, 128), i32(16, 1, below=64), targets=GEN3_UP)
def bad_S043_index(table, rows):
    index = nl.load(rows)
    picked = table.ap([[128, 16], [1, 128]], vector_offset=index)
    turned = nl.ndarray((128, 16), dtype=table.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=picked, axes=(1, 0))  # here
    return stored(turned)


def good_S043_index(table, rows):
    index = nl.load(rows, dtype=nl.uint32)
    picked = table.ap([[128, 16], [1, 128]], vector_offset=index)
    turned = nl.ndarray((128, 16), dtype=table.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=picked, axes=(1, 0))
    return stored(turned)


@twin(f32(16, 128), targets=GEN3_UP)
def bad_D034(a):
    turned = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=a, dge_mode=nisa.dge_mode.hwdge)  # here
    return stored(turned)


def good_D034(a):
    turned = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=a)
    return stored(turned)


@twin(f8(64, 128))
def bad_D034_byte(a):
    tile = nl.load(a)
    turned = nl.ndarray((128, 64), dtype=tile.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=tile)  # here
    return stored(turned)


def good_D034_byte(a):
    tile = nl.load(a, dtype=nl.bfloat16)
    turned = nl.ndarray((128, 64), dtype=tile.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=tile)
    return stored(turned)


@twin(f8(64, 128), np.eye(64).astype(f8(1).dtype), targets=GEN3_UP)
def bad_D008_matmul(a, one):
    turned = nl.ndarray((128, 64), dtype=nl.float8_e4m3, buffer=nl.psum)
    identity = nl.load(one)
    nisa.nc_matmul(dst=turned, stationary=nl.load(a), moving=identity, is_transpose=True)  # here
    return stored(turned)


def good_D008_matmul(a, one):
    turned = nl.ndarray((128, 64), dtype=nl.uint16, buffer=nl.psum)
    identity = nl.load(one)
    nisa.nc_matmul(dst=turned, stationary=nl.load(a), moving=identity, is_transpose=True)
    return stored(turned)


@twin(f8(64, 128), targets=GEN3_UP)
def bad_D008_wide(a):
    turned = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=nl.load(a))  # here
    return stored(turned)


def good_D008_wide(a):
    turned = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=nl.load(a))
    return stored(turned)


@twin(f32(64, 128), 2 * np.eye(64, dtype=np.float32), targets=GEN3_UP)
def bad_D049(a, scale):
    turned = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
    tile, twice = nl.load(a), nl.load(scale)
    nisa.nc_matmul(dst=turned, stationary=tile, moving=twice, is_transpose=True)  # here
    return stored(turned)


def good_D049(a, scale):
    turned = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
    tile, twice = nl.load(a), nl.load(scale)
    nisa.nc_matmul(dst=turned, stationary=tile, moving=twice)
    return stored(turned)


@twin(
    np.where(np.eye(64, 32) > 0, np.float32(np.inf), f32(64, 32)),
    np.eye(64, dtype=np.float32),
    targets=GEN2,
)
def bad_D009_matmul(a, one):
    turned = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.psum)
    tile, identity = nl.load(a), nl.load(one)
    nisa.nc_matmul(dst=turned, stationary=tile, moving=identity, is_transpose=True)  # here
    return stored(turned)


def good_D009_matmul(a, one):
    turned = nl.ndarray((32, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=a)
    return stored(turned), stored(nl.load(one))
