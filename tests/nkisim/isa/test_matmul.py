"""nc_matmul against the definition, at every size limit, dtype pair, tile and mode."""

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from oracles import matmul as oracle
from oracles.formats import TFLOAT32

NARROW = ["float8_e4m3", "float8_e5m2", "bfloat16", "float16"]
WIDE = ["float32", "tfloat32"]
PAIRS = [(a, b) for group in (NARROW, WIDE) for a in group for b in group]
HOST = {
    "float8_e4m3": ml_dtypes.float8_e4m3,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float32": np.float32,
    "tfloat32": np.float32,
}


def draw(shape, name="float32", seed=0):
    """Values of a type: normal numbers, rounded to it."""
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    if name == "tfloat32":
        # A tfloat32 is a float32 whose lowest 13 bits are zero.
        return (values.view(np.uint32) & np.uint32(0xFFFF_E000)).view(np.float32)
    return values.astype(HOST[name])


def whole(rng_seed, shape, limit=8):
    """Small integers as float32: every sum of their products is exact in float32."""
    return np.random.default_rng(rng_seed).integers(-limit, limit + 1, shape).astype(np.float32)


def load(source, dtype):
    tile = nl.ndarray(source.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def store(tile):
    """Evicts a PSUM tile to a new output; one instruction reads at most 4096 elements of PSUM."""
    copied = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    for first in range(0, tile.shape[1], 4096):
        part = slice(first, min(first + 4096, tile.shape[1]))
        nisa.tensor_copy(dst=copied[:, part], src=tile[:, part])
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=copied)
    return out


@nkisim.jit
def product(stationary, moving, stationary_dtype, moving_dtype, dst_dtype, shape):
    acc = nl.ndarray(shape, dtype=dst_dtype, buffer=nl.psum)
    a = load(stationary, stationary_dtype)
    b = load(moving, moving_dtype)
    nisa.nc_matmul(dst=acc, stationary=a, moving=b)
    return store(acc)


def run_product(a, b, types=("float32", "float32"), dst="float32", target="gen4"):
    shape = (a[0].size, b[0].size)
    kinds = (getattr(nl, types[0]), getattr(nl, types[1]), getattr(nl, dst))
    return nkisim.simulate(product, target=target)(a, b, *kinds, shape)


def assert_close(got, want, roundoff=None):
    assert got.shape == want.value.shape
    bound = want.tolerance if roundoff is None else want.rounded_tolerance(roundoff)
    worst = np.max(np.abs(got.astype(np.float64) - want.value) - bound)
    assert worst <= 0, f"{worst} beyond the tolerance"


# Values


@pytest.mark.parametrize(("stationary", "moving"), PAIRS)
def test_every_legal_pair_of_types(stationary, moving):
    a, b = draw((96, 40), stationary, 1), draw((96, 56), moving, 2)
    got = run_product(a, b, (stationary, moving))
    assert got.dtype == np.float32
    assert_close(got, oracle.matmul(a, b))


@pytest.mark.parametrize("k", [1, 2, 127, 128])
@pytest.mark.parametrize("m", [1, 127, 128])
@pytest.mark.parametrize("n", [1, 511, 512])
def test_every_corner_of_one_tile(k, m, n):
    a, b = draw((k, m), seed=k + m), draw((k, n), seed=n)
    assert_close(run_product(a, b, target="gen3"), oracle.matmul(a, b))


@pytest.mark.parametrize(("n", "dst"), [(513, "float32"), (4096, "float32"), (8192, "bfloat16")])
def test_gen4_writes_up_to_the_whole_psum(n, dst):
    a, b = draw((16, 3)), draw((16, n), seed=1)
    got = run_product(a, b, dst=dst)
    roundoff = oracle.BFLOAT16_ROUNDOFF if dst == "bfloat16" else None
    assert_close(got, oracle.matmul(a, b), roundoff)


