"""Twins about registers and dynamic loops."""

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import f32, i32, twin
from tiles import stored


@twin(f32(64, 32))
def L034(a):
    tile = nl.load(a)
    by = nisa.register_alloc(2)  # bad
    for _ in nl.dynamic_range(0, 4, by):  # bad here
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    for _ in nl.dynamic_range(0, 4, 2):  # good
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    return stored(tile)


@twin(f32(65, 32))
def R014(a):  # here
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    registers = []  # bad
    for i in range(65):  # bad
        registers.append(nisa.register_alloc(i))
    row = [[32, 1], [1, 32]]
    for i in range(65):
        target = out.ap(row, scalar_offset=registers[i], indirect_dim=0)  # bad
        register = nisa.register_alloc(i)  # good
        target = out.ap(row, scalar_offset=register, indirect_dim=0)  # good
        nisa.dma_copy(dst=target, src=a[i : i + 1])
    return out


@twin(f32(64, 32))
def L036(a):
    tile = nl.load(a)
    with nl.no_reorder():  # bad
        for _ in nl.dynamic_range(3):  # here
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    for _ in nl.dynamic_range(3):  # good
        with nl.no_reorder():
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    return stored(tile)


@twin(i32(1, 8), f32(64, 32))
def S059(counts, a):
    tile, bounds = nl.load(a), nl.load(counts)
    count = nisa.register_alloc()
    nisa.register_load(count, bounds)  # bad here
    nisa.register_load(count, bounds[0:1, 0:1])  # good
    for _ in nl.dynamic_range(count):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    return stored(tile)


@twin(f32(64, 32))
def R013(a):
    tile = nl.load(a)
    count = nisa.register_alloc()  # bad
    count = nisa.register_alloc(3)  # good
    for _ in nl.dynamic_range(count):  # here
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    return stored(tile)


@twin(f32(64, 32))
def R015(a):
    more = nisa.register_alloc(1)
    while more:  # here
        pass  # bad
        nisa.register_move(more, nisa.register_alloc(0))  # good
    return stored(nl.load(a))


@twin(i32(1, 1) * 0 + 3, f32(64, 32))
def R017(counts, a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tile, count = nl.load(a), nisa.register_alloc()
    nisa.register_load(count, nl.load(counts))
    for _ in nl.dynamic_range(count):  # here
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=0.0)
        nisa.dma_copy(dst=out, src=tile)  # bad
    nisa.dma_copy(dst=out, src=tile)  # good
    return out


@twin(f32(64, 32))
def L068(a):
    rows = nisa.register_alloc(32)  # bad
    tile = nl.zeros((rows, 32), dtype=nl.float32, buffer=nl.sbuf)  # bad here
    tile = nl.zeros((32, 32), dtype=nl.float32, buffer=nl.sbuf)  # good
    nisa.tensor_tensor(dst=tile, data1=tile, data2=nl.load(a[0:32]), op=nl.add)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=nl.load(a[32:64]), op=nl.add)
    return stored(tile)


@twin(f32(64, 128))
def M050(a):
    tile, scaled = nl.load(a), nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)  # bad
    part = tile.ap(  # bad
        [[128, 64], [1, 32]], scalar_offset=nisa.register_alloc(5), indirect_dim=1
    )
    nisa.tensor_scalar(dst=scaled, data=part, op0=nl.multiply, operand0=2.0)  # bad here
    tile = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)  # good
    scaled = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)  # good
    part = a.ap([[128, 64], [1, 32]], scalar_offset=nisa.register_alloc(5), indirect_dim=1)  # good
    nisa.dma_copy(dst=tile, src=part)  # good
    nisa.tensor_scalar(dst=scaled, data=tile, op0=nl.multiply, operand0=2.0)  # good
    return stored(scaled)


@twin(f32(64, 128))
def M053(a):
    tile, picked = nl.load(a), nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)  # bad
    part = tile.ap(  # bad
        [[128, 64], [1, 32]], scalar_offset=nisa.register_alloc(5), indirect_dim=1
    )
    nisa.tensor_copy(dst=picked, src=part)  # bad here
    picked = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)  # good
    part = a.ap([[128, 64], [1, 32]], scalar_offset=nisa.register_alloc(5), indirect_dim=1)  # good
    nisa.dma_copy(dst=picked, src=part)  # good
    return stored(picked)
