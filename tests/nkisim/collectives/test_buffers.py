"""What collectives keep: their buffers go, and their tiles count as in use."""

import tracemalloc

import numpy as np
import pytest

import nkisim.collectives as ncc
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from pairwise import in_turn
from tiles import hbm, sbuf

from ..harness_cores import SEEDS, no_hang, no_thread_left  # noqa: F401
from .harness import inputs, launch

BOTH = ncc.ReplicaGroup([[0, 1]])


def all_reduces(a, out):
    ncc.all_reduce(srcs=[a], dsts=[out], replica_group=BOTH, op=nl.add)


def all_gathers(a, out):
    whole = nl.ndarray((2 * a.shape[0], a.shape[1]), dtype=a.dtype, buffer=nl.private_hbm)
    ncc.all_gather(srcs=[a], dsts=[whole], replica_group=BOTH, collective_dim=0)
    nisa.dma_copy(dst=out, src=whole[0 : a.shape[0]])


def permutes(a, out):
    ncc.collective_permute(srcs=[a], dsts=[out], source_target_pairs=[(0, 1), (1, 0)])


def rings(a, out):
    ncc.collective_permute_implicit([[a]], [[out]], BOTH)


def on_chip(a, out):
    tile = nl.load(a)
    ncc.all_reduce(srcs=[tile], dsts=[tile], replica_group=BOTH, op=nl.add)
    nl.store(out, tile)


def peak_bytes(step, times, **options):
    """The most memory that a run of many collectives needs."""

    def kernel(a):
        out = hbm(a.shape)
        for _ in range(times):
            step(a, out)
        return out

    by_rank = [[a] for a in inputs(2, (64, 256))]
    launch(kernel, by_rank, **options)
    tracemalloc.start()
    try:
        launch(kernel, by_rank, **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


STEPS = [all_reduces, all_gathers, permutes, rings, on_chip]


@pytest.mark.parametrize(("step", "seed"), [*in_turn(STEPS, [None, 0]), (all_reduces, 0)])
def test_the_buffers_of_a_collective_are_freed(step, seed):
    tensor = 64 * 256 * 4
    few, many = (peak_bytes(step, times, schedule_seed=seed) for times in (4, 24))
    # What one rank's place in the exchange costs, were it kept, would be 20 tensors and more.
    assert many - few < 2 * tensor


def test_the_buffers_of_ranks_of_two_cores_are_freed():
    few, many = (peak_bytes(all_reduces, times, cores=2) for times in (4, 24))
    assert many - few < 2 * 64 * 256 * 4


@each_case("seed", [None, *SEEDS])
def test_a_collective_of_two_cores_begins_when_both_have_come(seed):
    def kernel(a):
        core, total, out = nl.program_id(0), hbm(a.shape), hbm(a.shape)
        half = a.shape[0] // 2
        rows = slice(core * half, core * half + half)
        tile = nl.load(a[rows])
        for _ in range(20 * core):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0)
        nl.store(total[rows], tile)
        ncc.all_reduce(srcs=[total], dsts=[out], replica_group=BOTH, op=nl.add)
        return total, out

    data = inputs(2, (8, 4))
    report = launch(kernel, [[a] for a in data], cores=2, schedule_seed=seed)
    for _, got in report.outputs:
        np.testing.assert_array_equal(got, data[0] + data[1])
    assert report.codes == {"C007"}  # nothing tells the compiler that the halves are there


def test_a_tile_that_a_collective_wrote_is_in_use():
    def kernel(a, rounds):
        tiles = []
        for _ in range(rounds):
            tile = sbuf((128, 16384))
            ncc.all_gather(srcs=[a], dsts=[tile], replica_group=BOTH, collective_dim=0)
            tiles.append(tile)
        out = hbm((1, 16384))
        for tile in tiles:
            nisa.dma_copy(dst=out, src=tile[0:1])
        return out

    def staged(a, rounds):
        tile = sbuf((64, 16384))
        nisa.dma_copy(dst=tile, src=a)
        return kernel(tile, rounds)

    data = [np.zeros((64, 16384), np.float32)] * 2
    assert launch(staged, [[a, 1] for a in data]).codes == set()
    assert launch(staged, [[a, 4] for a in data]).codes == {"M008"}


def test_a_tile_is_in_use_until_a_collective_took_it():
    def kernel(a, early):
        mine = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.sbuf, address=(0, 64))
        other = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.sbuf, address=(0, 64))
        total = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.sbuf, address=(0, 128))
        nisa.dma_copy(dst=mine, src=a)
        if early:
            nisa.memset(dst=other, value=0.0)
        ncc.all_reduce(srcs=[mine], dsts=[total], replica_group=BOTH, op=nl.add)
        if not early:
            nisa.memset(dst=other, value=0.0)
        out = hbm((8, 4))
        nisa.dma_copy(dst=out, src=total)
        return out

    data = inputs(2, (8, 4))
    assert launch(kernel, [[a, True] for a in data]).codes == {"M013"}
    assert launch(kernel, [[a, False] for a in data]).codes == set()


@each_case("seed", [None, *SEEDS])
def test_a_collective_on_tiles_does_not_release_one_on_shared_memory(seed):
    def kernel(a):
        core, total = nl.program_id(0), hbm(a.shape)
        tile = nl.load(a)
        ncc.all_reduce(srcs=[tile], dsts=[tile], replica_group=BOTH, op=nl.add)
        ncc.all_reduce(srcs=[a], dsts=[total], replica_group=BOTH, op=nl.add)
        out = hbm((2, 2, *a.shape))
        nl.store(out[core, 0], tile)
        nisa.dma_copy(dst=out[core, 1], src=total)
        return out

    data = inputs(2, (8, 4))
    report = launch(kernel, [[a] for a in data], cores=2, schedule_seed=seed)
    assert report.codes == {"C007"}
    for got in report.outputs:
        np.testing.assert_array_equal(got, np.broadcast_to(data[0] + data[1], (2, 2, 8, 4)))


@pytest.mark.parametrize("reduces", [False, True])
def test_rings_follow_dynamic_offsets(reduces):
    def kernel(a):
        out = hbm((3, 8, 4))
        nisa.dma_copy(dst=out, src=a)
        view = {"pattern": [[4, 8], [1, 4]], "indirect_dim": 0}
        src = a.ap(**view, scalar_offset=nisa.register_alloc(1))
        dst = out.ap(**view, scalar_offset=nisa.register_alloc(2))
        if reduces:
            ncc.collective_permute_implicit_reduce([[src]], [[src]], [[dst]], BOTH, nl.add)
        else:
            ncc.collective_permute_implicit([[src]], [[dst]], BOTH)
        return out

    data = inputs(2, (3, 8, 4))
    report = launch(kernel, [[a] for a in data])
    assert not report.findings, str(report)
    for rank, got in enumerate(report.outputs):
        wanted = data[rank].copy()
        wanted[2] = data[1 - rank][1] * (2 if reduces else 1)
        np.testing.assert_array_equal(got, wanted)
