"""Drawing bits, and the states and seeds they are drawn from."""

from __future__ import annotations

import numpy as np
import pytest

import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.isa import dropout, rand2, rand_get_state, rand_set_state, rng, set_rng_seed
from oracles import generators as oracle

from .harness_rng import (
    GPSIMD,
    INTEGERS,
    VECTOR,
    each_state,
    each_stream,
    new,
    numbers,
    results,
    run,
    seed_array,
    states,
)

# -- rng -------------------------------------------------------------------------------------------


@each_stream
def test_rng_draws_32_bits_per_element_from_the_lanes_of_its_partitions(target, engine, words):
    got = numbers(target, engine, words, 13, seed=42)
    for lane in (0, 1, 77, 127):
        assert got[lane].tolist() == oracle.seeded_lane(42, lane, words).draw(13)


@each_stream
def test_every_lane_has_its_own_stream(target, engine, words):
    # A pair of lanes that agrees in 4 numbers by chance: 8128 pairs / 2^128.
    got = numbers(target, engine, words, 4)
    assert len({tuple(row) for row in got.tolist()}) == 128


@each_stream
def test_a_seed_repeats_its_numbers_and_another_does_not(target, engine, words):
    first = numbers(target, engine, words, 16, seed=1)
    assert np.array_equal(first, numbers(target, engine, words, 16, seed=1))
    # 2048 pairs of words, equal with a chance of 2^-32 each.
    assert not (first == numbers(target, engine, words, 16, seed=2)).any()


@pytest.mark.parametrize("dtype", INTEGERS)
@each_stream
def test_narrow_types_keep_the_low_bits(target, engine, words, dtype):
    word = numbers(target, engine, words, 9)
    got = numbers(target, engine, words, 9, dtype=dtype)
    assert got.dtype == np.dtype(dtype)
    kept = np.uint32(2 ** (8 * got.dtype.itemsize) - 1)
    assert np.array_equal(got.view(f"u{got.dtype.itemsize}"), word & kept)


@pytest.mark.parametrize("target", ["gen2", "gen3", "gen4"])
def test_rng_goes_on_where_it_stopped(target):
    def body(seed):
        parts = [new((128, 8)), new((128, 2, 4)), new((128, 8))]
        set_rng_seed(seed)
        for part in parts:
            rng(part)
        return parts

    parts = results(body, seed_array(7), target=target)
    words = 24 if target == "gen4" else 1
    flat = np.hstack([part.reshape(128, 8) for part in parts])
    assert np.array_equal(flat, numbers(target, VECTOR, words, 24))


def test_rng_on_some_partitions_moves_only_their_lanes():
    def body(seed):
        whole = new((128, 8))
        set_rng_seed(seed)
        rng(whole[32:64])
        rng(whole[0:32])
        rng(whole[64:128])
        after = new((128, 8))
        rng(after)
        return [whole, after]

    whole, after = results(body, seed_array(7))
    want = numbers("gen4", VECTOR, 24, 16)
    assert np.array_equal(np.hstack([whole, after]), want)


def test_rng_writes_psum():
    def body(seed):
        dst = new((128, 16), "int32", nl.psum)
        set_rng_seed(seed)
        rng(dst)
        return [dst]

    got = results(body, seed_array(7))[0]
    assert np.array_equal(got.view(np.uint32), numbers("gen4", VECTOR, 24, 16))


@pytest.mark.parametrize("target", ["gen2", "gen3", "gen4"])
def test_rng_without_an_engine_is_the_vector_engine(target):
    def body(seed):
        either, vector = new((128, 8)), new((128, 8))
        set_rng_seed(seed)
        rng(either)
        set_rng_seed(seed)
        rng(vector, engine=VECTOR)
        return either, vector

    either, vector = results(body, seed_array(5), target=target)
    assert np.array_equal(either, vector)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32"])
def test_the_bits_of_any_32_bit_word_are_a_seed(dtype):
    def body(seed):
        dst = new((128, 4))
        set_rng_seed(seed)
        rng(dst)
        return [dst]

    got = results(body, seed_array(0xC0490FDB).view(dtype))[0]
    assert np.array_equal(got, numbers("gen4", VECTOR, 24, 4, seed=0xC0490FDB))


# -- states ----------------------------------------------------------------------------------------


@each_state
def test_a_state_comes_back_as_it_was_set(target, engine, words):
    def body(state):
        back = new(state.shape)
        rand_set_state(state, engine=engine)
        rand_get_state(back, engine=engine)
        return [back]

    state = states(words)
    assert np.array_equal(results(body, state, target=target)[0], state)


@each_state
def test_a_saved_state_repeats_the_numbers(target, engine, words):
    def body(state):
        before, first, again = new((128, 5)), new((128, 11)), new((128, 11))
        saved = new(state.shape)
        rand_set_state(state, engine=engine)
        rng(before, engine=engine)
        rand_get_state(saved, engine=engine)
        rng(first, engine=engine)
        rand_set_state(saved, engine=engine)
        rng(again, engine=engine)
        return before, saved, first, again

    state = states(words)
    before, saved, first, again = results(body, state, target=target)
    assert np.array_equal(first, again)
    assert not np.array_equal(before, first[:, :5])
    lane = oracle.Lane(state[127].tolist())
    assert before[127].tolist() == lane.draw(5)
    assert saved[127].tolist() == lane.words
    assert first[127].tolist() == lane.draw(11)


