"""Twins about products on the Tensor engine and their accumulation in PSUM."""

import ml_dtypes
import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import ALL, GEN2_3, GEN3_UP, bf16, f8, f32, i32, twin
from tiles import stored

# -- shapes of a product -------------------------------------------------------------------------


@twin(bf16(64, 128), bf16(128, 512))
def S028(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)  # bad here
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile[0:64])  # good
    return stored(acc)


@twin(bf16(64, 256), bf16(64, 128))
def S029(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((128, 2, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)  # bad here
    for m in range(2):  # good
        block = a_tile[:, m * 128 : (m + 1) * 128]
        nisa.nc_matmul(dst=acc[:, m], stationary=block, moving=b_tile)
    return stored(acc)


@twin(bf16(64, 64), bf16(64, 1024), targets=GEN2_3)
def S030(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((64, 1024), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)  # bad here
    for n in range(0, 1024, 512):  # good
        nisa.nc_matmul(dst=acc[:, n : n + 512], stationary=a_tile, moving=b_tile[:, n : n + 512])
    return stored(acc)


@twin(bf16(64, 32), bf16(64, 128))
def S031(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((128, 32), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)  # bad here
    nisa.nc_matmul(dst=acc, stationary=b_tile, moving=a_tile)  # good
    return stored(acc)


@twin(bf16(128, 128), bf16(128, 256))
def S032(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, a_tile, b_tile, tile_position=(0, 0), tile_size=(64, 128))  # bad here
    for k in (0, 64):  # good
        rows = slice(k, k + 64)
        nisa.nc_matmul(acc, a_tile[rows], b_tile[rows], tile_position=(k, 0), tile_size=(64, 128))
    return stored(acc)


@twin(f8(128, 4, 64), f8(128, 4, 128), targets=GEN3_UP)
def S034(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, a_tile, b_tile, perf_mode=nisa.matmul_perf_mode.double_row)  # bad here
    mode = nisa.matmul_perf_mode.double_row  # good
    for k in (0, 2):  # good
        nisa.nc_matmul(acc, a_tile[:, k : k + 2], b_tile[:, k : k + 2], perf_mode=mode)
    return stored(acc)


@twin(bf16(128, 64), bf16(128, 128))
def S035(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, a_tile[64:128], b_tile[64:128], tile_position=(64, 0))  # bad here
    low = slice(64, 128)  # good
    nisa.nc_matmul(  # good
        acc, a_tile[low], b_tile[low], tile_position=(64, 0), tile_size=(64, 128)
    )
    return stored(acc)


@twin(bf16(64, 64), bf16(64, 128))
def S072(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, a_tile, b_tile, tile_position=(0, 64), tile_size=(64, 64))  # bad here
    nisa.nc_matmul(acc, a_tile, b_tile, tile_position=(0, 0), tile_size=(64, 128))  # good
    return stored(acc)


@twin(bf16(32, 64), bf16(32, 128), targets=("gen2",))
def S035_small(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, a_tile, b_tile, tile_position=(0, 0), tile_size=(32, 128))  # bad here
    nisa.nc_matmul(acc, a_tile, b_tile, tile_position=(0, 0), tile_size=(64, 128))  # good
    return stored(acc)


@twin(bf16(32, 64), bf16(64, 128))
def S061(a, b):
    return stored(nl.matmul(nl.load(a), nl.load(b)))  # bad here
    return stored(nl.matmul(nl.load_transpose2d(a), nl.load(b), transpose_x=True))  # good


@twin(bf16(64, 256), bf16(64, 128))
def S001_matmul(a, b):
    return stored(nl.matmul(nl.load(a), nl.load(b), transpose_x=True))  # bad here
    return stored(nl.matmul(nl.load(a)[:, 0:128], nl.load(b), transpose_x=True))  # good


@twin(f32(64, 1), f32(64, 32))
def S066(x, a):
    x_tile, a_tile = nl.load(x), nl.load(a)
    acc = nl.ndarray((32, 1), dtype=nl.float32, buffer=nl.psum)  # bad
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=x_tile)  # bad here
    acc = nl.ndarray((1, 32), dtype=nl.float32, buffer=nl.psum)  # good
    nisa.nc_matmul(dst=acc, stationary=x_tile, moving=a_tile)  # good
    return stored(acc)


@twin(bf16(64, 32), bf16(64, 128))
def S071_matmul(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a_tile[0:32], moving=b_tile[32:64])  # bad here
    nisa.nc_matmul(dst=acc, stationary=a_tile[32:64], moving=b_tile[32:64])  # good
    return stored(acc)


# -- types of a product --------------------------------------------------------------------------


@twin(i32(64, 32), i32(64, 128))
def D002(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)  # bad
    a_tile, b_tile = nl.load(a, dtype=nl.bfloat16), nl.load(b, dtype=nl.bfloat16)  # good
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)  # here
    return stored(acc)


@twin(f32(64, 32), bf16(64, 128))
def D003(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)  # bad
    a_tile, b_tile = nl.load(a, dtype=nl.bfloat16), nl.load(b)  # good
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)  # here
    return stored(acc)


@twin(bf16(64, 32), bf16(64, 128), targets=GEN2_3)
def D004(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((32, 128), dtype=nl.bfloat16, buffer=nl.psum)  # bad
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)  # good
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)  # here
    return stored(acc)


