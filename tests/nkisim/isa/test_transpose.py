"""nc_transpose and dma_transpose: which element goes where, and every bit of it."""

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from comparing import bits
from each_case import each_case
from nkisim.dtypes import DTYPES
from oracles import matmul as oracle
from tiles import loaded

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
    "uint8": np.uint8,
}


def patterns(shape, name, seed=0):
    """Random bit patterns of a type, NaN and infinities among them."""
    width = np.dtype(HOST[name]).itemsize
    bits = np.random.default_rng(seed).integers(0, 2 ** (8 * width), shape)
    return bits.astype(f"u{width}").view(HOST[name])


@nkisim.jit
def transposed(data, engine, source_buffer, target_buffer):
    tile = loaded(data)
    if source_buffer == nl.psum:
        source = nl.ndarray(data.shape, dtype=data.dtype, buffer=nl.psum)
        nisa.tensor_copy(dst=source, src=tile, engine=nisa.vector_engine)
    else:
        source = tile
    free = 1
    for extent in data.shape[1:]:
        free = free * extent
    shape = (free, data.shape[0])
    turned = nl.ndarray(shape, dtype=data.dtype, buffer=target_buffer)
    nisa.nc_transpose(dst=turned, data=source, engine=engine)
    out = nl.ndarray(shape, dtype=data.dtype, buffer=nl.shared_hbm)
    if target_buffer == nl.psum:
        copied = nl.ndarray(shape, dtype=data.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copied, src=turned, engine=nisa.vector_engine)
        nisa.dma_copy(dst=out, src=copied)
    else:
        nisa.dma_copy(dst=out, src=turned)
    return out


# The Tensor engine


@each_case("target", ["gen3", "gen4"])
@each_case("name", ["float32", "bfloat16", "float16"])
@each_case("shape", [(1, 1), (1, 128), (128, 1), (127, 128), (128, 128), (33, 70)])
def test_tensor_engine_moves_every_bit(target, name, shape):
    data = patterns(shape, name)
    got = nkisim.simulate(transposed, target=target)(data, nisa.tensor_engine, nl.sbuf, nl.psum)
    assert got.dtype == data.dtype
    np.testing.assert_array_equal(bits(got), bits(oracle.transpose(data)))


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_gen2_transposes_finite_values(name):
    data = np.random.default_rng(0).standard_normal((64, 96)).astype(HOST[name])
    got = nkisim.simulate(transposed, target="gen2")(data, nisa.tensor_engine, nl.sbuf, nl.psum)
    np.testing.assert_array_equal(got, oracle.transpose(data))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_gen2_spreads_what_is_not_finite_over_its_row(value):
    # There a transpose is a product with the identity, and 0 * inf is NaN.
    data = np.random.default_rng(0).standard_normal((16, 24)).astype(np.float32)
    data[5, 7] = value
    check = nkisim.check(transposed, target="gen2")
    report = check(data, nisa.tensor_engine, nl.sbuf, nl.psum)
    assert "D009" in report.codes
    lost = np.isnan(report.outputs)
    assert np.delete(lost[7], 5).all()
    assert not np.delete(lost, 7, axis=0).any()
    want = oracle.transpose(data)
    np.testing.assert_array_equal(np.delete(report.outputs, 7, axis=0), np.delete(want, 7, axis=0))


def spread(data, dtype, buffer, *, step=1):
    """A kernel that transposes float8 into another type, or into every other element."""

    def kernel(data):
        turned = nl.ndarray((data.shape[1], data.shape[0], step), dtype=dtype, buffer=buffer)
        nisa.nc_transpose(dst=turned[:, :, 0], data=loaded(data))
        out = nl.ndarray(data.shape[::-1], dtype=dtype, buffer=nl.shared_hbm)
        copied = nl.ndarray(data.shape[::-1], dtype=dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copied, src=turned[:, :, 0], engine=nisa.vector_engine)
        nisa.dma_copy(dst=out, src=copied)
        return out

    return kernel


