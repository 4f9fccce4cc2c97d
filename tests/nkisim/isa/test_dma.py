"""dma_copy: between memories, across ranks and types, and by indices held in a tile."""

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from oracles import formats as oracle
from tiles import stored

HOST = {
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float8_e4m3": ml_dtypes.float8_e4m3,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "int32": np.int32,
    "uint32": np.uint32,
    "int16": np.int16,
    "uint16": np.uint16,
    "int8": np.int8,
    "uint8": np.uint8,
}
BY_REGISTER = each_case("by_register", [False, True], ids=["tile", "register"])
INTEGERS = [name for name in HOST if "int" in name]
FLOATS = [name for name in HOST if "int" not in name]


def bits(array):
    return array.view(f"u{array.dtype.itemsize}")


def patterns(shape, name, seed=0):
    width = np.dtype(HOST[name]).itemsize
    drawn = np.random.default_rng(seed).integers(0, 2 ** (8 * width), shape)
    return drawn.astype(f"u{width}").view(HOST[name])


# Through the memories


@nkisim.jit
def along(source, path, shapes):
    """Copies ``source`` from one buffer of ``path`` to the next."""
    at = source
    for i in range(len(path)):
        there = nl.ndarray(shapes[i], dtype=source.dtype, buffer=path[i])
        nisa.dma_copy(dst=there, src=at)
        at = there
    return at


@each_case("name", sorted(HOST))
@each_case(
    "path",
    [
        (nl.shared_hbm,),
        (nl.sbuf, nl.shared_hbm),
        (nl.private_hbm, nl.sbuf, nl.sbuf, nl.private_hbm, nl.shared_hbm),
    ],
    ids=["hbm-hbm", "hbm-sbuf-hbm", "all"],
)
def test_every_bit_arrives(name, path):
    data = patterns((100, 37), name)
    got = nkisim.simulate(along)(data, path, (data.shape,) * len(path))
    assert got.dtype == data.dtype
    np.testing.assert_array_equal(bits(got), bits(data))


@each_case(
    ("source", "shapes"),
    [
        ((128, 6), [(128, 2, 3), (128, 6)]),
        ((24,), [(24, 1), (24,)]),
        ((24,), [(1, 24), (4, 6)]),
        ((4, 6, 5), [(4, 30), (120,)]),
        ((4, 6), [(24, 1), (2, 12)]),
        ((2, 3, 2, 2, 2), [(12, 4), (48,)]),
    ],
)
def test_counts_must_agree_not_ranks(source, shapes):
    data = np.arange(np.prod(source), dtype=np.float32).reshape(source)
    got = nkisim.simulate(along)(data, (nl.sbuf, nl.shared_hbm), tuple(shapes))
    np.testing.assert_array_equal(got, data.reshape(shapes[-1]))


def test_another_count_stops_the_kernel():
    data = np.zeros((4, 6), np.float32)
    with pytest.raises(
        nkisim.NkiValidationError, match=r"same number of elements.*24.*25"
    ) as caught:
        nkisim.simulate(along)(data, (nl.sbuf,), ((5, 5),))
    assert caught.value.rule_id == "S058"


@nkisim.jit
def window(source, first, rows):
    tile = nl.ndarray((128, source.shape[1]), dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[first : first + rows, :], src=source)
    moved = nl.ndarray((128, source.shape[1]), dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=moved[128 - rows : 128, :], src=tile[first : first + rows, :])
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=moved[128 - rows : 128, :])
    return out


@pytest.mark.parametrize(("first", "rows"), [(1, 3), (17, 100), (127, 1), (0, 128)])
def test_dma_starts_at_any_partition(first, rows):
    data = patterns((rows, 5), "int32")
    report = nkisim.check(window)(data, first, rows)
    assert report.ok
    np.testing.assert_array_equal(report.outputs, data)


