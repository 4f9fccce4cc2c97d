"""Products on the matrix unit, against float64 and against exact integers."""

import itertools
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh_process import printed_by
from nkisim.compiled import matrix_unit
from nkisim.compiled.matrix_unit import available, multiply, pack_moving, pack_stationary
from nkisim.dtypes import DTYPES

BFLOAT16 = ml_dtypes.bfloat16
FLOAT8 = [d for d in DTYPES.values() if d.kind == "float" and d.itemsize == 1]
DEPTHS = WIDTHS = (1, 2, 31, 32, 33, 127, 128)
LENGTHS = (1, 15, 16, 17, 511, 512, 513)
GUARD = np.float32(-7.25)

needs_unit = pytest.mark.usefixtures("unit")


@pytest.fixture(scope="module")
def unit():
    """Asked for when a test runs, not at its import: the answer takes seconds to compile."""
    if not available():
        pytest.skip("this processor has no matrix unit")


def sizes(most):
    return st.integers(1, most)


def in_the_middle(values, before=3, after=2):
    """Values as part of a wider and longer array, so that rows are apart; and that array."""
    height, width = values.shape
    whole = np.zeros((height + 2, width + before + after), values.dtype)
    part = whole[1:-1, before : before + width]
    part[...] = values
    return part, whole


def product(left, right, add_to=None, table=None):
    """``left.T @ right`` of stored matrices; nothing outside the result may be written."""
    shape = left.shape[1], right.shape[1]
    first = np.full(shape, np.nan, np.float32) if add_to is None else add_to
    out, whole = in_the_middle(first)
    outside = np.ones(whole.shape, bool)
    outside[1:-1, 3:-2] = False
    whole[outside] = GUARD
    packed = pack_stationary(left, table), pack_moving(right, table)
    assert all(operand is not None for operand in packed)
    multiply(*packed, out, add=add_to is not None)
    assert (whole[outside] == GUARD).all()
    return out.copy()


