"""Lines that make tiles again: each tile is as if it were the first, and knows where it is from."""

import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim.arch import GEN3
from nkisim.diagnostics import RECORDER
from nkisim.machine import CORE
from nkisim.memory import CoreMemory

from ..harness_recorders import EachTime

SHAPES = [(4, 4), (4, 8), (2, 3, 4), (4.0, 4), (True, 4), [4, 4], (np.int64(4), 4), (4,)]
SHAPES += [(129, 4), (4, 0), (1, 1, 1, 1, 1, 1), (4, 1 << 20), ([4], 4), (128, 512)]
DTYPES = [nl.float32, nl.bfloat16, nl.int8, "float32", np.float32, np.float64]
BUFFERS = [nl.sbuf, nl.psum, nl.shared_hbm, nl.private_hbm, "sbuf", [1]]
ADDRESSES = [None, (0, 0), (32, 64), (0, 64), [0, 64], (0, 1), (1, 0), (0, 1 << 20), (-32, 0)]

# Mostly what one meets, so that what is known is asked for again.
requests = st.tuples(
    st.one_of(st.sampled_from(SHAPES[:2]), st.sampled_from(SHAPES)),
    st.one_of(st.sampled_from(DTYPES[:2]), st.sampled_from(DTYPES)),
    st.one_of(st.sampled_from(BUFFERS[:2]), st.sampled_from(BUFFERS)),
    st.one_of(st.none(), st.sampled_from(ADDRESSES)),
)


def outcome(memory, shape, dtype, buffer, address):
    """What a request gives: the tile's place, or the refusal, and what was found."""
    recorder = EachTime()
    token = RECORDER.set(recorder)
    try:
        tile = memory.allocate(shape, dtype, buffer, "", address)
    except (nkisim.NkiValidationError, TypeError, ValueError) as error:
        return type(error), str(error).splitlines()[0], recorder.heard
    finally:
        RECORDER.reset(token)
    life, storage = tile.life, tile._storage
    assert list(memory.log)[-1] is life
    assert (life.first_use, life.last_use) == (-1, -1)
    assert tile.shape == life.shape
    assert all(type(extent) is int for extent in tile.shape)
    return (
        (tile.region, str(tile.dtype), tile.buffer, tile.whole, tile.trusted, tile.layout),
        (life.address, tile.origin.row_bytes, tile.origin.precise),
        (storage.pitch, storage.complete or address is not None, storage.data.size),
        (storage.psum is None, tile._owner is storage),
        recorder.heard,
    )


@pytest.mark.parametrize("precise", [True, False])
@given(asked=st.lists(requests, min_size=2, max_size=12))
def test_a_line_that_asks_again_gets_what_another_would(asked, precise):
    memory = CoreMemory(GEN3, precise=precise)
    for request in asked + asked:
        cold = CoreMemory(GEN3, precise=precise)
        assert outcome(memory, *request) == outcome(cold, *request)


@each_case("first", SHAPES, ids=repr)
def test_what_is_equal_to_a_known_shape_is_not_taken_for_it(first):
    for second in SHAPES:
        memory = CoreMemory(GEN3, precise=True)
        for shape in (first, first, second, second):
            cold = CoreMemory(GEN3, precise=True)
            request = (shape, nl.float32, nl.sbuf, None)
            assert outcome(memory, *request) == outcome(cold, *request)


def test_tiles_of_a_line_share_no_bytes():
    memory = CoreMemory(GEN3, precise=True)
    for shape, buffer in [((4, 4), nl.sbuf), ((128, 512), nl.sbuf), ((4, 4), nl.psum)]:
        tiles = [memory.allocate(shape, nl.float32, buffer) for _ in range(4)]
        assert len({tile._elements.ctypes.data for tile in tiles}) == 4
        assert len({id(tile.life) for tile in tiles}) == 4


@pytest.mark.parametrize("buffer", [nl.sbuf, nl.psum], ids=["sbuf", "psum"])
def test_placed_tiles_of_a_line_share_bytes_and_nothing_else(buffer):
    memory = CoreMemory(GEN3, precise=True)
    tiles = [memory.allocate((4, 4), nl.float32, buffer, "", (0, 64)) for _ in range(4)]
    assert len({tile._elements.ctypes.data for tile in tiles}) == 1
    assert len({id(tile._owner) for tile in tiles}) == 4
    # What owns a tile dies with its last view.
    tile = tiles.pop()
    owner, view = weakref.ref(tile._owner), tile[0:2, 0:2]
    del tile
    assert owner() is view._owner
    del view
    assert owner() is None


# Where they are from


def lines_of(kernel):
    """File and line of the tiles that a kernel without arguments of its own allocates."""
    found = []

    def run(x):
        kernel()
        found.extend(life.line for life in CORE.get().memory.log if life.region is nl.sbuf)
        return x

    nkisim.simulate(run)(np.ones((4, 4), np.float32))
    return found


def test_records_know_the_line_that_asked():
    def helper():
        return nl.ndarray((4, 4), nl.float32)

    def kernel():
        for _ in range(3):
            nl.ndarray((4, 4), nl.float32)
            nl.ndarray((4, 4), nl.float32)
            helper()
            nl.zeros((4, 4), nl.float32)
            nl.ndarray((4, 4), nl.float32, buffer=nl.sbuf, address=(0, 64))

    first = kernel.__code__.co_firstlineno
    wanted = [first + 2, first + 3, helper.__code__.co_firstlineno + 1, first + 5, first + 6]
    assert [line for _, line in lines_of(kernel)] == 3 * wanted


def test_code_that_takes_the_place_of_dead_code_is_not_taken_for_it():
    """Functions that come and go, all with the same instructions, in memory that is used again."""
    source = "def made():\n    nl.ndarray((4, 4), nl.float32)\n"

    def kernel():
        for number in range(60):
            scope = {"nl": nl}
            exec(compile("\n" * number + source, f"kernel_{number}.py", "exec"), scope)
            for _ in range(2):
                scope["made"]()

    wanted = [(f"kernel_{number}.py", number + 2) for number in range(60) for _ in range(2)]
    assert lines_of(kernel) == wanted


def test_tiles_of_a_line_are_written_and_read_apart():
    def kernel(x):
        kept = []
        for number in range(5):
            tile = nl.ndarray((4, 4), nl.float32)
            nisa.memset(tile, float(number))
            kept.append(tile)
        out = nl.ndarray((5, 4, 4), nl.float32, buffer=nl.shared_hbm)
        for number, tile in enumerate(kept):
            nisa.dma_copy(out[number], tile)
        return out

    result = nkisim.simulate(kernel)(np.ones((4, 4), np.float32))
    np.testing.assert_array_equal(result, np.arange(5.0)[:, None, None] * np.ones((4, 4)))
