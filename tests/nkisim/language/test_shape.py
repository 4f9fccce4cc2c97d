"""Tiles in another shape: broadcast_to, expand_dims, transpose, gather_flattened."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim.isa as nisa
import nkisim.language as nl
from comparing import assert_same
from drawn import examples
from each_case import each_case
from oracles import language as oracle
from oracles.elementwise import DTYPES, float32, narrow

from .harness import apply, assert_rounded, patterns, stops_with

BFLOAT16 = DTYPES["bfloat16"]


# -- broadcast_to ----------------------------------------------------------------------------------


@each_case(
    ("shape", "target"),
    [
        ((5, 1), (5, 70)),
        ((1, 7), (128, 7)),
        ((1, 1), (33, 9)),
        ((5, 1, 3), (5, 4, 3)),
        ((5, 4, 1), (5, 4, 3)),
        ((1, 4, 1), (6, 4, 3)),
        ((2, 1, 3, 1), (2, 2, 3, 4)),
        ((5, 7), (5, 7)),
    ],
)
@each_case("psum", ["", "0"])
def test_broadcast_repeats_dimensions_of_extent_one(shape, target, psum):
    x = patterns("float32", shape)
    got = apply(lambda t: nl.broadcast_to(t, target), x, psum=psum)
    assert not got.codes
    assert_same(got.values, np.broadcast_to(x, target).copy())
    rounded = apply(lambda t: nl.broadcast_to(t, target, dtype=nl.bfloat16), x, psum=psum)
    assert_rounded(rounded, np.broadcast_to(x, target), BFLOAT16)


@each_case("dtype", sorted(DTYPES))
def test_broadcast_keeps_every_bit(dtype):
    x = patterns(dtype, (6, 1, 3))
    got = apply(lambda t: nl.broadcast_to(t, (6, 5, 3)), x)
    assert not got.codes
    assert got.dtype == DTYPES[dtype]
    bits = f"u{x.itemsize}"
    assert np.array_equal(got.values.view(bits), np.broadcast_to(x.view(bits), (6, 5, 3)))


def test_broadcast_to_its_own_shape_is_the_tile_itself():
    def function(tile):
        assert nl.broadcast_to(tile, tile.shape) is tile
        return tile

    x = np.ones((2, 3), np.float32)
    assert_same(apply(function, x).values, x)


def test_broadcast_of_a_view():
    x = float32(np.arange(64 * 5).reshape(64, 5))
    got = apply(lambda t: nl.broadcast_to(t[32:64, 3:4], (32, 6)), x)
    assert_same(got.values, np.broadcast_to(x[32:, 3:4], (32, 6)).copy())


@pytest.mark.parametrize(
    ("shape", "target"),
    [((5, 3), (5, 6)), ((5, 1), (5, 2, 3)), ((5, 2, 1), (5, 2)), ((2, 1), (4, 3))],
)
def test_broadcast_expands_nothing_else(shape, target):
    x = np.ones(shape, np.float32)
    assert stops_with(lambda t: nl.broadcast_to(t, target), x) == "S063"


def test_broadcast_mends_what_binary_functions_report():
    x, y = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([[1], [2], [3]], np.float32)
    got = apply(lambda a, b: nl.add(a, nl.broadcast_to(b, (3, 4))), x, y)
    assert not got.codes
    assert_same(got.values, x + y)


# -- expand_dims -----------------------------------------------------------------------------------


@each_case(
    ("shape", "axis"),
    [((5, 6), 1), ((5, 6), 2), ((5, 6), -1), ((5, 6), -2), ((5, 2, 3), 2), ((5, 2, 3), -1)],
)
def test_expand_dims_inserts_a_dimension(shape, axis):
    x = patterns("float16", shape)
    got = apply(lambda t: nl.expand_dims(t, axis), x)
    assert (got.buffer, got.codes) == ("sbuf", frozenset())
    assert_same(got.values, np.expand_dims(x, axis))


def test_expand_dims_is_a_view():
    def function(tile):
        nisa.memset(nl.expand_dims(tile, 1)[:, 0, 1:3], 7.0)
        return tile

    x = np.zeros((2, 4), np.float32)
    assert_same(apply(function, x).values, np.array([[0, 7, 7, 0]] * 2, np.float32))


def test_expand_dims_of_a_view_with_steps():
    x = patterns("int32", (5, 9))
    got = apply(lambda t: nl.expand_dims(t[:, 1:9:3], 2), x)
    assert_same(got.values, x[:, 1:9:3, None])


# -- transpose -------------------------------------------------------------------------------------


@each_case("shape", [(1, 1), (5, 3), (128, 128), (33, 127), (128, 1), (1, 128)])
@each_case("dtype", ["float32", "bfloat16", "float16"])
@each_case("target", ["gen2", "gen3", "gen4"])
def test_transpose_exchanges_partitions_and_elements(shape, dtype, target):
    x = float32(np.random.default_rng(0).standard_normal(shape)).astype(DTYPES[dtype])
    got = apply(nl.transpose, x, target=target)
    assert (got.buffer, got.codes) == ("psum", frozenset())
    assert_same(got.values, oracle.transpose(x))


def test_transpose_rounds_to_another_type():
    x = float32(np.random.default_rng(0).standard_normal((7, 9)))
    got = apply(lambda t: nl.transpose(t, dtype=nl.bfloat16), x)
    assert got.buffer == "psum"
    assert_same(got.values, oracle.transpose(narrow(x, BFLOAT16)))


def test_transpose_of_a_view():
    x = float32(np.random.default_rng(0).standard_normal((64, 20)))
    got = apply(lambda t: nl.transpose(t[32:64, 1:20:4]), x)
    assert_same(got.values, oracle.transpose(x[32:64, 1:20:4]))


def test_transpose_twice_is_the_tile():
    def function(tile):
        across = nl.transpose(tile)
        staged = nl.ndarray(across.shape, across.dtype)
        nisa.tensor_copy(staged, across)
        return nl.transpose(staged)

    x = float32(np.random.default_rng(0).standard_normal((100, 60)))
    assert_same(apply(function, x).values, x)


def test_transpose_has_the_size_of_the_tensor_engine():
    # as a transpose that is too long, or as a result with too many partitions
    assert stops_with(nl.transpose, np.ones((4, 129), np.float32)) in ("S001", "S039")


# -- gather_flattened ------------------------------------------------------------------------------


@examples(30)
@given(data=st.data())
def test_gather_takes_elements_of_the_flattened_partition(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    dtype = data.draw(st.sampled_from(sorted(DTYPES)))
    partitions = data.draw(st.sampled_from([1, 33, 128]))
    free = data.draw(st.sampled_from([(1,), (7,), (3, 5), (2, 3, 4)]))
    wanted = data.draw(st.sampled_from([(1,), (9,), (2, 6)]))
    x = patterns(dtype, (partitions, *free))
    indices = rng.integers(0, x[0].size, (partitions, *wanted)).astype(np.uint32)
    got = apply(nl.gather_flattened, x, indices)
    assert (got.buffer, got.codes) == ("sbuf", frozenset())
    assert_same(got.values, oracle.gather(x, indices))


def test_gather_rounds_to_another_type():
    x = float32(np.random.default_rng(0).standard_normal((4, 6)))
    indices = np.array([[5, 0], [1, 1], [2, 4], [3, 3]], np.uint32)
    got = apply(lambda t, i: nl.gather_flattened(t, i, dtype=nl.bfloat16), x, indices)
    assert_rounded(got, oracle.gather(x, indices), BFLOAT16)


def test_gather_from_views():
    x = np.arange(4 * 12, dtype=np.float32).reshape(4, 12)
    indices = np.array([[0, 9, 3], [1, 9, 1], [2, 9, 0], [3, 9, 2]], np.uint32)
    got = apply(lambda t, i: nl.gather_flattened(t[:, 1:12:3], i[:, ::2]), x, indices)
    assert_same(got.values, oracle.gather(x[:, 1::3], indices[:, ::2]))


def test_gather_outside_the_data_is_a_finding():
    x = np.ones((2, 3), np.float32)
    indices = np.array([[0, 3], [1, 2]], np.uint32)
    got = apply(nl.gather_flattened, x, indices)
    assert got.codes == {"S050"}
    assert_same(got.values[1:], np.ones((1, 2), np.float32))
