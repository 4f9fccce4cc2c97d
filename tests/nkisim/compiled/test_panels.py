"""Products in panels: every sum in the order of its rows, and the bits of BLAS or none at all."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from comparing import assert_same_bits
from fresh_process import printed_by
from nkisim.compiled import panels
from nkisim.compiled.panel_layout import MOST_ROWS
from nkisim.compiled.panels import (
    HEIGHT,
    WIDTH,
    agrees,
    multiply,
    pack,
    pack_and_multiply,
    packed_elements,
)
from nkisim.compiled.processor import float_lanes

BFLOAT16 = ml_dtypes.bfloat16
SIZES = [
    (1, 2, 3),
    (5, 8, 32),
    (128, 128, 512),
    (33, 17, 47),
    (127, 9, 65),
    (64, 7, 31),
    (MOST_ROWS, 8, 40),
]
GUARD = np.float32(-7.25)

needs_registers = pytest.mark.usefixtures("registers")


@pytest.fixture(scope="module")
def registers():
    """Asked for when a test runs, not at its import: the answer takes seconds to compile."""
    import numba  # noqa: F401, which the loops need

    if not float_lanes():
        pytest.skip("this processor has not the registers for a block of sums")


def drawn(seed, *shape):
    """Numbers of widely different sizes, so that another order of sums shows."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape) * np.exp2(rng.integers(-6, 6, shape))
    return values.astype(BFLOAT16)


def in_order(left, right, start=0):
    """The definition: one row after the other; products of bfloat16 are exact in float32."""
    total = np.zeros((left.shape[1], right.shape[1]), np.float32)
    for a, b in zip(left.astype(np.float32), right.astype(np.float32), strict=True):
        total += a[:, None] * b
    return start + total


def in_the_middle(values):
    """Values as part of a larger array, so that rows are apart; and that array."""
    height, width = values.shape
    whole = np.full((height + 2, width + 5), GUARD, values.dtype)
    part = whole[1:-1, 3:-2]
    part[...] = values
    return part, whole


def packed(x, width):
    bits = x.view(np.uint16) if x.dtype == BFLOAT16 else x
    memory = np.empty(packed_elements(*x.shape), np.float32 if width == HEIGHT else bits.dtype)
    assert pack(bits, memory, width)
    return memory


def product(left, right, old=None):
    """``left.T @ right``; nothing outside the result may be written."""
    shape = left.shape[1], right.shape[1]
    out, whole = in_the_middle(np.full(shape, np.nan, np.float32) if old is None else old)
    stationary, moving = packed(left, HEIGHT), packed(right, WIDTH)
    multiply(stationary, moving, len(left), out, old is not None)
    found = out.copy()
    # The same again, packed on the way.
    out[...] = np.nan if old is None else old
    bits = left.view(np.uint16) if left.dtype == BFLOAT16 else left
    assert pack_and_multiply(bits, moving, out, old is not None)
    assert_same_bits(out.copy(), found)
    out[...] = GUARD
    assert (whole == GUARD).all()
    return found


@needs_registers
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [BFLOAT16, np.float32])
def test_sums_go_row_by_row(size, dtype):
    depth, rows, columns = size
    left, right = drawn(1, depth, rows), drawn(2, depth, columns)
    parts = [in_the_middle(x.astype(dtype))[0] for x in (left, right)]
    assert_same_bits(product(*parts), in_order(left, right))
    old = np.random.default_rng(3).standard_normal((rows, columns), np.float32)
    assert_same_bits(product(*parts, old), in_order(left, right, old))


@needs_registers
def test_where_it_agrees_the_bits_are_those_of_blas():
    agreed = 0
    for depth, rows, columns in SIZES:
        if agrees(depth, rows, columns):
            left, right = drawn(4, depth, rows), drawn(5, depth, columns)
            wanted = np.matmul(left.astype(np.float32).T, right.astype(np.float32))
            assert_same_bits(product(left, right), wanted)
            agreed += 1
    if not agreed:
        pytest.skip("the BLAS library of this NumPy sums in another order")


