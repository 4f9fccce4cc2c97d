"""Twins about work that is lost: results that nobody reads, inputs that nobody looks at."""

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import bf16, f32, twin
from tiles import stored


@twin(bf16(4, 64, 32), bf16(4, 64, 128))
def W001(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    for k in range(4):
        nisa.nc_matmul(acc, nl.load(a[k]), nl.load(b[k]), accumulate=False)  # bad here
        nisa.nc_matmul(acc, nl.load(a[k]), nl.load(b[k]), accumulate=(k > 0))  # good
    return stored(acc)


@twin(f32(64, 32), 2 * f32(64, 32))
def W002(a, b):
    x = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    y = nl.zeros((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=x, src=b)  # bad here
    nisa.dma_copy(dst=y, src=b)  # good
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
    return stored(x)


@twin(f32(64, 96))
def M007(a):
    out = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.shared_hbm)
    for c in range(0, 96, 32):
        tile = nl.load(a[:, 0:32])  # bad
        tile = nl.load(a[:, c : c + 32])  # good
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0 + c)
        nl.store(out[:, 0:32], tile)  # bad here
        nl.store(out[:, c : c + 32], tile)  # good
    nl.store(out[:, 32:96], nl.load(a[:, 32:96]))  # bad
    return out


@twin(f32(64, 32))
def M007_overlapping_tiles(a):
    out = nl.ndarray((64, 48), dtype=nl.float32, buffer=nl.shared_hbm)  # bad
    out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)  # good
    nl.store(out[:, 0:32], nl.load(a))
    nl.store(out[:, 16:48], nl.load(a))  # bad here
    nl.store(out[:, 32:64], nl.load(a))  # good
    return out


@twin(f32(64, 32), f32(64, 32))
def W003(a, b):
    x = nl.load(a)
    y = nl.load(b)  # here
    assert x.shape == y.shape
    nisa.tensor_tensor(dst=x, data1=x, data2=x, op=nl.add)  # bad
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)  # good
    return stored(x)


@twin(f32(64, 32))
def W004(a):
    tile = nl.load(a)
    scaled = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=scaled, data=tile, op0=nl.multiply, operand0=2.0)  # here
    return stored(tile)  # bad
    return stored(scaled)  # good


@twin(f32(64, 32))
def W004_after_the_store(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(a)
    nisa.activation(dst=tile, op=nl.exp, data=tile)  # good
    nl.store(out, tile)
    nisa.activation(dst=tile, op=nl.exp, data=tile)  # bad here
    return out


@twin(f32(64, 32), f32(64, 1))
def W005(a, scale):  # here
    tile = nl.load(a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=nl.load(a[:, 0:1]))  # bad
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=nl.load(scale))  # good
    return stored(tile)


