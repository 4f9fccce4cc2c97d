"""Twins about what NKI versions after 0.3.0 have."""

import numpy as np

import nkisim.collectives as ncc
import nkisim.isa as nisa
import nkisim.language as nl
from kernels import GEN3_UP, f32, source_twin, twin
from tiles import hbm, stored

NEWEST = {"nki": "0.6.0"}


@source_twin(f32(64, 32), options=NEWEST)
def bad_A045(a):
    tile = nl.load(a)
    for _ in nl.static_range(3):  # here
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


def good_A045(a):
    tile = nl.load(a)
    for _ in range(3):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


@source_twin(f32(64, 32), options=NEWEST)
def bad_A045_loop(a):
    tile = nl.load(a)
    count = nisa.register_alloc(3)
    for _ in nl.dynamic_range(count):  # here
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(tile)


def good_A045_loop(a):
    tile = nl.load(a)
    count = nisa.register_alloc(3)

    def body(i):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)

    nl.fori_loop(0, count, body)
    return stored(tile)


@twin(f32(64, 32), options=NEWEST)
def bad_L070(a):
    tile = nl.load(a)

    def body(i):
        return nisa.activation(dst=tile, op=nl.tanh, data=tile)  # here

    nl.fori_loop(0, 3, body)  # here
    return stored(tile)


def good_L070(a):
    tile = nl.load(a)

    def body(i):
        nisa.activation(dst=tile, op=nl.tanh, data=tile)

    nl.fori_loop(0, 3, body)
    return stored(tile)


@twin(f32(64, 32), options=NEWEST)
def bad_R011(a):
    tile, out = nl.load(a), hbm(a.shape)
    first = nisa.activation(dst=tile, op=nl.tanh, data=tile)
    second = nisa.dma_copy(dst=out, src=tile)
    first.depends_on(second)  # here
    return out


def good_R011(a):
    tile, out = nl.load(a), hbm(a.shape)
    first = nisa.activation(dst=tile, op=nl.tanh, data=tile)
    second = nisa.dma_copy(dst=out, src=tile)
    second.depends_on(first)
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
def bad_C037(a, runs):
    out, group = hbm((8,)), ncc.ReplicaGroup([[0, 1, 2, 3]])
    ncc.all_gather_v([a], [out], group, runs, True, has_rdispls=True)  # here
    return out


def good_C037(a, runs):
    out, group = hbm((8,)), ncc.ReplicaGroup([[0, 1, 2, 3]])
    ncc.all_gather_v([a], [out], group, runs, True)
    return out
