"""Compiled loops against NumPy: exact where they promise it, to a few units elsewhere."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from comparing import assert_same, assert_same_bits
from drawn import examples
from each_case import each_case
from nkisim.compiled import FUNCTIONS, LARGE
from nkisim.dtypes import DTYPES, encode

pytest.importorskip("numba")

TYPES = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16}
NARROW = ["bfloat16", "float16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2"]
# Zero, subnormals, the largest numbers, infinity, NaNs, and where exp overflows or underflows.
SPECIAL = np.array(
    [
        *(0, 1, 0x007F_FFFF, 0x0080_0000, 0x3F80_0000, 0x7F7F_FFFF, 0x7F80_0000, 0x7F80_0001),
        *(0x7FC0_0000, 0x7FFF_FFFF, 0x42B1_7217, 0x42B1_7218, 0x42AE_AC50, 0x42CF_F1B5),
    ],
    np.uint32,
)


def patterns(rng, shape):
    """Float32 of all magnitudes, of moderate size, and special values of both signs."""
    bits = rng.integers(0, 1 << 32, shape, dtype=np.uint32)
    special = rng.choice(np.concatenate([SPECIAL, SPECIAL | np.uint32(1 << 31)]), shape)
    moderate = (rng.standard_normal(shape) * 20).astype(np.float32).view(np.uint32)
    kind = rng.integers(0, 4, shape)
    return np.choose(kind, [bits, special, moderate, moderate]).view(np.float32)


def with_each_arithmetic(function):
    """What a function returns with NumPy's arithmetic, and with compiled loops."""
    found = []
    for fast in ("0", "1"):
        with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
            patch.setenv("NKISIM_FAST", fast)
            found.append(function())
    return found


