"""quantize_mx, word by word and scale by scale, and what it refuses."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from drawn import examples
from each_case import each_case
from nkisim.isa import quantize_mx
from oracles import mx as oracle
from tiles import loaded, stored

from ..draws import Draws
from .harness_mx import OFFSETS, SENTINEL, as_words, called, run

FLOAT8_PACKS = ["float8_e4m3fn_x4", "float8_e5m2_x4"]
SOURCES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}

each_float8 = pytest.mark.parametrize("packed", FLOAT8_PACKS)
RELEASES = ["0.3.0", "0.5.0"]

each_release = each_case("release", RELEASES)
each_source = pytest.mark.parametrize("source", SOURCES)


def quantized(
    source: np.ndarray, packed: str, scales: np.ndarray, offset: int = 0, release: str = "0.3.0"
) -> tuple[np.ndarray, np.ndarray]:
    """Words and the whole tile of scales after quantize_mx into the scales from row ``offset``."""

    def kernel(source, scales):
        words = nl.ndarray((source.shape[0], source.shape[1] // 4), packed, buffer=nl.sbuf)
        tile = loaded(scales)
        quantize_mx(dst=words, src=loaded(source), dst_scale=tile[offset:])
        return stored(words), stored(tile)

    words, tile = run(kernel, source, scales, release=release)
    return as_words(words), tile


def assert_quantized(
    source: np.ndarray, packed: str, offset: int = 0, release: str = "0.3.0"
) -> None:
    """Every word, every scale, and no other byte of the tile of scales, is as defined."""
    rows, columns = source.shape
    name = next(n for n, dtype in SOURCES.items() if dtype == source.dtype)
    scales = np.full((rows, columns // 4), SENTINEL, np.uint8)
    words, tile = quantized(source, packed, scales, offset, release)
    want_words, want_scales = oracle.quantize(source.view(np.uint16), name, packed, release)
    np.testing.assert_array_equal(words, want_words)
    scales[oracle.scale_rows(rows, offset)] = want_scales
    np.testing.assert_array_equal(tile, scales)


def finite_tile(draws: Draws, source: str) -> np.ndarray:
    """A tile of finite bit patterns whose blocks are of different kinds."""
    fraction_bits = 10 if source == "float16" else 7
    exponents = 0x7FFF >> fraction_bits  # the last one is that of infinity and NaN
    rows, words = draws.choose([(32, 1), (32, 3), (64, 2), (96, 1), (128, 2)])
    rng = draws.rng
    fields = np.empty((rows, 4 * words), np.int64)
    for g in range(rows // 8):
        for w in range(words):
            block = (slice(8 * g, 8 * g + 8), slice(4 * w, 4 * w + 4))
            kind = draws.choose(["any", "narrow", "subnormal", "zero", "largest"])
            top = draws.choose(range(exponents)) if kind == "narrow" else exponents - 1
            low = 0 if kind == "any" else max(top - 20, 0)
            fields[block] = rng.integers(low, top + 1, (8, 4))
            if kind in ("subnormal", "zero"):
                fields[block] = 0
    fractions = rng.integers(0, 1 << fraction_bits, fields.shape)
    # Few fraction bits make ties, all of them carries into the next power of two.
    fractions &= rng.choice([-1, -1 << (fraction_bits - 4), 0], fields.shape)
    fractions |= rng.choice([0, (1 << fraction_bits) - 1], fields.shape, p=[0.9, 0.1])
    zero = rng.random(fields.shape) < draws.choose([0, 0.5, 0.98])
    bits = np.where(zero, 0, fields << fraction_bits | fractions)
    bits |= rng.integers(0, 2, fields.shape) << 15
    return bits.astype(np.uint16).view(SOURCES[source])


@each_float8
@each_source
@examples(25)
@given(data=st.data())
def test_quantize(source, packed, data):
    draws = Draws(data)
    tile = finite_tile(draws, source)
    assert_quantized(tile, packed, draws.choose(OFFSETS), draws.choose(RELEASES))


@pytest.mark.slow
@each_float8
@each_source
@pytest.mark.parametrize("binades", [1, 16])
@pytest.mark.parametrize("words", [16, 128])
def test_quantize_every_finite_pattern(source, packed, binades, words):
    # In blocks of like magnitude all fractions are rounded; in mixed ones also to subnormals.
    bits = np.arange(65536, dtype=np.uint16)
    with np.errstate(invalid="ignore"):  # some processors signal NaNs
        bits[~np.isfinite(bits.view(SOURCES[source]))] = 0
    window = binades << (10 if source == "float16" else 7)
    bits = np.random.default_rng(0).permuted(bits.reshape(-1, window), axis=1)
    # Fast on an eighth of them, with the ends of each sixteenth.
    some = np.random.default_rng(1).choice(np.arange(1, 127), words - 2, replace=False)
    some = np.sort(np.append(some, [0, 127]))
    blocks = bits.reshape(16, 128, 8, 4)[:, some]
    tile = blocks.transpose(0, 2, 1, 3).reshape(128, 4 * words)
    assert_quantized(tile.view(SOURCES[source]), packed)


# 1 = 2^0 has the scale 2^-E and so becomes 2^E, with the exponent field E + bias; from 0.5.0 on
# the scale is 2^(1 - E).
@each_case(
    ("release", "packed", "byte", "pattern"),
    [
        ("0.3.0", "float8_e4m3fn_x4", 127 - 8, (8 + 7) << 3),
        ("0.3.0", "float8_e5m2_x4", 127 - 15, (15 + 15) << 2),
        ("0.5.0", "float8_e4m3fn_x4", 127 - 7, (7 + 7) << 3),
        ("0.5.0", "float8_e5m2_x4", 127 - 14, (14 + 15) << 2),
    ],
)
@each_source
def test_quantize_known_answers(source, release, packed, byte, pattern):
    ones = np.ones((32, 8), SOURCES[source])
    ones[:8, :4] = 0
    ones[0, 0] = -0.0
    ones[8, 4] = -1
    words, tile = quantized(ones, packed, np.zeros((4, 2), np.uint8), release=release)
    want = np.full((32, 2), pattern * 0x01010101, np.uint32)
    want[:8, 0] = 0
    want[0, 0] = 0x80
    want[8, 1] |= 0x80
    np.testing.assert_array_equal(words, want)
    assert tile.tolist() == [[0, byte], [byte, byte], [byte, byte], [byte, byte]]


@each_float8
def test_quantize_the_largest_magnitudes_with_saturation(packed):
    # (2 - 2^-7) * 2^127 at the scale 2^(127 - E) lies beyond the largest float8, 1.75 * 2^E.
    largest = np.full((32, 4), 0xFF7F, np.uint16).view(ml_dtypes.bfloat16)
    words, tile = quantized(largest, packed, np.zeros((4, 1), np.uint8))
    exponent, byte = (8, 0xFE) if "e4m3" in packed else (15, 0xFB)
    assert (words == byte * 0x01010101).all()
    assert (tile == 127 - exponent + 127).all()


@each_float8
def test_quantize_the_largest_magnitudes_of_0_5_0_without_saturation(packed):
    # (2 - 2^-7) * 2^127 rounds up to 2^128, which is 2^E at the scale 2^(127 - (E - 1)).
    largest = np.full((32, 4), 0x7F7F, np.uint16).view(ml_dtypes.bfloat16)
    words, tile = quantized(largest, packed, np.zeros((4, 1), np.uint8), release="0.5.0")
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


@each_case("offset", OFFSETS)
@each_case(("rows", "start"), [(32, 0), (32, 96), (64, 0), (64, 64), (96, 0)])
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

    report = nkisim.check(kernel, target="gen4")(np.ones((64, 8), np.float16))
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
@each_release
@each_case("special", [np.inf, -np.inf, np.nan])
def test_infinity_and_nan_count_with_their_exponent(source, packed, special, release):
    tile = np.ones((32, 8), SOURCES[source])
    tile[3, 1] = special
    words, scales = quantized(tile, packed, np.zeros((4, 2), np.uint8), release=release)
    exponent = (8 if "e4m3" in packed else 15) - (release == "0.5.0")
    assert scales[0, 0] == 128 - exponent + 127
    patterns = [oracle.patterns_of(int(w), oracle.ELEMENTS[packed]) for w in words[:8, 0]]
    kinds = {
        (r, i): oracle.ELEMENTS[packed].kind(p)
        for r, four in enumerate(patterns)
        for i, p in enumerate(four)
    }
    if np.isnan(special):
        kept = "nan"
    elif release == "0.3.0":
        kept = "finite"
        assert patterns[3][1] & 0x7F == (0x7E if "e4m3" in packed else 0x7B)
    else:
        kept = "inf" if packed == "float8_e5m2_x4" else "nan"
    assert kinds.pop((3, 1)) == kept
    assert bool(patterns[3][1] & 0x80) == bool(np.signbit(np.float32(special)))
    # 1 divided by 2^113 or more is far below the smallest float8.
    assert set(kinds.values()) == {"finite"}
    assert sum(p for four in patterns for p in four) == patterns[3][1]
    alone = np.ones((32, 8), SOURCES[source])
    want_words, want_scales = quantized(alone, packed, np.zeros((4, 2), np.uint8), release=release)
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


# -- what is refused ------------------------------------------------------------------------------

E4M3, E5M2, FP4 = "float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"
QUANTIZE = {
    "src": ((64, 32), "bfloat16"),
    "dst": ((64, 8), E4M3),
    "dst_scale": ((64, 8), "uint8"),
}


@each_case(
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
        ({"src": ((64, 32), "bfloat16", "hbm")}, "M021"),
    ],
)
def test_quantize_refuses(changes, code):
    assert called(quantize_mx, QUANTIZE | changes) == {code}


@each_case(
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


@pytest.mark.parametrize("target", ["gen2", "gen3"])
def test_only_gen4_quantizes(target):
    assert called(quantize_mx, QUANTIZE, target) == {"A033"}