@twin(f32(64, 128))
def W005_last_step(a):  # here
    total = nl.zeros((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(a.shape[1] // 32 - 1):  # bad
        tile = nl.load(a[:, i * 32 : i * 32 + 32])
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    for i in range(a.shape[1] // 32):  # good
        tile = nl.load(a[:, i * 32 : i * 32 + 32])
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    return stored(total)


@twin(bf16(160, 32), bf16(160, 128))
def S070(a, b):  # here
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    for k in range(a.shape[0] // 64):  # bad
        rows = nl.ds(k * 64, 64)
        nisa.nc_matmul(acc, nl.load(a[rows]), nl.load(b[rows]), accumulate=(k > 0))
    for k in range(0, a.shape[0], 64):  # good
        rows = nl.ds(k, min(64, a.shape[0] - k))
        nisa.nc_matmul(acc, nl.load(a[rows]), nl.load(b[rows]), accumulate=(k > 0))
    return stored(acc)


@twin(f32(64, 32))
def W006(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    peaks = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(a)
    peak = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=peak, op=nl.maximum, data=tile, axis=1)
    nl.store(out, tile)
    nl.store(peaks, peak)  # here
    return out  # bad
    return out, peaks  # good


@twin(f32(64, 32), options={"most_instructions": 200})
def L039(a):
    tile = nl.load(a)
    for _ in range(4):
        for i in range(64):  # bad here
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0 + i / 1024)
        for _i in nl.dynamic_range(64):  # good
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.001)
    return stored(tile)


@twin(bf16(8, 300))
def D043(a):
    total = nl.zeros((8, 1), dtype=nl.bfloat16, buffer=nl.sbuf)  # bad
    total = nl.zeros((8, 1), dtype=nl.float32, buffer=nl.sbuf)  # good
    tile = nl.load(a)
    for i in range(300):
        nisa.tensor_tensor(dst=total, data1=total, data2=tile[:, i : i + 1], op=nl.add)  # here
    return stored(total)


@twin(bf16(4, 128, 64), bf16(4, 128, 96))
def D052(a, b):
    total = nl.zeros((64, 96), dtype=nl.bfloat16, buffer=nl.sbuf)  # bad
    total = nl.zeros((64, 96), dtype=nl.float32, buffer=nl.sbuf)  # good
    for k in range(4):
        block = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=block, stationary=nl.load(a[k]), moving=nl.load(b[k]))
        nisa.tensor_tensor(dst=total, data1=total, data2=block, op=nl.add)  # here
    return stored(total)


@twin(bf16(4, 128, 64), bf16(4, 128, 96))
def D052_copies(a, b):
    total = nl.zeros((64, 96), dtype=nl.bfloat16, buffer=nl.sbuf)  # bad
    total = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.psum)  # good
    for k in range(4):
        block = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.psum)  # bad
        nisa.nc_matmul(dst=block, stationary=nl.load(a[k]), moving=nl.load(b[k]))  # bad
        term = nl.ndarray((64, 96), dtype=nl.bfloat16, buffer=nl.sbuf)  # bad
        nisa.tensor_copy(dst=term, src=block)  # bad
        total = nl.add(total, term)  # bad here
        nisa.nc_matmul(dst=total, stationary=nl.load(a[k]), moving=nl.load(b[k]))  # good
    return stored(total)


# -- loops of which only the last iteration counts -------------------------------------------------


@twin(f32(4, 64, 32))
def W002_one_line(a):
    block = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.zeros((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    for k in range(4):
        nisa.dma_copy(dst=block, src=a[k])  # here
        nisa.tensor_tensor(dst=total, data1=total, data2=block, op=nl.add)  # good
    nisa.tensor_tensor(dst=total, data1=total, data2=block, op=nl.add)  # bad
    return stored(total)


@twin(f32(4, 64, 32))
def W002_reset(a):
    count = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    part = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=count, value=0.0)  # good
    for k in range(4):
        nisa.memset(dst=count, value=0.0)  # bad here
        nisa.tensor_reduce(dst=part, op=nl.add, data=nl.load(a[k]), axis=1)
        nisa.tensor_tensor(dst=count, data1=count, data2=part, op=nl.add)
    return stored(count)


@twin(f32(64, 32))
def W002_fill(a):
    tile = nl.load(a)
    powers = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=powers, value=0.0)  # good
    nisa.activation(dst=powers, op=nl.exp, data=tile)
    nisa.memset(dst=powers, value=0.0)  # bad here
    nisa.tensor_tensor(dst=powers, data1=powers, data2=tile, op=nl.add)
    return stored(powers)


@twin(f32(64, 32), f32(64, 128))
def W002_psum(a, b):
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(acc, nl.load(a), nl.load(b))  # bad
    nisa.memset(dst=acc, value=0.0)  # here
    nisa.nc_matmul(acc, nl.load(a), nl.load(b), accumulate=False)  # good
    return stored(acc)


@twin(f32(4, 64, 32))
def W004_reset(a):
    total = nl.zeros((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # good
    for k in range(4):
        total = nl.zeros((64, 32), dtype=nl.float32, buffer=nl.sbuf)  # bad
        nisa.tensor_tensor(dst=total, data1=total, data2=nl.load(a[k]), op=nl.add)  # here
    return stored(total)


@twin(bf16(4, 64, 32), bf16(4, 64, 128))
def W005_block(a, b):  # here
    acc = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.psum)
    for k in range(4):
        nisa.nc_matmul(acc, nl.load(a[k]), nl.load(b[0]), accumulate=(k > 0))  # bad
        nisa.nc_matmul(acc, nl.load(a[k]), nl.load(b[k]), accumulate=(k > 0))  # good
    return stored(acc)
