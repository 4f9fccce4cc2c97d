"""Large float32 and bfloat16 tiles take faster ways, to the bits and findings of the general one.

Each kernel runs with numba, without it, and in the general way: the whole tile widened at once.
"""

import sys
import warnings

import ml_dtypes
import numba
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.machine import Plan

BF16 = ml_dtypes.bfloat16
F32 = np.float32
TYPES = {"float32": F32, "bfloat16": BF16}
SHAPES = [(128, 2048), (128, 512), (100, 1031), (16, 4100), (128, 9)]
RESET = nisa.reduce_cmd.reset_reduce


def run(monkeypatch, way, kernel, *arrays):
    """Return the results, and the findings as text."""
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "numba", numba if way == "numba" else None)
        patch.setitem(sys.modules, "torch", None)
        watchers = ()
        if way == "general":
            patch.setattr(Plan, "_apart", lambda self, tensors: False)
            watchers = (id,)  # so that no call takes the short way
        simulation = nkisim.simulate(kernel, watchers=watchers)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", nkisim.NkiFindingWarning)
            results = simulation(*arrays)
    return results, [str(finding) for finding in simulation.report.findings]


def assert_all_ways_agree(monkeypatch, kernel, *arrays, findings=()):
    want, told = run(monkeypatch, "general", kernel, *arrays)
    assert len(told) == len(findings)
    assert all(code in text for code, text in zip(findings, told, strict=True))
    for way in ("numba", "without numba"):
        got, also = run(monkeypatch, way, kernel, *arrays)
        for one, other in zip(got, want, strict=True):
            assert one.dtype == other.dtype
            assert one.tobytes() == other.tobytes(), way
        assert also == told


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


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("into", TYPES)
@pytest.mark.parametrize("of", TYPES)
def test_elementwise(monkeypatch, of, into, shape):
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
    assert_all_ways_agree(monkeypatch, kernel, a, b, numbers((shape[0], 1), "float32", 2))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("into", TYPES)
@pytest.mark.parametrize("of", TYPES)
def test_activation(monkeypatch, of, into, shape):
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

    assert_all_ways_agree(
        monkeypatch, kernel, numbers(shape, of), numbers((shape[0], 1), "float32", 2)
    )


@pytest.mark.parametrize("shape", [(128, 2048), (90, 700)])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("in_place", [False, True])
def test_inputs_outside_the_domain_are_one_finding(monkeypatch, dtype, shape, in_place):
    def kernel(a):
        x = nl.load(a)
        tile = x if in_place else sbuf(a.shape, dtype)
        nisa.activation(dst=tile, op=nl.rsqrt, data=x, bias=1.0)
        nisa.activation(dst=tile, op=nl.reciprocal, data=tile)
        return saved(tile)

    a = np.abs(numbers(shape, dtype))
    assert_all_ways_agree(monkeypatch, kernel, a)
    a[5, 3], a[shape[0] - 1, 600], a[7, 7] = -3, -2, np.nan
    assert_all_ways_agree(monkeypatch, kernel, a, findings=["D021"])


@pytest.mark.parametrize("dtype", TYPES)
def test_special_values_pass_through(monkeypatch, dtype):
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
    assert_all_ways_agree(monkeypatch, kernel, a, numbers(a.shape, "float32"))


@pytest.mark.parametrize("shape", [(128, 2048), (128, 8, 16), (77, 3, 41)])
@pytest.mark.parametrize("dtype", TYPES)
def test_reductions_of_rows_and_of_parts_of_them(monkeypatch, dtype, shape):
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

    assert_all_ways_agree(monkeypatch, kernel, numbers(shape, dtype))


@pytest.mark.parametrize("width", [512, 480, 256, 511, 100, 48])
@pytest.mark.parametrize("dtype", TYPES)
def test_statistics(monkeypatch, dtype, width):
    def kernel(a):
        tiles = [sbuf((a.shape[0], 6), nl.float32) for _ in range(2)]
        x = nl.load(a)
        nisa.bn_stats(dst=tiles[0], data=x)
        nisa.tensor_scalar(dst=x[32:33, 3:4], data=x[32:33, 3:4], op0=nl.multiply, operand0=np.inf)
        nisa.bn_stats(dst=tiles[1], data=x)
        return saved(*tiles)

    assert_all_ways_agree(monkeypatch, kernel, numbers((128, width), dtype))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "int8"])
@pytest.mark.parametrize("shape", [(128, 128), (100, 37), (32, 32), (64, 128)])
def test_transposes(monkeypatch, dtype, shape):
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
    assert_all_ways_agree(monkeypatch, kernel, a)
    (turned,), _ = run(monkeypatch, "numba", kernel, a)
    assert turned.tobytes() == np.ascontiguousarray(a.T).tobytes()


def test_reading_what_was_never_written_is_found_once(monkeypatch):
    def kernel(a):
        x, tile = (sbuf(a.shape, nl.float32) for _ in range(2))
        total = column(a)
        nisa.dma_copy(dst=x[0:100, :], src=a[0:100, :])
        nisa.tensor_scalar(dst=tile, data=x, op0=nl.add, operand0=1.0)
        nisa.activation(dst=tile, op=nl.exp, data=x)
        nisa.tensor_reduce(dst=total, op=nl.maximum, data=x, axis=1)
        return saved(tile, total)

    a = numbers((128, 1024), "float32")
    _, told = run(monkeypatch, "general", kernel, a)
    assert told
    for way in ("numba", "without numba"):
        assert run(monkeypatch, way, kernel, a)[1] == told


def test_views_that_overlap_are_read_before_they_are_written(monkeypatch):
    def kernel(a):
        tile = nl.load(a)
        nisa.tensor_scalar(dst=tile[:, 1:1024], data=tile[:, 0:1023], op0=nl.multiply, operand0=2.0)
        nisa.activation(dst=tile[:, 0:1023], op=nl.square, data=tile[:, 1:1024])
        return saved(tile)

    a = numbers((128, 1024), "float32")
    assert_all_ways_agree(monkeypatch, kernel, a, findings=["M030", "M030"])
