"""Loops whose parts two threads share: every part once, and the bits of one thread."""

import threading
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numba
import numpy as np
import pytest
from numba import types

from comparing import assert_same_bits
from fresh_process import printed_by
from nkisim.compiled import helper, panels, parts
from nkisim.compiled.helper import helper_for
from nkisim.compiled.helper_layout import ROWS
from nkisim.compiled.panels import WIDTH, multiply, pack, pack_and_multiply, packed_elements
from nkisim.compiled.parts import part_of, together
from nkisim.compiled.processor import float_lanes
from nkisim.dtypes import combine_rows, row_deviations
from nkisim.dtypes.rows import compiled_exponential, exponential_rows

BF16, F32 = ml_dtypes.bfloat16, np.float32
HEIGHTS = [1, ROWS - 1, ROWS, ROWS + 1, 2 * ROWS, 127, 128, 129]
PRODUCTS = [(128, 128, 512), (128, 9, WIDTH + 1), (17, 128, 2 * WIDTH - 1), (64, 33, WIDTH)]

needs_helper = pytest.mark.usefixtures("helped")


@pytest.fixture
def helped(monkeypatch):
    """Every loop is large enough to be shared."""
    monkeypatch.setattr(helper, "_WORTH_WAKING", 1)
    if not helper_for(1):
        pytest.skip("a single processor, or no POSIX threads: there is no helper")


def alone(function, *arguments):
    """What a function returns whose loops are not shared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(helper, "_WORTH_WAKING", 1 << 62)
        return function(*arguments)


# -- parts -----------------------------------------------------------------------------------------


@numba.njit
def _count(number, counts):
    counts[number] += 1


@numba.njit
def _count_slowly(number, counts):
    for _ in range(1000):
        counts[number] += 1


@numba.njit
def _meet(number, here, met, patience):
    """Say that somebody is at this part, and wait until somebody is at the other."""
    place = types.int64(here.ctypes.data)
    parts._add(place, 1)
    for _ in range(patience):
        if parts._add(place, 0) == 2:
            met[number] = 1
            return


@numba.njit(types.void(types.int64, types.int64[::1]), nogil=True)
def _count_parts(helper, counts):
    together(helper, part_of(_count, (counts,)), counts.size)


@numba.njit(types.void(types.int64, types.int64[::1]), nogil=True)
def _count_parts_slowly(helper, counts):
    together(helper, part_of(_count_slowly, (counts,)), counts.size)


@numba.njit(types.void(types.int64, *2 * [types.int64[::1]], types.int64), nogil=True)
def _meet_in_parts(helper, here, met, patience):
    together(helper, part_of(_meet, (here, met, patience)), met.size)


def met_at_the_first_part(shared):
    here, met = np.zeros(1, np.int64), np.zeros(2, np.int64)
    _meet_in_parts(shared, here, met, 1_000_000)
    return bool(met[0])


@needs_helper
@pytest.mark.parametrize("count", [0, 1, 2, 3, 16, 1000])
def test_every_part_is_computed_once(count):
    for loop, each in ((_count_parts, 1), (_count_parts_slowly, 1000)):
        for shared in (0, helper_for(1)):
            for _ in range(200):
                counts = np.zeros(count, np.int64)
                loop(shared, counts)
                assert (counts == each).all()


@needs_helper
def test_the_helper_computes_parts_while_the_thread_that_called_it_does():
    assert not met_at_the_first_part(0)
    # Other processes may have all processors for a while.
    assert any(met_at_the_first_part(helper_for(1)) for _ in range(1000))


@needs_helper
def test_threads_that_want_the_helper_at_the_same_time():
    def work(seed):
        for size in np.random.default_rng(seed).integers(0, 40, 300):
            counts = np.zeros(size, np.int64)
            _count_parts_slowly(helper_for(1), counts)
            assert (counts == 1000).all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


# -- loops that are shared -------------------------------------------------------------------------


def drawn(rows, width, kind=F32):
    rng = np.random.default_rng(rows * width)
    return (rng.standard_normal((rows, width)) * np.exp2(rng.integers(-6, 6, (rows, 1)))).astype(
        kind
    )


def combined(x, y):
    out = np.zeros(x.shape, BF16)
    combine_rows(out, x, [("add", y, False), ("multiply", F32(0.3), False)])
    return out


def exponentials(x):
    out, sums = np.zeros_like(x), np.zeros(len(x), F32)
    assert exponential_rows(out, x, F32(0.5), x[:, :1].copy(), sums)
    return np.column_stack([out, sums])


def with_nans(x):
    """NaNs of different bits in the first, in the last, and in a row between."""
    for row, bits in ((0, 0x7FC0_0001), (-1, 0xFFC0_0003), (len(x) // 2, 0x7FC1_2345)):
        x[row, ::5] = np.uint32(bits).view(F32)
        x[row, 1::7] = np.uint32(bits ^ 1 << 31).view(F32)
    return x


@needs_helper
@pytest.mark.parametrize("rows", HEIGHTS)
def test_rows_have_the_bits_of_one_thread(rows, monkeypatch):
    monkeypatch.setattr("nkisim.dtypes.convert.NUMBA_ELEMENTS", 1)
    x, y = drawn(rows, 256), drawn(rows, 256, BF16)
    calls = [(combined, x, y), (combined, y, x), (row_deviations, x), (row_deviations, y)]
    if compiled_exponential():
        calls += [(exponentials, x), (exponentials, with_nans(x.copy()))]
    for function, *arguments in calls:
        assert_same_bits(function(*arguments), alone(function, *arguments))


@needs_helper
@pytest.mark.parametrize("size", PRODUCTS)
@pytest.mark.parametrize("add", [False, True])
def test_products_have_the_bits_of_one_thread(size, add):
    if not float_lanes():
        pytest.skip("this processor has not the registers for a block of sums")
    depth, rows, columns = size
    left, right = drawn(depth, rows, BF16).view(np.uint16), drawn(depth, columns, BF16)
    moving = np.empty(packed_elements(depth, columns), np.uint16)
    pack(right.view(np.uint16), moving, WIDTH)
    stationary = np.empty(packed_elements(depth, rows), F32)
    pack(left, stationary, panels.HEIGHT)

    def products():
        first, second = drawn(rows, columns), drawn(rows, columns)
        assert pack_and_multiply(left, moving, first, add)
        multiply(stationary, moving, depth, second, add)
        assert_same_bits(first, second)
        return first

    assert_same_bits(products(), alone(products))


# -- the process -----------------------------------------------------------------------------------

_SHARES = """
import os, threading
import numba, numpy as np
from nkisim.compiled.helper import helper_for
from nkisim.dtypes import combine_rows
from nkisim.dtypes.rows import compiled_operations