@each_case("precise", [True, False])
@each_case("name", ["float8_e4m3", "float8_e5m2"])
@each_case("dtype", ["bfloat16", "float16", "uint16"])
@each_case("target", ["gen3", "gen4"])
def test_tensor_engine_leaves_float8_in_16_bits_with_zeros_above(target, dtype, name, precise):
    data = patterns((64, 48), name)
    if not precise:  # NaN has no bits of its own in float32 storage
        data[~np.isfinite(data.astype(np.float32))] = 1
    check = nkisim.check(spread(data, dtype, nl.psum), target=target, precise_fp=precise)
    report = check(data)
    assert {code for code in report.codes if code[0] != "L"} == set()
    got = report.outputs.astype(HOST[dtype])  # float32 without precise storage
    np.testing.assert_array_equal(bits(got), bits(data).T.astype(np.uint16))


@each_case("target", ["gen2", "gen3", "gen4"])
@each_case("step", [1, 2])
def test_float8_of_its_own_type_needs_room_for_16_bits(target, step):
    data = np.arange(64 * 48).reshape(64, 48).astype(np.uint8) % 100
    data = data.view(ml_dtypes.float8_e4m3)
    check = nkisim.check(spread(data, nl.float8_e4m3, nl.psum, step=step), target=target)
    report = check(data)
    wanted = {"D008"} if step == 1 and target != "gen2" else set()
    assert {code for code in report.codes if code[0] != "L"} == wanted
    np.testing.assert_array_equal(bits(report.outputs), bits(data).T)


# The Vector engine


@each_case("target", ["gen2", "gen3", "gen4"])
@each_case("name", sorted(HOST))
@each_case("shape", [(1, 1), (32, 32), (31, 7)])
def test_vector_engine_moves_every_bit(target, name, shape):
    data = patterns(shape, name)
    got = nkisim.simulate(transposed, target=target)(data, nisa.vector_engine, nl.sbuf, nl.sbuf)
    np.testing.assert_array_equal(bits(got), bits(oracle.transpose(data)))


@each_case("generation", ["gen2", "gen4"])
@each_case("source", ["sbuf", "psum"])
@each_case("target", ["sbuf", "psum"])
def test_vector_engine_reads_and_writes_both_memories(generation, source, target):
    data = patterns((20, 32), "float32")
    data[3, 4] = np.nan
    buffers = getattr(nl, source), getattr(nl, target)
    got = nkisim.simulate(transposed, target=generation)(data, nisa.vector_engine, *buffers)
    np.testing.assert_array_equal(bits(got), bits(oracle.transpose(data)))


@pytest.mark.parametrize(
    ("shape", "engine", "target"),
    [((64, 100), nisa.tensor_engine, nl.psum), ((8, 8), nisa.vector_engine, nl.sbuf)],
)
def test_the_compiler_may_choose_the_engine(shape, engine, target):
    data = patterns(shape, "float32")
    got = nkisim.simulate(transposed)(data, nisa.engine.unknown, nl.sbuf, target)
    np.testing.assert_array_equal(bits(got), bits(oracle.transpose(data)))


@pytest.mark.parametrize("engine", [nisa.tensor_engine, nisa.vector_engine])
def test_free_dimensions_are_flattened_first(engine):
    data = patterns((6, 2, 5, 3), "float32")
    target = nl.psum if engine == nisa.tensor_engine else nl.sbuf
    got = nkisim.simulate(transposed)(data, engine, nl.sbuf, target)
    want = [
        [data[p, a, b, c] for p in range(6)] for a in range(2) for b in range(5) for c in range(3)
    ]
    np.testing.assert_array_equal(bits(got), bits(np.array(want, np.float32)))


@nkisim.jit
def transposed_into(data, shape, dtype, buffer, engine):
    tile = loaded(data)
    turned = nl.ndarray(shape, dtype=dtype, buffer=buffer)
    nisa.nc_transpose(dst=turned, data=tile, engine=engine)


@pytest.mark.parametrize(
    ("rule", "data", "shape", "dtype", "buffer", "engine"),
    [
        ("S039", (4, 6), (4, 6), nl.float32, nl.psum, nisa.tensor_engine),
        ("S039", (8, 129), (128, 8), nl.float32, nl.psum, nisa.tensor_engine),
        ("M020", (33, 8), (8, 33), nl.float32, nl.sbuf, nisa.vector_engine),
        ("D007", (4, 6), (6, 4), nl.bfloat16, nl.psum, nisa.tensor_engine),
        ("A034", (4, 6), (6, 4), nl.float32, nl.sbuf, nisa.gpsimd_engine),
    ],
)
def test_an_illegal_transpose_is_found(rule, data, shape, dtype, buffer, engine):
    report = nkisim.check(transposed_into)(np.ones(data, np.float32), shape, dtype, buffer, engine)
    assert rule in report.codes
    assert not report.ok


