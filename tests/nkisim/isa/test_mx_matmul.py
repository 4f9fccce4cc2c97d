"""nc_matmul_mx within the error of its float32 sums, accumulation, and what it refuses."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from nkisim import NkiFindingWarning
from nkisim.isa import nc_matmul_mx, quantize_mx
from oracles import mx as oracle
from oracles.matmul import matmul
from packs import pack
from tiles import loaded, stored

from .harness_mx import (
    OFFSETS,
    PACKS,
    SENTINEL,
    Operand,
    as_words,
    assert_product,
    call_of,
    called,
    findings_of,
    run,
)


def multiply(a: Operand, b: Operand, dtype: str = "float32") -> np.ndarray:
    """The product of two operands on the simulator."""

    def kernel(a, b, a_scale, b_scale):
        acc = nl.ndarray((a.shape[1], b.shape[1]), dtype, buffer=nl.psum)
        nc_matmul_mx(acc, loaded(a), loaded(b), loaded(a_scale), loaded(b_scale))
        return stored(acc)

    return run(kernel, a.host, b.host, a.scattered(), b.scattered())


@each_case("dtype", ["float32", "bfloat16"])
@each_case("moving", PACKS)
@each_case("stationary", PACKS)
def test_matmul_of_every_pair_of_types(stationary, moving, dtype):
    a, b = Operand(1, stationary, 64, 6), Operand(2, moving, 64, 5)
    assert_product(multiply(a, b, dtype), matmul(a.values, b.values))


@pytest.mark.parametrize("rows", [32, 64, 96, 128])
@pytest.mark.parametrize(("m", "n"), [(2, 1), (128, 3), (8, 33)])
def test_matmul_sizes(rows, m, n):
    a, b = Operand(1, "float8_e4m3fn_x4", rows, m), Operand(2, "float4_e2m1fn_x4", rows, n)
    assert_product(multiply(a, b), matmul(a.values, b.values))


@pytest.mark.parametrize(
    ("dtype", "m", "n"),
    [
        ("float32", 128, 32),
        ("float32", 2, 512),
        ("bfloat16", 2, 1024),
        pytest.param("float32", 128, 512, marks=pytest.mark.slow),
        pytest.param("bfloat16", 128, 1024, marks=pytest.mark.slow),
    ],
)
def test_matmul_of_the_largest_tiles(dtype, m, n):
    a, b = Operand(1, "float8_e5m2_x4", 128, m), Operand(2, "float8_e4m3fn_x4", 128, n)
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


@each_case("a_offset", OFFSETS)
@each_case("b_offset", OFFSETS)
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
    report = nkisim.check(kernel, target="gen4")(words.host, words.scales)
    found = {f.operand for f in report.findings if f.rule.id == "M001"}
    assert found == {"moving", "moving_scale"}


@each_case(("rows", "start"), [(32, 32), (32, 96), (64, 64)])
@each_case("tiled", [False, True])
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


@each_case("packed", PACKS)
@each_case("carrier", ["pack", "storage", "uint8"])
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


@each_case("packed", PACKS)
@each_case(
    ("a", "b"), [(127, 127), (254, 0), (0, 254), (254, 127), (254, 1), (0, 127), (64, 64), (0, 240)]
)
def test_scales_are_powers_of_two(packed, a, b):
    # Down to 2^-126 exact and normal in float32; 2^-127 is subnormal and exact all the same.
    assert one_by_one(a, b, packed) == 2.0 ** (a + b - 254)


@pytest.mark.parametrize(
    ("packed", "largest", "last"),
    [
        ("float8_e4m3fn_x4", 448.0, 246),
        ("float8_e5m2_x4", 57344.0, 239),
        ("float4_e2m1fn_x4", 6.0, 252),
    ],
)
def test_a_product_is_scaled_as_a_whole(packed, largest, last):
    """Under scales above the last one an element is no float32, but the product is one."""
    words, small = pack(np.full((32, 8), largest, np.float32), packed), np.zeros((4, 2), np.uint8)

    def kernel(words, large, small):
        acc = nl.ndarray((2, 2), nl.float32, buffer=nl.psum)
        tile = loaded(words)
        nc_matmul_mx(acc, tile, tile, loaded(large), loaded(small))
        return stored(acc)

    for byte in (last, last + 1, 254):
        # 128 equal products of 7 or 3 and a power of two, exact in float32.
        want = 128 * largest**2 * 2.0 ** (byte - 254)
        assert (run(kernel, words, np.full((4, 2), byte, np.uint8), small) == want).all()


def test_a_sum_beyond_float32_is_infinite():
    words = pack(np.full((32, 8), 57344, np.float32), "float8_e5m2_x4")
    large = np.full((4, 2), 254, np.uint8)

    def kernel(words, large):
        acc = nl.ndarray((2, 2), nl.float32, buffer=nl.psum)
        tile, scale = loaded(words), loaded(large)
        nc_matmul_mx(acc, tile, tile, scale, scale)
        return stored(acc)

    found = frozenset({"D042"})
    assert np.isposinf(run(kernel, words, large, codes=found)).all()


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


@each_case(
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
    lost = frozenset({"W001"} if len(kept) < len(flags) else ())
    np.testing.assert_array_equal(accumulated(flags, lost), want)


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

    report = nkisim.check(kernel, target="gen4")(a.host, a.scales)
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


def test_views_of_one_tile_are_told_apart():
    a = exact_operands()[0]

    def kernel(words, scales):
        tile, scale = loaded(words), loaded(scales)
        acc = nl.ndarray((2, 4), nl.float32, buffer=nl.psum)
        for first, accumulate in ((0, False), (2, True)):
            part = slice(first, first + 2)
            nc_matmul_mx(acc, tile[:, part], tile, scale[:, part], scale, accumulate=accumulate)
        return stored(acc)

    values = a.values
    want = values[:, 0:2].T @ values + values[:, 2:4].T @ values
    np.testing.assert_array_equal(run(kernel, a.host, a.scales), want)


@pytest.mark.parametrize("values", [True, False])
def test_accumulation_is_followed_without_values(values):
    a = exact_operands()[0]

    def kernel(words, scales, flags):
        acc = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
        tile, scale = loaded(words), loaded(scales)
        for flag in flags:
            nc_matmul_mx(acc, tile, tile, scale, scale, accumulate=flag)
        return stored(acc)

    check = nkisim.check(kernel, target="gen4", values=values)
    for flags, want in (((None, True), set()), ((True, True), {"M003"})):
        codes = check(a.host, a.scales, flags).codes
        assert {code for code in codes if code[0] != "L"} == want


# -- what is refused ------------------------------------------------------------------------------

E4M3 = "float8_e4m3fn_x4"
MULTIPLY = {
    "dst": ((8, 16), "float32", "psum"),
    "stationary": ((64, 8), E4M3),
    "moving": ((64, 16), E4M3),
    "stationary_scale": ((64, 8), "uint8"),
    "moving_scale": ((64, 16), "uint8"),
}


@each_case(
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


TALL = {"stationary": ((48, 8), E4M3), "moving": ((48, 16), E4M3)}
ODD = {"stationary": ((64, 7), E4M3), "dst": ((7, 16), "float32", "psum")}
WIDE = {"moving": ((64, 1025), E4M3), "dst": ((8, 1025), "bfloat16", "psum")}


@each_case(
    ("changes", "tile", "words"),
    [
        (TALL, {}, ("stationary", "48", "32, 64, 96, 128")),
        (ODD, {}, ("stationary", "7", "an even number up to 128")),
        ({"moving": ((64, 513), E4M3)}, {}, ("moving", "513", "at most 512")),
        (WIDE, {}, ("moving", "1025", "at most 1024")),
        ({"dst": ((16, 8), "float32", "psum")}, {}, ("dst", "(16, 8)", "(8, 16)")),
        ({}, {"tile_size": (32, 128)}, ("stationary", "64", "at most 32")),
    ],
)
def test_matmul_says_what_it_takes(changes, tile, words):
    options = {"tile_position": (0, 0), **tile} if tile else {}
    found = findings_of(call_of(nc_matmul_mx, MULTIPLY | changes, **options))[0]
    assert (found.operand, str(found.seen), str(found.allowed)) == words


@each_case("rows", [32, 64, 96])
@each_case("written", [True, False])
def test_of_a_taller_tile_of_scales_the_first_rows_count(rows, written):
    a, b = Operand(1, E4M3, rows, 4), Operand(2, E4M3, rows, 8)

    def kernel(a_words, b_words, a_scales, b_scales):
        tiles = []
        for scales in (a_scales, b_scales):
            tile = nl.ndarray((128, scales.shape[1]), nl.uint8, buffer=nl.sbuf)
            if written:
                nisa.memset(tile, SENTINEL)
            nisa.dma_copy(dst=tile[0:rows], src=scales)
            tiles.append(tile)
        acc = nl.ndarray((4, 8), nl.float32, buffer=nl.psum)
        nc_matmul_mx(acc, loaded(a_words), loaded(b_words), *tiles)
        return stored(acc)

    got = run(kernel, a.host, b.host, a.scattered(), b.scattered())
    assert_product(got, matmul(a.values, b.values))


def test_matmul_refuses_operands_on_different_partitions():
    half = {name: (shape, dtype, "", 64) for name, (shape, dtype) in list(MULTIPLY.items())[2:]}
    changed = MULTIPLY | {"moving": half["moving"], "moving_scale": half["moving_scale"]}
    assert called(nc_matmul_mx, changed) == {"S071"}


@each_case(
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
def test_only_gen4_multiplies(target):
    assert called(nc_matmul_mx, MULTIPLY, target) == {"A033"}


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
    with pytest.warns(NkiFindingWarning, match="M044"):
        got = kernel(a.host, a.scales)
    assert_product(got, matmul(a.values, a.values))
