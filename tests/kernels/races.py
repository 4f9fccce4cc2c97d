"""Twins about the order of accesses on one core: aliases, loops without an order, indices."""

import numpy as np

import nkisim.isa as nisa
import nkisim.language as nl
from kernels import f32, twin
from tiles import stored

_ROWS = np.arange(16, dtype=np.uint32).reshape(16, 1)
_SHIFTED = _ROWS + np.uint32(8)


@twin(f32(64, 32))
def R001(a):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    first = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))
    again = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))  # bad
    nisa.dma_copy(dst=first, src=a)
    nisa.dma_copy(dst=out, src=again)  # bad here
    nisa.dma_copy(dst=out, src=first)  # good
    return out


@twin(f32(4, 64, 32))
def R003(a):
    total = nl.zeros((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    for i in nl.affine_range(4):  # bad
        nisa.tensor_tensor(dst=total, data1=total, data2=nl.load(a[i]), op=nl.add)  # here
    for i in nl.sequential_range(4):  # good
        nisa.tensor_tensor(dst=total, data1=total, data2=nl.load(a[i]), op=nl.add)
    return stored(total)


@twin(f32(64, 64))
def R003_through_hbm(a):
    out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out[0:16], nl.load(a[0:16]))
    for i in nl.affine_range(1, 4):  # bad
        above = nl.load(out[i * 16 - 16 : i * 16])  # here
        nisa.tensor_tensor(above, above, nl.load(a[i * 16 : i * 16 + 16]), op=nl.add)
        nl.store(out[i * 16 : i * 16 + 16], above)
    for i in range(1, 4):  # good
        above = nl.load(out[i * 16 - 16 : i * 16])
        nisa.tensor_tensor(above, above, nl.load(a[i * 16 : i * 16 + 16]), op=nl.add)
        nl.store(out[i * 16 : i * 16 + 16], above)
    return out


@twin(f32(16, 32), _ROWS)
def R004(updates, rows):
    table = nl.zeros((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(updates)  # good
    target = table.ap([[32, 16], [1, 32]], vector_offset=nl.load(rows))
    nisa.dma_copy(dst=target, src=nl.load(updates))  # bad
    head = nl.load(table[0:32])  # bad here
    with nl.no_reorder():  # good
        nisa.dma_copy(dst=target, src=tile)
        head = nl.load(table[0:32])
    return stored(head), table


@twin(f32(16, 32), _ROWS)
def M041(updates, rows):
    table = nl.zeros((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tail = nl.load(table[32:64])  # good
    target = table.ap([[32, 16], [1, 32]], vector_offset=nl.load(rows))
    nisa.dma_copy(dst=target, src=nl.load(updates))
    tail = nl.load(table[32:64])  # bad here
    return stored(tail), table


@twin(f32(16, 32), _ROWS // np.uint32(2), fixed=(f32(16, 32), _ROWS))
def R018_repeated_index(updates, rows):
    table = nl.zeros((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    target = table.ap([[32, 16], [1, 32]], vector_offset=nl.load(rows))
    nisa.dma_copy(dst=target, src=nl.load(updates))  # here
    return table


@twin(f32(16, 32), _ROWS, _SHIFTED)
def R018(updates, first, second):
    table = nl.zeros((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(updates)
    front = table.ap([[32, 16], [1, 32]], vector_offset=nl.load(first))
    back = table.ap([[32, 16], [1, 32]], vector_offset=nl.load(second))
    nisa.dma_copy(dst=front, src=tile)  # bad
    nisa.dma_copy(dst=back, src=tile)  # bad here
    with nl.no_reorder():  # good
        nisa.dma_copy(dst=front, src=tile)
        nisa.dma_copy(dst=back, src=tile)
    return table