def test_bfloat16_destination_is_rounded_once_from_float32():
    a, b = whole(0, (64, 32)), whole(1, (64, 48))
    got = run_product(a, b, dst="bfloat16")
    exact = oracle.matmul(a, b).value.astype(np.float32)
    assert got.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(
        got.view(np.uint16), exact.astype(ml_dtypes.bfloat16).view(np.uint16)
    )
    assert np.any(exact != got.astype(np.float32))


def test_products_are_not_rounded_to_the_operands_type():
    # 1 + 2^-7 is a bfloat16; its square needs 15 bits and must survive in float32.
    x = np.full((1, 1), 1 + 2**-7, ml_dtypes.bfloat16)
    assert run_product(x, x, ("bfloat16", "bfloat16")).item() == (1 + 2**-7) ** 2


def test_float32_operands_keep_their_low_bits():
    a = np.full((1, 1), 1 + 2.0**-23, np.float32)
    b = np.full((1, 1), 1, np.float32)
    assert run_product(a, b).item() == 1 + 2.0**-23


def reinterpreted(x, dtype, how):
    """A float32 tile whose 32 bits are read as ``dtype``."""
    tile = load(x, nl.float32)
    return (
        tile.view(dtype)
        if how == "view"
        else tile.ap([[x.shape[1], 1], [1, x.shape[1]]], dtype=dtype)
    )


@nkisim.jit
def reinterpreted_product(stationary, moving, types, how, hinted):
    a, b = (reinterpreted(x, d, how) for x, d in zip((stationary, moving), types, strict=True))
    acc = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a, moving=b, is_moving_onezero=hinted)
    return store(acc)


def as_read(values, dtype):
    """The values that the Tensor engine multiplies: float32, or the nearest tfloat32."""
    if dtype != "tfloat32":
        return values
    bits = [TFLOAT32.from_float32(int(b)) for b in values.view(np.uint32).flat]
    wide = [TFLOAT32.to_float32(b) for b in bits]
    return np.array(wide, np.uint32).view(np.float32).reshape(values.shape)


@pytest.mark.parametrize("target", ["gen2", "gen3", "gen4"])
@pytest.mark.parametrize("how", ["view", "ap"])
@pytest.mark.parametrize("types", [(a, b) for a in WIDE for b in WIDE])
def test_a_product_rounds_tfloat32_operands_whatever_bits_are_stored(types, how, target):
    a, b = draw((1, 40), seed=1), draw((1, 56), seed=2)
    kinds = tuple(getattr(nl, name) for name in types)
    # With one term there is nothing to sum: one float32 product of what is read.
    want = as_read(a, types[0]).T * as_read(b, types[1])
    for run in (nkisim.simulate, lambda *a, **o: lambda *x: nkisim.check(*a, **o)(*x).outputs):
        got = run(reinterpreted_product, target=target)(a, b, kinds, how, False)
        np.testing.assert_array_equal(got, want)


def test_a_hint_saves_passes_of_float32_only():
    a, b = draw((1, 40), seed=1), draw((1, 56), seed=2)
    arguments = (a, b, (nl.tfloat32, nl.tfloat32), "view", True)
    report = nkisim.check(reinterpreted_product)(*arguments)
    assert "D010" not in report.codes
    want = as_read(a, "tfloat32").T * as_read(b, "tfloat32")
    np.testing.assert_array_equal(report.outputs, want)


def test_a_wide_tfloat32_operand_is_not_rounded():
    a, b = draw((1, 40), seed=1), draw((1, 56), seed=2)
    run = nkisim.simulate(reinterpreted_product, precise_fp=False)
    got = run(a, b, (nl.tfloat32, nl.tfloat32), "view", False)
    np.testing.assert_array_equal(got, a.T * b)


@nkisim.jit
def transposed_bits(x):
    tile = reinterpreted(x, nl.tfloat32, "view")
    flipped = nl.ndarray(x.shape[::-1], dtype=nl.tfloat32, buffer=nl.psum)
    nisa.nc_transpose(dst=flipped, data=tile)
    return store(flipped)


