"""quantize_mx to the bit, nc_matmul_mx within the error of its float32 sums, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.dtypes import DTYPES
from nkisim.dtypes.packed import pack
from nkisim.isa.mx import nc_matmul_mx, quantize_mx
from oracles import mx as oracle
from oracles.matmul import BFLOAT16_ROUNDOFF, Sum, matmul

PACKS = list(oracle.ELEMENTS)
FLOAT8_PACKS = ["float8_e4m3fn_x4", "float8_e5m2_x4"]
SOURCES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
OFFSETS = [0, 4, 8, 12]
SENTINEL = 0xA5  # stands where no scale may be written

each_float8 = pytest.mark.parametrize("packed", FLOAT8_PACKS)
each_source = pytest.mark.parametrize("source", SOURCES)


def run(kernel: Callable[..., Any], *arrays: Any, codes: frozenset[str] = frozenset()) -> Any:
    """The outputs on gen4; the findings must be exactly ``codes``.

    Findings about the kernel's source are left out: kernels here are closures, which the compiler
    would refuse.
    """
    report = nkisim.check(kernel, target="gen4")(*arrays)
    assert {code for code in report.codes if code[0] != "L"} == set(codes), str(report)
    return report.outputs


def loaded(array: Any, like: Any = None) -> Any:
    tile = nl.ndarray(array.shape, dtype=array.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=array)
    return tile


def stored(tile: Any) -> Any:
    if tile.buffer == nl.psum:
        staged = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=staged, src=tile)
        tile = staged
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def as_words(array: np.ndarray) -> np.ndarray:
    """The stored words, without the name of the pack."""
    return array.view(f"u{array.dtype.itemsize}")


# -- quantize_mx -----------------------------------------------------------------------------------


def quantized(
    source: np.ndarray, packed: str, scales: np.ndarray, offset: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Words and the whole tile of scales after quantize_mx into the scales from row ``offset``."""

    def kernel(source, scales):
        words = nl.ndarray((source.shape[0], source.shape[1] // 4), packed, buffer=nl.sbuf)
        tile = loaded(scales)
        quantize_mx(dst=words, src=loaded(source), dst_scale=tile[offset:])
        return stored(words), stored(tile)

    words, tile = run(kernel, source, scales)
    return as_words(words), tile


def assert_quantized(source: np.ndarray, packed: str, offset: int = 0) -> None:
    """Every word, every scale, and no other byte of the tile of scales, is as defined."""
    rows, columns = source.shape
    name = next(n for n, dtype in SOURCES.items() if dtype == source.dtype)
    scales = np.full((rows, columns // 4), SENTINEL, np.uint8)
    words, tile = quantized(source, packed, scales, offset)
    want_words, want_scales = oracle.quantize(source.view(np.uint16), name, packed)
    np.testing.assert_array_equal(words, want_words)
    scales[oracle.scale_rows(rows, offset)] = want_scales
    np.testing.assert_array_equal(tile, scales)


@st.composite
def finite_tiles(draw, source: str) -> np.ndarray:
    """Tiles of finite bit patterns whose blocks are of different kinds."""
    fraction_bits = 10 if source == "float16" else 7
    exponents = 0x7FFF >> fraction_bits  # the last one is that of infinity and NaN
    rows, words = draw(st.sampled_from([(32, 1), (32, 3), (64, 2), (96, 1), (128, 2)]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    fields = np.empty((rows, 4 * words), np.int64)
    for g in range(rows // 8):
        for w in range(words):
            block = (slice(8 * g, 8 * g + 8), slice(4 * w, 4 * w + 4))
            kind = draw(st.sampled_from(["any", "narrow", "subnormal", "zero", "largest"]))
            top = draw(st.integers(0, exponents - 1)) if kind == "narrow" else exponents - 1
            low = 0 if kind == "any" else max(top - 20, 0)
            fields[block] = rng.integers(low, top + 1, (8, 4))
            if kind in ("subnormal", "zero"):
                fields[block] = 0
    fractions = rng.integers(0, 1 << fraction_bits, fields.shape)
    # Few fraction bits make ties, all of them carries into the next power of two.
    fractions &= rng.choice([-1, -1 << (fraction_bits - 4), 0], fields.shape)
    fractions |= rng.choice([0, (1 << fraction_bits) - 1], fields.shape, p=[0.9, 0.1])
    zero = rng.random(fields.shape) < draw(st.sampled_from([0, 0.5, 0.98]))
    bits = np.where(zero, 0, fields << fraction_bits | fractions)
    bits |= rng.integers(0, 2, fields.shape) << 15
    return bits.astype(np.uint16).view(SOURCES[source])


@each_float8
@each_source
@settings(max_examples=25)
@given(data=st.data())
def test_quantize(source, packed, data):
    tile = data.draw(finite_tiles(source))
    assert_quantized(tile, packed, data.draw(st.sampled_from(OFFSETS)) % len(tile))


@each_float8
@each_source
def test_quantize_every_finite_pattern(source, packed):
    # 65536 patterns as 128 x 512, neighbours in one block: every fraction meets every rounding.
    bits = np.arange(65536, dtype=np.uint16)
    finite = np.isfinite(bits.view(SOURCES[source]).astype(np.float32))
    bits[~finite] = 0
    tile = bits.reshape(-1, 32).reshape(16, 128, 8, 4).transpose(0, 2, 1, 3).reshape(128, 512)
    assert_quantized(np.ascontiguousarray(tile).view(SOURCES[source]), packed)


# 1 = 2^0 has the scale 2^(0 - (E - 1)), so it becomes 2^(E - 1): exponent field E - 1 + bias.
@pytest.mark.parametrize(
    ("packed", "byte", "pattern"),
    [
        ("float8_e4m3fn_x4", 127 - 7, (7 + 7) << 3),
        ("float8_e5m2_x4", 127 - 14, (14 + 15) << 2),
    ],
)
@each_source
def test_quantize_known_answers(source, packed, byte, pattern):
    ones = np.ones((32, 8), SOURCES[source])
    ones[:8, :4] = 0
    ones[0, 0] = -0.0
    ones[8, 4] = -1
    words, tile = quantized(ones, packed, np.zeros((4, 2), np.uint8))
    want = np.full((32, 2), pattern * 0x01010101, np.uint32)
    want[:8, 0] = 0
    want[0, 0] = 0x80
    want[8, 1] |= 0x80
    np.testing.assert_array_equal(words, want)
    assert tile.tolist() == [[0, byte], [byte, byte], [byte, byte], [byte, byte]]


@each_float8
def test_quantize_the_largest_magnitudes_without_saturation(packed):
    # (2 - 2^-7) * 2^127 rounds up to 2^128, which is 2^E at the scale 2^(127 - (E - 1)).
    largest = np.full((32, 4), 0x7F7F, np.uint16).view(ml_dtypes.bfloat16)
    words, tile = quantized(largest, packed, np.zeros((4, 1), np.uint8))
    exponent, bias, bits = (8, 7, 3) if "e4m3" in packed else (15, 15, 2)
    assert (words == ((exponent + bias) << bits) * 0x01010101).all()
    assert (tile == 127 - (exponent - 1) + 127).all()


@each_float8
@each_source
@pytest.mark.parametrize("at", [(0, 0), (7, 3), (8, 3), (7, 4), (31, 7), (32, 0), (63, 11)])
def test_an_element_concerns_its_own_block_only(source, packed, at):
    tile = np.zeros((64, 12), SOURCES[source])
    tile[at] = 3
    words, scales = quantized(tile, packed, np.zeros((64, 3), np.uint8))
    changed = [(32 * (at[0] // 32) + at[0] % 32 // 8, at[1] // 4)]
    assert np.argwhere(scales).tolist() == [list(index) for index in changed]
    assert np.argwhere(words).tolist() == [[at[0], at[1] // 4]]
    assert_quantized(tile, packed)


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize(("rows", "start"), [(32, 0), (32, 96), (64, 0), (64, 64), (96, 0)])
def test_scales_lie_in_the_quadrants_of_their_data(rows, start, offset):
    source = np.random.default_rng(0).standard_normal((rows, 8)).astype(np.float16)
    want_words, want_scales = oracle.quantize(source.view(np.uint16), "float16", "float8_e5m2_x4")

    def kernel(source, before):
        tile = nl.ndarray((128, 8), nl.float16, buffer=nl.sbuf)
        words = nl.ndarray((128, 2), nl.float8_e5m2_x4, buffer=nl.sbuf)
        nisa.memset(words, 0)
        scales = loaded(before)
        place = slice(start, start + rows)
        nisa.dma_copy(dst=tile[place], src=source)
        quantize_mx(words[place], tile[place], scales[start + offset : start + rows])
        return stored(words), stored(scales)

    before = np.full((128, 2), SENTINEL, np.uint8)
    words, scales = run(kernel, source, before)
    np.testing.assert_array_equal(as_words(words)[start : start + rows], want_words)
    before[[start + row for row in oracle.scale_rows(rows, offset)]] = want_scales
    np.testing.assert_array_equal(scales, before)


def test_rows_between_the_scales_stay_unwritten():
    def kernel(source):
        words = nl.ndarray((64, 2), nl.float8_e4m3fn_x4, buffer=nl.sbuf)
        scales = nl.ndarray((64, 2), nl.uint8, buffer=nl.sbuf)
        quantize_mx(words, loaded(source), scales)
        return stored(words), stored(scales[0:4]), stored(scales[32:36]), stored(scales[4:5])

    report = nkisim.check(kernel)(np.ones((64, 8), np.float16))
    unwritten = [f for f in report.findings if f.rule.id == "M001"]
    assert [f.count for f in unwritten] == [1]
    assert "2 of 2 elements" in unwritten[0].message


def test_two_tensors_share_a_tile_of_scales():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((128, 4 * n)).astype(ml_dtypes.bfloat16) for n in (2, 3))

    def kernel(a, b):
        scales = nl.ndarray((128, 3), nl.uint8, buffer=nl.sbuf)
        nisa.memset(scales, SENTINEL)
        for source, view in ((a, scales[0:, :2]), (b, scales[4:, :])):
            shape = (128, source.shape[1] // 4)
            words = nl.ndarray(shape, nl.float8_e4m3fn_x4, buffer=nl.sbuf)
            quantize_mx(words, loaded(source), view)
        return stored(scales)

    want = np.full((128, 3), SENTINEL, np.uint8)
    for source, offset in ((a, 0), (b, 4)):
        _, scales = oracle.quantize(source.view(np.uint16), "bfloat16", "float8_e4m3fn_x4")
        want[oracle.scale_rows(128, offset), : scales.shape[1]] = scales
    np.testing.assert_array_equal(run(kernel, a, b), want)


def test_quantize_views_of_more_dimensions():
    source = np.random.default_rng(0).standard_normal((64, 3, 8)).astype(np.float16)

    def kernel(source):
        words = nl.ndarray((64, 2, 4), nl.float8_e5m2_x4, buffer=nl.sbuf)
        nisa.memset(words, 0)
        scales = nl.ndarray((64, 2, 2), nl.uint8, buffer=nl.sbuf)
        nisa.memset(scales, SENTINEL)
        tile = loaded(source)
        quantize_mx(words[:, :, 1:3], tile[:, 0:3:2, :], scales)
        return stored(words), stored(scales)

    words, scales = run(kernel, source)
    flat = np.ascontiguousarray(source[:, 0:3:2, :]).reshape(64, 16).view(np.uint16)
    want_words, want_scales = oracle.quantize(flat, "float16", "float8_e5m2_x4")
    np.testing.assert_array_equal(as_words(words)[:, :, 1:3], want_words.reshape(64, 2, 2))
    assert not as_words(words)[:, :, [0, 3]].any()
    np.testing.assert_array_equal(
        scales[oracle.scale_rows(64)].reshape(8, 4), want_scales, strict=True
    )


@each_float8
@each_source
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_infinity_and_nan_count_with_their_exponent(source, packed, special):
    tile = np.ones((32, 8), SOURCES[source])
    tile[3, 1] = special
    words, scales = quantized(tile, packed, np.zeros((4, 2), np.uint8))
    exponent = 8 if "e4m3" in packed else 15
    assert scales[0, 0] == 128 - (exponent - 1) + 127
    patterns = [oracle.patterns_of(int(w), oracle.ELEMENTS[packed]) for w in words[:8, 0]]
    kinds = {
        (r, i): oracle.ELEMENTS[packed].kind(p)
        for r, four in enumerate(patterns)
        for i, p in enumerate(four)
    }
    kept = "inf" if np.isinf(special) and packed == "float8_e5m2_x4" else "nan"
    assert kinds.pop((3, 1)) == kept
    assert bool(patterns[3][1] & 0x80) == bool(np.signbit(np.float32(special)))
    # 1 divided by 2^121 or 2^114 is far below the smallest float8.
    assert set(kinds.values()) == {"finite"}
    assert sum(p for four in patterns for p in four) == patterns[3][1]
    alone = np.ones((32, 8), SOURCES[source])
    want_words, want_scales = quantized(alone, packed, np.zeros((4, 2), np.uint8))
    np.testing.assert_array_equal(words[:, 1], want_words[:, 1])
    np.testing.assert_array_equal(scales[1:], want_scales[1:])


def test_quantize_without_precise_storage(monkeypatch):
    source = np.random.default_rng(0).standard_normal((32, 16)).astype(ml_dtypes.bfloat16)
    scales = np.zeros((32, 4), np.uint8)
    want = quantized(source, "float8_e4m3fn_x4", scales)
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    got = quantized(source, "float8_e4m3fn_x4", scales)
    np.testing.assert_array_equal(got[0], want[0])
    np.testing.assert_array_equal(got[1], want[1])


# -- nc_matmul_mx ----------------------------------------------------------------------------------


def random_words(rng: np.random.Generator, packed: str, rows: int, columns: int) -> np.ndarray:
    """Words of random finite elements."""
    element = oracle.ELEMENTS[packed]
    bits = oracle.element_bits(element)
    finite = [p for p in range(1 << bits) if element.kind(p) == "finite"]
    patterns = rng.choice(finite, (rows, columns, 4))
    words = (patterns << np.arange(0, 4 * bits, bits)).sum(axis=2)
    return words.astype(DTYPES[packed].numpy)


class Operand:
    """One side of a product: words, scales and the values they stand for."""

    def __init__(self, seed: int, packed: str, rows: int, columns: int, spread: int = 20) -> None:
        rng = np.random.default_rng(seed)
        self.packed = packed
        self.words = random_words(rng, packed, rows, columns)
        self.scales = rng.integers(127 - spread, 127 + spread, (rows // 8, columns)).astype(np.uint8)

    @property
    def host(self) -> np.ndarray:
        """The words as a kernel takes them."""
        return self.words.view(np.dtype(self.packed))

    @property
    def values(self) -> np.ndarray:
        return oracle.dequantize(self.words, self.scales, self.packed)

    def scattered(self, offset: int = 0) -> np.ndarray:
        """The scales where the device wants them, in a tile as high as the data."""
        rows, columns = self.words.shape
        tile = np.full((rows, columns), SENTINEL, np.uint8)
        tile[oracle.scale_rows(rows, offset)] = self.scales
        return tile


def multiply(a: Operand, b: Operand, dtype: str = "float32") -> np.ndarray:
    """The product of two operands on the simulator."""

    def kernel(a, b, a_scale, b_scale):
        acc = nl.ndarray((a.shape[1], b.shape[1]), dtype, buffer=nl.psum)
        nc_matmul_mx(acc, loaded(a), loaded(b), loaded(a_scale), loaded(b_scale))
        return stored(acc)

    return run(kernel, a.host, b.host, a.scattered(), b.scattered())


def assert_product(got: np.ndarray, want: Sum) -> None:
    """Within the error of a float32 sum of exact products, rounded once more to bfloat16."""
    tolerance = (
        want.tolerance if got.dtype == np.float32 else want.rounded_tolerance(BFLOAT16_ROUNDOFF)
    )
    error = np.abs(got.astype(np.float64) - want.value)
    assert (error <= tolerance).all(), (error - tolerance).max()
    assert (want.value != 0).any()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("moving", PACKS)
@pytest.mark.parametrize("stationary", PACKS)
def test_matmul_of_every_pair_of_types(stationary, moving, dtype):
    a, b = Operand(1, stationary, 64, 6), Operand(2, moving, 64, 5)
    assert_product(multiply(a, b, dtype), matmul(a.values, b.values))


@pytest.mark.parametrize("rows", [32, 64, 96, 128])
@pytest.mark.parametrize(("m", "n"), [(2, 1), (128, 3), (8, 33)])
def test_matmul_sizes(rows, m, n):
    a, b = Operand(1, "float8_e4m3fn_x4", rows, m), Operand(2, "float4_e2m1fn_x4", rows, n)
    assert_product(multiply(a, b), matmul(a.values, b.values))


@pytest.mark.parametrize(("dtype", "n"), [("float32", 512), ("bfloat16", 1024)])
def test_matmul_of_the_largest_tiles(dtype, n):
    a, b = Operand(1, "float8_e5m2_x4", 128, 128), Operand(2, "float8_e4m3fn_x4", 128, n)
    assert_product(multiply(a, b, dtype), matmul(a.values, b.values))


def test_elements_of_a_word_meet_their_partners():
    # One element of each side is 1, the rest 0: the product is 1 where both sit in one place.
    rows = np.zeros((32, 8, 4), np.float32)
    for column in range(8):
        rows[column % 3, column, column % 4] = 1
    host = pack(rows.reshape(32, 32), "float4_e2m1fn_x4")
    ones = np.full((4, 8), 127, np.uint8)

    def kernel(words, scales):
        acc = nl.ndarray((8, 8), nl.float32, buffer=nl.psum)
        tile, scale = loaded(words), loaded(scales)
        nc_matmul_mx(acc, tile, tile, scale, scale)
        return stored(acc)

    place = np.arange(8) % 3 * 4 + np.arange(8) % 4
    np.testing.assert_array_equal(run(kernel, host, ones), place[:, None] == place)


@pytest.mark.parametrize("a_offset", OFFSETS)
@pytest.mark.parametrize("b_offset", OFFSETS)
def test_matmul_reads_scales_at_their_offsets(a_offset, b_offset):
    a, b = Operand(1, "float8_e4m3fn_x4", 128, 4), Operand(2, "float8_e5m2_x4", 128, 4)
    if a_offset == b_offset:
        b.scales = a.scales
    scales = np.full((128, 4), SENTINEL, np.uint8)
    scales[oracle.scale_rows(128, a_offset)] = a.scales
    scales[oracle.scale_rows(128, b_offset)] = b.scales

    def kernel(a, b, scales):
        acc = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
        tile = loaded(scales)
        nc_matmul_mx(acc, loaded(a), loaded(b), tile[a_offset:], tile[b_offset:])
        return stored(acc)

    assert_product(run(kernel, a.host, b.host, scales), matmul(a.values, b.values))


def test_only_the_rows_of_scales_are_read():
    a = Operand(1, "float8_e4m3fn_x4", 64, 4)

    def kernel(words, scales):
        tile = nl.ndarray((64, 4), nl.uint8, buffer=nl.sbuf)
        for q in range(2):
            nisa.dma_copy(dst=tile[32 * q : 32 * q + 4], src=scales[4 * q : 4 * q + 4])
        acc = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
        operand = loaded(words)
        nc_matmul_mx(acc, operand, operand, tile, tile)
        return stored(acc)

    assert_product(run(kernel, a.host, a.scales), matmul(a.values, a.values))


def test_unwritten_scales_and_words_are_found():
    def kernel(words, scales):
        written, empty = loaded(words), nl.ndarray((32, 4), nl.float8_e4m3fn_x4, buffer=nl.sbuf)
        scale, no_scale = loaded(scales), nl.ndarray((4, 4), nl.uint8, buffer=nl.sbuf)
        acc = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
        nc_matmul_mx(acc, written, empty, scale, no_scale)
        return stored(acc)

    words = Operand(1, "float8_e4m3fn_x4", 32, 4)
    report = nkisim.check(kernel)(words.host, words.scales)
    found = {f.operand for f in report.findings if f.rule.id == "M001"}
    assert found == {"moving", "moving_scale"}


@pytest.mark.parametrize(("rows", "start"), [(32, 32), (32, 96), (64, 64)])
@pytest.mark.parametrize("tiled", [False, True])
def test_matmul_on_a_row_tile(rows, start, tiled):
    a, b = Operand(1, "float4_e2m1fn_x4", rows, 4), Operand(2, "float8_e4m3fn_x4", rows, 6)
    place = {"tile_position": (start, 0), "tile_size": (rows, 128)} if tiled else {}

    def kernel(a, b, a_scale, b_scale):
        tiles = []
        for array in (a, b, a_scale, b_scale):
            tile = nl.ndarray((128, array.shape[1]), array.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile[start : start + rows], src=array)
            tiles.append(tile[start : start + rows])
        acc = nl.ndarray((4, 6), nl.float32, buffer=nl.psum)
        nc_matmul_mx(acc, *tiles, **place)
        return stored(acc)

    got = run(kernel, a.host, b.host, a.scattered(), b.scattered())
    assert_product(got, matmul(a.values, b.values))


def test_matmul_views_of_more_dimensions():
    a, b = Operand(1, "float8_e4m3fn_x4", 64, 12), Operand(2, "float8_e5m2_x4", 64, 12)

    def kernel(a, b, a_scale, b_scale):
        a_tile, a_scales = loaded(a), loaded(a_scale)
        b_tile, b_scales = (loaded(t).reshape((64, 3, 4)) for t in (b, b_scale))
        acc = nl.ndarray((4, 2, 3), nl.float32, buffer=nl.psum)
        columns = (slice(None), slice(0, 3, 2), slice(1, 4))
        nc_matmul_mx(acc, a_tile[:, 8:], b_tile[columns], a_scales[:, 8:], b_scales[columns])
        return stored(acc)

    got = run(kernel, a.host, b.host, a.scattered(), b.scattered())
    columns = [1, 2, 3, 9, 10, 11]
    want = matmul(a.values[:, 8:], b.values[:, columns])
    assert_product(got.reshape(4, 6), want)


@pytest.mark.parametrize("packed", PACKS)
@pytest.mark.parametrize("carrier", ["pack", "storage", "uint8"])
def test_packed_arrays_come_from_the_host(packed, carrier):
    a = Operand(1, packed, 32, 4)
    host = {"pack": a.host, "storage": a.words, "uint8": a.words.view(np.uint8)}[carrier]

    def kernel(words, scales):
        tile = loaded(words)
        tile = tile if tile.dtype == packed else tile.view(getattr(nl, packed))
        scale = loaded(scales)
        acc = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
        nc_matmul_mx(acc, tile, tile, scale, scale)
        return stored(acc), stored(tile)

    got, words = run(kernel, host, a.scales)
    assert_product(got, matmul(a.values, a.values))
    assert words.dtype == np.dtype(packed)
    np.testing.assert_array_equal(as_words(words), a.words)


def test_a_view_by_access_pattern_is_a_pack():
    a = Operand(1, "float8_e5m2_x4", 128, 8)

    def kernel(words, scales):
        tile = nl.ndarray((128, 8), nl.float8_e5m2_x4, buffer=nl.sbuf)
        source = words.ap(pattern=[[8, 128], [1, 8]], offset=0, dtype=nl.float8_e5m2_x4)
        nisa.dma_copy(dst=tile, src=source)
        scale = loaded(scales)
        acc = nl.ndarray((8, 8), nl.float32, buffer=nl.psum)
        nc_matmul_mx(acc, tile, tile, scale, scale)
        return stored(acc)

    got = run(kernel, a.words.view(np.uint8), a.scattered())
    assert_product(got, matmul(a.values, a.values))


def test_quantised_tiles_multiply():
    # The whole way: what is multiplied is what the oracle quantises, word by word.
    rng = np.random.default_rng(0)
    a = rng.standard_normal((128, 4 * 8)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((128, 4 * 6)).astype(np.float16)

    def kernel(a, b):
        scales = nl.ndarray((128, 8), nl.uint8, buffer=nl.sbuf)
        a_words = nl.ndarray((128, 8), nl.float8_e4m3fn_x4, buffer=nl.sbuf)
        b_words = nl.ndarray((128, 6), nl.float8_e5m2_x4, buffer=nl.sbuf)
        quantize_mx(a_words, loaded(a), scales[8:])
        quantize_mx(b_words, loaded(b), scales[12:, :6])
        acc = nl.ndarray((8, 6), nl.float32, buffer=nl.psum)
        nc_matmul_mx(acc, a_words, b_words, scales[8:], scales[12:, :6])
        return stored(acc)

    left = oracle.quantize(a.view(np.uint16), "bfloat16", "float8_e4m3fn_x4")
    right = oracle.quantize(b.view(np.uint16), "float16", "float8_e5m2_x4")
    want = matmul(
        oracle.dequantize(*left, "float8_e4m3fn_x4"), oracle.dequantize(*right, "float8_e5m2_x4")
    )
    assert_product(run(kernel, a, b), want)


# -- scales at the ends of their range -------------------------------------------------------------


def one_by_one(a_byte: int, b_byte: int, packed: str = "float8_e5m2_x4") -> np.float32:
    """The product of two single ones, everything else 0, with these scales."""
    rows = np.zeros((32, 8), np.float32)
    rows[0, 0] = 1
    words = pack(rows, packed)
    scales = [np.full((4, 2), byte, np.uint8) for byte in (a_byte, b_byte)]

    def kernel(words, a_scale, b_scale):
        acc = nl.ndarray((2, 2), nl.float32, buffer=nl.psum)
        tile = loaded(words)
        nc_matmul_mx(acc, tile, tile, loaded(a_scale), loaded(b_scale))
        return stored(acc)

    got = run(kernel, words, *scales)
    assert not got.ravel()[1:].any()
    return got[0, 0]


@pytest.mark.parametrize("packed", PACKS)
@pytest.mark.parametrize(
    ("a", "b"), [(127, 127), (254, 0), (0, 254), (254, 127), (254, 1), (0, 127), (64, 64), (0, 240)]
)
def test_scales_are_powers_of_two(packed, a, b):
    # Down to 2^-126 exact and normal in float32; 2^-127 is subnormal and exact all the same.
    assert one_by_one(a, b, packed) == 2.0 ** (a + b - 254)


def test_a_product_is_scaled_as_a_whole():
    # 57344 * 2^127 is no float32, but its product with 57344 * 2^-127 is.
    words = pack(np.full((32, 8), 57344, np.float32), "float8_e5m2_x4")
    large, small = (np.full((4, 2), byte, np.uint8) for byte in (254, 0))

    def kernel(words, large, small):
        acc = nl.ndarray((2, 2), nl.float32, buffer=nl.psum)
        tile = loaded(words)
        nc_matmul_mx(acc, tile, tile, loaded(large), loaded(small))
        return stored(acc)

    # 128 equal products of 7 * 2^13: 49 * 2^33, exact in float32.
    assert (run(kernel, words, large, small) == 128 * 57344.0**2).all()


def test_a_sum_beyond_float32_is_infinite():
    words = pack(np.full((32, 8), 57344, np.float32), "float8_e5m2_x4")
    large = np.full((4, 2), 254, np.uint8)

    def kernel(words, large):
        acc = nl.ndarray((2, 2), nl.float32, buffer=nl.psum)
        tile, scale = loaded(words), loaded(large)
        nc_matmul_mx(acc, tile, tile, scale, scale)
        return stored(acc)

    assert np.isposinf(run(kernel, words, large)).all()


def test_the_scale_255_is_nan():
    a, b = Operand(1, "float4_e2m1fn_x4", 64, 4), Operand(2, "float8_e4m3fn_x4", 64, 5)
    b.scales[3, 2] = oracle.NAN_SCALE
    got = multiply(a, b)
    assert np.isnan(got[:, 2]).all()
    rest = [0, 1, 3, 4]
    assert_product(got[:, rest], matmul(a.values, b.values[:, rest]))


def test_nan_and_infinity_of_the_elements():
    values = np.zeros((32, 16), np.float32)
    values[0, 0], values[0, 4], values[0, 8], values[0, 12] = 1, np.inf, -np.inf, np.nan
    words = pack(values, "float8_e5m2_x4")
    scales = np.full((4, 4), 127, np.uint8)

    def kernel(words, scales):
        acc = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
        tile, scale = loaded(words), loaded(scales)
        nc_matmul_mx(acc, tile, tile, scale, scale)
        return stored(acc)

    got = run(kernel, words, scales)
    np.testing.assert_array_equal(got[0], [1, np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(got[1], [np.inf, np.inf, -np.inf, np.nan])


# -- accumulation ----------------------------------------------------------------------------------

# Float4 elements are multiples of 1/2 up to 6, so sums of 128 products are exact in float32.
EXACT = ("float4_e2m1fn_x4", 32, 4)


def exact_operands() -> list[Operand]:
    operands = [Operand(seed, *EXACT) for seed in range(3)]
    for operand in operands:
        operand.scales[:] = 127
    return operands


def accumulated(flags: list[bool | None], codes: frozenset[str] = frozenset()) -> np.ndarray:
    """PSUM after one matmul of operand 0 with each operand in turn."""
    operands = exact_operands()

    def kernel(a, b, c, scales):
        acc = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
        first, scale = loaded(a), loaded(scales)
        for flag, words in zip(flags, (a, b, c), strict=False):
            nc_matmul_mx(acc, first, loaded(words), scale, scale, accumulate=flag)
        return stored(acc)

    return run(kernel, *(o.host for o in operands), operands[0].scales, codes=codes)


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        ([None], [0]),
        ([None, None, None], [0, 1, 2]),
        ([False, True, True], [0, 1, 2]),
        ([None, False, True], [1, 2]),
        ([False, False, None], [1, 2]),
        ([None, True, False], [2]),
    ],
)
def test_accumulation(flags, kept):
    values = [operand.values for operand in exact_operands()]
    want = sum(values[0].T @ values[k] for k in kept)
    np.testing.assert_array_equal(accumulated(flags), want)


def test_adding_to_nothing_is_found():
    assert np.isnan(accumulated([True], codes=frozenset({"M003"}))).all()


def test_findings_of_an_accumulation_name_the_instruction():
    a = exact_operands()[0]

    def kernel(words, scales):
        acc = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
        tile, scale = loaded(words), loaded(scales)
        nc_matmul_mx(acc, tile, tile, scale, scale)
        first = stored(acc)
        nc_matmul_mx(acc, tile, tile, scale, scale)
        second = stored(acc)
        nc_matmul_mx(acc, tile, tile, scale, scale, accumulate=True)
        return first, second, stored(acc)

    report = nkisim.check(kernel)(a.host, a.scales)
    found = {f.rule.id: f.instruction for f in report.findings if f.rule.id[0] == "M"}
    assert found == {"M043": "nc_matmul_mx", "M042": "nc_matmul_mx"}
    assert report.outputs is not None
    for times, got in enumerate(report.outputs, 1):
        np.testing.assert_array_equal(got, times * (a.values.T @ a.values))


def test_a_bfloat16_sum_is_rounded_after_each_matmul():
    rows = np.zeros((32, 8), np.float32)
    rows[0, 0] = 1
    one = pack(rows, "float4_e2m1fn_x4")
    scales = [np.full((4, 2), byte, np.uint8) for byte in (127, 127 - 9)]

    def kernel(words, scale, small):
        acc = nl.ndarray((2, 2), nl.bfloat16, buffer=nl.psum)
        tile, unit = loaded(words), loaded(scale)
        nc_matmul_mx(acc, tile, tile, unit, unit)
        for _ in range(4):
            nc_matmul_mx(acc, tile, tile, unit, loaded(small))
        return stored(acc)

    # 1 + 2^-9 is nearer to 1 than to the next bfloat16, 1 + 2^-7, each time anew.
    assert run(kernel, one, *scales)[0, 0] == 1


def test_new_words_or_scales_in_the_same_tiles_are_seen():
    a, b = exact_operands()[:2]
    b.scales[:] = 128

    def kernel(a, b, a_scale, b_scale):
        words, scale = loaded(a), loaded(a_scale)
        results = []
        for source, target in ((a, words), (b, words), (b_scale, scale)):
            nisa.dma_copy(dst=target, src=source)
            acc = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
            nc_matmul_mx(acc, words, words, scale, scale)
            results.append(stored(acc))
        return tuple(results)

    first, second, third = run(kernel, a.host, b.host, a.scales, b.scales)
    np.testing.assert_array_equal(first, a.values.T @ a.values)
    np.testing.assert_array_equal(second, b.values.T @ b.values / 4)
    np.testing.assert_array_equal(third, b.values.T @ b.values)


# -- what is refused -------------------------------------------------------------------------------


def tile_of(shape: tuple[int, ...], dtype: str, buffer: Any = None, start: int = 0) -> Any:
    """A tile of zeros whose first row is partition ``start``."""
    tile = nl.ndarray((shape[0] + start, *shape[1:]), dtype, buffer=buffer or nl.sbuf)
    nisa.memset(tile, 0)
    return tile[start:] if start else tile


def codes_of(body: Callable[[], None], target: str = "gen4") -> set[str]:
    def kernel(anything):
        body()
        return stored(loaded(anything))

    report = nkisim.check(kernel, target=target)(np.zeros((1, 1), np.float32))
    assert all(f.fix for f in report.findings)
    return {code for code in report.codes if code[0] != "L"}


E4M3, E5M2, FP4 = "float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"
QUANTIZE = {
    "src": ((64, 32), "bfloat16"),
    "dst": ((64, 8), E4M3),
    "dst_scale": ((64, 8), "uint8"),
}
MULTIPLY = {
    "dst": ((8, 16), "float32", "psum"),
    "stationary": ((64, 8), E4M3),
    "moving": ((64, 16), E4M3),
    "stationary_scale": ((64, 8), "uint8"),
    "moving_scale": ((64, 16), "uint8"),
}


def called(instruction: Any, tiles: dict[str, Any], target: str = "gen4", **others: Any) -> set[str]:
    """The codes of a call with tiles given as (shape, dtype, buffer, start partition)."""

    def body() -> None:
        operands = {}
        for name, (shape, dtype, *place) in tiles.items():
            buffer = {"psum": nl.psum, "hbm": nl.shared_hbm}.get(place[0]) if place else None
            operands[name] = (
                nl.ndarray(shape, dtype, buffer=buffer)
                if buffer == nl.shared_hbm
                else tile_of(shape, dtype, buffer, place[1] if len(place) > 1 else 0)
            )
        instruction(**operands, **others)

    return codes_of(body, target)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"src": ((64, 32), "float32")}, "D037"),
        ({"src": ((64, 32), "float8_e4m3")}, "D037"),
        ({"dst": ((64, 8), FP4)}, "D037"),
        ({"dst": ((64, 8), "uint32")}, "D037"),
        ({"dst_scale": ((64, 8), "int8")}, "D037"),
        ({"dst_scale": ((64, 8), "float32")}, "D037"),
        ({"src": ((48, 32), "bfloat16"), "dst": ((48, 8), E4M3)}, "S038"),
        ({"src": ((8, 32), "bfloat16"), "dst": ((8, 8), E4M3)}, "S038"),
        ({"src": ((64, 30), "bfloat16")}, "S038"),
        ({"dst": ((64, 32), E4M3)}, "S038"),
        ({"dst": ((32, 8), E4M3)}, "S038"),
        ({"dst_scale": ((8, 8), "uint8")}, "S037"),
        ({"dst_scale": ((64, 32), "uint8")}, "S037"),
        ({"dst_scale": ((128, 8), "uint8")}, "S037"),
        ({"dst_scale": ((32, 8), "uint8")}, "S037"),
        ({"dst_scale": ((62, 8), "uint8", "", 2)}, "M044"),
        ({"dst_scale": ((48, 8), "uint8", "", 16)}, "M044"),
        ({"dst_scale": ((64, 8), "uint8", "", 32)}, "M044"),
        ({"dst_scale": ((60, 8), "uint8", "", 36)}, "M044"),
        ({"src": ((64, 32), "bfloat16", "psum")}, "M024"),
        ({"dst": ((64, 8), E4M3, "psum")}, "M024"),
        ({"dst_scale": ((64, 8), "uint8", "psum")}, "M024"),
        ({"src": ((64, 32), "bfloat16", "hbm")}, "M018"),
    ],
)
def test_quantize_refuses(changes, code):
    assert called(quantize_mx, QUANTIZE | changes) == {code}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dst": ((64, 8), E5M2), "src": ((64, 32), "float16")},
        {"dst_scale": ((52, 8), "uint8", "", 12)},
        {"dst_scale": ((60, 8), "uint8", "", 4)},
        {"src": ((32, 32), "bfloat16"), "dst": ((32, 8), E4M3), "dst_scale": ((4, 8), "uint8")},
        {"src": ((32, 32), "bfloat16"), "dst": ((32, 8), E4M3), "dst_scale": ((32, 8), "uint8")},
        {
            "src": ((32, 32), "bfloat16", "", 64),
            "dst": ((32, 8), E4M3, "", 0),
            "dst_scale": ((4, 8), "uint8", "", 76),
        },
    ],
)
def test_quantize_accepts(changes):
    assert called(quantize_mx, QUANTIZE | changes) == set()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"stationary": ((64, 8), "float8_e4m3fn")}, "D037"),
        ({"moving": ((64, 16), "uint32")}, "D037"),
        ({"moving": ((64, 16), "bfloat16")}, "D037"),
        ({"stationary_scale": ((64, 8), "int8")}, "D037"),
        ({"moving_scale": ((64, 16), "float32")}, "D037"),
        ({"dst": ((8, 16), "float16", "psum")}, "D004"),
        ({"moving": ((32, 16), E4M3)}, "S028"),
        ({"stationary": ((48, 8), E4M3), "moving": ((48, 16), E4M3)}, "S036"),
        ({"stationary": ((64, 7), E4M3), "dst": ((7, 16), "float32", "psum")}, "S036"),
        ({"stationary": ((64, 130), E4M3)}, "S036"),
        ({"moving": ((64, 513), E4M3)}, "S036"),
        ({"moving": ((64, 1025), E4M3), "dst": ((8, 1025), "bfloat16", "psum")}, "S036"),
        ({"dst": ((16, 8), "float32", "psum")}, "S031"),
        ({"stationary_scale": ((8, 8), "uint8")}, "S037"),
        ({"moving_scale": ((64, 64), "uint8")}, "S037"),
        ({"moving_scale": ((64, 16), "uint8", "", 32)}, "M044"),
        ({"stationary_scale": ((63, 8), "uint8", "", 1)}, "M044"),
        ({"dst": ((8, 16), "float32")}, "M020"),
        ({"stationary": ((64, 8), E4M3, "psum")}, "M019"),
        ({"moving_scale": ((64, 16), "uint8", "psum")}, "M019"),
        ({"moving_scale": ((64, 16), "uint8", "hbm")}, "M019"),
    ],
)
def test_matmul_refuses(changes, code):
    assert called(nc_matmul_mx, MULTIPLY | changes) == {code}


def test_matmul_refuses_operands_on_different_partitions():
    half = {name: (shape, dtype, "", 64) for name, (shape, dtype) in list(MULTIPLY.items())[2:]}
    changed = MULTIPLY | {"moving": half["moving"], "moving_scale": half["moving_scale"]}
    assert called(nc_matmul_mx, changed) == {"S005"}


@pytest.mark.parametrize(
    ("position", "size", "code"),
    [
        ((0, 0), (64, 64), "S036"),
        ((0, 64), (64, 128), "S036"),
        ((0, 0), (32, 128), "S032"),
        ((64, 0), (64, 128), "S035"),
        ((0, 0), (48, 128), "S035"),
        ((0, 0), None, "S035"),
        ((0, 0), (64, 128), None),
        ((0, 0), (128, 128), None),
    ],
)
def test_matmul_tiles_rows_only(position, size, code):
    codes = called(nc_matmul_mx, MULTIPLY, tile_position=position, tile_size=size)
    assert codes == ({code} if code else set())


@pytest.mark.parametrize("target", ["gen2", "gen3"])
@pytest.mark.parametrize(
    ("instruction", "tiles"), [(quantize_mx, QUANTIZE), (nc_matmul_mx, MULTIPLY)]
)
def test_only_gen4_has_them(instruction, tiles, target):
    assert called(instruction, tiles, target) == {"A033"}


def test_misplaced_scales_are_used_as_they_come_and_warned_of():
    a = Operand(1, "float8_e4m3fn_x4", 32, 4)

    def kernel(words, scales):
        tile = nl.ndarray((128, 4), nl.uint8, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile[50:54], src=scales)
        acc = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
        operand = loaded(words)
        nc_matmul_mx(acc, operand, operand, tile[50:54], tile[50:54])
        return stored(acc)

    kernel = nkisim.simulate(kernel, target="gen4")
    with pytest.warns(nkisim.diagnostics.NkiFindingWarning, match="M044"):
        got = kernel(a.host, a.scales)
    assert_product(got, matmul(a.values, a.values))
