"""Twins about the 0.3.0 interface: arguments, engines, generations, and what a kernel returns."""

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
import nkisim.typing as nt
from kernels import ALL, GEN2, GEN2_3, GEN3_UP, GEN4, bf16, f32, host_twin, i32, stored, twin

# -- DMA -----------------------------------------------------------------------------------------


@twin(bf16(64, 32), bf16(64, 128))
def bad_A001(a, b):
    out = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))
    nisa.dma_copy(dst=out, src=acc)  # here
    return out


def good_A001(a, b):
    out = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(a), moving=nl.load(b))
    product = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=product, src=acc)
    nisa.dma_copy(dst=out, src=product)
    return out


@twin(f32(64, 32), targets=GEN3_UP)
def bad_A002(a):
    tile = nl.ndarray((64, 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, dge_mode=nisa.dge_mode.hwdge)  # here
    return stored(tile)


def good_A002(a):
    tile = nl.ndarray((64, 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, dge_mode=nisa.dge_mode.swdge)
    return stored(tile)


@twin(f32(64, 32), f32(64, 32))
def bad_A003(a, total):
    tile = nl.load(a)
    nisa.dma_copy(dst=total, src=tile, dst_rmw_op=nl.add)  # here
    return total


def good_A003(a, total):
    tile = nl.load(a)
    nisa.dma_compute(dst=total, srcs=[tile, total], reduce_op=nl.add)
    return total


@twin(f32(64, 32), f32(64, 32))
def bad_A007(a, b):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_compute(out, [a, b], [1.0, 1.0], nl.add)  # here
    return out


def good_A007(a, b):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_compute(out, [a, b], reduce_op=nl.add, scales=[1.0, 1.0])
    return out


@twin(f32(64, 32), targets=GEN3_UP)
def bad_A035(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, engine=nisa.engine.sync)  # here
    return stored(tile)


def good_A035(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    hwdge = nisa.dge_mode.hwdge
    nisa.dma_copy(dst=tile, src=a, dge_mode=hwdge, engine=nisa.engine.sync)
    return stored(tile)


@twin(f32(64, 32), targets=GEN2)
def bad_A036(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, dge_mode=nisa.dge_mode.hwdge)  # here
    return stored(tile)


def good_A036(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a, dge_mode=nisa.dge_mode.unknown)
    return stored(tile)


# -- calls of an earlier release -----------------------------------------------------------------


@twin(i32(64, 32))
def bad_A004(a):
    counts = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=counts, value=0.5)  # here
    return stored(nl.add(counts, nl.load(a)))


def good_A004(a):
    counts = nl.ndarray((64, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=counts, value=0)
    return stored(nl.add(counts, nl.load(a)))


@twin(f32(64, 32), targets=GEN4)
def bad_A005(a):
    packed = nl.ndarray((64, 8), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    nisa.memset(dst=packed, value=1)  # here
    return stored(nl.load(a)), stored(packed)


def good_A005(a):
    packed = nl.ndarray((64, 8), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    nisa.memset(dst=packed, value=0)
    return stored(nl.load(a)), stored(packed)


@twin(f32(64, 8, 16))
def bad_A006(a):
    total = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=nl.load(a), axis=1)  # here
    return stored(total)


def good_A006(a):
    total = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=nl.load(a), axis=2)
    return stored(total)


@twin(f32(64, 32))
def bad_A009(scores):
    tile = nl.load(scores)
    nisa.affine_select(tile, [[-1, 32]], 0, 1, tile, -1e30, nl.greater_equal)  # here
    return stored(tile)


def good_A009(scores):
    tile = nl.load(scores)
    nisa.affine_select(tile, [[-1, 32]], 1, tile, -1e30, nl.greater_equal, offset=0)
    return stored(tile)


@twin(f32(64, 32), needs="register_move")
def bad_A010(a):
    count = nisa.register_alloc()
    nisa.register_move(count, imm=4)  # here
    return stored(nl.load(a))


def good_A010(a):
    count = nisa.register_alloc()
    nisa.register_move(count, src=nisa.register_alloc(4))
    return stored(nl.load(a))


@twin(f32(64, 32))
def bad_A013(a):
    tile = nl.load(a)
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=total, src=tile, engine=5)  # here
    return stored(total)


def good_A013(a):
    tile = nl.load(a)
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=total, src=tile, engine=nisa.engine.vector)
    return stored(total)


@twin(f32(64, 32))
def bad_A014(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer="sbuf")  # here
    nisa.dma_copy(dst=tile, src=a)
    return stored(tile)


def good_A014(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    return stored(tile)


@twin(f32(64, 32), targets=GEN3_UP)
def bad_A015(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    hwdge = nisa.dge_mode.hwdge
    nisa.dma_copy(dst=tile, src=a, dge_mode=hwdge, engine=nisa.dma_engine.dma)  # here
    return stored(tile)


def good_A015(a):
    tile = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    hwdge = nisa.dge_mode.hwdge
    nisa.dma_copy(dst=tile, src=a, dge_mode=hwdge, engine=nisa.engine.scalar)
    return stored(tile)


@twin(f32(64, 32))
def bad_A025(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op=nl.add, operand0=1.0)  # here
    return stored(tile)


def good_A025(a):
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    return stored(tile)


@twin(f32(64, 32))
def bad_A026(a):
    tile = nl.load(a)
    exponential = nisa.activation(op=nl.exp, data=tile)  # here
    return stored(exponential)


def good_A026(a):
    tile = nl.load(a)
    exponential = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=exponential, op=nl.exp, data=tile)
    return stored(exponential)


@twin(f32(64, 32))
def bad_A027(a):
    tile = nl.load(a)
    nisa.activation(dst=tile, op=nl.exp, data=tile, mask=(tile.shape[1] > 16))  # here
    return stored(tile)


def good_A027(a):
    tile = nl.load(a)
    nisa.activation(dst=tile[:, 0:16], op=nl.exp, data=tile[:, 0:16])
    return stored(tile)


@twin(f32(64, 32))
def bad_A028(a):
    tile = nl.load(a)
    half = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=half, src=tile, dtype=nl.bfloat16)  # here
    return stored(half)


def good_A028(a):
    tile = nl.load(a)
    half = nl.ndarray((64, 32), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=half, src=tile)
    return stored(half)


@twin(bf16(64, 32), bf16(64, 128))
def bad_A032(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, nl.load(a), nl.load(b), psumAccumulateFlag=False)  # here
    return stored(acc)


def good_A032(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, nl.load(a), nl.load(b), accumulate=False)
    return stored(acc)


@twin(f32(64, 32))
def bad_A037(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out[0:64, 0:32])  # here
    return out


def good_A037(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out[0:64, 0:32], nl.load(a))
    return out


@twin(f32(64, 64))
def bad_A038(a):
    out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(2, precise_schedule=True):  # here
        nisa.dma_copy(dst=out[:, i * 32 : (i + 1) * 32], src=a[:, i * 32 : (i + 1) * 32])
    return out


def good_A038(a):
    out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        nisa.dma_copy(dst=out[:, i * 32 : (i + 1) * 32], src=a[:, i * 32 : (i + 1) * 32])
    return out


@twin(f32(32, 32), needs="nc_stream_shuffle")
def bad_A048_mask(a):
    tile = nl.load(a)
    swapped = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.sbuf)
    mask = nl.ndarray((1, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=mask, pattern=[[1, 32]])
    nisa.nc_stream_shuffle(dst=swapped, src=tile, shuffle_mask=mask)  # here
    return stored(swapped)


def good_A048_mask(a):
    tile = nl.load(a)
    swapped = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.nc_stream_shuffle(dst=swapped, src=tile, shuffle_mask=list(range(32)))
    return stored(swapped)


@twin(f32(64, 32))
def bad_A048(a):
    tile = nl.load(a)
    wide = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=wide, value=tile[:, 0:1])  # here
    return stored(wide)


