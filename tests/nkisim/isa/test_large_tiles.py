"""Large float32 and bfloat16 tiles are computed in blocks, to the bits of the tile as a whole.

``check`` widens and computes every tile at once, so it is the reference. Each kernel runs with
NumPy's arithmetic and with compiled loops.
"""

import warnings

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from comparing import assert_same, assert_same_bits
from each_case import each_case

BF16 = ml_dtypes.bfloat16
F32 = np.float32
TYPES = {"float32": F32, "bfloat16": BF16}
SHAPES = [(128, 2048), (128, 512), (100, 1031), (16, 4100), (128, 9)]
RESET = nisa.reduce_cmd.reset_reduce


@pytest.fixture(autouse=True, params=["numpy", "compiled"])
def arithmetic(request, monkeypatch):
    """Whose arithmetic runs; exact loops are compiled where numba is loaded."""
    if request.param == "compiled":
        pytest.importorskip("numba")
    monkeypatch.setenv("NKISIM_FAST", "0" if request.param == "numpy" else "1")


def simulated(kernel, *arrays):
    """Return the results, and the ids of the findings."""
    simulation = nkisim.simulate(kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nkisim.NkiFindingWarning)
        results = simulation(*arrays)
    return results, simulation.report.codes


def assert_blocks_agree(kernel, *arrays, findings=(), same=assert_same_bits):
    want = nkisim.check(kernel, source=False, detect=())(*arrays)
    got, codes = simulated(kernel, *arrays)
    assert codes == set(findings)
    assert codes <= want.codes
    for one, other in zip(got, want.outputs, strict=True):
        same(one, other)


def saved(*tiles):
    outs = []
    for tile in tiles:
        out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        outs.append(out)
    return tuple(outs)


def sbuf(shape, dtype):
    """A new tile."""
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def column(x):
    """One float32 for each row."""
    return sbuf((x.shape[0], 1), nl.float32)


def numbers(shape, dtype, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape) * 4
    values.flat[::97] = -0.0
    return values.astype(TYPES[dtype])


@each_case("shape", SHAPES)
@each_case("into", TYPES)
@each_case("of", TYPES)
def test_elementwise(of, into, shape):
    def kernel(a, b, c):
        x, y, z = nl.load(a), nl.load(b), nl.load(c)
        tiles = [sbuf(a.shape, into) for _ in range(7)]
        nisa.tensor_tensor(dst=tiles[0], data1=x, data2=y, op=nl.add)
        nisa.tensor_tensor(dst=tiles[1], data1=y, data2=x, op=nl.maximum)
        nisa.tensor_scalar(
            dst=tiles[2], data=x, op0=nl.subtract, operand0=z, op1=nl.multiply, operand1=z
        )
        nisa.tensor_scalar(dst=tiles[3], data=x, op0=nl.subtract, operand0=2.5, reverse0=True)
        nisa.scalar_tensor_tensor(
            dst=tiles[4], data=x, op0=nl.multiply, operand0=z, op1=nl.subtract, operand1=y
        )
        nisa.tensor_copy(dst=tiles[5], src=x)
        nisa.tensor_copy(dst=tiles[6], src=y)
        nisa.tensor_tensor(dst=tiles[6], data1=tiles[6], data2=tiles[0], op=nl.multiply)
        nisa.scalar_tensor_tensor(
            dst=tiles[1], data=tiles[0], op0=nl.add, operand0=z, op1=nl.subtract, operand1=tiles[1]
        )
        return saved(*tiles)

    a, b = numbers(shape, of), numbers(shape, "bfloat16", 1)
    assert_blocks_agree(kernel, a, b, numbers((shape[0], 1), "float32", 2))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("into", TYPES)
@pytest.mark.parametrize("of", TYPES)
def test_activation(of, into, shape):
    def kernel(a, c):
        x, z = nl.load(a), nl.load(c)
        tiles, sums = [sbuf(a.shape, into) for _ in range(6)], [column(c) for _ in range(3)]
        nisa.activation(dst=tiles[0], op=nl.exp, data=x)
        nisa.activation(
            dst=tiles[1], op=nl.exp, data=x, bias=z, scale=0.25,
            reduce_op=nl.add, reduce_res=sums[0], reduce_cmd=RESET,
        )  # fmt: skip
        nisa.activation(
            dst=tiles[2], op=nl.gelu, data=x, scale=z,
            reduce_op=nl.add, reduce_res=sums[1], reduce_cmd=nisa.reduce_cmd.reduce,
        )  # fmt: skip
        nisa.activation(dst=tiles[3], op=nl.copy, data=x)
        nisa.activation_reduce(
            dst=tiles[4], op=nl.relu, data=x, reduce_op=nl.add, reduce_res=sums[2], bias=z
        )
        nisa.activation(dst=x, op=nl.square, data=x, scale=3.0)
        nisa.activation(dst=tiles[5], op=nl.tanh, data=x)
        return saved(*tiles, *sums, x)

    assert_blocks_agree(kernel, numbers(shape, of), numbers((shape[0], 1), "float32", 2))


@each_case("shape", [(128, 2048), (90, 700)])
@each_case("dtype", TYPES)
@each_case("in_place", [False, True])
def test_inputs_outside_the_domain_are_one_finding(dtype, shape, in_place):
    def kernel(a):
        x = nl.load(a)
        tile = x if in_place else sbuf(a.shape, dtype)
        nisa.activation(dst=tile, op=nl.rsqrt, data=x, bias=1.0)
        nisa.activation(dst=tile, op=nl.reciprocal, data=tile)
        return saved(tile)

    a = np.abs(numbers(shape, dtype))
    assert_blocks_agree(kernel, a)
    a[5, 3], a[shape[0] - 1, 600], a[7, 7] = -3, -2, np.nan
    assert_blocks_agree(kernel, a, findings=["D021"])