@nkisim.jit
def broadcast_rows(row, rows):
    n = row.shape[0]
    tile = nl.ndarray((rows, 2, n), dtype=row.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=row.ap(pattern=[[0, rows], [0, 2], [1, n]]))
    out = nl.ndarray((rows, 2, n), dtype=row.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_step_zero_repeats_a_source():
    row = patterns((9,), "float32")
    report = nkisim.check(broadcast_rows)(row, 128)
    assert report.ok
    want = np.empty((128, 2, 9), np.float32)
    want[:] = row
    np.testing.assert_array_equal(bits(report.outputs), bits(want))


@nkisim.jit
def repeated_destination(source):
    out = nl.ndarray((4,), dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out.ap(pattern=[[0, 2], [1, 4]]), src=source)
    return out


def test_step_zero_in_a_destination_is_found():
    assert "M031" in nkisim.check(repeated_destination)(np.ones((2, 4), np.float32)).codes


@nkisim.jit
def from_psum(source):
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    summed = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.psum)
    nisa.tensor_copy(dst=summed, src=tile)
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=summed)
    return out


def test_psum_is_out_of_reach():
    message = "dma_copy requires HBM or SBUF tensors, got src=MemoryRegion.psum"
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(from_psum)(np.ones((4, 4), np.float32))
    assert caught.value.rule_id in {"A001", "M018"}
    assert message in str(caught.value)


# Across types: through float32, rounded once