def bound(left, right):
    """Largest error of the unit's sums.

    A term is exact and passes through no more roundings than there are terms: gamma_K of the sum of
    magnitudes. K steps, and two for each 32 rows, may each give 0 for a subnormal.
    """
    depth = left.shape[0]
    unit = 2.0**-24
    gamma = depth * unit / (1 - depth * unit)
    flushes = depth + 2 * -(-depth // 32)
    return gamma * (np.abs(left).T @ np.abs(right)) + flushes * 2.0**-126


def drawn(seed, *shape):
    """Normal numbers of widely different sizes, as bfloat16."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape) * np.exp2(rng.integers(-20, 20, shape))
    return values.astype(BFLOAT16)


@needs_unit
@pytest.mark.parametrize("depth", DEPTHS)
def test_products_of_every_shape_are_within_the_bound(depth):
    for width, length in itertools.product(WIDTHS, LENGTHS):
        left, right = drawn(width, depth, width), drawn(1000 + length, depth, length)
        got = product(left.view(np.uint16), right.view(np.uint16))
        left, right = left.astype(np.float64), right.astype(np.float64)
        assert (np.abs(got - left.T @ right) <= bound(left, right)).all(), (width, length)


@needs_unit
@given(sizes(300), sizes(200), sizes(700), st.integers(0, 2**32), st.booleans())
def test_small_integers_are_exact(depth, width, length, seed, add):
    rng = np.random.default_rng(seed)
    # At most 300 * 31^2 + 1000, below 2^24: every sum is exact in float32.
    left, right = rng.integers(-31, 32, (depth, width)), rng.integers(-31, 32, (depth, length))
    old = rng.integers(-1000, 1001, (width, length)).astype(np.float32) if add else None
    stored = (in_the_middle(x.astype(BFLOAT16).view(np.uint16))[0] for x in (left, right))
    wanted = left.T @ right + (old if add else 0)
    np.testing.assert_array_equal(product(*stored, old), wanted)


@needs_unit
@pytest.mark.parametrize("shape", [(128, 128, 512), (33, 17, 47)])
def test_sums_that_go_on_are_within_the_bound(shape):
    depth, width, length = shape
    left, right = drawn(1, depth, width), drawn(2, depth, length)
    old = np.random.default_rng(3).standard_normal((width, length), np.float32) * 2**20
    got = product(left.view(np.uint16), right.view(np.uint16), old)
    left, right = left.astype(np.float64), right.astype(np.float64)
    # What is there is one more term, and so passes through one more rounding.
    gamma = (depth + 1) * 2.0**-24 / (1 - (depth + 1) * 2.0**-24)
    terms = np.abs(left).T @ np.abs(right) + np.abs(old)
    assert (np.abs(got - (left.T @ right + old)) <= gamma * terms + 2 * depth * 2.0**-126).all()


@needs_unit
@pytest.mark.parametrize("offset", range(0, 64, 4))
def test_out_may_begin_anywhere(offset):
    values = np.arange(40 * 64).reshape(40, 64) % 61
    stored = values.astype(BFLOAT16).view(np.uint16)
    memory = np.empty(64 * 64 * 4 + 128, np.uint8)
    begin = -memory.ctypes.data % 64 + offset
    out = memory[begin : begin + 64 * 64 * 4].view(np.float32).reshape(64, 64)
    packed = pack_stationary(stored), pack_moving(stored)
    for add in (False, True):
        multiply(*packed, out, add=add)
    # At most 2 * 40 * 60^2, below 2^24.
    np.testing.assert_array_equal(out, 2 * values.T @ values)


@needs_unit
def test_rows_may_run_backwards_or_repeat():
    values = np.arange(40 * 50).reshape(40, 50) % 61
    stored = values.astype(BFLOAT16).view(np.uint16)
    once = np.broadcast_to(stored[:1], stored.shape)
    # At most 40 * 60^2, below 2^24.
    wanted = values[::-1].T @ np.broadcast_to(values[:1], values.shape)
    np.testing.assert_array_equal(product(stored[::-1], once), wanted)


@needs_unit
def test_nan_and_infinity_go_where_matmul_has_them():
    left, right = drawn(6, 64, 40), drawn(7, 64, 50)
    left[3, 5], left[40, 6], left[2, 7] = np.nan, np.inf, -np.inf
    right[10, 20], right[3, 30], right[40, 31], right[2, 32] = np.nan, np.inf, -np.inf, 0
    with np.errstate(invalid="ignore"):
        wanted = left.astype(np.float32).T @ right.astype(np.float32)
    got = product(left.view(np.uint16), right.view(np.uint16))
    special = ~np.isfinite(wanted)
    np.testing.assert_array_equal(got[special], wanted[special])
    assert np.isfinite(got[~special]).all()


@needs_unit
@pytest.mark.parametrize("pack", [pack_stationary, pack_moving])
def test_operands_with_a_subnormal_are_refused(pack):
    patterns = np.arange(65536, dtype=np.uint16)
    subnormal = ((patterns & 0x7F80) == 0) & ((patterns & 0x7F) != 0)
    assert pack(np.where(subnormal, 0, patterns).astype(np.uint16).reshape(256, 256)) is not None
    stored = np.full((37, 45), 0x3F80, np.uint16)
    where = np.random.default_rng(8).integers(0, stored.size, 65536)
    for pattern, place in zip(patterns[subnormal], where, strict=False):
        stored.flat[place] = pattern
        assert pack(stored) is None, (hex(pattern), place)
        stored.flat[place] = 0x3F80


@needs_unit
@pytest.mark.parametrize("pack", [pack_stationary, pack_moving])
def test_subnormals_are_found_in_every_place_and_not_beyond_it(pack):
    whole = np.full((36, 40), 1, np.uint16)
    stored = whole[1:34, 2:35]
    stored[...] = 0
    assert pack(stored) is not None
    for place in np.ndindex(stored.shape):
        stored[place] = 0x8001
        assert pack(stored) is None, place
        stored[place] = 0


@needs_unit
def test_underflow_is_zero():
    left, right = np.full((2, 1), 2.0**-70, BFLOAT16), np.full((2, 1), 2.0**-60, BFLOAT16)
    assert product(left.view(np.uint16), right.view(np.uint16)) == 0


@needs_unit
@pytest.mark.parametrize("dtype", FLOAT8)
def test_every_8_bit_pattern_is_taken_exactly(dtype):
    codes = np.arange(256, dtype=np.uint8)
    values = codes.view(dtype.numpy).astype(BFLOAT16)
    exact = codes.view(dtype.numpy).astype(np.float64)
    np.testing.assert_array_equal(values.astype(np.float64), exact)
    table = values.view(np.uint16)
    # One row is picked by a one, so a sum has one term that is not zero.
    one = int(np.float32(1).astype(dtype.numpy).view(np.uint8))
    for row, column in ((0, 0), (1, 200), (40, 17)):
        picker = np.zeros((41, 1), np.uint8)
        picker[row] = one
        stored = np.zeros((41, 256), np.uint8)
        stored[row] = np.roll(codes, column)
        wanted = np.roll(values, column).astype(np.float32)
        np.testing.assert_array_equal(product(picker, stored, table=table)[0], wanted)
        np.testing.assert_array_equal(product(stored, picker, table=table)[:, 0], wanted)


@needs_unit
@given(sizes(150), sizes(100), sizes(200), st.integers(0, 2**32), st.sampled_from(FLOAT8))
def test_8_bit_operands_give_what_their_bfloat16_do(depth, width, length, seed, dtype):
    rng = np.random.default_rng(seed)
    table = np.arange(256, dtype=np.uint8).view(dtype.numpy).astype(BFLOAT16).view(np.uint16)
    left, right = (rng.integers(0, 256, (depth, n), np.uint8) for n in (width, length))
    wide = table[left], table[right]
    np.testing.assert_array_equal(product(left, right, table=table), product(*wide))


@needs_unit
def test_two_threads_multiply_at_once():
    shapes = ((128, 128, 512), (100, 70, 300))
    operands = [
        (drawn(9, k, m).view(np.uint16), drawn(10, k, n).view(np.uint16)) for k, m, n in shapes
    ]
    wanted = [product(*pair) for pair in operands]

    def repeatedly(i):
        return all(np.array_equal(product(*operands[i]), wanted[i]) for _ in range(300))

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(repeatedly, (0, 1)))


@needs_unit
def test_arguments_that_do_not_fit_are_refused():
    stored = np.zeros((64, 64), np.uint16)
    stationary, moving = pack_stationary(stored), pack_moving(stored)
    with pytest.raises(ValueError, match="dense"):
        pack_moving(stored[:, ::2])
    with pytest.raises(ValueError, match="256 entries"):
        pack_moving(stored.view(np.uint8))
    with pytest.raises(ValueError, match="dense"):
        multiply(stationary, moving, np.zeros((64, 128), np.float32)[:, ::2], add=False)
    with pytest.raises(ValueError, match="fit"):
        multiply(stationary, moving, np.zeros((64, 65), np.float32), add=False)
    with pytest.raises(ValueError, match="fit"):
        multiply(stationary, pack_moving(stored[:32]), np.zeros((64, 64), np.float32), add=False)


@needs_unit
def test_read_only_operands_are_taken():
    stored = np.full((8, 8), 0x3F80, np.uint16)
    stored.flags.writeable = False
    np.testing.assert_array_equal(product(stored, stored), np.full((8, 8), 8))


def test_a_processor_that_says_it_has_the_unit_is_believed():
    # Without this a fault in the code would look like a processor without the unit, and be skipped.
    flags = Path("/proc/cpuinfo")
    if not flags.exists() or "amx_bf16" not in flags.read_text():
        pytest.skip("this processor has no matrix unit")
    if numba.config.DISABLE_JIT or numba.config.CPU_NAME or numba.config.CPU_FEATURES:
        pytest.skip("numba is told not to compile for this processor")
    assert available()


def test_without_numba_there_is_none(monkeypatch):
    monkeypatch.delitem(sys.modules, "numba")
    assert not available()


@pytest.mark.parametrize(
    ("setup", "variables"),
    [
        ("", {}),
        ("import numba", {"NUMBA_DISABLE_JIT": "1"}),
        ("import numba", {"NUMBA_CPU_NAME": "generic"}),
        ("import numba", {"NUMBA_CPU_NAME": "skylake-avx512"}),
        ("import numba", {"NUMBA_ENABLE_AVX": "0"}),
    ],
)
def test_a_process_that_cannot_compile_for_the_unit_has_none(setup, variables):
    code = f"""
import sys
{setup}
before = set(sys.modules)
from nkisim.compiled import matrix_unit
print(json.dumps([matrix_unit.available(), "numba" in set(sys.modules) - before]))
"""
    assert printed_by(code, **variables) == [False, False]


@needs_unit
@pytest.mark.parametrize("fault", ["_compiled_for", "_permitted", "_multiplies"])
def test_one_thing_missing_is_enough(fault, monkeypatch):
    monkeypatch.setattr(matrix_unit, fault, lambda: False)
    assert not matrix_unit._works.__wrapped__()
