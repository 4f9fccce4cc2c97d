"""Twins about registers and dynamic loops."""

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import f32, i32, twin
from tiles import stored


@twin(f32(64, 32))
def bad_L034(a):
    tile = nl.load(a)
    by = nisa.register_alloc(2)
    for _ in nl.dynamic_range(0, 4, by):  # here
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    return stored(tile)


def good_L034(a):
    tile = nl.load(a)
    for _ in nl.dynamic_range(0, 4, 2):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    return stored(tile)


@twin(f32(65, 32))
def bad_R014(a):  # here
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    registers = []
    for i in range(65):
        registers.append(nisa.register_alloc(i))
    row = [[32, 1], [1, 32]]
    for i in range(65):
        target = out.ap(row, scalar_offset=registers[i], indirect_dim=0)
        nisa.dma_copy(dst=target, src=a[i : i + 1])
    return out


def good_R014(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    row = [[32, 1], [1, 32]]
    for i in range(65):
        register = nisa.register_alloc(i)
        target = out.ap(row, scalar_offset=register, indirect_dim=0)
        nisa.dma_copy(dst=target, src=a[i : i + 1])
    return out


@twin(f32(64, 32))
def bad_L036(a):
    tile = nl.load(a)
    with nl.no_reorder():
        for _ in nl.dynamic_range(3):  # here
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    return stored(tile)


def good_L036(a):
    tile = nl.load(a)
    for _ in nl.dynamic_range(3):
        with nl.no_reorder():
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    return stored(tile)


@twin(i32(1, 8), f32(64, 32))
def bad_S059(counts, a):
    tile, bounds = nl.load(a), nl.load(counts)
    count = nisa.register_alloc()
    nisa.register_load(count, bounds)  # here
    for _ in nl.dynamic_range(count):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    return stored(tile)


def good_S059(counts, a):
    tile, bounds = nl.load(a), nl.load(counts)
    count = nisa.register_alloc()
    nisa.register_load(count, bounds[0:1, 0:1])
    for _ in nl.dynamic_range(count):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    return stored(tile)


@twin(f32(64, 32))
def bad_R013(a):
    tile = nl.load(a)
    count = nisa.register_alloc()
    for _ in nl.dynamic_range(count):  # here
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    return stored(tile)


def good_R013(a):
    tile = nl.load(a)
    count = nisa.register_alloc(3)
    for _ in nl.dynamic_range(count):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    return stored(tile)


@twin(f32(64, 32))
def bad_R015(a):
    more = nisa.register_alloc(1)
    while more:  # here
        pass
    return stored(nl.load(a))


def good_R015(a):
    more = nisa.register_alloc(1)
    while more:
        nisa.register_move(more, nisa.register_alloc(0))
    return stored(nl.load(a))


@twin(i32(1, 1) * 0 + 3, f32(64, 32))
def bad_R017(counts, a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tile, count = nl.load(a), nisa.register_alloc()
    nisa.register_load(count, nl.load(counts))
    for _ in nl.dynamic_range(count):  # here
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=0.0)
        nisa.dma_copy(dst=out, src=tile)
    return out


def good_R017(counts, a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tile, count = nl.load(a), nisa.register_alloc()
    nisa.register_load(count, nl.load(counts))
    for _ in nl.dynamic_range(count):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=0.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


@twin(f32(64, 32))
def bad_L068(a):
    rows = nisa.register_alloc(32)
    tile = nl.zeros((rows, 32), dtype=nl.float32, buffer=nl.sbuf)  # here
    nisa.tensor_tensor(dst=tile, data1=tile, data2=nl.load(a[0:32]), op=nl.add)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=nl.load(a[32:64]), op=nl.add)
    return stored(tile)


def good_L068(a):
    tile = nl.zeros((32, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=nl.load(a[0:32]), op=nl.add)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=nl.load(a[32:64]), op=nl.add)
    return stored(tile)


@twin(f32(64, 128))
def bad_M050(a):
    tile, scaled = nl.load(a), nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)
    part = tile.ap([[128, 64], [1, 32]], scalar_offset=nisa.register_alloc(5), indirect_dim=1)
    nisa.tensor_scalar(dst=scaled, data=part, op0=nl.multiply, operand0=2.0)  # here
    return stored(scaled)


def good_M050(a):
    tile = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)
    scaled = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)
    part = a.ap([[128, 64], [1, 32]], scalar_offset=nisa.register_alloc(5), indirect_dim=1)
    nisa.dma_copy(dst=tile, src=part)
    nisa.tensor_scalar(dst=scaled, data=tile, op0=nl.multiply, operand0=2.0)
    return stored(scaled)


@twin(f32(64, 128))
def bad_M053(a):
    tile, picked = nl.load(a), nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)
    part = tile.ap([[128, 64], [1, 32]], scalar_offset=nisa.register_alloc(5), indirect_dim=1)
    nisa.tensor_copy(dst=picked, src=part)  # here
    return stored(picked)


def good_M053(a):
    picked = nl.ndarray((64, 32), dtype=a.dtype, buffer=nl.sbuf)
    part = a.ap([[128, 64], [1, 32]], scalar_offset=nisa.register_alloc(5), indirect_dim=1)
    nisa.dma_copy(dst=picked, src=part)
    return stored(picked)