@twin(bf16(64, 32), bf16(64, 128), targets=ALL)
def D004_half(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((32, 128), dtype=nl.float16, buffer=nl.psum)  # bad
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)  # good
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)  # here
    return stored(acc)


_FN = f32(64, 32).astype(ml_dtypes.float8_e4m3fn)


@twin(_FN, bf16(64, 128), fixed=(f8(64, 32), bf16(64, 128)))
def D005(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile)  # here
    return stored(acc)


@twin(bf16(64, 2, 32), bf16(64, 2, 128), targets=GEN3_UP)
def D006(a, b):
    a_tile, b_tile = nl.load(a), nl.load(b)  # bad
    a_tile, b_tile = nl.load(a, dtype=nl.float8_e4m3), nl.load(b, dtype=nl.float8_e4m3)  # good
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, a_tile, b_tile, perf_mode=nisa.matmul_perf_mode.double_row)  # here
    return stored(acc)


@twin(f32(64, 32), np.full((64, 32), 0.5, np.float32))
def D010(a, b):
    acc = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.psum)
    a_tile, b_tile = nl.load(a), nl.load(b)
    nisa.nc_matmul(acc, a_tile, b_tile, is_moving_onezero=True)  # bad here
    nisa.nc_matmul(acc, a_tile, b_tile)  # good
    return stored(acc)


# -- where operands and results live -------------------------------------------------------------


@twin(bf16(64, 32), bf16(64, 512), targets=GEN2_3)
def M011(a, b):
    pairs = nl.ndarray((32, 1024), dtype=nl.float32, buffer=nl.psum)
    evens = pairs[:, 0:1024:2]  # bad
    nisa.nc_matmul(dst=evens, stationary=nl.load(a), moving=nl.load(b))  # bad here
    return stored(evens)  # bad
    first = pairs[:, 0:512]  # good
    nisa.nc_matmul(dst=first, stationary=nl.load(a), moving=nl.load(b))  # good
    return stored(first)  # good


@twin(bf16(64, 32), bf16(64, 512), targets=GEN2_3)
def M012(a, b):
    banks = nl.ndarray((32, 1024), dtype=nl.float32, buffer=nl.psum)
    middle = banks[:, 256:768]  # bad
    nisa.nc_matmul(dst=middle, stationary=nl.load(a), moving=nl.load(b))  # bad here
    return stored(middle)  # bad
    second = banks[:, 512:1024]  # good
    nisa.nc_matmul(dst=second, stationary=nl.load(a), moving=nl.load(b))  # good
    return stored(second)  # good


@twin(bf16(32, 64), bf16(64, 128))
def M019(a, b):
    turned = nl.ndarray((64, 32), dtype=nl.bfloat16, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=nl.load(a))
    at = nl.ndarray((64, 32), dtype=nl.bfloat16, buffer=nl.sbuf)  # good
    nisa.tensor_copy(dst=at, src=turned)  # good
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=turned, moving=nl.load(b))  # bad here
    nisa.nc_matmul(dst=acc, stationary=at, moving=nl.load(b))  # good
    return stored(acc)