def right():
    x = np.arange(1 << 18, dtype=np.float32).reshape(128, -1)
    out = np.empty_like(x)
    combine_rows(out, x, [("add", x, False)])
    return bool((out == 2 * x).all())

def names():
    return sorted(t.name for t in threading.enumerate())
"""


def test_small_loops_start_no_thread_and_large_ones_one():
    before, small, large = printed_by(
        f"{_SHARES}\nbefore = names(); helper_for(1000); small = names(); right(); right()\n"
        "print(json.dumps([before, small, names()]))"
    )
    assert before == small == ["MainThread"]
    assert large == ["MainThread"] + (["nkisim helper"] if helper_for(1 << 20) else [])


def test_one_thread_can_be_asked_for():
    ran, names = printed_by(f"{_SHARES}\nprint(json.dumps([right(), names()]))", NKISIM_THREADS="1")
    assert ran
    assert names == ["MainThread"]


def test_a_process_that_was_forked_has_a_helper_of_its_own():
    code = f"""{_SHARES}
import warnings
assert right()
parent = helper_for(1 << 20)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of threads, which a fork has not
    child = os.fork()
if child == 0:
    os._exit(0 if right() and names() in (["MainThread"], ["MainThread", "nkisim helper"]) else 1)
print(json.dumps([os.waitpid(child, 0)[1], right(), helper_for(1 << 20) == parent]))
"""
    assert printed_by(code) == [0, True, True]


def test_where_no_thread_can_be_started_loops_run_alone(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(helper._Helper, "address", None)
    memory = getattr(helper._Helper, "memory", None)
    try:
        assert helper_for(1 << 20) == 0
        assert_same_bits(combined(drawn(9, 16), drawn(9, 16)), combined(drawn(9, 16), drawn(9, 16)))
    finally:
        helper._Helper.memory = memory  # the helper that runs keeps its own
