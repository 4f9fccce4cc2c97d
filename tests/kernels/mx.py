"""Twins about MX numbers: quantising and multiplying blocks with shared scales."""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN2_3, GEN4, bf16, f16, f32, guard, twin
from packs import pack
from tiles import stored


def words(partitions, count, dtype="float8_e4m3fn_x4"):
    """Packed normal numbers, ``count`` words in each partition."""
    return pack(f32(partitions, 4 * count), dtype)


def scales(partitions, count):
    """Scales of one, in every row."""
    return np.full((partitions, count), 127, np.uint8)


# -- quantize_mx -----------------------------------------------------------------------------------


@twin(bf16(48, 64), targets=GEN4)
def S038_partitions(a):
    packed = nl.ndarray((48, 16), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)  # bad
    scale = nl.ndarray((48, 16), dtype=nl.uint8, buffer=nl.sbuf)  # bad
    nisa.quantize_mx(dst=packed, src=nl.load(a), dst_scale=scale)  # bad here
    tile = nl.ndarray((64, 64), dtype=nl.bfloat16, buffer=nl.sbuf)  # good
    nisa.memset(dst=tile, value=0)  # good
    nisa.dma_copy(dst=tile[0:48], src=a)  # good
    packed = nl.ndarray((64, 16), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)  # good
    scale = nl.ndarray((64, 16), dtype=nl.uint8, buffer=nl.sbuf)  # good
    nisa.quantize_mx(dst=packed, src=tile, dst_scale=scale)  # good
    return stored(packed)