@nkisim.jit
def converted(source, dtype):
    tile = nl.ndarray(source.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    out = nl.ndarray(source.shape, dtype=dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def by_definition(data, name):
    """Every element to float32, then to the named type, by exact arithmetic."""
    target = np.dtype(HOST[name])
    words = data.astype(np.float32).reshape(-1).view(np.uint32)
    if name == "float32":
        found = [int(word) for word in words]
    elif name in FLOATS:
        found = [oracle.FORMATS[name].from_float32(int(word)) for word in words]
    else:
        limits = np.iinfo(target)
        found = [oracle.integer_from_float32(int(w), limits.min, limits.max) for w in words]
        return np.array(found, target).reshape(data.shape)
    return np.array(found, f"u{target.itemsize}").view(target).reshape(data.shape)


@each_case("source", sorted(HOST))
@each_case("target", sorted(HOST))
def test_types_convert_through_float32(source, target):
    # Halves and odd multiples of 1/8 exercise the ties; 0 to 96 fits every type here.
    values = np.random.default_rng(0).integers(0, 8 * 96, (8, 12)) / 8
    data = values.astype(np.float32).astype(HOST[source])
    report = nkisim.check(converted)(data, getattr(nl, target))
    assert report.ok
    np.testing.assert_array_equal(bits(report.outputs), bits(by_definition(data, target)))


@each_case("target", ["int8", "uint8", "int32", "uint32", "float8_e4m3", "float16"])
def test_values_beyond_the_range_saturate_or_overflow(target):
    data = np.array([[1e9, -1e9, 3e38, -3e38, np.inf, -np.inf, np.nan, -0.5, 240, 248, 65520]])
    data = data.astype(np.float32)
    report = nkisim.check(converted)(data, getattr(nl, target))
    want = by_definition(data, target)
    if target in INTEGERS:
        np.testing.assert_array_equal(report.outputs, want)
        assert "D019" in report.codes
    else:
        np.testing.assert_array_equal(report.outputs.astype(np.float32), want.astype(np.float32))
        assert "D020" in report.codes


def test_large_integers_lose_bits_only_when_the_type_changes():
    data = np.array([[2**24 + 1, -(2**24) - 1, 2**30 + 1]], np.int32)
    same = nkisim.check(converted)(data, nl.int32)
    np.testing.assert_array_equal(same.outputs, data)
    assert "D017" not in same.codes
    other = nkisim.check(converted)(data, nl.float32)
    np.testing.assert_array_equal(other.outputs, data.astype(np.float32))
    assert "D017" in other.codes


@nkisim.jit
def copied_by_hardware(source, dtype):
    tile = nl.ndarray(source.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source, dge_mode=nisa.dge_mode.hwdge)
    out = nl.ndarray(source.shape, dtype=dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_hardware_descriptors_do_not_convert():
    data = np.ones((4, 4), np.float32)
    assert nkisim.check(copied_by_hardware)(data, nl.float32).ok
    assert "A002" in nkisim.check(copied_by_hardware)(data, nl.bfloat16).codes
    old = nkisim.check(copied_by_hardware, target="gen2")(data, nl.float32)
    assert old.codes & {"A033", "A036"}


# By indices


@nkisim.jit
def gathered(table, index, first, width, oob):
    rows = index.shape[0]
    idx = nl.ndarray(index.shape, dtype=index.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=idx, src=index)
    tile = nl.ndarray((rows, width), dtype=table.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=-1.0)
    n = table.shape[1]
    source = table.ap(
        pattern=[[n, rows], [1, width]], offset=first, vector_offset=idx, indirect_dim=0
    )
    nisa.dma_copy(dst=tile, src=source, oob_mode=oob)
    out = nl.ndarray((rows, width), dtype=table.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@each_case("index_type", [np.uint32, np.int32])
@each_case(("first", "width"), [(0, 12), (3, 5), (11, 1)])
def test_gather_reads_one_row_per_partition(index_type, first, width):
    table = patterns((50, 12), "float32")
    index = np.random.default_rng(1).integers(0, 50, (40, 1)).astype(index_type)
    got = nkisim.simulate(gathered)(table, index, first, width, nisa.oob_mode.error)
    for row in range(40):
        want = bits(table)[index[row, 0], first : first + width]
        np.testing.assert_array_equal(bits(got)[row], want)


def test_gather_skips_rows_out_of_bounds():
    table = np.arange(20, dtype=np.float32).reshape(5, 4)
    index = np.array([[4], [5], [-1], [0], [-1_000_000], [2**31 - 1]], np.int32)
    got = nkisim.simulate(gathered)(table, index, 0, 4, nisa.oob_mode.skip)
    want = np.full((6, 4), -1, np.float32)
    want[0], want[3] = table[4], table[0]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("bad", [5, -1, 10**6])
def test_gather_out_of_bounds_stops_the_kernel(bad):
    table = np.zeros((5, 4), np.float32)
    index = np.array([[0], [bad]], np.int32)
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(gathered)(table, index, 0, 4, nisa.oob_mode.error)
    assert caught.value.rule_id == "M036"
    assert str(bad) in str(caught.value)


def test_rows_are_gathered_within_one_memory():
    def kernel(x, index):
        scratch = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        out = nl.ndarray((index.shape[0], x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=scratch, src=x)
        rows = nl.load(index)
        pattern = [[x.shape[1], index.shape[0]], [1, x.shape[1]]]
        nisa.dma_copy(dst=out, src=scratch.ap(pattern, vector_offset=rows))
        return out

    x, index = np.arange(24, dtype=np.float32).reshape(6, 4), np.array([[5], [0], [3]], np.uint32)
    report = nkisim.check(kernel)(x, index)
    assert report.findings == []
    np.testing.assert_array_equal(report.outputs, x[[5, 0, 3]])


@nkisim.jit
def part_of_a_gather(table, index):
    rows, n = index.shape[0], table.shape[1]
    idx = nl.ndarray(index.shape, dtype=index.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=idx, src=index)
    view = table.ap(pattern=[[n, rows], [1, n]], vector_offset=idx, indirect_dim=0)
    out = nl.ndarray((2, 3), dtype=table.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=view[1:3, 2:5])
    return out


def test_a_slice_of_a_gather_is_computed_with_a_finding():
    table = np.arange(8 * 6, dtype=np.float32).reshape(8, 6)
    index = np.array([[7], [0], [5], [2]], np.int32)
    report = nkisim.check(part_of_a_gather)(table, index)
    assert report.codes == {"S020"}
    np.testing.assert_array_equal(report.outputs, table[[0, 5], 2:5])
    with pytest.raises(nkisim.NkiValidationError, match="S020"):
        nkisim.simulate(part_of_a_gather, strictness="strict")(table, index)


@nkisim.jit
def index_changed_before_use(table):
    n = table.shape[1]
    idx = nl.ndarray((2, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=idx, value=1)
    view = table.ap(pattern=[[n, 2], [1, n]], vector_offset=idx, indirect_dim=0)
    nisa.memset(dst=idx, value=2)
    out = nl.ndarray((2, n), dtype=table.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=view)
    return out


def test_indices_are_read_when_the_transfer_runs():
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    got = nkisim.simulate(index_changed_before_use)(table)
    np.testing.assert_array_equal(got, table[[2, 2]])


@nkisim.jit
def gathered_into_nothing(table, index):
    idx = nl.ndarray(index.shape, dtype=index.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=idx, src=index)
    tile = nl.ndarray((2, 4), dtype=table.dtype, buffer=nl.sbuf)
    source = table.ap(pattern=[[4, 2], [1, 4]], vector_offset=idx, indirect_dim=0)
    nisa.dma_copy(dst=tile, src=source, oob_mode=nisa.oob_mode.skip)
    out = nl.ndarray((2, 4), dtype=table.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_a_skipped_row_that_nobody_wrote_is_found():
    table = np.ones((5, 4), np.float32)
    clean = nkisim.check(gathered_into_nothing)(table, np.array([[0], [4]], np.int32))
    assert clean.ok
    assert "M037" not in clean.codes
    report = nkisim.check(gathered_into_nothing)(table, np.array([[0], [9]], np.int32))
    assert {"M037", "M001"} <= report.codes
    assert np.isnan(report.outputs[1]).all()
    np.testing.assert_array_equal(report.outputs[0], table[0])


@nkisim.jit
def scattered(target, index, rows, oob):
    idx = nl.ndarray(index.shape, dtype=index.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=idx, src=index)
    tile = nl.ndarray(rows.shape, dtype=rows.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=rows)
    n = target.shape[1]
    nisa.dma_copy(
        dst=target.ap(pattern=[[n, rows.shape[0]], [1, n]], vector_offset=idx, indirect_dim=0),
        src=tile,
        oob_mode=oob,
    )
    return target


@pytest.mark.parametrize("skip", [False, True])
def test_scatter_writes_one_row_per_index(skip):
    target = np.zeros((9, 3), np.float32)
    rows = np.arange(12, dtype=np.float32).reshape(4, 3) + 1
    index = np.array([[7], [0], [100 if skip else 3], [8]], np.int32)
    want = target.copy()
    for i in range(4):
        if index[i, 0] < 9:
            want[index[i, 0]] = rows[i]
    mode = nisa.oob_mode.skip if skip else nisa.oob_mode.error
    got = nkisim.simulate(scattered)(target, index, rows, mode)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(target, want)


@nkisim.jit
def block_at(table, position, dim, by_register, oob):
    start = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=start, src=position)
    if by_register:
        where = nisa.register_alloc()
        nisa.register_load(where, start)
    else:
        where = start
    n = table.shape[1]
    tile = nl.ndarray((2, 3), dtype=table.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=-1.0)
    source = table.ap(pattern=[[n, 2], [1, 3]], offset=1, scalar_offset=where, indirect_dim=dim)
    nisa.dma_copy(dst=tile, src=source, oob_mode=oob)
    out = nl.ndarray((2, 3), dtype=table.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@BY_REGISTER
@each_case(("dim", "position"), [(0, 0), (0, 5), (1, 2), (1, 7)])
def test_a_scalar_offset_moves_the_whole_block(by_register, dim, position):
    table = np.arange(8 * 12, dtype=np.float32).reshape(8, 12)
    at = np.array([[position]], np.int32)
    got = nkisim.simulate(block_at)(table, at, dim, by_register, nisa.oob_mode.error)
    row, column = (position, 1) if dim == 0 else (0, 1 + position)
    np.testing.assert_array_equal(got, table[row : row + 2, column : column + 3])


@BY_REGISTER
@each_case("position", [8, -1, 10**6])
def test_a_scalar_offset_out_of_bounds(by_register, position):
    table = np.zeros((8, 12), np.float32)
    at = np.array([[position]], np.int32)
    got = nkisim.simulate(block_at)(table, at, 0, by_register, nisa.oob_mode.skip)
    np.testing.assert_array_equal(got, np.full((2, 3), -1))
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(block_at)(table, at, 0, by_register, nisa.oob_mode.error)
    assert caught.value.rule_id == "M036"


@nkisim.jit
def columns_at(source, position):
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    start = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=start, src=position)
    p, n = source.shape
    part = nl.ndarray((p, 4), dtype=source.dtype, buffer=nl.sbuf)
    view = tile.ap(pattern=[[n, p], [1, 4]], scalar_offset=start, indirect_dim=1)
    nisa.tensor_copy(dst=part, src=view)
    out = nl.ndarray((p, 4), dtype=source.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=part)
    return out


@pytest.mark.parametrize("position", [0, 3, 8])
def test_an_engine_reads_a_tile_at_a_scalar_offset(position):
    data = np.arange(32 * 12, dtype=np.float32).reshape(32, 12)
    got = nkisim.simulate(columns_at)(data, np.array([[position]], np.int32))
    np.testing.assert_array_equal(got, data[:, position : position + 4])


@nkisim.jit
def both_offsets(table, index):
    idx = nl.ndarray(index.shape, dtype=index.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=idx, src=index)
    table.ap(pattern=[[4, 1], [1, 4]], scalar_offset=idx, vector_offset=idx)


def test_two_kinds_of_offset_are_refused():
    with pytest.raises(nkisim.NkiValidationError) as caught:
        nkisim.simulate(both_offsets)(np.zeros((4, 4), np.float32), np.zeros((1, 1), np.int32))
    assert caught.value.rule_id == "S024"


@pytest.mark.parametrize("target", ["gen2", "gen3", "gen4"])
def test_a_transpose_without_descriptors_is_computed(target):
    def kernel(x):
        turned = nl.ndarray(x.shape[::-1], dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_transpose(dst=turned, src=x, dge_mode=nisa.dge_mode.none)
        return stored(turned)

    x = np.random.default_rng(0).standard_normal((24, 40), dtype=np.float32)
    report = nkisim.check(kernel, target=target)(x)
    assert {code for code in report.codes if code[0] != "L"} == {"A036"}
    np.testing.assert_array_equal(report.outputs, x.T)
    with pytest.raises(nkisim.NkiValidationError, match="A036"):
        nkisim.simulate(kernel, strictness="strict", target=target)(x)


def test_a_dynamic_offset_without_descriptors_is_computed():
    def kernel(x, row):
        tile = nl.ndarray((16, 40), dtype=x.dtype, buffer=nl.sbuf)
        source = x.ap([[40, 16], [1, 40]], scalar_offset=nl.load(row))
        nisa.dma_copy(dst=tile, src=source, dge_mode=nisa.dge_mode.none)
        return stored(tile)

    x = np.random.default_rng(0).standard_normal((24, 40), dtype=np.float32)
    row = np.array([[5]], np.int32)
    report = nkisim.check(kernel)(x, row)
    assert {code for code in report.codes if code[0] != "L"} == {"A036"}
    np.testing.assert_array_equal(report.outputs, x[5:21])
    with pytest.raises(nkisim.NkiValidationError, match="A036"):
        nkisim.simulate(kernel, strictness="strict")(x, row)
