"""New tensors: what they hold, and where they are."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from comparing import assert_same
from each_case import each_case
from oracles import language as oracle
from oracles.elementwise import DTYPES, float32, narrow
from tiles import stored

from .harness import apply, build, stops_with

BUFFERS = ["sbuf", "psum", "private_hbm", "shared_hbm"]
ONE = np.zeros((1, 1), np.float32)
SHAPES = [(1, 1), (128, 3), (7, 2, 5), (33, 2, 1, 3)]


def region(name: str) -> nl.MemoryRegion:
    return nl.MemoryRegion(name)


@each_case("buffer", BUFFERS)
@each_case("dtype", sorted(DTYPES))
@each_case(("function", "value"), [("zeros", 0), ("ones", 1)])
def test_zeros_and_ones_fill_a_tensor_of_any_type_in_any_memory(function, value, dtype, buffer):
    made = build(lambda: getattr(nl, function)((5, 2, 3), getattr(nl, dtype), region(buffer)))
    assert made.buffer == buffer
    assert not made.codes
    assert_same(made.values, np.full((5, 2, 3), value).astype(DTYPES[dtype]))


@each_case("shape", SHAPES)
@each_case("buffer", BUFFERS)
def test_full_repeats_its_value_in_every_shape(shape, buffer):
    made = build(lambda: nl.full(shape, -2.5, nl.float32, buffer=region(buffer)))
    assert (made.buffer, made.codes) == (buffer, frozenset())
    assert_same(made.values, np.full(shape, -2.5, np.float32))


@pytest.mark.parametrize("shape", [(1000,), (300, 40), (2, 3, 4, 5, 2)])
def test_full_in_hbm_is_not_bound_to_128_rows(shape):
    made = build(lambda: nl.full(shape, 7, nl.int32, buffer=nl.shared_hbm))
    assert_same(made.values, np.full(shape, 7, np.int32))


@each_case("buffer", BUFFERS)
@each_case("value", [2**24 + 1, 2**31 - 1, -(2**31)])
def test_full_keeps_every_digit_of_an_integer(value, buffer):
    made = build(lambda: nl.full((2, 3), value, nl.int32, buffer=region(buffer)))
    assert_same(made.values, np.full((2, 3), value, np.int32))


@each_case("dtype", ["bfloat16", "float16", "float8_e4m3", "float8_e5m2"])
@each_case("value", [1 / 3, -0.1, 200.0, 1.0625, float("inf")])
def test_full_rounds_its_value_to_nearest(dtype, value):
    made = build(lambda: nl.full((2, 3), value, getattr(nl, dtype)))
    assert_same(made.values, narrow(np.full((2, 3), value, np.float32), DTYPES[dtype]))


def test_full_in_tfloat32_keeps_ten_fraction_bits():
    # 1 + 2^-11 lies halfway between 1 and the next tfloat32, 1 + 3 * 2^-11 between odd and even
    low = build(lambda: nl.full((1, 1), 1 + 2.0**-11, nl.tfloat32))
    high = build(lambda: nl.full((1, 1), 1 + 3 * 2.0**-11, nl.tfloat32))
    assert (low.values.item(), high.values.item()) == (1.0, 1 + 2.0**-9)


def test_a_fraction_that_fills_an_integer_tile_is_rounded_with_a_finding():
    for value, codes in ((7.5, {"A004"}), (7.0, set())):
        made = build(lambda value=value: nl.full((2, 3), value, nl.int8))
        assert made.codes == codes
        assert_same(made.values, np.full((2, 3), round(value), np.int8))


def test_x4_packs_can_only_be_zero():
    made = build(lambda: nl.zeros((2, 3), nl.float8_e4m3fn_x4))
    assert_same(made.values, np.zeros((2, 3), np.uint32))
    assert stops_with(lambda _: nl.ones((2, 3), nl.float8_e4m3fn_x4), ONE) != "nothing"


def test_default_memory_is_sbuf():
    def kernel(_):
        made = [
            nl.ndarray((2, 2), nl.float32),
            nl.zeros((2, 2), nl.float32),
            nl.ones((2, 2), nl.float32),
            nl.full((2, 2), 3, nl.float32),
        ]
        assert all(tensor.buffer == nl.sbuf for tensor in made)
        return stored(made[1])

    assert nkisim.check(kernel)(ONE).outputs is not None


@pytest.mark.parametrize("buffer", BUFFERS)
def test_ndarray_has_what_it_was_asked_for_and_nothing_in_it(buffer):
    made = build(lambda: nl.ndarray((3, 4), dtype=nl.float16, buffer=region(buffer), name="fresh"))
    assert (made.shape, made.dtype, made.buffer) == ((3, 4), np.float16, buffer)
    assert made.codes  # reading it is a finding
    assert np.isnan(made.values).all()


@pytest.mark.parametrize("shape", [(129, 2), (4,)])
def test_no_tile_has_such_a_shape(shape):
    for make in (nl.ndarray, nl.zeros, nl.ones):
        assert stops_with(lambda _, m=make: m(shape, nl.float32), ONE) != "nothing"


@pytest.mark.parametrize("buffer", ["sbuf", "psum", "private_hbm"])
def test_empty_like_takes_shape_type_and_memory_of_its_model(buffer):
    def make():
        model = nl.full((3, 2, 2), 1, nl.float16, buffer=region(buffer))
        twin = nl.empty_like(model)
        other = nl.empty_like(model, dtype=nl.int32, buffer=nl.shared_hbm, name="other")
        assert (twin.shape, twin.dtype, twin.buffer) == ((3, 2, 2), nl.float16, region(buffer))
        assert (other.shape, other.dtype, other.buffer) == ((3, 2, 2), nl.int32, nl.shared_hbm)
        return model

    # the model is another tensor and keeps its contents
    assert_same(build(make).values, np.ones((3, 2, 2), np.float16))


def test_zeros_like_is_zero_whatever_its_model_holds():
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    made = apply(nl.zeros_like, x)
    assert made.buffer == "sbuf"
    assert_same(made.values, np.zeros((4, 6), np.float32))


@pytest.mark.parametrize("buffer", BUFFERS)
def test_zeros_like_takes_another_type_and_memory(buffer):
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    made = apply(lambda t: nl.zeros_like(t, dtype=nl.int8, buffer=region(buffer)), x)
    assert made.buffer == buffer
    assert_same(made.values, np.zeros((4, 6), np.int8))


def test_a_tensor_like_a_view_has_the_shape_of_the_view():
    x = np.ones((4, 6), np.float32)
    assert apply(lambda t: nl.zeros_like(t[:, 1:6:2]), x).shape == (4, 3)


@each_case(
    "dtype",
    [
        np.float32,
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
        np.int8,
        np.uint8,
        np.int16,
        np.uint16,
        np.int32,
        np.uint32,
    ],
)
def test_shared_constant_holds_the_array_bit_for_bit(dtype):
    kind = np.dtype(dtype)
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 256, (130, 5, kind.itemsize), np.uint8)
    constant = bits.view(kind)[..., 0]
    made = build(lambda: nl.shared_constant(constant))
    assert (made.buffer, made.codes) == ("shared_hbm", frozenset())
    assert made.dtype == kind
    assert np.array_equal(made.values.view(np.uint8), constant.copy().view(np.uint8))


def test_shared_constant_reads_an_npy_file(tmp_path):
    constant = np.arange(12, dtype=np.int16).reshape(3, 4)
    path = tmp_path / "constant.npy"
    np.save(path, constant)
    for where in (path, str(path)):
        made = build(lambda where=where: nl.shared_constant(where))
        assert made.buffer == "shared_hbm"
        assert_same(made.values, constant)


def test_shared_constant_is_loaded_like_an_argument():
    constant = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = np.ones((3, 4), np.float32)
    got = apply(lambda t: nl.add(t, nl.load(nl.shared_constant(constant))), x)
    assert_same(got.values, constant + 1)


def test_changing_the_array_later_does_not_change_the_constant():
    constant = np.zeros((2, 2), np.float32)

    def make():
        made = nl.shared_constant(constant)
        constant[:] = 9
        return made

    assert_same(build(make).values, np.zeros((2, 2), np.float32))


def test_shared_constant_is_no_list_and_has_no_64_bit_type():
    assert stops_with(lambda _: nl.shared_constant([[1.0, 2.0]]), ONE) == "A043"
    assert stops_with(lambda _: nl.shared_constant(np.zeros((2, 2))), ONE) != "nothing"


def test_shared_constant_takes_its_type_from_the_array():
    # The argument dtype= was dropped in 0.3.0.
    def kernel(x):
        return nl.shared_constant(np.zeros((2, 2), np.float32), dtype=nl.int8)

    with pytest.raises(TypeError, match="dtype"):
        nkisim.simulate(kernel)(ONE)


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3, np.bool_])
def test_shared_constant_of_another_type_is_a_finding(dtype):
    # the documentation lists the eleven types above, and the packs
    constant = np.ones((2, 2)).astype(dtype)
    assert stops_with(lambda _: nl.shared_constant(constant), ONE) == "A043"


@each_case("n", [1, 2, 31, 128])
@each_case("dtype", sorted(DTYPES))
def test_identity_matrix_has_ones_on_its_diagonal_only(n, dtype):
    made = build(lambda: nl.shared_identity_matrix(n, getattr(nl, dtype)))
    assert (made.buffer, made.codes) == ("sbuf", frozenset())
    assert_same(made.values, oracle.identity(n).astype(DTYPES[dtype]))


def test_identity_matrix_is_uint8_unless_told_otherwise():
    assert build(lambda: nl.shared_identity_matrix(3)).dtype == np.uint8


def test_identity_matrix_can_be_written_to_a_given_tile():
    def make():
        tile = nl.ndarray((4, 4), nl.bfloat16)
        nl.shared_identity_matrix(4, nl.bfloat16, dst=tile)
        return tile

    assert_same(build(make).values, oracle.identity(4).astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("n", [0, 129])
def test_identity_matrix_must_fit_one_tile(n):
    assert stops_with(lambda _: nl.shared_identity_matrix(n, nl.float32), ONE) == "A043"


def test_product_with_the_identity_returns_the_other_factor():
    # each result is one product with 1 and 127 with 0
    x = float32(np.random.default_rng(0).standard_normal((128, 40)))

    def product(tile):
        return nl.matmul(nl.shared_identity_matrix(128, nl.float32), tile, transpose_x=True)

    assert_same(apply(product, x).values, x)


@pytest.mark.parametrize(
    ("buffer", "sbuf", "psum", "hbm"),
    [
        ("sbuf", True, False, False),
        ("psum", False, True, False),
        ("private_hbm", False, False, True),
        ("shared_hbm", False, False, True),
    ],
)
def test_memories_know_what_they_are(buffer, sbuf, psum, hbm):
    where = region(buffer)
    assert nl.is_sbuf(where) == sbuf
    assert nl.is_psum(where) == psum
    assert nl.is_hbm(where) == hbm
    assert nl.is_on_chip(where) != hbm


def test_hbm_is_another_name_of_private_hbm():
    assert nl.hbm is nl.private_hbm is region("private_hbm")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_filled_tensors_are_what_memset_makes(dtype):
    def by_hand():
        tile = nl.ndarray((3, 4), getattr(nl, dtype))
        nisa.memset(tile, 3)
        return tile

    made = build(lambda: nl.full((3, 4), 3, getattr(nl, dtype)))
    assert_same(made.values, build(by_hand).values)