@twin(bf16(32, 64), targets=GEN4)
def S038_unpacked(a):
    packed = nl.ndarray(a.shape, dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)  # bad
    packed = nl.ndarray((32, a.shape[1] // 4), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)  # good
    scale = nl.ndarray((4, 16), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.quantize_mx(dst=packed, src=nl.load(a), dst_scale=scale)  # here
    return stored(packed)


@twin(bf16(128, 64), targets=GEN4)
def S037_dense(a):
    packed = nl.ndarray((128, 16), dtype=nl.float8_e5m2_x4, buffer=nl.sbuf)
    scale = nl.ndarray((128 // 8, 16), dtype=nl.uint8, buffer=nl.sbuf)  # bad
    scale = nl.ndarray((128, 16), dtype=nl.uint8, buffer=nl.sbuf)  # good
    nisa.quantize_mx(dst=packed, src=nl.load(a), dst_scale=scale)  # here
    return stored(packed)


@twin(bf16(64, 32), targets=GEN4)
def M044_offset(a):
    packed = nl.ndarray((64, 8), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    shared = nl.ndarray((64, 8), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.quantize_mx(dst=packed, src=nl.load(a), dst_scale=shared[2:])  # bad here
    nisa.quantize_mx(dst=packed, src=nl.load(a), dst_scale=shared[4:])  # good
    return stored(packed)


@twin(f32(32, 64), targets=GEN4)
def D037_source(a):
    narrow = nl.ndarray((32, 64), dtype=nl.bfloat16, buffer=nl.sbuf)  # good
    nisa.tensor_copy(dst=narrow, src=nl.load(a))  # good
    packed = nl.ndarray((32, 16), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    scale = nl.ndarray((4, 16), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.quantize_mx(dst=packed, src=nl.load(a), dst_scale=scale)  # bad here
    nisa.quantize_mx(dst=packed, src=narrow, dst_scale=scale)  # good
    return stored(packed)


@twin(f16(32, 64), targets=GEN4)
def D037_float4(a):
    packed = nl.ndarray((32, 16), dtype=nl.float4_e2m1fn_x4, buffer=nl.sbuf)  # bad
    packed = nl.ndarray((32, 16), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)  # good
    scale = nl.ndarray((4, 16), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.quantize_mx(dst=packed, src=nl.load(a), dst_scale=scale)  # here
    return stored(packed)


@twin(bf16(32, 64), targets=GEN2_3)
def A033_quantize(a):
    packed = nl.ndarray((32, 16), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)  # bad
    scale = nl.ndarray((4, 16), dtype=nl.uint8, buffer=nl.sbuf)  # bad
    nisa.quantize_mx(dst=packed, src=nl.load(a), dst_scale=scale)  # bad here
    return stored(packed)  # bad
    narrow = nl.ndarray((32, 64), dtype=nl.float8_e4m3, buffer=nl.sbuf)  # good
    nisa.tensor_copy(dst=narrow, src=nl.load(a))  # good
    return stored(narrow)  # good


# -- nc_matmul_mx ----------------------------------------------------------------------------------


@twin(words(64, 7), words(64, 32), scales(64, 7), scales(64, 32), targets=GEN4)
def S036_odd(a, b, a_scale, b_scale):
    acc = nl.ndarray((7, 32), dtype=nl.float32, buffer=nl.psum)  # bad
    nisa.nc_matmul_mx(acc, nl.load(a), nl.load(b), nl.load(a_scale), nl.load(b_scale))  # bad here
    return stored(acc)  # bad
    even = nl.ndarray((64, 8), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)  # good
    nisa.memset(dst=even, value=0)  # good
    nisa.dma_copy(dst=even[:, 0:7], src=a)  # good
    even_scale = nl.ndarray((64, 8), dtype=nl.uint8, buffer=nl.sbuf)  # good
    nisa.memset(dst=even_scale, value=0)  # good
    nisa.dma_copy(dst=even_scale[:, 0:7], src=a_scale)  # good
    acc = nl.ndarray((8, 32), dtype=nl.float32, buffer=nl.psum)  # good
    nisa.nc_matmul_mx(acc, even, nl.load(b), even_scale, nl.load(b_scale))  # good
    return stored(acc[0:7])  # good


@twin(words(32, 8), words(32, 1024), scales(4, 8), scales(4, 1024), targets=GEN4)
def S036_moving(a, b, a_scale, b_scale):
    acc = nl.ndarray((8, 1024), dtype=nl.float32, buffer=nl.psum)  # bad
    acc = nl.ndarray((8, 1024), dtype=nl.bfloat16, buffer=nl.psum)  # good
    nisa.nc_matmul_mx(acc, nl.load(a), nl.load(b), nl.load(a_scale), nl.load(b_scale))  # here
    return stored(acc)


@twin(words(64, 64), words(64, 32), scales(64, 64), scales(64, 32), targets=GEN4)
def S036_columns(a, b, a_scale, b_scale):
    acc = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.psum)
    scales = nl.load(a_scale), nl.load(b_scale)
    where, size = (0, 0), (64, 64)  # bad
    where, size = (0, 0), (64, 128)  # good
    a, b = nl.load(a), nl.load(b)
    nisa.nc_matmul_mx(acc, a, b, scales[0], scales[1], tile_position=where, tile_size=size)  # here
    return stored(acc)


@twin(words(64, 8), words(64, 32), scales(8, 8), scales(8, 32), targets=GEN4)
def S037_offline(a, b, a_scale, b_scale):
    spread = []  # good
    for scale in (a_scale, b_scale):  # good
        tile = nl.ndarray((64, scale.shape[1]), dtype=nl.uint8, buffer=nl.sbuf)
        for quadrant in range(2):
            rows = slice(32 * quadrant, 32 * quadrant + 4)
            nisa.dma_copy(dst=tile[rows], src=scale[4 * quadrant : 4 * quadrant + 4])
        spread.append(tile)
    acc = nl.ndarray((8, 32), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul_mx(acc, nl.load(a), nl.load(b), nl.load(a_scale), nl.load(b_scale))  # bad here
    nisa.nc_matmul_mx(acc, nl.load(a), nl.load(b), spread[0], spread[1])  # good
    return stored(acc)


@twin(words(64, 8), words(64, 32), scales(4, 8), scales(4, 32), targets=GEN4)
def M044_quadrant(a, b, a_scale, b_scale):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((8, 32), dtype=nl.float32, buffer=nl.psum)
    a_scales, b_scales = nl.load(a_scale), nl.load(b_scale)  # bad
    nisa.nc_matmul_mx(acc, a_tile[32:64], b_tile[32:64], a_scales, b_scales)  # bad here
    a_scales = nl.ndarray((64, 8), dtype=nl.uint8, buffer=nl.sbuf)  # good
    b_scales = nl.ndarray((64, 32), dtype=nl.uint8, buffer=nl.sbuf)  # good
    nisa.dma_copy(dst=a_scales[32:36], src=a_scale)  # good
    nisa.dma_copy(dst=b_scales[32:36], src=b_scale)  # good
    nisa.nc_matmul_mx(acc, a_tile[32:64], b_tile[32:64], a_scales[32:36], b_scales[32:36])  # good
    return stored(acc)


@twin(
    words(32, 8).view(np.uint8),
    words(32, 32).view(np.uint8),
    scales(4, 8),
    scales(4, 32),
    targets=GEN4,
)
def D037_bytes(a, b, a_scale, b_scale):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)  # bad
    a_tile, b_tile = nl.load(a), nl.load(b)  # bad
    acc = nl.ndarray((8, 32), dtype=nl.float32, buffer=nl.psum)  # good
    a_tile = nl.load(a).view(nl.float8_e4m3fn_x4)  # good
    b_tile = nl.load(b).view(nl.float8_e4m3fn_x4)  # good
    nisa.nc_matmul_mx(acc, a_tile, b_tile, nl.load(a_scale), nl.load(b_scale))  # here
    return stored(acc)


# -- legal -----------------------------------------------------------------------------------------


@guard(bf16(128, 64), bf16(128, 128), targets=GEN4)
def scales_of_two_tensors_in_one_tile(a, b):
    shared = nl.ndarray((128, 32), dtype=nl.uint8, buffer=nl.sbuf)
    a_words = nl.ndarray((128, 16), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    b_words = nl.ndarray((128, 32), dtype=nl.float8_e5m2_x4, buffer=nl.sbuf)
    a_scale, b_scale = shared[0:, 0:16], shared[4:, :]
    nisa.quantize_mx(dst=a_words, src=nl.load(a), dst_scale=a_scale)
    nisa.quantize_mx(dst=b_words, src=nl.load(b), dst_scale=b_scale)
    acc = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.psum)
    for k in range(2):
        nisa.nc_matmul_mx(acc, a_words, b_words, a_scale, b_scale, accumulate=k > 0)
    return stored(acc)