@needs_registers
def test_zeros_keep_the_sign_that_a_sum_gives_them():
    left, right = (np.array([[0.0, -0.0] * 8] * 2, BFLOAT16) for _ in range(2))
    assert_same_bits(product(left, right), in_order(left, right))


@needs_registers
@pytest.mark.parametrize("width", [HEIGHT, WIDTH])
@pytest.mark.parametrize("dtype", [BFLOAT16, np.float32])
def test_infinity_and_nan_are_found_in_every_place_and_not_beyond_it(width, dtype):
    stored, whole = in_the_middle(np.ones((9, 37), dtype))
    whole[whole == GUARD] = np.nan
    bits = stored.view(np.uint16) if dtype is BFLOAT16 else stored
    memory = np.empty(packed_elements(*stored.shape), np.float32 if width == HEIGHT else bits.dtype)
    assert pack(bits, memory, width)
    for place, special in zip(
        np.ndindex(stored.shape), itertools.cycle([np.inf, -np.inf, np.nan]), strict=False
    ):
        stored[place] = special
        assert not pack(bits, memory, width), place
        stored[place] = 1


@needs_registers
def test_a_stationary_operand_with_infinity_leaves_the_result_alone():
    left, right = drawn(6, 9, 16), drawn(7, 9, 40)
    left[8, 15] = np.inf
    out = np.full((16, 40), GUARD)
    assert not pack_and_multiply(left.view(np.uint16), packed(right, WIDTH), out, True)
    assert (out == GUARD).all()


@needs_registers
def test_a_library_that_sums_in_another_order_is_left_alone(monkeypatch):
    def backwards(left, right):
        return in_order(left.T[::-1], right[::-1])

    assert agrees.__wrapped__(16, 16, 16) == agrees(16, 16, 16)
    monkeypatch.setattr(panels.np, "matmul", backwards)
    assert not agrees.__wrapped__(16, 16, 16)


def test_a_vector_is_not_for_panels():
    import numba  # noqa: F401, without which nothing agrees

    assert not agrees(128, 1, 512)
    assert not agrees(128, 128, 1)


def test_more_rows_than_there_is_room_for_are_not_for_panels():
    import numba  # noqa: F401, without which nothing agrees

    assert not agrees(MOST_ROWS + 1, 16, 64)


@pytest.mark.parametrize("variable", ["NUMBA_DISABLE_JIT=1", "NUMBA_CPU_NAME=generic"])
def test_a_process_that_cannot_compile_for_this_processor_leaves_it_to_numpy(variable):
    code = """
from nkisim.compiled import panels
from nkisim.dtypes.rows import compiled_exponential
print(json.dumps([panels.agrees(128, 128, 512), compiled_exponential()]))
"""
    name, _, value = variable.partition("=")
    assert printed_by(code, **{name: value}) == [False, False]


@pytest.mark.slow
@needs_registers
@pytest.mark.parametrize("kernels", ["Haswell", "Zen", "SkylakeX", "Nehalem"])
def test_what_agrees_has_the_bits_of_whatever_kernels_blas_uses(kernels):
    code = """
import ml_dtypes, numba, numpy as np
from nkisim.compiled import panels

right = []
for size in ((128, 128, 512), (128, 128, 128), (33, 17, 47), (100, 100, 100), (128, 2, 128)):
    depth, rows, columns = size
    for kind, stored in ((ml_dtypes.bfloat16, np.uint16), (np.float32, np.float32)):
        if not panels.agrees(*size, kind is not np.float32):
            continue
        for seed in range(5):
            rng = np.random.default_rng(seed)
            a, b = (rng.standard_normal((depth, n)).astype(kind) for n in (rows, columns))
            packed = np.empty(panels.packed_elements(depth, columns), stored)
            out = np.empty((rows, columns), np.float32)
            panels.pack(b.view(stored), packed, panels.WIDTH)
            panels.pack_and_multiply(a.view(stored), packed, out, False)
            wanted = a.astype(np.float32).T @ b.astype(np.float32)
            right.append(out.tobytes() == wanted.tobytes())
print(json.dumps(all(right)))
"""
    assert printed_by(code, OPENBLAS_CORETYPE=kernels) is True