def good_A048(a):
    tile = nl.load(a)
    wide = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=wide, src=tile.ap([[32, 64], [0, 128]]))
    return stored(wide)


@twin(f32(64, 64))
def bad_A043(a):
    identity = nl.shared_identity_matrix(256, dtype=nl.float32)  # here
    return stored(nl.matmul(nl.load(identity[0:64, 0:64]), nl.load(a), transpose_x=True))


def good_A043(a):
    identity = nl.shared_identity_matrix(64, dtype=nl.float32)
    return stored(nl.matmul(nl.load(identity[0:64, 0:64]), nl.load(a), transpose_x=True))


@twin(f32(64, 32))
def bad_A044(a):
    tile = nl.load(a)
    nl.device_print("tile", x=tile[0:1, 0:4])  # here
    return stored(tile)


def good_A044(a):
    tile = nl.load(a)
    nl.device_print("tile", tensor=tile[0:1, 0:4])
    return stored(tile)


# -- engines and generations ---------------------------------------------------------------------


@twin(f32(64, 32), targets=GEN2_3)
def bad_A033(a):
    tile = nl.load(a)
    nisa.exponential(dst=tile, src=tile)  # here
    return stored(tile)


def good_A033(a):
    tile = nl.load(a)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    return stored(tile)


@twin(f32(64, 32), targets=ALL)
def bad_A034(a):
    tile = nl.load(a)
    copy = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=tile, engine=nisa.engine.tensor)  # here
    return stored(copy)