@pytest.mark.parametrize("dtype", TYPES)
def test_special_values_pass_through(dtype):
    def kernel(a, b):
        x, y = nl.load(a), nl.load(b)
        tiles = [sbuf(a.shape, t) for t in (nl.float32, nl.bfloat16) for _ in range(3)]
        for first in (0, 3):
            nisa.activation(dst=tiles[first], op=nl.exp, data=x, scale=0.5)
            nisa.tensor_tensor(dst=tiles[first + 1], data1=x, data2=y, op=nl.multiply)
            nisa.tensor_scalar(dst=tiles[first + 2], data=x, op0=nl.minimum, operand0=0.0)
        rows = [column(a) for _ in range(4)]
        nisa.tensor_reduce(dst=rows[0], op=nl.maximum, data=x, axis=1)
        nisa.tensor_reduce(dst=rows[1], op=nl.minimum, data=x, axis=1, negate=True)
        nisa.tensor_reduce(dst=rows[2], op=nl.add, data=x, axis=1)
        nisa.tensor_reduce(dst=rows[3], op=nl.multiply, data=x, axis=1)
        return saved(*tiles, *rows)

    bits = np.random.default_rng(5).integers(0, 65536, (128, 600), dtype=np.uint16)
    a = bits.view(BF16).astype(TYPES[dtype])
    a[60:] = np.where(np.isnan(a[60:].astype(F32)), TYPES[dtype](0), a[60:])
    a[100:] = np.where(np.arange(600) % 2, a.dtype.type(0.0), a.dtype.type(-0.0))
    assert_blocks_agree(kernel, a, numbers(a.shape, "float32"), same=assert_same)


@each_case("shape", [(128, 2048), (128, 8, 16), (77, 3, 41)])
@each_case("dtype", TYPES)
def test_reductions_of_rows_and_of_parts_of_them(dtype, shape):
    def kernel(a):
        x = sbuf(a.shape, dtype)
        nisa.dma_copy(dst=x, src=a)
        last = len(a.shape) - 1
        results = []
        for op in (nl.maximum, nl.minimum, nl.add):
            whole = sbuf((a.shape[0], 1), dtype)
            part = column(a) if last == 1 else sbuf(a.shape[:-1], nl.float32)
            nisa.tensor_reduce(dst=whole, op=op, data=x, axis=tuple(range(1, last + 1)))
            nisa.tensor_reduce(dst=part, op=op, data=x, axis=last, negate=True)
            results += [whole, part]
        return saved(*results)

    assert_blocks_agree(kernel, numbers(shape, dtype))


@each_case("width", [512, 480, 256, 511, 100, 48])
@each_case("dtype", TYPES)
def test_statistics(dtype, width):
    def kernel(a):
        tiles = [sbuf((a.shape[0], 6), nl.float32) for _ in range(2)]
        x = nl.load(a)
        nisa.bn_stats(dst=tiles[0], data=x)
        nisa.tensor_scalar(dst=x[32:33, 3:4], data=x[32:33, 3:4], op0=nl.multiply, operand0=np.inf)
        nisa.bn_stats(dst=tiles[1], data=x)
        return saved(*tiles)

    assert_blocks_agree(kernel, numbers((128, width), dtype))


@each_case("dtype", ["float32", "bfloat16", "int32", "int8"])
@each_case("shape", [(128, 128), (100, 37), (32, 32), (64, 128)])
def test_transposes(dtype, shape):
    def kernel(a):
        x, wide = nl.load(a), sbuf((a.shape[0], 300), dtype)
        nisa.memset(wide, 0)
        nisa.tensor_copy(dst=wide[:, 100 : 100 + a.shape[1]], src=x)
        tile = nl.ndarray(a.shape[::-1], dtype=dtype, buffer=nl.psum)
        out = sbuf(a.shape[::-1], dtype)
        nisa.nc_transpose(dst=tile, data=wide[:, 100 : 100 + a.shape[1]])
        nisa.tensor_copy(dst=out, src=tile)
        return saved(out)

    kind = {"int32": np.int32, "int8": np.int8, **TYPES}[dtype]
    a = np.random.default_rng(0).integers(-128, 128, shape).astype(kind)
    assert_blocks_agree(kernel, a)
    (turned,), _ = simulated(kernel, a)
    assert turned.tobytes() == np.ascontiguousarray(a.T).tobytes()


def test_reading_what_was_never_written_is_found_once():
    def kernel(a):
        x, tile = (sbuf(a.shape, nl.float32) for _ in range(2))
        total = column(a)
        nisa.dma_copy(dst=x[0:100, :], src=a[0:100, :])
        nisa.tensor_scalar(dst=tile, data=x, op0=nl.add, operand0=1.0)
        nisa.activation(dst=tile, op=nl.exp, data=x)
        nisa.tensor_reduce(dst=total, op=nl.maximum, data=x, axis=1)
        return saved(tile, total)

    _, codes = simulated(kernel, numbers((128, 1024), "float32"))
    assert codes == {"M001"}


def test_views_that_overlap_are_read_before_they_are_written():
    def kernel(a):
        tile = nl.load(a)
        nisa.tensor_scalar(dst=tile[:, 1:1024], data=tile[:, 0:1023], op0=nl.multiply, operand0=2.0)
        nisa.activation(dst=tile[:, 0:1023], op=nl.square, data=tile[:, 1:1024])
        return saved(tile)

    a = numbers((128, 1024), "float32")
    assert_blocks_agree(kernel, a, findings=["M030"])
