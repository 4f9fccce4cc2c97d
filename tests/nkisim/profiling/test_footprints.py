"""Dependences through memory against sets of bytes, for random views of one storage."""

import random

import numpy as np

from nkisim.profiling.model import footprints
from nkisim.profiling.model.footprints import Accesses

from ...each_case import each_case

PITCH, ROWS = 64, 32
SIZE = PITCH * ROWS


def bytes_of(region):
    """Return the bytes of a view."""
    start, shape, strides, itemsize = region
    offsets = np.full((), start)
    for extent, stride in zip(shape, strides, strict=True):
        offsets = offsets[..., None] + np.arange(extent) * stride
    return {int(offset) + i for offset in offsets.ravel() for i in range(itemsize)}


def random_region(rng):
    """Return a view of up to three dimensions, also reversed, repeated, empty or across rows."""
    itemsize = rng.choice((1, 2, 4))
    while True:
        kind = rng.random()
        if kind < 0.5:  # a rectangle, the usual view
            height, width = rng.randint(1, 8), rng.randint(1, PITCH // itemsize)
            shape, strides = (height, width), (PITCH, itemsize)
        elif kind < 0.6:  # whole rows
            shape, strides = (rng.randint(1, 8), PITCH // itemsize), (PITCH, itemsize)
        else:
            count = rng.randint(0, 3)
            shape = tuple(rng.choice((1, 1, 2, 3, 5, 0)) for _ in range(count))
            steps = (0, 1, 2, 3, -1, 16 // itemsize, PITCH // itemsize, -PITCH // itemsize, 40)
            strides = tuple(rng.choice(steps) * itemsize for _ in range(count))
        start = rng.randrange(0, SIZE, itemsize)
        covered = bytes_of((start, shape, strides, itemsize))
        if not covered or (min(covered) >= 0 and max(covered) < SIZE):
            return start, shape, strides, itemsize


def run(rng, count, pitch=PITCH):
    """Return for each access its bytes, whether it writes, and what it was told to wait for."""
    accesses, ran = Accesses(pitch), []
    regions = [random_region(rng) for _ in range(count // 2)]  # many occur again
    for number in range(count):
        region, writes = rng.choice(regions), rng.random() < 0.4
        waits = (accesses.write if writes else accesses.read)(region, number, 0)
        ran.append((bytes_of(region), writes, waits))
    return ran


def missing_and_extra(ran):
    """Return the accesses that are not waited for although they must, and those that need not be.

    An access waits for another one through a third one, too.
    """
    missing, extra, before = [], [], []
    for number, (covered, writes, waits) in enumerate(ran):
        before.append(waits.union(*(before[other] for other in waits)))
        for other, (theirs, wrote, _) in enumerate(ran[:number]):
            conflict = bool(covered & theirs) and (writes or wrote)
            if conflict and other not in before[number]:
                missing.append((other, number))
            if not conflict and other in waits:
                extra.append((other, number))
    return missing, extra


@each_case("seed", range(60))
def test_an_access_waits_for_those_that_share_bytes_with_it(seed):
    rng = random.Random(seed)
    ran = run(rng, rng.choice((6, 20, 60)))
    assert missing_and_extra(ran) == ([], [])


def test_another_length_of_rows_changes_nothing():
    for seed in range(10):
        found = [run(random.Random(seed), 40, pitch) for pitch in (64, 1, 16, 4096)]
        for ran in found:
            assert missing_and_extra(ran) == ([], [])


def test_dependences_that_are_missing_or_too_many_are_noticed():
    ran = run(random.Random(0), 60)
    assert missing_and_extra([(covered, writes, set()) for covered, writes, _ in ran])[0]
    every = [(covered, writes, set(range(n))) for n, (covered, writes, _) in enumerate(ran)]
    assert missing_and_extra(every)[1]


def test_a_write_ends_what_was_there_before():
    accesses, whole, half = Accesses(PITCH), (0, (8, 16), (64, 4), 4), (0, (8, 8), (64, 4), 4)
    assert accesses.write(half, 0, 0) == set()
    assert accesses.read(half, 1, 0) == {0}
    assert accesses.write(whole, 2, 0) == {0, 1}
    assert accesses.read(half, 3, 0) == {2}
    assert accesses.write(whole, 4, 0) == {2, 3}
    assert accesses.write(whole, 5, 0) == {4}
    assert accesses.read(whole, 6, 0) == {5}
    assert accesses.write(whole, 7, 0) == {5, 6}
    assert accesses.write(whole, 8, 0) == {7}


def test_elements_that_a_view_repeats_cover_their_bytes_once():
    """Two elements of 4 bytes in 24, three times: as many bytes as the 24, but with a gap."""
    accesses = Accesses(PITCH)
    accesses.write((0, (3, 2), (0, 20), 4), 0, 0)
    assert accesses.read((8, (1, 2), (64, 4), 4), 1, 0) == set()
    assert accesses.read((20, (1, 1), (64, 4), 4), 2, 0) == {0}


def test_a_barrier_stands_between_the_accesses_of_its_core():
    accesses, whole = Accesses(PITCH), (0, (8, 16), (64, 4), 4)
    core_of = [0, 1, 0, 0, 1]
    accesses.write(whole, 0, 0)
    accesses.read(whole, 1, 1)
    assert accesses.fence(2, 0, core_of) == {0}
    assert accesses.read(whole, 3, 0) == {0, 2}
    assert accesses.read(whole, 4, 1) == {0}


@each_case("by_columns", [False, True])
def test_blocks_of_a_large_storage_are_compared_with_few_others(by_columns, monkeypatch):
    """The comparisons grow with the blocks, not with their square."""
    original = footprints._Footprint.overlaps
    compared = []

    def overlaps(self, other):
        compared.append(other)
        return original(self, other)

    monkeypatch.setattr(footprints._Footprint, "overlaps", overlaps)
    counted = []
    for blocks in (100, 200, 400):
        compared.clear()
        accesses = Accesses(4 * 16 * blocks)
        for i in range(blocks):
            block = (64 * i, (128, 16), (64 * blocks, 4), 4)
            row = (64 * blocks * i, (1, 16 * blocks), (64 * blocks, 4), 4)
            region = block if by_columns else row
            accesses.write(region, 2 * i, 0)
            accesses.read(region, 2 * i + 1, 0)
        counted.append(len(compared))
    assert counted[2] - counted[1] <= 2.2 * (counted[1] - counted[0])