@pytest.mark.parametrize("target", ["gen2", "gen3", "gen4"])
def test_a_transposition_rounds_tfloat32_only_where_it_is_a_product(target):
    x = draw((40, 56), seed=1)
    want = as_read(x, "tfloat32" if target == "gen2" else "float32").T
    got = nkisim.simulate(transposed_bits, target=target)(x)
    np.testing.assert_array_equal(np.asarray(got).view(np.uint32), want.view(np.uint32))


def test_free_dimensions_are_flattened():
    a, b = whole(0, (16, 2, 5)), whole(1, (16, 3, 4, 2))
    flat = oracle.matmul(a.reshape(16, 10), b.reshape(16, 24)).value
    for shape in [(10, 24), (10, 3, 4, 2), (10, 8, 3)]:
        got = nkisim.simulate(product)(a, b, nl.float32, nl.float32, nl.float32, shape)
        np.testing.assert_array_equal(got, flat.reshape(shape))


@nkisim.jit
def strided_product(stationary, moving):
    a = load(stationary, stationary.dtype)
    b = load(moving, moving.dtype)
    m, n = a.shape[1] // 2, b.shape[1] // 3
    acc = nl.ndarray((m, 2 * n), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(dst=acc, value=0.0)
    nisa.nc_matmul(dst=acc[:, 1::2], stationary=a[:, 1::2], moving=b[:, ::3], accumulate=False)
    return store(acc)


def test_operands_and_destination_may_be_strided():
    a, b = whole(2, (20, 12)), whole(3, (20, 15))
    got = nkisim.simulate(strided_product)(a, b)
    want = np.zeros((6, 10))
    want[:, 1::2] = oracle.matmul(a[:, 1::2], b[:, ::3]).value
    np.testing.assert_array_equal(got, want)


def test_a_nan_reaches_exactly_the_sums_it_belongs_to():
    a, b = whole(4, (8, 6)), whole(5, (8, 7))
    a[3, 2] = np.nan
    got = run_product(a, b)
    wrong = np.isnan(got)
    assert wrong[2].all()
    assert wrong.sum() == 7


# Modes


@nkisim.jit
def doubled(stationary, moving):
    a = load(stationary, stationary.dtype)
    b = load(moving, moving.dtype)
    acc = nl.ndarray((a.shape[2], b.shape[2]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a, moving=b, perf_mode=nisa.matmul_perf_mode.double_row)
    return store(acc)


@pytest.mark.parametrize("target", ["gen3", "gen4"])
@pytest.mark.parametrize(("k", "m", "n"), [(1, 1, 2), (33, 7, 9), (128, 128, 512)])
@pytest.mark.parametrize("stationary", ["float8_e4m3", "float8_e5m2"])
def test_double_row_sums_over_both_rows(target, k, m, n, stationary):
    a, b = draw((k, 2, m), stationary, 1), draw((k, 2, n), "float8_e4m3", 2)
    got = nkisim.simulate(doubled, target=target)(a, b)
    assert_close(got, oracle.double_row(a, b))


@pytest.mark.parametrize("double_first", [False, True])
def test_the_same_tiles_serve_with_and_without_double_row(double_first):
    @nkisim.jit
    def kernel(stationary, moving):
        a, b = load(stationary, stationary.dtype), load(moving, moving.dtype)
        results = {}
        for double in (double_first, not double_first):
            mode = nisa.matmul_perf_mode.double_row if double else nisa.matmul_perf_mode.none
            size = 1 if double else 2
            total = nl.ndarray((size * 40, size * 48), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=total, stationary=a, moving=b, perf_mode=mode)
            results[double] = store(total)
        return results[True], results[False]

    a, b = draw((64, 2, 40), "float8_e4m3", 1), draw((64, 2, 48), "float8_e4m3", 2)
    doubled, plain = nkisim.simulate(kernel)(a, b)
    assert_close(doubled, oracle.double_row(a, b))
    assert_close(plain, oracle.matmul(a.reshape(64, 80), b.reshape(64, 96)))


def test_double_row_needs_fp8_a_pair_of_rows_and_gen3():
    fp8, bf16 = ml_dtypes.float8_e4m3, ml_dtypes.bfloat16
    pair = np.ones((4, 2, 4))
    codes = nkisim.check(doubled, target="gen2")(pair.astype(fp8), pair.astype(fp8)).codes
    assert "A033" in codes
    assert "D006" in nkisim.check(doubled)(pair.astype(bf16), pair.astype(bf16)).codes
    triple = np.ones((4, 3, 4)).astype(fp8)
    assert "S034" in nkisim.check(doubled)(triple, triple).codes


@nkisim.jit
def transposed_by_matmul(data, identity):
    a = load(data, data.dtype)
    one = load(identity, data.dtype)
    acc = nl.ndarray((data.shape[1], data.shape[0]), dtype=data.dtype, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a, moving=one, is_transpose=True)
    return store(acc)


@each_case("target", ["gen3", "gen4"])
@each_case("name", ["float32", "bfloat16", "float16"])
def test_transpose_mode_moves_every_bit_pattern(target, name):
    width = np.dtype(HOST[name]).itemsize
    bits = np.random.default_rng(0).integers(0, 2 ** (8 * width), (50, 70)).astype(f"u{width}")
    data = bits.view(HOST[name])
    with np.errstate(invalid="ignore"):  # some processors signal NaNs
        assert not np.isfinite(data).all()
    got = nkisim.simulate(transposed_by_matmul, target=target)(data, np.eye(50, dtype=np.float32))
    np.testing.assert_array_equal(got.view(bits.dtype), oracle.transpose(bits))


def transposing(moving, accumulate=None, dtype=np.float32, out=None):
    """A kernel that transposes onto a product that is there already, and its plain twin."""

    def kernel(before, data, moving, plain):
        a, b = load(data, data.dtype), load(moving, moving.dtype)
        acc = nl.ndarray((a.shape[1], b.shape[1]), dtype=out or data.dtype, buffer=nl.psum)
        if accumulate is not None:
            start = load(before, before.dtype)
            nisa.nc_matmul(dst=acc, stationary=start[:, : a.shape[1]], moving=start)
        nisa.nc_matmul(
            dst=acc, stationary=a, moving=b, is_transpose=not plain, accumulate=accumulate
        )
        return store(acc)

    before, data = draw((len(moving), len(moving))), draw((len(moving), 24), seed=3)
    return kernel, (before, data.astype(dtype), moving.astype(dtype))


MOVING = {
    "zero columns": np.eye(32) * (np.arange(32) % 3 > 0),
    "twice the identity": 2 * np.eye(32),
    "minus the identity": -np.eye(32),
    "ones": np.ones((32, 32)),
    "a row twice": np.eye(32)[:, np.maximum(np.arange(32) - 1, 0)],
}


@each_case("target", ["gen2", "gen3", "gen4"])
@each_case("moving", MOVING)
def test_transpose_mode_with_any_other_operand_is_the_plain_product(target, moving):
    kernel, operands = transposing(MOVING[moving])
    turned = nkisim.check(kernel, target=target)(*operands, False)
    product = nkisim.check(kernel, target=target)(*operands, True)
    codes = {code for code in turned.codes if code[0] != "L"}
    assert codes == (set() if target == "gen2" else {"D049"})
    np.testing.assert_array_equal(turned.outputs, product.outputs)


@each_case("target", ["gen2", "gen3", "gen4"])
@each_case("order", ["identity", "reversed", "shuffled", "first rows"])
def test_transpose_mode_reorders_by_a_permutation(target, order):
    rows = {
        "identity": np.arange(32),
        "reversed": np.arange(32)[::-1],
        "shuffled": np.random.default_rng(0).permutation(32),
        "first rows": np.arange(10),
    }[order]
    kernel, operands = transposing(np.eye(32)[:, rows])
    report = nkisim.check(kernel, target=target)(*operands, False)
    assert {code for code in report.codes if code[0] != "L"} == set()
    np.testing.assert_array_equal(report.outputs, operands[1][rows].T)


@each_case("target", ["gen2", "gen3", "gen4"])
@each_case("accumulate", [True, False])
def test_transpose_mode_adds_when_told(target, accumulate):
    kernel, operands = transposing(np.eye(32), accumulate)
    got = nkisim.check(kernel, target=target)(*operands, False)
    want = nkisim.check(kernel, target=target)(*operands, True)
    np.testing.assert_array_equal(got.outputs, want.outputs)
    assert np.array_equal(got.outputs, operands[1].T) != accumulate


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("target", ["gen3", "gen4"])
def test_transpose_mode_overwrites_unless_told_to_add(target, values):
    def kernel(data, identity):
        one = load(identity, identity.dtype)
        turned = nl.ndarray((24, 32), dtype=data.dtype, buffer=nl.psum)
        for i in range(2):
            a = load(data[i * 32 : (i + 1) * 32], data.dtype)
            nisa.nc_matmul(dst=turned, stationary=a, moving=one, is_transpose=True)
            out = store(turned)
        return out

    data = draw((64, 24), "bfloat16")
    report = nkisim.check(kernel, target=target, values=values)(data, np.eye(32).astype(data.dtype))
    assert {code for code in report.codes if code[0] != "L"} == set()
    if values:
        np.testing.assert_array_equal(report.outputs, data[32:].T)


@each_case("out", ["bfloat16", "float16", "uint16", "int16"])
@each_case("target", ["gen3", "gen4"])
def test_transpose_mode_leaves_float8_in_16_bits_with_zeros_above(target, out):
    patterns = np.random.default_rng(0).integers(0, 256, (32, 24)).astype(np.uint8)
    kernel, operands = transposing(np.eye(32), dtype=ml_dtypes.float8_e4m3, out=out)
    report = nkisim.check(kernel, target=target)(
        operands[0], patterns.view(ml_dtypes.float8_e4m3), operands[2], False
    )
    assert {code for code in report.codes if code[0] != "L"} == set()
    np.testing.assert_array_equal(report.outputs.view(np.uint16), patterns.T.astype(np.uint16))


@nkisim.jit
def hinted(stationary, moving, stationary_is, moving_is):
    a = load(stationary, stationary.dtype)
    b = load(moving, moving.dtype)
    acc = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(
        dst=acc,
        stationary=a,
        moving=b,
        is_stationary_onezero=stationary_is,
        is_moving_onezero=moving_is,
    )
    return store(acc)


@pytest.mark.parametrize("side", [0, 1])
def test_a_true_hint_changes_nothing_and_a_false_one_is_found(side):
    ones = np.random.default_rng(0).integers(0, 2, (32, 16)).astype(np.float32)
    other = draw((32, 16))
    operands = (ones, other) if side == 0 else (other, ones)
    hints = (side == 0, side == 1)
    report = nkisim.check(hinted)(*operands, *hints)
    assert "D010" not in report.codes
    assert_close(report.outputs, oracle.matmul(*operands))
    wrong = nkisim.check(hinted)(*operands[::-1], *hints)
    assert "D010" in wrong.codes


def test_a_hint_means_nothing_for_narrow_types():
    a, b = draw((32, 8), "bfloat16", 1), draw((32, 8), "float16", 2)
    report = nkisim.check(hinted)(a, b, True, True)
    assert report.ok
    assert_close(report.outputs, oracle.matmul(a, b))


# Tiles of the systolic array


@nkisim.jit
def row_tiles(stationary, moving, rows):
    a = load(stationary, stationary.dtype)
    b = load(moving, moving.dtype)
    m, n = a.shape[1], b.shape[1]
    out = nl.ndarray((128 // rows, m, n), dtype=nl.float32, buffer=nl.shared_hbm)
    for tile in range(128 // rows):
        first = tile * rows
        acc = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(
            dst=acc,
            stationary=a[first : first + rows, :],
            moving=b[first : first + rows, :],
            tile_position=(first, 0),
            tile_size=(rows, 128),
        )
        copied = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copied, src=acc)
        nisa.dma_copy(dst=out[tile], src=copied)
    return out


@pytest.mark.parametrize(("target", "rows"), [("gen2", 64), ("gen3", 32), ("gen4", 64)])
def test_row_tiles_multiply_their_own_partitions(target, rows):
    a, b = whole(6, (128, 24)), whole(7, (128, 40))
    got = nkisim.simulate(row_tiles, target=target)(a, b, rows)
    for tile in range(128 // rows):
        part = slice(tile * rows, (tile + 1) * rows)
        np.testing.assert_array_equal(got[tile], oracle.matmul(a[part], b[part]).value)


@nkisim.jit
def column_tiles(stationary, moving, columns):
    b = load(moving, moving.dtype)
    acc = nl.ndarray((128, moving.shape[1]), dtype=nl.float32, buffer=nl.psum)
    for tile in range(128 // columns):
        first = tile * columns
        a = load(stationary[:, first : first + columns], stationary.dtype)
        nisa.nc_matmul(
            dst=acc[first : first + columns, :],
            stationary=a,
            moving=b,
            tile_position=(0, first),
            tile_size=(128, columns),
        )
    return store(acc)


@pytest.mark.parametrize("columns", [32, 64])
def test_column_tiles_fill_row_groups_of_one_psum_tile(columns):
    a, b = whole(8, (128, 128)), whole(9, (128, 20))
    got = nkisim.simulate(column_tiles)(a, b, columns)
    np.testing.assert_array_equal(got, oracle.matmul(a, b).value)


@nkisim.jit
def tiled(stationary, moving, position, size):
    a = load(stationary, stationary.dtype)
    b = load(moving, moving.dtype)
    acc = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=a, moving=b, tile_position=position, tile_size=size)
    return store(acc)


@each_case(
    ("target", "rows", "position", "size"),
    [
        ("gen4", 32, (0, 0), ()),
        ("gen4", 32, (), (32, 128)),
        ("gen4", 32, (0, 0), (48, 128)),
        ("gen4", 32, (16, 0), (32, 128)),
        ("gen4", 32, (128, 0), (32, 128)),
        ("gen2", 32, (0, 0), (32, 128)),
    ],
)
def test_an_impossible_tile_is_found(target, rows, position, size):
    a, b = whole(0, (rows, 8)), whole(1, (rows, 8))
    assert "S035" in nkisim.check(tiled, target=target)(a, b, position, size).codes


@each_case("target", ["gen2", "gen3", "gen4"])
@each_case("rows", [32, 64, 128])
@each_case("columns", [32, 64, 128])
def test_a_tile_of_some_columns_is_a_warning(target, rows, columns):
    if target == "gen2" and 32 in (rows, columns):
        return  # gen2 has no such tiles
    a, b = whole(0, (rows, 8)), whole(1, (rows, 8))
    for start in range(0, 128, columns):
        report = nkisim.check(tiled, target=target)(a, b, (0, start), (rows, columns))
        assert report.codes == (set() if columns == 128 else {"S072"})
        assert report.ok


def test_operands_larger_than_the_tile_are_found():
    a = whole(0, (64, 8))
    assert "S032" in nkisim.check(tiled)(a, a, (0, 0), (32, 128)).codes
    wide = whole(0, (32, 64))
    assert "S029" in nkisim.check(tiled)(wide, wide, (0, 0), (128, 32)).codes


# What the engine cannot do


@each_case(
    ("rule", "target", "a", "b", "types", "shape"),
    [
        ("S028", "gen4", (8, 4), (9, 4), ("float32", "float32", "float32"), (4, 4)),
        ("S029", "gen4", (8, 129), (8, 4), ("float32", "float32", "float32"), (128, 4)),
        ("S030", "gen2", (8, 4), (8, 513), ("float32", "float32", "float32"), (4, 513)),
        ("S030", "gen3", (8, 4), (8, 513), ("float32", "float32", "float32"), (4, 513)),
        ("S031", "gen4", (8, 4), (8, 6), ("float32", "float32", "float32"), (6, 4)),
        ("D002", "gen4", (8, 4), (8, 6), ("int32", "int32", "float32"), (4, 6)),
        ("D003", "gen4", (8, 4), (8, 6), ("float32", "bfloat16", "float32"), (4, 6)),
        ("D003", "gen4", (8, 4), (8, 6), ("float16", "tfloat32", "float32"), (4, 6)),
        ("D004", "gen3", (8, 4), (8, 6), ("bfloat16", "bfloat16", "bfloat16"), (4, 6)),
        ("D004", "gen4", (8, 4), (8, 6), ("bfloat16", "bfloat16", "float16"), (4, 6)),
    ],
)
def test_an_illegal_product_is_found(rule, target, a, b, types, shape):
    kinds = [getattr(nl, name) for name in types]
    ones = np.ones(a, np.float32), np.ones(b, np.float32)
    report = nkisim.check(product, target=target)(*ones, *kinds, shape)
    assert rule in report.codes
    assert not report.ok


@nkisim.jit
def operands_in_wrong_memories(x, wrong):
    tile = load(x, x.dtype)
    elsewhere = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.psum)
    nisa.tensor_copy(dst=elsewhere, src=tile)
    acc = nl.ndarray((x.shape[1], x.shape[1]), dtype=nl.float32, buffer=nl.psum)
    result = nl.ndarray((x.shape[1], x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.nc_matmul(
        dst=result if wrong == "dst" else acc,
        stationary=elsewhere if wrong == "stationary" else tile,
        moving=x if wrong == "moving" else tile,
    )


@pytest.mark.parametrize(
    ("wrong", "rule", "words"),
    [
        ("stationary", "M019", "stationary must be in ['sbuf'], got psum"),
        ("moving", "M019", "moving must be in ['sbuf'], got private_hbm"),
        ("dst", "M020", "dst must be in ['psum'], got sbuf"),
    ],
)
def test_an_operand_in_the_wrong_memory_stops_the_kernel(wrong, rule, words):
    x = np.ones((8, 8), np.float32)
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(operands_in_wrong_memories)(x, wrong)
    assert caught.value.rule_id == rule
    assert words in str(caught.value)


def test_subnormal_operands_are_not_lost():
    tiny = np.full((32, 4), 2.0**-130, np.float32).astype(ml_dtypes.bfloat16)
    huge = np.full((32, 8), 2.0**120, np.float32).astype(ml_dtypes.bfloat16)
    got = run_product(tiny, huge, ("bfloat16", "bfloat16"))
    assert (got == 32 * 2.0**-10).all()


def test_a_tile_that_changes_is_multiplied_as_it_is_then():
    a, b = whole(0, (64, 32)), whole(1, (64, 48))

    @nkisim.jit
    def kernel(first, second, moving):
        stationary, moved = load(first, nl.bfloat16), load(moving, nl.bfloat16)
        results = []
        for source in (first, second):
            nisa.dma_copy(dst=stationary, src=source)
            total = nl.ndarray((32, 48), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=total, stationary=stationary, moving=moved)
            results.append(store(total))
        return results

    kinds = [x.astype(ml_dtypes.bfloat16) for x in (a, -2 * a, b)]
    first, second = nkisim.simulate(kernel)(*kinds)
    assert (first == a.T @ b).all()
    assert (second == -2 * a.T @ b).all()


def test_sums_that_go_on_after_a_read_are_found():
    a, b = whole(14, (64, 40)), whole(15, (64, 48))

    @nkisim.jit
    def kernel(a, b):
        left, right = load(a, nl.bfloat16), load(b, nl.bfloat16)
        total = nl.ndarray((40, 48), dtype=nl.float32, buffer=nl.psum)
        for step in range(3):
            nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=step > 0)
        first = store(total)
        nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=True)
        return first, store(total)

    with pytest.warns(nkisim.NkiFindingWarning, match="M042"):
        first, second = nkisim.simulate(kernel)(*(x.astype(ml_dtypes.bfloat16) for x in (a, b)))
    assert (first == 3 * a.T @ b).all()
    assert (second == 4 * a.T @ b).all()