def run(instruction, *arrays, into=None):
    """What an instruction writes to a tile like the first array, and to a column."""

    def kernel(tensors):
        tiles = [nl.load(tensor) for tensor in tensors]
        dst = nl.ndarray(tensors[0].shape, dtype=into or tensors[0].dtype, buffer=nl.sbuf)
        column = nl.ndarray((tensors[0].shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(column, 0.0)
        instruction(dst, column, *tiles)
        outs = []
        for tile in (dst, column):
            out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=out, src=tile)
            outs.append(out)
        return tuple(outs)

    return with_each_arithmetic(lambda: nkisim.simulate(kernel)(arrays))


# -- exact -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NARROW)
def test_every_upper_half_is_rounded_as_by_numpy(name):
    lower = np.array([0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    values = (np.arange(65536, dtype=np.uint32)[:, None] << 16 | lower).view(np.float32)
    for part in (values, values[:, ::2], values[::-1, 3], values[:113].T):
        want, got = with_each_arithmetic(lambda part=part: encode(part, DTYPES[name]))
        assert_same_bits(got, want)


@each_case("size", [1, 3, 1023, 1024, 1025, 4099])
def test_roundings_of_every_size_agree(size):
    values = patterns(np.random.default_rng(size), size)
    for name in ("bfloat16", "float8_e4m3"):
        want, got = with_each_arithmetic(lambda name=name: encode(values, DTYPES[name]))
        assert_same_bits(got, want)


@examples(40)
@given(data=st.data())
def test_operations_on_large_tiles_give_the_same_bits(data):
    def choose(*options):
        return data.draw(st.sampled_from(options))

    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    shape = choose((128, 512), (127, 517), (65, 1009), (3, 22000))
    with np.errstate(all="ignore"):
        x, tile = (patterns(rng, shape).astype(TYPES[choose(*TYPES)]) for _ in range(2))
    column = patterns(rng, (shape[0], 1))
    ops = [getattr(nl, choose("add", "subtract", "multiply", "maximum")) for _ in range(2)]
    reverse = [choose(False, True) for _ in range(2)]
    form = choose("tensor_tensor", "scalar", "two scalars", "scalar and tile", "copy")

    def instruction(dst, _, x, tile, column):
        one = {"dst": dst, "data": x, "op0": ops[0], "operand0": column, "reverse0": reverse[0]}
        two = {"op1": ops[1], "reverse1": reverse[1]}
        if form == "tensor_tensor":
            nisa.tensor_tensor(dst=dst, data1=x, data2=tile, op=ops[0])
        elif form == "scalar":
            nisa.tensor_scalar(**one)
        elif form == "two scalars":
            nisa.tensor_scalar(**one, **two, operand1=-1.5)
        elif form == "scalar and tile":
            nisa.scalar_tensor_tensor(**one, **two, operand1=tile)
        else:
            nisa.tensor_copy(dst=dst, src=x)

    (want, _), (got, _) = run(instruction, x, tile, column, into=choose(*TYPES))
    assert_same(got, want)
    zeros = want == 0
    assert_same_bits(got[zeros], want[zeros])


# -- to a few units in the last place --------------------------------------------------------------


def test_every_compiled_function_is_an_activation():
    assert all(getattr(nl, name).activation is not None for name in FUNCTIONS)


@pytest.fixture
def large_runs(monkeypatch):
    """Runs with 2**16 elements are large, so that tests of them are short."""
    monkeypatch.setattr("nkisim.compiled.LARGE_RUN", 1 << 16)


@pytest.mark.usefixtures("large_runs")
@pytest.mark.parametrize("of", TYPES)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_agree_with_numpys(name, of):
    def instruction(dst, column, x):
        nisa.activation(dst=dst, op=getattr(nl, name), data=x)

    with np.errstate(all="ignore"):
        x = patterns(np.random.default_rng(0), (128, 777)).astype(TYPES[of])
    assert x.size >= LARGE
    (want, _), (got, _) = run(instruction, x, into="float32")
    nan = np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), nan)
    infinite = np.isinf(want)
    np.testing.assert_array_equal(got[infinite], want[infinite])
    rest = ~(nan | infinite)
    # One unit for each of two results that are right to one.
    np.testing.assert_array_max_ulp(got[rest], want[rest], 2)


def test_exponentials_are_right_to_one_unit_everywhere():
    def instruction(dst, column, x):
        nisa.activation(dst=dst, op=nl.exp, data=x)

    x = np.linspace(-104.5, 89, 128 * 8192, dtype=np.float32).reshape(128, 8192)
    _, (got, _) = run(instruction, x)
    exact = np.exp(x.astype(np.float64))
    with np.errstate(over="ignore"):
        nearest = exact.astype(np.float32)
    finite = np.isfinite(nearest)
    assert (np.abs(got - exact)[finite] <= np.spacing(nearest[finite])).all()
    assert (got[~finite] == np.inf).all()


@pytest.mark.usefixtures("large_runs")
@pytest.mark.parametrize("into", TYPES)
@pytest.mark.parametrize("of", TYPES)
def test_exponentials_with_scale_bias_and_sum(of, into):
    def instruction(dst, column, x, bias):
        nisa.activation(
            dst=dst, op=nl.exp, data=x, bias=bias, scale=0.25, reduce_op=nl.add,
            reduce_res=column, reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )  # fmt: skip

    rng = np.random.default_rng(0)
    x = rng.standard_normal((128, 1031)).astype(TYPES[of])
    bias = rng.standard_normal((128, 1)).astype(np.float32)
    (_, sums), (got, found) = run(instruction, x, bias, into=into)
    # Against the definition: NumPy's own exp is right to 2.5 units on some processors.
    argument = x.astype(np.float32) * np.float32(0.25) + bias
    unit = 2.0**-7 if into == "bfloat16" else 2.0**-23
    np.testing.assert_allclose(got.astype(np.float64), np.exp(argument.astype(np.float64)), unit)
    # Pairwise sums of 1031 positive numbers: log2(1031) roundings, and those of the numbers.
    np.testing.assert_allclose(found, sums, 16 * 2.0**-23)
