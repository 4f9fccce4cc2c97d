"""Lifetimes that are dropped from the log of allocations change no finding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from drawn import examples
from nkisim.arch import resolve_target
from nkisim.checks.capacity import check_capacity
from nkisim.diagnostics import RECORDER, Place, Recorder
from nkisim.machine import Core
from nkisim.memory import log as logs

SIZES = (6_000, 24_000, 60_000)
"""Bytes per partition of a tile in SBUF: four to forty of them overflow it."""


def played(moves, fewest):
    """Return the findings of a core that allocates, uses and frees tiles, with its number of tiles.

    A move is the slot of a tile, what happens to it, and its form when it is allocated anew.
    """
    core = Core(resolve_target("gen3"), Recorder("simulate"))
    core.memory.log._limit = fewest
    core.memory.log._whole = fewest == 0
    tiles, token = {}, RECORDER.set(core.recorder)
    try:
        for clock, (slot, again, form, rows, placed) in enumerate(moves):
            if slot not in tiles or not again:
                tiles.pop(slot, None)
                psum = form == len(SIZES)
                size = 2048 if psum else SIZES[form]
                address = (0, 2048 * (slot % 7) if psum else 4096 * slot) if placed else None
                region = nl.psum if psum else nl.sbuf
                tiles[slot] = core.memory.allocate((rows, size), nl.uint8, region, "", address)
                # One line for each form, as in a kernel.
                tiles[slot].life.origin.made = ("kernel.py", 10 * form + placed)
            tiles[slot].life.written(clock)
        check_capacity(core, Place("", 1))
    finally:
        RECORDER.reset(token)
    found = {(f.rule.id, f.line, f.seen if f.rule.id in ("M008", "M010") else "") for f in
             core.recorder.findings}  # fmt: skip
    return found, len(core.memory.log)


MOVES = st.tuples(
    st.integers(0, 11),
    st.booleans(),
    st.integers(0, len(SIZES)),
    st.sampled_from([32, 64, 96, 128]),
    st.booleans(),
)


@pytest.fixture(autouse=True)
def small_limit(monkeypatch):
    monkeypatch.setattr(logs, "_FEWEST", 4)


@examples(60)
@given(st.lists(MOVES, min_size=8, max_size=60), st.booleans())
def test_findings_do_not_depend_on_what_is_dropped(moves, only_automatic):
    if only_automatic:
        moves = [(*move[:4], False) for move in moves]
    everything, count = played(moves, 0)
    found, fewer = played(moves, 4)
    assert found == everything
    assert fewer <= count


@pytest.mark.parametrize("address", [True, False])
def test_the_log_of_a_loop_does_not_grow(address):
    lengths = {}

    def kernel(x, turns):
        source = nl.load(x)
        for turn in range(turns):
            at = (0, 2048 * (turn % 4)) if address else None
            tile = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum, address=at)
            nisa.nc_matmul(dst=tile, stationary=source, moving=source)
        lengths[turns] = len(nkisim.machine.CORE.get().memory.log)
        return x

    x = np.ones((8, 8), np.float32)
    for turns in (50, 500):
        nkisim.simulate(kernel)(x, turns)
    assert lengths[500] <= lengths[50] + 4
    nkisim.check(kernel)(x, 50)
    assert lengths[50] > 50


def test_a_ring_that_is_too_small_is_described_as_before():
    """Numbers of tiles and slots count those that were dropped."""

    def kernel(x):
        source = nl.load(x)
        old = None
        for turn in range(100):
            at = (0, 2048 * (turn % 2))
            tile = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum, address=at)
            nisa.nc_matmul(dst=tile, stationary=source, moving=source)
            if turn == 50:
                old = tile
            if turn == 60:
                nisa.tensor_copy(dst=source, src=old)
        return x

    x = np.ones((8, 8), np.float32)
    found = {}
    for strictness in ("check", "simulate"):
        report = nkisim.check(kernel)(x) if strictness == "check" else None
        if report is None:
            with pytest.warns(nkisim.NkiFindingWarning, match="R002") as caught:
                nkisim.simulate(kernel)(x)
            text = " ".join(str(w.message) for w in caught)
        else:
            text = str(report)
        found[strictness] = "tile 52 of this line overwrites tile 50" in text
    assert found == {"check": True, "simulate": True}
