"""Accumulation groups: when a matmul overwrites and when it adds, element by element."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.memory.psum import AccumulationState
from oracles import matmul as oracle
from pairwise import pairwise
from tiles import loaded, stored

# Small integers: every sum below is an integer far under 2^24, so float32 holds it exactly.
ROWS, COLUMNS = 8, 16


def whole(shape, seed):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


@nkisim.jit
def k_loop(stationary, moving, mode):
    """stationary.T @ moving with the contraction cut in blocks of 128."""
    k, m = stationary.shape
    acc = nl.ndarray((m, moving.shape[1]), dtype=nl.float32, buffer=nl.psum)
    for block in range(k // 128):
        rows = slice(block * 128, (block + 1) * 128)
        a, b = loaded(stationary[rows, :]), loaded(moving[rows, :])
        if mode == "none":
            nisa.nc_matmul(dst=acc, stationary=a, moving=b)
        elif mode == "flag":
            nisa.nc_matmul(dst=acc, stationary=a, moving=b, accumulate=(block > 0))
        else:
            nisa.nc_matmul(dst=acc, stationary=a, moving=b, accumulate=False)
    return stored(acc)


class Owner:
    """Stands for the allocation through which matmuls write."""


def columns(first, last):
    """The region of some float32 columns of two rows, 64 bytes apart."""
    return 4 * first, (2, last - first), (64, 4), 4


def test_what_another_engine_wrote_is_not_open():
    """A matmul opens eight columns, a copy writes the first four: four are left."""
    state, owner, other = AccumulationState(64), Owner(), Owner()
    assert state.opened(owner, columns(0, 8)) is False
    state.open(owner, columns(0, 8))
    assert state.opened(owner, columns(0, 8)) is True
    assert state.opened(owner, columns(2, 6)) is True
    assert state.opened(other, columns(2, 6)) is False
    state.write(owner, columns(0, 4))
    np.testing.assert_array_equal(state.opened(owner, columns(2, 6)), [[0, 0, 1, 1]] * 2)
    np.testing.assert_array_equal(state.opened(owner, columns(6, 10)), [[1, 1, 0, 0]] * 2)
    assert state.opened(owner, columns(0, 4)) is False
    state.open(owner, columns(2, 4))
    np.testing.assert_array_equal(state.opened(owner, columns(0, 8)), [[0, 0] + [1] * 6] * 2)


SPANS = st.tuples(st.integers(0, 7), st.integers(1, 8)).filter(lambda span: span[0] < span[1])


@given(st.lists(st.tuples(st.sampled_from(["matmul", "read", "write"]), SPANS), max_size=8), SPANS)
def test_a_sum_is_evicted_where_an_open_element_was_read_since_its_last_matmul(steps, asked):
    """Other engines write the whole tile here; a write into a part ends all groups there."""
    state, owner = AccumulationState(64), Owner()
    is_open, was_read = np.zeros(8, bool), np.zeros(8, bool)
    for step, (first, last) in steps:
        region, part = columns(first, last), slice(first, last)
        if step == "matmul":
            state.open(owner, region)
            is_open[part], was_read[part] = True, False
        elif step == "read":
            state.read(region)
            was_read[part] = True
        else:
            state.write(owner, columns(0, 8))
            is_open[:] = False
    part = slice(*asked)
    assert state.evicted(owner, columns(*asked)) == (is_open[part] & was_read[part]).any()


@pytest.mark.parametrize("size", [1, 2, 4])
def test_writes_of_any_element_close_what_they_cover(size):
    """Another engine sees the bytes of float32 as elements of another size."""
    state, owner = AccumulationState(64), Owner()
    state.open(owner, columns(0, 8))
    state.write(owner, (0, (2, 16 // size), (64, size), size))
    np.testing.assert_array_equal(state.opened(owner, columns(2, 6)), [[0, 0, 1, 1]] * 2)


@pytest.mark.parametrize("target", ["gen2", "gen3", "gen4"])
@pytest.mark.parametrize("mode", ["none", "flag"])
def test_a_long_contraction(target, mode):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((512, 32)).astype(np.float32)
    b = rng.standard_normal((512, 64)).astype(np.float32)
    report = nkisim.check(k_loop, target=target)(a, b, mode)
    assert report.ok
    assert not report.codes & {"M002", "M003", "M004", "M042", "M043"}
    want = oracle.matmul(a, b)
    # Four partial sums meet in PSUM: three more additions than within one matmul.
    want.roundings += 3
    assert (np.abs(report.outputs - want.value) <= want.tolerance).all()


def test_false_keeps_the_last_product_only():
    a, b = whole((256, 8), 0), whole((256, 16), 1)
    with pytest.warns(nkisim.NkiFindingWarning, match="W001"):
        got = nkisim.simulate(k_loop)(a, b, "false")
    np.testing.assert_array_equal(got, oracle.matmul(a[128:], b[128:]).value)


# Any sequence of products into overlapping parts of one tile


@nkisim.jit
def sequence(stationary, moving, blocks):
    """One matmul per block (row, column, rows, columns, accumulate), all of one contraction."""
    a, b = loaded(stationary), loaded(moving)
    acc = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
    # Columns alone: the Tensor engine writes rows from a legal partition on.
    for block in blocks:
        nisa.nc_matmul(
            dst=acc[0 : block[2], block[1] : block[1] + block[3]],
            stationary=a[:, 0 : block[2]],
            moving=b[:, block[1] : block[1] + block[3]],
            accumulate=block[4],
        )
    return stored(acc)


@st.composite
def blocks(draw):
    """Blocks, the first of which fills the tile, and no True on elements that nobody wrote."""
    found = []
    model = oracle.Accumulators(ROWS, COLUMNS)
    for _ in range(draw(st.integers(1, 6))):
        rows = draw(st.integers(1, ROWS))
        column = draw(st.integers(0, COLUMNS - 1))
        columns = draw(st.integers(1, COLUMNS - column))
        choices = [None, False]
        if model.opened(0, column, rows, columns):
            choices.append(True)
        found.append((0, column, rows, columns, draw(st.sampled_from(choices))))
        model.add(0, column, np.zeros((rows, columns)), found[-1][4])
    return found


@given(blocks())
def test_each_element_has_its_own_history(drawn):
    a, b = whole((4, ROWS), 0), whole((4, COLUMNS), 1)
    product = oracle.matmul(a, b).value
    model = oracle.Accumulators(ROWS, COLUMNS)
    for row, column, rows, columns, accumulate in drawn:
        model.add(row, column, product[:rows, column : column + columns], accumulate)
    report = nkisim.check(sequence)(a, b, tuple(drawn))
    assert "M003" not in report.codes
    assert ("M002" in report.codes) == (not model.opened(0, 0, ROWS, COLUMNS))
    np.testing.assert_array_equal(report.outputs, model.array())


def test_none_overwrites_the_new_part_and_adds_to_the_old():
    a, b = whole((4, ROWS), 2), whole((4, COLUMNS), 3)
    got = nkisim.simulate(sequence)(a, b, ((0, 0, ROWS, 10, None), (0, 6, ROWS, 10, None)))
    product = oracle.matmul(a, b).value
    want = product.copy()
    want[:, 6:10] *= 2
    np.testing.assert_array_equal(got, want)


# Re-use


@nkisim.jit
def fresh_tile_each_time(stationary, moving, address):
    a, b = loaded(stationary), loaded(moving)
    outs = []
    for _ in range(3):
        acc = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum, address=address)
        nisa.nc_matmul(dst=acc, stationary=a, moving=b)
        nisa.nc_matmul(dst=acc, stationary=a, moving=b)
        outs.append(stored(acc))
    return outs


@pytest.mark.parametrize("address", [None, (0, 2048)])
def test_every_allocation_starts_afresh(address):
    a, b = whole((4, ROWS), 4), whole((4, COLUMNS), 5)
    report = nkisim.check(fresh_tile_each_time)(a, b, address)
    assert not report.codes & {"M003", "M004", "M043"}
    for got in report.outputs:
        np.testing.assert_array_equal(got, 2 * oracle.matmul(a, b).value)


@nkisim.jit
def one_tile_used_twice(stationary, moving, second):
    a, b = loaded(stationary), loaded(moving)
    acc = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a, moving=b)
    first = stored(acc)
    nisa.nc_matmul(dst=acc, stationary=a, moving=b, accumulate=second)
    return first, stored(acc)


def test_none_goes_on_adding_after_an_eviction_with_a_finding():
    a, b = whole((4, ROWS), 6), whole((4, COLUMNS), 7)
    product = oracle.matmul(a, b).value
    report = nkisim.check(one_tile_used_twice)(a, b, None)
    assert not report.ok
    assert "M043" in report.codes
    np.testing.assert_array_equal(report.outputs[0], product)
    np.testing.assert_array_equal(report.outputs[1], 2 * product)


PARTS = {"whole": ((0, 16),), "halves": ((0, 8), (8, 16)), "overlapping": ((0, 10), (6, 16))}


def used_again(stationary, moving, first, second, accumulate):
    a, b = loaded(stationary), loaded(moving)
    acc = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
    for left, right in first:
        nisa.nc_matmul(dst=acc[:, left:right], stationary=a, moving=b[:, left:right])
    before = stored(acc)
    for left, right in second:
        part, columns = acc[:, left:right], b[:, left:right]
        nisa.nc_matmul(dst=part, stationary=a, moving=columns, accumulate=accumulate)
    return before, stored(acc)


@pytest.mark.parametrize(("accumulate", "rule"), [(None, "M043"), (True, "M042")])
@pytest.mark.parametrize("second", PARTS)
@pytest.mark.parametrize("first", PARTS)
def test_a_second_use_in_other_parts_is_an_error_too(first, second, accumulate, rule):
    a, b = whole((4, ROWS), 6), whole((4, COLUMNS), 7)
    report = nkisim.check(used_again)(a, b, PARTS[first], PARTS[second], accumulate)
    assert {f.rule.id for f in report.errors} == {rule}, str(report)
    assert not (report.outputs[0] == report.outputs[1]).all()


def test_false_starts_a_new_group_after_an_eviction():
    a, b = whole((4, ROWS), 6), whole((4, COLUMNS), 7)
    report = nkisim.check(one_tile_used_twice)(a, b, False)
    assert report.ok
    assert "M043" not in report.codes
    np.testing.assert_array_equal(report.outputs[1], oracle.matmul(a, b).value)


# Sums that no matmul began


@nkisim.jit
def added_to(stationary, moving, begun):
    a, b = loaded(stationary), loaded(moving)
    acc = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
    if begun == "memset":
        nisa.memset(dst=acc, value=3.0)
    elif begun == "matmul":
        nisa.nc_matmul(dst=acc, stationary=a, moving=b, accumulate=False)
    elif begun == "half":
        nisa.nc_matmul(dst=acc[:, 0:8], stationary=a, moving=b[:, 0:8], accumulate=False)
    nisa.nc_matmul(dst=acc, stationary=a, moving=b, accumulate=True)
    return stored(acc)


@pytest.mark.parametrize("target", ["gen2", "gen3", "gen4"])
def test_adding_to_what_nobody_wrote_is_found(target):
    a, b = whole((4, ROWS), 8), whole((4, COLUMNS), 9)
    report = nkisim.check(added_to, target=target)(a, b, "nothing")
    assert "M003" in report.codes
    assert not report.ok
    assert np.isnan(report.outputs).all()


def test_adding_to_a_half_begun_tile_is_found():
    a, b = whole((4, ROWS), 8), whole((4, COLUMNS), 9)
    report = nkisim.check(added_to)(a, b, "half")
    assert "M003" in report.codes
    np.testing.assert_array_equal(report.outputs[:, :8], 2 * oracle.matmul(a, b).value[:, :8])
    assert np.isnan(report.outputs[:, 8:]).all()


@pytest.mark.parametrize(("target", "found"), [("gen2", True), ("gen3", True), ("gen4", False)])
def test_adding_to_a_filled_tile_is_undefined_before_gen4(target, found):
    a, b = whole((4, ROWS), 10), whole((4, COLUMNS), 11)
    report = nkisim.check(added_to, target=target)(a, b, "memset")
    assert ("M004" in report.codes) == found
    assert "M003" not in report.codes
    np.testing.assert_array_equal(report.outputs, 3 + oracle.matmul(a, b).value)


def test_adding_to_a_begun_group_is_clean():
    a, b = whole((4, ROWS), 10), whole((4, COLUMNS), 11)
    report = nkisim.check(added_to, target="gen2")(a, b, "matmul")
    assert report.ok
    np.testing.assert_array_equal(report.outputs, 2 * oracle.matmul(a, b).value)


@nkisim.jit
def interrupted(stationary, moving, how):
    """A group that something comes between; with ``how`` none, a group that nothing disturbs."""
    a, b = loaded(stationary), loaded(moving)
    acc = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a, moving=b, accumulate=False)
    if how == "read":
        stored(acc)
    elif how == "fill":
        nisa.memset(dst=acc[:, 0:4], value=0.0)
    elif how == "second group":
        nisa.nc_matmul(dst=acc[:, 0:4], stationary=a, moving=b[:, 0:4], accumulate=False)
    nisa.nc_matmul(dst=acc, stationary=a, moving=b, accumulate=True)
    return stored(acc)


@pytest.mark.parametrize(
    ("how", "times"), [("nothing", 2), ("read", 2), ("fill", 1), ("second group", 2)]
)
def test_an_interrupted_group_is_found(how, times):
    a, b = whole((4, ROWS), 14), whole((4, COLUMNS), 15)
    report = nkisim.check(interrupted, target="gen4")(a, b, how)
    product = oracle.matmul(a, b).value
    np.testing.assert_array_equal(report.outputs[:, :4], times * product[:, :4])
    np.testing.assert_array_equal(report.outputs[:, 4:], 2 * product[:, 4:])
    assert ("M042" in report.codes) == (how != "nothing")


@nkisim.jit
def two_groups_at_once(stationary, moving):
    a, b = loaded(stationary), loaded(moving)
    left = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
    right = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
    for k in range(4):
        nisa.nc_matmul(dst=left, stationary=a[:, 0:ROWS], moving=b)
        nisa.nc_matmul(dst=right, stationary=a[:, ROWS : 2 * ROWS], moving=b, accumulate=(k > 1))
    return stored(left), stored(right)


def test_groups_in_two_tiles_do_not_meet():
    a, b = whole((4, 2 * ROWS), 12), whole((4, COLUMNS), 13)
    with pytest.warns(nkisim.NkiFindingWarning, match="W001"):
        left, right = nkisim.simulate(two_groups_at_once)(a, b)
    np.testing.assert_array_equal(left, 4 * oracle.matmul(a[:, :ROWS], b).value)
    np.testing.assert_array_equal(right, 3 * oracle.matmul(a[:, ROWS:], b).value)


def test_sums_that_take_turns_go_on_without_a_finding():
    """Nothing is read in between: neither group is used again."""

    def kernel(stationary, moving):
        a, b = loaded(stationary), loaded(moving)
        tiles = [nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum) for _ in range(2)]
        for _ in range(3):
            for tile in tiles:
                nisa.nc_matmul(dst=tile, stationary=a, moving=b)
        halves = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
        for _ in range(2):
            for half in (halves[:, 0:8], halves[:, 8:16]):
                nisa.nc_matmul(dst=half, stationary=a, moving=b[:, 0:8])
        return [stored(tile) for tile in (*tiles, halves)]

    a, b = whole((4, ROWS), 12), whole((4, COLUMNS), 13)
    report = nkisim.check(kernel, target="gen3")(a, b)
    assert not report.codes & {"M002", "M003", "M004", "M042", "M043", "W001"}, str(report)
    product = oracle.matmul(a, b).value
    for got, times in zip(report.outputs[:2], (3, 3), strict=True):
        np.testing.assert_array_equal(got, times * product)
    np.testing.assert_array_equal(report.outputs[2], 2 * np.tile(product[:, :8], 2))


@nkisim.jit
def bfloat16_group(stationary, moving):
    a, b = loaded(stationary), loaded(moving)
    acc = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.bfloat16, buffer=nl.psum)
    for _ in range(5):
        nisa.nc_matmul(dst=acc, stationary=a, moving=b)
    return stored(acc)


def test_gen4_rounds_a_bfloat16_group_after_every_product():
    rng = np.random.default_rng(0)
    a = rng.integers(-64, 65, (16, 8)).astype(np.float32)
    b = rng.integers(-64, 65, (16, 12)).astype(np.float32)
    got = nkisim.simulate(bfloat16_group, target="gen4")(a, b)
    product = oracle.matmul(a, b).value.astype(np.float32)
    want = product.astype(got.dtype)
    for _ in range(4):
        want = (want.astype(np.float32) + product).astype(got.dtype)
    np.testing.assert_array_equal(got.view(np.uint16), want.view(np.uint16))
    assert np.any(want.astype(np.float32) != 5 * product)


# Several tensors at one address


@pytest.mark.parametrize("values", [True, False])
def test_the_first_matmul_through_each_tensor_overwrites(values):
    """Tensors made up front at one address, and used one after the other, are no mistake."""

    def kernel(stationary, moving):
        a, b = loaded(stationary), loaded(moving)
        banks = [
            nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum, address=(0, 0))
            for _ in range(3)
        ]
        out = nl.ndarray((3, ROWS, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm)
        for i, bank in enumerate(banks):
            for _ in range(2):
                nisa.nc_matmul(dst=bank, stationary=a, moving=b)
            tile = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=tile, src=bank)
            nisa.dma_copy(dst=out[i], src=tile)
        return out

    a, b = whole((4, ROWS), 4), whole((4, COLUMNS), 5)
    report = nkisim.check(kernel, values=values)(a, b)
    assert not report.codes & {"M003", "M004", "M013", "M042", "M043"}
    if values:
        twice = 2 * oracle.matmul(a, b).value
        np.testing.assert_array_equal(report.outputs, np.stack([twice] * 3))


def test_a_tensor_adds_to_what_another_left_at_its_address():
    def kernel(stationary, moving):
        a, b = loaded(stationary), loaded(moving)
        first, second = (
            nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum, address=(0, 0))
            for _ in range(2)
        )
        for bank in (first, second, first):
            nisa.nc_matmul(dst=bank, stationary=a, moving=b)
        return stored(first)

    a, b = whole((4, ROWS), 6), whole((4, COLUMNS), 7)
    report = nkisim.check(kernel)(a, b)
    np.testing.assert_array_equal(report.outputs, 2 * oracle.matmul(a, b).value)
    assert "M043" in report.codes
    assert "already overwritten" in str(report)


def test_none_adds_after_a_reversed_view():
    def kernel(stationary, moving):
        a, b = loaded(stationary), loaded(moving)
        acc = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
        back = acc.ap([[COLUMNS, ROWS], [-1, COLUMNS]], offset=COLUMNS - 1)
        nisa.nc_matmul(dst=back, stationary=a, moving=b)
        nisa.nc_matmul(dst=acc, stationary=a, moving=b)
        return stored(acc)

    a, b = whole((4, ROWS), 8), whole((4, COLUMNS), 9)
    product = oracle.matmul(a, b).value
    got = nkisim.check(kernel)(a, b).outputs
    np.testing.assert_array_equal(got, product + product[:, ::-1])


def test_many_short_lived_tensors_at_one_address_leave_nothing_behind():
    def kernel(stationary, moving):
        a, b = loaded(stationary), loaded(moving)
        for _ in range(300):
            acc = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum, address=(0, 0))
            nisa.nc_matmul(dst=acc, stationary=a, moving=b)
        state = acc._storage.psum
        assert state.tensors == 1
        return stored(acc)

    a, b = whole((4, ROWS), 1), whole((4, COLUMNS), 2)
    np.testing.assert_array_equal(nkisim.check(kernel)(a, b).outputs, oracle.matmul(a, b).value)


def turns(x, count, order, keeps):
    """Loops over tiles at two addresses; ``order`` says what writes them, turn by turn."""
    a = loaded(x)
    out = nl.ndarray((ROWS, ROWS), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((ROWS, ROWS), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    kept = []
    for turn in range(count):
        at = (0, 2048 * (turn % 2))
        tile = nl.ndarray((ROWS, ROWS), dtype=nl.float32, buffer=nl.psum, address=at)
        how = order[turn % len(order)]
        if how == "matmul":
            nisa.nc_matmul(dst=tile, stationary=a, moving=a)
        elif how == "transpose":
            nisa.nc_transpose(dst=tile, data=a)
        elif how == "copy":
            nisa.tensor_copy(dst=tile, src=a)
        else:  # a matmul into one half, after another engine wrote all
            nisa.tensor_copy(dst=tile, src=a)
            nisa.nc_matmul(dst=tile[:, 0:4], stationary=a, moving=a[:, 0:4])
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
        kept.append(tile)
        if len(kept) > keeps:
            kept.pop(0)
    if nl.program_id(0) == 0:
        nisa.dma_copy(dst=out, src=total)
    return out


def sum_of_turns(x, count, order):
    half = np.concatenate([(x.T @ x)[:, :4], x[:, 4:]], axis=1)
    of = {"matmul": x.T @ x, "transpose": x.T, "copy": x, "both": half}
    return sum(of[order[turn % len(order)]] for turn in range(count))


@pytest.mark.parametrize(
    ("order", "keeps", "entry", "cores"),
    pairwise(
        [("matmul", "transpose"), ("matmul", "transpose", "copy"), ("both", "copy")],
        [0, 3],
        ["simulate", "check", "check without values"],
        [None, 2],
    ),
    ids=str,
)
def test_placed_tiles_may_die_in_any_order(order, keeps, entry, cores):
    """More tiles than the bookkeeping of one storage ever held at a time."""
    x, count = whole((ROWS, ROWS), 16), 150
    launched = turns if cores is None else nkisim.jit(turns)[cores]
    if entry == "simulate":
        outputs = nkisim.simulate(launched)(x, count, order, keeps)
    else:
        report = nkisim.check(launched, values=entry == "check")(x, count, order, keeps)
        outputs = report.outputs
        assert not report.stopped
        assert not report.codes & {"M002", "M003", "M004", "M042", "M043", "W001"}, str(report)
    if outputs is not None:
        np.testing.assert_array_equal(outputs, sum_of_turns(x, count, order))


def test_of_dead_tensors_nothing_is_kept():
    state = AccumulationState(1 << 14)
    for turn in range(1000):
        owner, other = Owner(), Owner()
        state.open(owner, columns(turn % 8, 8))
        state.write(other, columns(0, 8))
        state.write(owner, columns(2, 4))
        state.opened(owner, columns(0, 8))
        state.read(columns(0, 8))
        assert state.tensors == 1
    del owner
    assert state.tensors == 0


def test_the_groups_of_tensors_that_lost_their_bytes_are_not_tracked():
    """Tensors that stay in scope share four places: one group is tracked at each."""
    state, owners = AccumulationState(64), [Owner() for _ in range(200)]
    for turn, owner in enumerate(owners):
        place = 4 * (turn % 4)
        state.open(owner, columns(place, place + 4))
        assert state.tracked == min(turn + 1, 4)
    for owner in owners[:-4]:
        assert state.interrupted(owner, columns(0, 4)) or not state.opened(owner, columns(0, 4))
        assert not state.unread(owner, columns(0, 4))


def test_a_tensor_that_takes_its_bytes_back_interrupts_the_other():
    state, first, second = AccumulationState(64), Owner(), Owner()
    for owner in (first, second, first):
        state.open(owner, columns(0, 4))
    assert state.interrupted(second, columns(0, 4))
    assert not state.interrupted(first, columns(0, 4))


def test_the_open_bytes_of_a_small_tensor_take_little_memory():
    """A map of all PSUM would have 2 MiB for each tensor."""

    def size_of(state, owner):
        before = tracemalloc.get_traced_memory()[0]
        state.open(owner, columns(0, 8))
        state.opened(owner, columns(2, 12))
        return tracemalloc.get_traced_memory()[0] - before

    tracemalloc.start()
    try:
        assert size_of(AccumulationState(1 << 14), Owner()) < 1 << 14
    finally:
        tracemalloc.stop()


def test_what_is_kept_of_a_tensor_does_not_grow_with_its_turns():
    """A matmul and another engine write one tile in turn; its state is never read."""

    def size_after(turns):
        state, owner = AccumulationState(1 << 14), Owner()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(turns):
            state.open(owner, columns(0, 8))
            state.write(owner, columns(0, 8))
        return tracemalloc.get_traced_memory()[0] - before

    tracemalloc.start()
    try:
        size_after(2000)  # what Python keeps of a first run
        assert size_after(2000) <= size_after(200) + 1024
    finally:
        tracemalloc.stop()
