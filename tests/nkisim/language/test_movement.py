"""Between HBM and SBUF: load, store, load_transpose2d; and device_print."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from comparing import assert_same
from each_case import each_case
from oracles import language as oracle
from oracles.elementwise import DTYPES, float32, narrow, widen
from tiles import stored

from .harness import patterns


def errors(report: Any) -> set[str]:
    """Ids of the errors of a run, but for those about a kernel that is a closure."""
    return {f.rule.id for f in report.findings if f.severity == "error" and f.rule.id[0] != "L"}


def run(kernel: Any, *arrays: np.ndarray, target: str | None = None) -> np.ndarray:
    """What a kernel without errors returns."""
    report = nkisim.check(kernel, target=target)(*arrays)
    assert not errors(report)
    return report.outputs


# -- load ------------------------------------------------------------------------------------------


@each_case("dtype", sorted(DTYPES))
@each_case("shape", [(1, 1), (128, 33), (7, 2, 5), (33, 2, 1, 3)])
def test_load_and_store_keep_every_bit(dtype, shape):
    x = patterns(dtype, shape)

    def kernel(source):
        tile = nl.load(source)
        assert (tile.shape, tile.dtype, tile.buffer) == (shape, source.dtype, nl.sbuf)
        out = nl.ndarray(shape, dtype=source.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    got = run(kernel, x)
    assert got.dtype == x.dtype
    assert np.array_equal(got.view(np.uint8), x.view(np.uint8))


@each_case("dtype", ["float32", "bfloat16", "float8_e4m3", "int32", "uint8"])
@each_case("asked", ["float32", "bfloat16", "float16", "int16", "uint32"])
def test_load_converts_with_one_rounding(dtype, asked):
    x = (20 * np.random.default_rng(0).random((9, 11))).astype(DTYPES[dtype])
    got = run(lambda source: stored(nl.load(source, dtype=getattr(nl, asked))), x)
    assert_same(got, narrow(widen(x), DTYPES[asked]))


def test_load_of_a_vector_is_a_column():
    def kernel(source):
        tile = nl.load(source)
        assert (tile.shape, tile.buffer) == ((5, 1), nl.sbuf)
        return stored(tile)

    assert_same(
        run(kernel, np.arange(5, dtype=np.float32)), np.arange(5, dtype=np.float32).reshape(5, 1)
    )


def test_load_and_store_of_views():
    x = np.arange(300 * 20, dtype=np.float32).reshape(300, 20)

    def kernel(source):
        out = nl.zeros((200, 12), dtype=source.dtype, buffer=nl.shared_hbm)
        tile = nl.load(source[150:250:2, 3:19:4])
        nl.store(out[100:150, 1:12:3], value=tile)
        return out

    want = np.zeros((200, 12), np.float32)
    want[100:150, 1:12:3] = x[150:250:2, 3:19:4]
    assert_same(run(kernel, x), want)


def test_load_of_a_row_keeps_the_partition():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert_same(run(lambda source: stored(nl.load(source[1:2])), x), x[1:2])


def test_tail_of_a_tensor_is_loaded_by_slices():
    x = float32(np.random.default_rng(0).standard_normal((300, 7)))

    def kernel(source):
        out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
        for row in nl.affine_range(0, 300, 128):
            size = min(128, 300 - row)
            nl.store(out[nl.ds(row, size)], nl.multiply(nl.load(source[nl.ds(row, size)]), 2.0))
        return out

    assert_same(run(kernel, x), 2 * x)


def test_more_than_128_rows_do_not_fit_a_tile():
    with pytest.raises(nkisim.NkiValidationError):
        nkisim.simulate(lambda source: nl.load(source))(np.ones((129, 2), np.float32))


# -- store -----------------------------------------------------------------------------------------


def test_store_converts_to_the_type_of_the_tensor():
    x = float32(np.random.default_rng(0).standard_normal((4, 5)))

    def kernel(source):
        out = nl.ndarray((4, 5), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        nl.store(out, nl.load(source))
        return out

    assert_same(run(kernel, x), narrow(x, DTYPES["bfloat16"]))


def test_store_of_a_view_of_a_tile():
    x = np.arange(64 * 10, dtype=np.int32).reshape(64, 10)

    def kernel(source):
        tile = nl.load(source)
        out = nl.ndarray((32, 5), dtype=source.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile[32:64, 1:10:2])
        return out

    assert_same(run(kernel, x), x[32:64, 1:10:2])


def test_store_returns_nothing():
    seen = []

    def kernel(source):
        out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
        seen.append(nl.store(out, nl.load(source)))
        return out

    run(kernel, np.ones((2, 2), np.float32))
    assert seen == [None]


def stopped(kernel: Any, *arrays: np.ndarray) -> str:
    with pytest.raises(nkisim.NkiValidationError) as stop:
        nkisim.simulate(kernel)(*arrays)
    return stop.value.rule_id


def test_store_of_a_psum_tile_is_refused():
    def kernel(source):
        tile = nl.transpose(nl.load(source))
        out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    assert stopped(kernel, np.ones((4, 4), np.float32)) == "M025"


def test_store_after_a_copy_to_sbuf_is_the_mend():
    def kernel(source):
        tile = nl.transpose(nl.load(source))
        staged = nl.ndarray(tile.shape, dtype=tile.dtype)
        nisa.tensor_copy(staged, tile)
        out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
        nl.store(out, staged)
        return out

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert_same(run(kernel, x), x.T.copy())


@pytest.mark.parametrize("value", [None, 3.0])
def test_store_needs_a_tile(value):
    def kernel(source):
        out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
        if value is None:
            nl.store(out)
        nl.store(out, value)
        return out

    assert stopped(kernel, np.ones((2, 2), np.float32)) == "A037"


def test_store_of_another_size_is_refused():
    def kernel(source):
        out = nl.ndarray((2, 3), dtype=source.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(source))
        return out

    assert stopped(kernel, np.ones((2, 2), np.float32)) == "S058"


# -- load_transpose2d ------------------------------------------------------------------------------


@each_case("target", ["gen2", "gen3", "gen4"])
@each_case("dtype", ["float32", "bfloat16"])
@each_case("shape", [(128, 128), (32, 64), (128, 32)])
def test_load_transpose2d_transposes(shape, dtype, target):
    x = float32(np.random.default_rng(0).standard_normal(shape)).astype(DTYPES[dtype])

    def kernel(source):
        tile = nl.load_transpose2d(source)
        assert (tile.shape, tile.dtype) == (shape[::-1], source.dtype)
        assert tile.buffer == nl.sbuf
        return stored(tile)

    assert_same(run(kernel, x, target=target), oracle.transpose(x))


def test_load_transpose2d_ignores_a_last_dimension_of_one():
    x = float32(np.random.default_rng(0).standard_normal((128, 128, 1)))
    got = run(lambda source: stored(nl.load_transpose2d(source)), x)
    assert_same(got, oracle.transpose(x[:, :, 0]))


def test_load_transpose2d_converts():
    x = float32(np.random.default_rng(0).standard_normal((32, 64)))
    got = run(lambda source: stored(nl.load_transpose2d(source, dtype=nl.bfloat16)), x)
    assert_same(got, oracle.transpose(narrow(x, DTYPES["bfloat16"])))


def test_load_transpose2d_of_a_slice():
    x = float32(np.random.default_rng(0).standard_normal((96, 96)))
    got = run(lambda source: stored(nl.load_transpose2d(source[32:64, 16:80])), x)
    assert_same(got, oracle.transpose(x[32:64, 16:80]))


def test_load_transpose2d_of_what_the_kernel_made_is_a_finding():
    x = float32(np.random.default_rng(0).standard_normal((32, 64)))

    def kernel(source):
        made = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.private_hbm)
        nisa.dma_copy(dst=made, src=source)
        return stored(nl.load_transpose2d(made))

    report = nkisim.check(kernel)(x)
    assert errors(report) == {"M028"}
    assert_same(report.outputs, oracle.transpose(x))


# -- device_print ----------------------------------------------------------------------------------


def test_device_print_shows_prefix_and_values(capsys):
    x = np.array([[1.5, -2.25], [3.0, 4.0]], np.float32)

    def kernel(source):
        nl.device_print("from hbm", source)
        tile = nl.load(source)
        nl.device_print(print_prefix="doubled", tensor=nl.multiply(tile, 2.0))
        nl.device_print("corner", tile[0:1, 1:2])
        return stored(tile)

    assert_same(run(kernel, x), x)
    shown = capsys.readouterr().out
    source, doubled, corner = (shown.index(p) for p in ("from hbm", "doubled", "corner"))
    assert source < doubled < corner
    assert all(v in shown[source:doubled] for v in ("1.5", "-2.25", "3.", "4."))
    assert all(v in shown[doubled:corner] for v in ("3.", "-4.5", "6.", "8."))
    assert "-2.25" in shown[corner:]
    assert "1.5" not in shown[corner:]


def test_device_print_shows_narrow_floats_as_numbers(capsys):
    x = np.array([[0.5, -3.0]], ml_dtypes.bfloat16)

    def kernel(source):
        nl.device_print("narrow", nl.load(source))
        return stored(nl.load(source))

    run(kernel, x)
    shown = capsys.readouterr().out
    assert "0.5" in shown
    assert "-3." in shown


@pytest.mark.parametrize("keyword", ["prefix", "x"])
def test_device_print_of_earlier_releases_is_refused(keyword):
    def kernel(source):
        nl.device_print(**{keyword: "tile"})

    assert stopped(kernel, np.ones((2, 2), np.float32)) == "A044"
