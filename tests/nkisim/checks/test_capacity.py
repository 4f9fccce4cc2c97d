"""What is live together must fit together, and must not lie in one place."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim.arch import resolve_target
from nkisim.checks import capacity
from nkisim.diagnostics import RECORDER, Place, Recorder
from nkisim.machine import Core
from nkisim.memory import Lifetime, log
from nkisim.memory.layout import Form
from nkisim.memory.log import Origin
from tiles import hbm, sbuf


def lived(shape, dtype, first, last, *, name="", address=None, made=("", 1), kind=Lifetime):
    """Return the record of a tile in SBUF that was in use from one instruction to another."""
    row_bytes = shape[1] * dtype.itemsize
    form = Form(shape, dtype, nl.sbuf, 0, (row_bytes, dtype.itemsize), dtype.itemsize)
    life = kind(Origin(form, name, address, made, row_bytes))
    life.first_use, life.last_use = first, last
    return life


# -- banks -----------------------------------------------------------------------------------------


def live_banks(x, heights):
    """Fill one PSUM bank on each of these numbers of partitions, and then read them all."""
    banks = [nl.ndarray((rows, 512), dtype=nl.float32, buffer=nl.psum) for rows in heights]
    for bank in banks:
        nisa.memset(dst=bank, value=0.0)
    tile, out = sbuf((128, 512)), hbm((128, 512))
    nisa.memset(dst=tile, value=0.0)
    nisa.dma_copy(dst=tile[0:1, 0:1], src=x)
    for bank in banks:
        nisa.tensor_copy(dst=tile[0 : bank.shape[0]], src=bank)
    nisa.dma_copy(dst=out, src=tile)
    return out


def banks_needed(heights):
    """First fit of the highest first, which is best for quarters of a bank."""
    room = []
    for quarters in sorted((-(-rows // 32) for rows in heights), reverse=True):
        for i, left in enumerate(room):
            if left >= quarters:
                room[i] -= quarters
                break
        else:
            room.append(4 - quarters)
    return len(room)


@given(st.lists(st.sampled_from([1, 32, 33, 64, 96, 97, 128]), min_size=1, max_size=20))
def test_psum_overflows_when_no_placement_exists(heights):
    codes = nkisim.check(live_banks)(np.zeros((1, 1), np.float32), tuple(heights)).codes
    assert codes == ({"M010"} if banks_needed(heights) > 8 else set())


@each_case(
    ("heights", "fits"),
    [
        ([96] * 10, False),
        ([96] * 9, False),
        ([96] * 8, True),
        ([96] * 8 + [32] * 8, True),
        ([96] * 8 + [32] * 9, False),
        ([64] * 16, True),
        ([64] * 17, False),
        ([32] * 32, True),
    ],
    ids=str,
)
def test_tiles_of_more_than_half_the_partitions_share_no_bank(heights, fits):
    assert (banks_needed(heights) <= 8) == fits
    codes = nkisim.check(live_banks)(np.zeros((1, 1), np.float32), tuple(heights)).codes
    assert codes == (set() if fits else {"M010"})


def most_live(tiles):
    """Bytes per partition that are in use together at most, instruction by instruction."""
    end = max(last for _, last, _ in tiles) + 1
    return max(
        sum(size for first, last, size in tiles if first <= now <= last) for now in range(end)
    )


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 10), st.integers(1, 60)),
        min_size=1,
        max_size=30,
    )
)
def test_sbuf_overflows_when_more_is_live_than_there_is(drawn):
    unit = 1024
    lives = [(first, first + length, size * unit) for first, length, size in drawn]
    core = Core(resolve_target("gen3"), Recorder("check"))
    for first, last, size in lives:
        core.memory.log.add(lived((128, size), nl.uint8, first, last), core.memory)
    token = RECORDER.set(core.recorder)
    try:
        capacity.check_capacity(core, Place("", 1))
    finally:
        RECORDER.reset(token)
    found = {finding.rule.id: finding for finding in core.recorder.findings}
    peak, limit = most_live(lives), core.generation.sbuf_usable_bytes
    assert set(found) == ({"M008"} if peak > limit else set())
    if found:
        assert found["M008"].seen == f"{peak} bytes"


def test_an_empty_tile_needs_nothing():
    def kernel(x):
        tile = sbuf((0, 4))
        nisa.memset(dst=tile, value=0.0)
        return x

    assert "M008" not in nkisim.check(kernel)(np.zeros((1, 1), np.float32)).codes


@pytest.mark.parametrize("over", [0, 4])
@pytest.mark.parametrize(("rows", "counts"), [(128, True), (65, True), (64, False)])
def test_tiles_of_one_instruction_that_do_not_fit_together_are_an_error(over, rows, counts):
    half = resolve_target("gen3").sbuf_usable_bytes // 2

    def kernel(x):
        first, second = sbuf((rows, half // 4)), sbuf((rows, (half + over) // 4))
        nisa.memset(dst=first, value=0.0)
        nisa.tensor_copy(dst=second[:, 0 : half // 4], src=first)
        nisa.tensor_copy(dst=second[:, 0:4], src=second[:, 4:8])
        return x

    report = nkisim.check(kernel, target="gen3", values=False)(np.zeros((1, 1), np.float32))
    errors = [f.message for f in report.errors if f.rule.id == "M008"]
    assert len(errors) == (1 if over and counts else 0)
    assert all(f"together {2 * half + over} bytes per partition" in text for text in errors)


# -- addresses -------------------------------------------------------------------------------------


def clashes(tiles):
    """Which tiles begin where an earlier one is in use, by comparing all pairs."""
    found = set()
    for j, b in enumerate(tiles):
        for i, a in enumerate(tiles):
            earlier = (a.first_use, i) < (b.first_use, j)
            apart = (
                a.address[0] + a.shape[0] <= b.address[0]
                or b.address[0] + b.shape[0] <= a.address[0]
                or a.address[1] + a.shape[1] <= b.address[1]
                or b.address[1] + b.shape[1] <= a.address[1]
            )
            if earlier and not apart and a.last_use >= b.first_use:
                found.add(j)
    return found


lives = st.tuples(
    st.sampled_from([0, 32, 64, 96]),
    st.integers(1, 32),
    st.integers(0, 40),
    st.integers(1, 12),
    st.integers(0, 30),
    st.integers(0, 8),
)


@given(st.lists(lives, max_size=25))
def test_every_tile_that_begins_in_a_live_one_is_found(drawn):
    tiles = [
        lived(
            (rows, width),
            nl.uint8,
            first,
            first + length,
            name=f"tile {number}",
            address=(partition, byte),
            made=("kernel.py", number),
        )
        for number, (partition, rows, byte, width, first, length) in enumerate(drawn)
    ]
    pairs = log.collisions(tiles)
    assert {max(a, b, key=lambda tile: (tile.first_use, tile.line)).line[1] for a, b in pairs} == (
        clashes(tiles)
    )
    for a, b in pairs:
        assert len(clashes([a, b])) == 1


def test_pairs_are_looked_for_where_tiles_are():
    """The work for each of many placed tiles does not grow with their number."""

    class Counted(Lifetime):
        looks = 0

        def __getattribute__(self, name):
            Counted.looks += 1
            return super().__getattribute__(name)

    def looks(count):
        tiles = [
            lived((128, 4), nl.float32, i, count, address=(0, 16 * i), made=("", i), kind=Counted)
            for i in range(count)
        ]
        Counted.looks = 0
        assert log.collisions(tiles) == []
        return Counted.looks / count

    assert looks(2000) <= 1.5 * looks(20)


def test_an_index_tile_is_in_use_until_rows_are_gathered_with_it():
    def kernel(x, index, early):
        rows = nl.ndarray((4, 1), dtype=nl.int32, buffer=nl.sbuf, address=(0, 64))
        other = nl.ndarray((4, 2), dtype=nl.int32, buffer=nl.sbuf, address=(0, 60))
        got = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf, address=(0, 1024))
        nisa.dma_copy(dst=rows, src=index)
        if early:
            nisa.memset(dst=other, value=1)
        view = x.ap(pattern=[[8, 4], [1, 8]], vector_offset=rows, indirect_dim=0)
        nisa.dma_copy(dst=got, src=view)
        if not early:
            nisa.memset(dst=other, value=1)
        out = hbm((4, 8))
        nisa.dma_copy(dst=out, src=got)
        return out

    x, index = np.ones((9, 8), np.float32), np.array([[0], [8], [2], [3]], np.int32)
    for values in (True, False):
        checked = nkisim.check(kernel, values=values)
        assert checked(x, index, early=True).codes == {"M013"}
        assert checked(x, index, early=False).codes == set()


@pytest.mark.parametrize("instruction", ["dma_copy", "tensor_copy", "dma_compute"])
def test_an_offset_tile_is_in_use_until_it_was_followed(instruction):
    def kernel(x, index, early):
        at = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf, address=(0, 64))
        other = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf, address=(0, 64))
        tile = nl.ndarray((4, 16), dtype=nl.float32, buffer=nl.sbuf, address=(0, 2048))
        got = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf, address=(0, 1024))
        nisa.dma_copy(dst=at, src=index)
        nisa.dma_copy(dst=tile, src=x)
        if early:
            nisa.memset(dst=other, value=1)
        view = tile.ap(pattern=[[16, 4], [1, 8]], scalar_offset=at, indirect_dim=1)
        if instruction == "dma_compute":
            nisa.dma_compute(dst=got, srcs=[view, view], reduce_op=nl.add)
        else:
            getattr(nisa, instruction)(dst=got, src=view)
        if not early:
            nisa.memset(dst=other, value=1)
        out = hbm((4, 8))
        nisa.dma_copy(dst=out, src=got)
        return out

    x, index = np.ones((4, 16), np.float32), np.array([[3]], np.int32)
    for early in (True, False):
        assert ("M013" in nkisim.check(kernel)(x, index, early=early).codes) == early


def one_after_the_other(a, b, upfront, explicit):
    """Products in tiles that all have one address; each is read before the next is begun."""

    def bank():
        return nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum, address=(0, 2048))

    out = hbm((4, 64, 64))
    a_tile, b_tile = nl.load(a), nl.load(b)
    banks = [bank() for _ in range(4 * upfront)]
    for i in range(4):
        acc = banks[i] if upfront else bank()
        for k in range(2):
            part = slice(64 * k, 64 * k + 64)
            accumulate = k > 0 if explicit else None
            nisa.nc_matmul(acc, a_tile[part], b_tile[part], accumulate=accumulate)
        tile = sbuf((64, 64))
        nisa.tensor_copy(dst=tile, src=acc)
        nisa.dma_copy(dst=out[i], src=tile)
    return out


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("upfront", [False, True])
def test_one_address_may_serve_many_tiles_one_after_the_other(upfront, explicit):
    a, b = (np.random.default_rng(i).integers(-4, 5, (128, 64)) for i in range(2))
    a, b = a.astype(np.float32), b.astype(np.float32)
    report = nkisim.check(one_after_the_other)(a, b, upfront, explicit)
    assert "M013" not in report.codes
    if explicit:
        assert report.codes == set()
        np.testing.assert_array_equal(report.outputs, np.broadcast_to(a.T @ b, (4, 64, 64)))