# The DMA engines


@nkisim.jit
def dma_transposed(data, shape, axes, through_sbuf):
    source = loaded(data) if through_sbuf else data
    turned = nl.ndarray(shape, dtype=data.dtype, buffer=nl.sbuf)
    if axes is None:
        nisa.dma_transpose(dst=turned, src=source)
    else:
        nisa.dma_transpose(dst=turned, src=source, axes=axes)
    out = nl.ndarray(shape, dtype=data.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=turned)
    return out


@each_case("through_sbuf", [False, True])
@each_case("named", [False, True])
@each_case("name", ["float32", "bfloat16", "uint16"])
@each_case(
    ("shape", "axes"),
    [((5, 7), (1, 0)), ((5, 3, 7), (2, 1, 0)), ((5, 2, 3, 7), (3, 1, 2, 0))],
)
def test_dma_transpose_permutes(through_sbuf, named, name, shape, axes):
    data = patterns(shape, name)
    want = oracle.permuted(data, axes)
    got = nkisim.simulate(dma_transposed)(data, want.shape, axes if named else None, through_sbuf)
    np.testing.assert_array_equal(bits(got), bits(want))


@pytest.mark.parametrize(
    ("shape", "dst", "axes"),
    [
        ((5, 7), (5, 7), (1, 0)),
        ((5, 3, 7), (3, 5, 7), (1, 0, 2)),
        ((5, 2, 3, 7), (7, 3, 2, 5), (3, 2, 1, 0)),
    ],
)
def test_an_illegal_permutation_is_found(shape, dst, axes):
    data = np.ones(shape, np.float32)
    assert "S041" in nkisim.check(dma_transposed)(data, dst, axes, False).codes


@nkisim.jit
def transposed_in_a_mode(source, index, dtype, mode):
    tile = nl.ndarray((128, 16), dtype=dtype, buffer=nl.sbuf)
    if mode == "gather":
        rows = source.ap([[128, 16], [1, 128]], vector_offset=loaded(index), indirect_dim=0)
        nisa.dma_transpose(dst=tile, src=rows)
    else:
        nisa.dma_transpose(dst=tile, src=source, dge_mode=getattr(nisa.dge_mode, mode))
    out = nl.ndarray((128, 16), dtype=dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@each_case("target", ["gen2", "gen3", "gen4"])
@each_case("mode", ["unknown", "hwdge", "gather"])
@each_case("name", sorted(set(DTYPES) - {"float8_e8m0fnu", "int64"}))  # not in NKI 0.3.0
def test_dma_transposes_elements_of_2_bytes_and_directly_of_4(target, mode, name):
    if target == "gen2" and mode != "unknown":
        return  # gen2 has no such mode
    dtype = DTYPES[name]
    source = np.zeros((16, 128), dtype)
    index = np.arange(16, dtype=np.uint32)[:, None]
    found = nkisim.check(transposed_in_a_mode, target=target)(source, index, dtype, mode)
    takes = (2, 4) if mode == "unknown" else (2,)
    assert found.codes == (set() if dtype.itemsize in takes else {"D034"})


@nkisim.jit
def gathered_and_transposed(table, index):
    rows, width = index.shape[0] * index.shape[1], table.shape[1]
    idx = loaded(index)
    turned = nl.ndarray((width, rows), dtype=table.dtype, buffer=nl.sbuf)
    source = table.ap(pattern=[[width, rows], [1, width]], vector_offset=idx, indirect_dim=0)
    nisa.dma_transpose(dst=turned, src=source, axes=(1, 0))
    out = nl.ndarray((width, rows), dtype=table.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=turned)
    return out


@pytest.mark.parametrize("shape", [(16, 1), (48, 1), (128, 1), (128, 2)])
def test_indirect_transpose_takes_indices_column_by_column(shape):
    rng = np.random.default_rng(0)
    table = patterns((300, 64), "bfloat16")
    index = rng.integers(0, 300, shape).astype(np.uint32)
    got = nkisim.simulate(gathered_and_transposed)(table, index)
    rows = []
    for column in range(shape[1]):
        for partition in range(shape[0]):
            rows.append(bits(table)[index[partition, column]])
    np.testing.assert_array_equal(bits(got), oracle.transpose(np.array(rows)))
