"""Twins about what NKI versions after 0.3.0 have."""

import numpy as np

import nkisim.collectives as ncc
import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN3_UP, f32, source_twin, twin
from tiles import hbm, stored


def named(shape, dtype=nl.float32, name="received", buffer=nl.shared_hbm):
    """Return a new tensor in HBM, with the name that a tensor of collectives needs."""
    return nl.ndarray(shape, dtype=dtype, buffer=buffer, name=name)


def own(tensor):
    """Return a copy of an argument of the kernel, which collectives do not take."""
    copy = named(tensor.shape, tensor.dtype, "sent", nl.private_hbm)
    nisa.dma_copy(dst=copy, src=tensor)
    return copy


def halved(tensor):
    """Return a new tensor in HBM, of which each core has copied a half."""
    nisa.core_barrier(data=tensor, cores=(0, 1))
    out, half = hbm(tensor.shape), tensor.shape[0] // 2
    part = slice(nl.program_id(0) * half, nl.program_id(0) * half + half)
    nisa.dma_copy(dst=out[part], src=tensor[part])
    return out


NEWEST = {"nki": "0.6.0", "lnc": 1}


@source_twin(f32(64, 32), options=NEWEST)
def A045(a):
    tile = nl.load(a)
    for _ in nl.static_range(3):  # bad here
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    for _ in range(3):  # good
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


@source_twin(f32(64, 32), options=NEWEST)
def A045_loop(a):
    tile = nl.load(a)
    count = nisa.register_alloc(3)
    for _ in nl.dynamic_range(count):  # bad here
        nisa.activation(dst=tile, op=nl.tanh, data=tile)

    def body(i):  # good
        nisa.activation(dst=tile, op=nl.tanh, data=tile)

    nl.fori_loop(0, count, body)  # good
    return stored(tile)


@twin(f32(64, 32), options=NEWEST)
def L070(a):
    tile = nl.load(a)

    def body(i):
        return nisa.activation(dst=tile, op=nl.tanh, data=tile)  # bad here
        nisa.activation(dst=tile, op=nl.tanh, data=tile)  # good

    nl.fori_loop(0, 3, body)  # here
    return stored(tile)


@twin(f32(64, 32), options=NEWEST)
def R011(a):
    tile, out = nl.load(a), hbm(a.shape)
    first = nisa.activation(dst=tile, op=nl.tanh, data=tile)
    second = nisa.dma_copy(dst=out, src=tile)
    first.depends_on(second)  # bad here
    second.depends_on(first)  # good
    return out


def runs_of(rows):
    """Metadata by which each of four ranks sends two elements."""
    return np.array([[2] * 4, [0] * 4, [2] * 4, [0, 2, 4, 6]][:rows], np.uint32)


@twin(
    f32(8),
    runs_of(4),
    fixed=(f32(8), runs_of(3)),
    cores=2,
    ranks=4,
    targets=GEN3_UP,
    options=NEWEST,
)
def C037(a, runs):
    received, group = named((8,)), ncc.ReplicaGroup([[0, 1, 2, 3]])
    ncc.all_gather_v([own(a)], [received], group, runs, True, has_rdispls=True)  # bad here
    ncc.all_gather_v([own(a)], [received], group, runs, True)  # good
    return halved(received)


# -- 0.7.0 -----------------------------------------------------------------------------------------

TRACED = {"nki": "0.7.0", "lnc": 1}
COUNT = np.full((1, 1), 3, np.int32)


def _count(n):
    tile = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=n)
    return tile


def _tile(a):
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    return tile


@twin(f32(64, 32), COUNT, options=TRACED)
def L071(a, n):
    tile, count = _tile(a), nisa.scalar_load(_count(n))

    def body(i):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)

    nl.fori_loop(0, count // 2, body)  # bad here

    nl.fori_loop(0, count - 1, body)  # good
    return stored(tile)


@twin(f32(64, 32), np.full((1, 1), 3, np.int64), options=TRACED, fixed=(f32(64, 32), COUNT))
def L072(a, n):
    tile, held = _tile(a), nl.ndarray((1, 1), dtype=n.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=held, src=n)

    def body(i):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)

    nl.fori_loop(0, nisa.scalar_load(held), body)  # here
    return stored(tile)


@source_twin(f32(64, 32), options=TRACED)
def L073(a):
    tile, rounds = _tile(a), []  # bad
    tile, rounds = _tile(a), [0, 1, 2]  # good

    def body(i):
        rounds.append(i)  # bad here
        nisa.activation(dst=tile, op=nl.tanh, data=tile)

    nl.fori_loop(0, 3, body)  # bad

    nl.fori_loop(0, len(rounds), body)  # good
    return stored(tile)


@twin(f32(64, 32), COUNT.astype(np.uint32), options=TRACED, fixed=(f32(64, 32), COUNT))
def D053(a, n):
    tile, held = _tile(a), nl.ndarray((1, 1), dtype=n.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=held, src=n)

    def body(i):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)

    nl.fori_loop(0, nisa.scalar_load(held), body)  # here
    return stored(tile)


@twin(np.full((1, 1), 100000, np.int32), options=TRACED, fixed=(np.full((1, 1), 4, np.int32),))
def D054(n):
    tile = _count(n)
    count = nisa.scalar_load(tile)
    nisa.scalar_store(tile, count * count)  # here
    return stored(tile)


@twin(f32(256, 64), options=TRACED)
def S073(a):
    out = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    kept = nl.alloc_tiles(
        tile_shape=(64, 64), element_shape=(256, 64), buffer=nl.sbuf, dtype=a.dtype
    )
    grid = nl.tiles(a, tile_shape=(64, 64))
    for i in range(grid.shape[0]):  # bad
        nisa.dma_copy(dst=kept[i].data, src=grid[i].data)
    nisa.dma_copy(dst=out[0:64], src=kept[::2].data)  # bad here
    for i in (0, 2):  # good
        nisa.dma_copy(dst=kept[i].data, src=grid[i].data)
    nisa.dma_copy(dst=out[0:64], src=kept[0].data)  # good
    nisa.dma_copy(dst=out[64:128], src=kept[2].data)
    return out


@twin(f32(8), np.zeros((3, 2), np.uint32), options=TRACED, ranks=2, targets=("gen3",))
def C038(a, meta):
    received = nl.zeros((16,), dtype=a.dtype, buffer=nl.shared_hbm)
    group = ncc.ReplicaGroup([[0, 1]])
    ready = ncc.all_to_all_v_prepare([own(a)], [received], group, meta)
    ncc.all_to_all_v_trigger(ready)
    ncc.all_to_all_v_trigger(ready)  # bad here
    return stored(received), meta


@twin(f32(8, 8), options=TRACED, ranks=2)
def C039(a):
    shared = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)  # bad
    ncc.all_reduce([own(a)], [shared], ncc.ReplicaGroup([[0, 1]]), nl.add)  # bad here
    private = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.private_hbm)  # good
    ncc.all_reduce([own(a)], [private], ncc.ReplicaGroup([[0, 1]]), nl.add)  # good
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=shared)  # bad
    nisa.dma_copy(dst=out, src=private)  # good
    return out