def good_A034(a):
    tile = nl.load(a)
    copy = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=tile, engine=nisa.engine.vector)
    return stored(copy)


@twin(f32(64, 32), targets=GEN2)
def bad_A034_scalar(a):
    tile = nl.load(a)
    copy = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=tile, engine=nisa.engine.scalar)  # here
    return stored(copy)


def good_A034_scalar(a):
    tile = nl.load(a)
    copy = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=copy, op=nl.copy, data=tile)
    return stored(copy)


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


# -- what goes in and out of a kernel ------------------------------------------------------------


@twin(f32(64, 32))
def bad_A012(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.private_hbm)  # here
    nisa.dma_copy(dst=out, src=nl.load(a))
    return out


def good_A012(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=nl.load(a))
    return out


@twin([f32(64, 32), f32(64, 32)], mended=((f32(64, 32), f32(64, 32)),))  # here
def bad_A018(pair):  # here
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=nl.load(pair[0]), data2=nl.load(pair[1]), op=nl.add)
    return stored(total)


def good_A018(pair):
    total = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=nl.load(pair[0]), data2=nl.load(pair[1]), op=nl.add)
    return stored(total)


@twin(f32(64, 32))  # here
def bad_A016(a, *, scale=2.0):  # here
    return stored(nl.multiply(nl.load(a), scale))


def good_A016(a, scale=2.0):
    return stored(nl.multiply(nl.load(a), scale))


@host_twin
def bad_A019():
    return nkisim.jit(platform_target="trn2")(good_A012)  # here


def good_A019():
    return nkisim.jit(good_A012)


@twin(f32(64, 32))
def bad_L060(a):
    tile = nl.load(a)  # here
    return tile


def good_L060(a):
    tile = nl.load(a)
    return stored(tile)


@host_twin
def bad_L063():
    return nl.zeros((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # here


def good_L063():
    return nl.ds(0, 32)


@twin(f32(64, 32))  # here
def bad_L064(a: nt.tensor[128, 32]):  # here
    return stored(nl.load(a))


def good_L064(a: nt.tensor[64, 32]):
    return stored(nl.load(a))


@twin(32, mended=(f32(64, 32),))  # here
def bad_L066(columns):  # here
    tile = nl.zeros((64, columns), dtype=nl.float32, buffer=nl.sbuf)
    return stored(tile)


def good_L066(a):
    tile = nl.zeros(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    return stored(tile)


# -- what the compiler's Python has no word for --------------------------------------------------


@twin(f32(64, 100))
def bad_L019(a):
    out = nl.ndarray((64, 50), dtype=a.dtype, buffer=nl.shared_hbm)
    half = nl.ndarray((64, a.shape[1] / 2), dtype=a.dtype, buffer=nl.sbuf)  # here
    nisa.dma_copy(dst=half, src=a[:, 0:50])
    nisa.dma_copy(dst=out, src=half)
    return out


def good_L019(a):
    out = nl.ndarray((64, 50), dtype=a.dtype, buffer=nl.shared_hbm)
    half = nl.ndarray((64, a.shape[1] // 2), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=half, src=a[:, 0:50])
    nisa.dma_copy(dst=out, src=half)
    return out


@twin(f32(64, 32))
def bad_L028(a):
    tile = nl.load(a)
    padded = nl.zeros((64, 34), dtype=a.dtype, buffer=nl.sbuf)
    padded[:, 1:33] = tile  # here
    return stored(padded)


def good_L028(a):
    tile = nl.load(a)
    padded = nl.zeros((64, 34), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=padded[:, 1:33], src=tile)
    return stored(padded)


@twin(f32(64, 32), f32(64, 1))
def bad_L030(a, bias):
    tile = nl.load(a)
    column = nl.load(bias)
    if column:  # here
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=column)
    return stored(tile)


def good_L030(a, bias):
    tile = nl.load(a)
    column = nl.load(bias)
    if column.shape[0] == tile.shape[0]:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=column)
    return stored(tile)