@each_state
def test_a_state_belongs_to_the_lanes_of_its_partitions(target, engine, words):
    def body(state, other):
        back, dst = new(state.shape), new((128, 6))
        rand_set_state(state, engine=engine)
        rand_set_state(other[64:96], engine=engine)
        rand_get_state(back[32:64], engine=engine)
        rand_get_state(back[64:128], engine=engine)
        nisa.tensor_copy(dst=back[0:32], src=state[0:32])
        rng(dst, engine=engine)
        return back, dst

    state, other = states(words), states(words)[::-1].copy()
    back, dst = results(body, state, other, target=target)
    want = state.copy()
    want[64:96] = other[64:96]
    assert np.array_equal(back, want)
    for lane in (63, 64, 95, 96):
        assert dst[lane].tolist() == oracle.Lane(want[lane].tolist()).draw(6)


@pytest.mark.parametrize(("target", "words"), [("gen3", 6), ("gen4", 6), ("gen4", 24)])
def test_the_size_of_a_state_tells_its_engine(target, words):
    engine = VECTOR if words == 24 else GPSIMD

    def body(state):
        dst, back = new((128, 4)), new(state.shape)
        rand_set_state(state)
        rng(dst, engine=engine)
        rand_get_state(back)
        return dst, back

    state = states(words)
    dst, back = results(body, state, target=target)
    lane = oracle.Lane(state[3].tolist())
    assert dst[3].tolist() == lane.draw(4)
    assert back[3].tolist() == lane.words


def test_the_state_of_the_vector_engine_goes_to_psum():
    def body(state):
        back = new(state.shape, buffer=nl.psum)
        rand_set_state(state)
        rand_get_state(back)
        return [back]

    state = states(24)
    assert np.array_equal(results(body, state)[0], state)


def test_a_seed_gives_the_vector_engine_a_state():
    def body(seed):
        state = new((128, 24))
        set_rng_seed(seed)
        rand_get_state(state)
        return [state]

    state = results(body, seed_array(11))[0]
    assert state.ravel().tolist() == oracle.seed_words(11, 128 * 24)


def test_a_state_at_a_dynamic_offset():
    def body(state, which):
        dst = new((1, 4))
        rand_set_state(state.ap([[24, 1], [1, 6]], scalar_offset=which, indirect_dim=1))
        rng(dst, engine=GPSIMD)
        return [dst]

    state = states(24, lanes=1)
    got = results(body, state, np.array([[12]], np.int32))[0]
    assert got[0].tolist() == oracle.Lane(state[0, 12:18].tolist()).draw(4)


# -- engines without a seed ------------------------------------------------------------------------


@each_stream
def test_an_engine_without_a_seed_is_reported_once(target, engine, words):
    def body():
        first, second = new((128, 16)), new((128, 16))
        rng(first, engine=engine)
        rng(second, engine=engine)
        return first, second

    report = run(body, target=target)
    (finding,) = report.findings
    assert (finding.rule.id, finding.severity, finding.count) == ("R012", "warning", 1)
    assert engine.name in finding.message
    assert finding.file == __file__
    again = run(body, target=target)
    assert again.codes == {"R012"}
    for a, b in zip(report.outputs, again.outputs, strict=True):
        assert np.array_equal(a, b)


def test_each_engine_without_a_seed_is_reported_and_has_its_own_numbers():
    def body():
        vector, gpsimd = new((128, 16)), new((128, 16))
        rng(vector, engine=VECTOR)
        rng(gpsimd, engine=GPSIMD)
        return vector, gpsimd

    for target in ("gen3", "gen4"):
        report = run(body, target=target)
        assert [f.rule.id for f in report.findings] == ["R012", "R012"]
        assert not (report.outputs[0] == report.outputs[1]).any()


def test_a_seed_on_another_engine_does_not_count():
    def body(seed):
        dst = new((128, 16))
        set_rng_seed(seed)
        rng(dst, engine=GPSIMD)
        return [dst]

    (finding,) = run(body, seed_array(1)).findings
    assert finding.rule.id == "R012"
    assert "only the vector engine" in finding.seen


def test_lanes_without_a_state_are_reported():
    def body(state):
        inside, outside = new((32, 4)), new((64, 4))
        rand_set_state(state, engine=GPSIMD)
        rng(inside, engine=GPSIMD)
        rng(outside, engine=GPSIMD)
        return inside, outside

    (finding,) = run(body, states(6, lanes=32)).findings
    assert finding.rule.id == "R012"
    assert "32 of 64" in finding.seen


@pytest.mark.parametrize("draw", ["rand2", "dropout", "rand_get_state"])
def test_every_use_of_an_engine_without_a_seed_is_reported(draw):
    def body(tile):
        dst = new((128, 24), "uint32" if draw == "rand_get_state" else "float32")
        if draw == "rand2":
            rand2(dst, 0.0, 1.0)
        elif draw == "dropout":
            dropout(dst, tile, 0.5)
        else:
            rand_get_state(dst)
        return [dst]

    report = run(body, np.ones((128, 24), np.float32))
    assert report.codes - {"W003"} == {"R012"}  # not every one of them uses the tile
    assert report.ok


def test_a_run_does_not_inherit_the_seed_of_another():
    seeded = numbers("gen4", VECTOR, 24, 4)

    def body():
        dst = new((128, 4))
        rng(dst)
        return [dst]

    report = run(body)
    assert report.codes == {"R012"}
    assert not (report.outputs[0] == seeded).any()