@twin(bf16(64, 32), bf16(64, 128))
def M019_hbm(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=b)  # bad here
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))  # good
    return stored(acc)


@twin(bf16(64, 32), bf16(64, 128))
def M020(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)  # bad
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)  # good
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))  # here
    return stored(acc)


@twin(bf16(64, 128))
def M020_transpose(a):
    turned = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.sbuf)  # bad
    turned = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.psum)  # good
    nisa.nc_transpose(dst=turned, data=nl.load(a))  # here
    return stored(turned)


# -- accumulation --------------------------------------------------------------------------------


@twin(bf16(128, 32), bf16(128, 128))
def M003(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    a_tile, b_tile = nl.load(a), nl.load(b)
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile, accumulate=True)  # bad here
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile, accumulate=False)  # good
    return stored(acc)


@twin(bf16(128, 32), bf16(128, 128), targets=GEN2_3)
def M004(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    a_tile, b_tile = nl.load(a), nl.load(b)
    nisa.memset(dst=acc, value=0.0)  # bad
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile, accumulate=True)  # bad here
    nisa.nc_matmul(dst=acc, stationary=a_tile, moving=b_tile, accumulate=False)  # good
    return stored(acc)


@twin(bf16(2, 64, 32), bf16(2, 64, 128))
def M042_scaled(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, nl.load(a[0]), nl.load(b[0]), accumulate=False)  # bad
    nisa.tensor_scalar(dst=acc, data=acc, op0=nl.multiply, operand0=0.5)  # bad
    half = nl.load(b[0])  # good
    nisa.tensor_scalar(dst=half, data=half, op0=nl.multiply, operand0=0.5)  # good
    nisa.nc_matmul(acc, nl.load(a[0]), half, accumulate=False)  # good
    nisa.nc_matmul(acc, nl.load(a[1]), nl.load(b[1]), accumulate=True)  # here
    return stored(acc)


@twin(bf16(2, 64, 32), bf16(2, 64, 128))
def M042(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    result = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    for k in range(2):
        nisa.nc_matmul(acc, nl.load(a[k]), nl.load(b[k]), accumulate=(k > 0))  # here
        nisa.tensor_copy(dst=result, src=acc)  # bad
    nisa.tensor_copy(dst=result, src=acc)  # good
    return stored(result)


@twin(bf16(64, 32), bf16(64, 256))
def M043(a, b):
    out = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    tile = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    for n in (0, 128):
        nisa.nc_matmul(acc, nl.load(a), nl.load(b[:, n : n + 128]))  # bad here
        nisa.nc_matmul(acc, nl.load(a), nl.load(b[:, n : n + 128]), accumulate=False)  # good
        nisa.tensor_copy(dst=tile, src=acc)
        nisa.dma_copy(dst=out[:, n : n + 128], src=tile)
    return out


@twin(bf16(64, 32), bf16(2, 64, 256))
def M043_second_loop(a, b):
    outs = nl.ndarray((2, 32, 256), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.psum)
    tile = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.sbuf)
    nisa.nc_matmul(acc, nl.load(a), nl.load(b[0]))
    nisa.tensor_copy(dst=tile, src=acc)
    nisa.dma_copy(dst=outs[0], src=tile)
    acc = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.psum)  # good
    for n in (0, 128):  # other parts of the same tile
        nisa.nc_matmul(acc[:, n : n + 128], nl.load(a), nl.load(b[1, :, n : n + 128]))  # here
    nisa.tensor_copy(dst=tile, src=acc)
    nisa.dma_copy(dst=outs[1], src=tile)
    return outs


@twin(bf16(2, 64, 32), bf16(2, 64, 256))
def M052(a, b):
    sums = nl.ndarray((32, 256), dtype=nl.float32, buffer=nl.psum)
    for k in range(2):  # bad
        for n in (0, 128):
            moving = nl.load(b[k, :, n : n + 128])
            nisa.nc_matmul(sums[:, n : n + 128], nl.load(a[k]), moving)  # here
    for n in (0, 128):  # good
        for k in range(2):
            moving = nl.load(b[k, :, n : n + 128])
            nisa.nc_matmul(sums[:, n : n + 128], nl.load(a[k]), moving)
    return stored(sums)
