"""Values on their way between types: the last that fits, and what is said of the next."""

import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from tiles import loaded, sbuf, stored


def copied(dtype, engine):
    """A copy into another type, by the general way or by one that is chosen for many elements."""

    def kernel(x):
        tile = sbuf(x.shape, dtype)
        nisa.tensor_copy(dst=tile, src=loaded(x), engine=engine)
        return stored(tile)

    return kernel


def added(x):
    tile = sbuf(x.shape, x.dtype)
    nisa.tensor_scalar(dst=tile, data=loaded(x), op0=nl.add, operand0=0.0)
    return stored(tile)


def summed(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_compute(dst=out, srcs=[x, x], reduce_op=nl.add)
    return out


def findings(kernel, values, entry=nkisim.check):
    """Rule, message, what was seen and what is allowed, of every finding."""
    report = entry(kernel)(values)
    return [(f.rule.id, f.message, f.seen, f.allowed) for f in report.findings]


def tile_of(*values, dtype=np.float32):
    """A tile of ones with these numbers in the middle of its second row."""
    tile = np.ones((4, 8), dtype)
    tile[1, 2 : 2 + len(values)] = values
    return tile


LIMITS = {
    nl.int8: (-128, 127),
    nl.uint8: (0, 255),
    nl.int16: (-32768, 32767),
    nl.uint16: (0, 65535),
}


@each_case("engine", [nisa.engine.vector, nisa.engine.gpsimd], ids=str)
@each_case("dtype", LIMITS, ids=str)
def test_integers_take_what_rounds_into_them(dtype, engine):
    low, high = LIMITS[dtype]
    kernel = copied(dtype, engine)
    half = np.float32(0.5)
    # Nothing is out of range; the lost halves are noted.
    noted = f"tensor_copy dst: 2 of 32 values are rounded to {dtype}"
    wanted = [("D050", noted, f"{low - half} at (1, 2)", "")]
    assert findings(kernel, tile_of(low - half, low, high, high + half)) == wanted
    for value in (np.nextafter(np.float32(low - half), np.float32(-np.inf)), high + 1.0):
        found = findings(kernel, tile_of(value))
        text = f"tensor_copy dst: 1 values do not fit {dtype}"
        assert found == [("D019", text, f"{np.float32(value)} at (1, 2)", f"{low} to {high}")]
    found = findings(kernel, tile_of(1, 1e9, -1e9))
    assert found[0][1:3] == (
        f"tensor_copy dst: 2 values do not fit {dtype}",
        "1000000000.0 at (1, 3)",
    )


@pytest.mark.parametrize(
    ("dtype", "largest", "overflows"),
    [
        (nl.float16, 65504.0, 65520.0),
        (nl.float8_e4m3, 240.0, 248.0),
        (nl.float8_e5m2, 57344.0, 61440.0),
    ],
    ids=str,
)
def test_narrow_floats_take_what_rounds_to_a_finite_number(dtype, largest, overflows):
    kernel = copied(dtype, nisa.engine.vector)
    below = float(np.nextafter(np.float32(overflows), np.float32(0)))
    assert findings(kernel, tile_of(largest, -largest, below, -below)) == []
    for value in (overflows, -overflows):
        text = f"tensor_copy dst: 1 finite values overflow {dtype}"
        assert findings(kernel, tile_of(value)) == [
            ("D020", text, f"{value} at (1, 2)", f"magnitudes up to {largest:g}")
        ]
    # Infinity is no overflow, and the largest of several is told.
    assert findings(kernel, tile_of(np.inf, -np.inf)) == []
    found = findings(kernel, tile_of(overflows, -4 * overflows, np.inf))
    assert found[0][1:3] == (
        f"tensor_copy dst: 2 finite values overflow {dtype}",
        f"{-4 * overflows} at (1, 3)",
    )


@pytest.mark.parametrize(
    ("value", "becomes"), [(2**24 + 1, 2**24), (-(2**24) - 1, -(2**24)), (2**30 + 1, 2**30)]
)
def test_integers_that_float32_cannot_hold(value, becomes):
    kernel = copied(nl.float32, nisa.engine.vector)
    found = findings(kernel, tile_of(7, value, value, dtype=np.int32))
    assert found == [
        (
            "D017",
            "tensor_copy src: 2 integers are not exact in float32",
            f"{value} becomes {becomes} at (1, 3)",
            "magnitudes up to 2^24",
        )
    ]


@pytest.mark.parametrize("value", [2**24, -(2**24), 2**24 + 2, 2**30])
def test_integers_that_float32_holds(value):
    assert findings(copied(nl.float32, nisa.engine.vector), tile_of(value, dtype=np.int32)) == []


@pytest.mark.parametrize("sign", [1, -1])
def test_integer_results_beyond_the_exact_ones(sign):
    assert findings(added, tile_of(sign * 2**24, dtype=np.int32)) == []
    found = findings(added, tile_of(sign * 2**25, dtype=np.int32))
    assert found == [
        (
            "D016",
            "tensor_scalar dst: integer results beyond 2^24 were computed in float32",
            f"{float(sign * 2**25)} at (1, 2)",
            "magnitudes up to 2^24",
        )
    ]


def test_integer_sums_of_a_dma():
    assert findings(summed, tile_of(2**23, -(2**23), dtype=np.int32)) == []
    found = findings(summed, tile_of(1, 2**23 + 1, dtype=np.int32))
    assert [(rule, seen) for rule, _, seen, _ in found] == [("D047", "16777218.0 at (1, 3)")]


# Where NaN is born


def inverted(x):
    tile = sbuf(x.shape, nl.float32)
    nisa.reciprocal(dst=tile, data=loaded(x))
    return stored(tile)


def differences(x):
    tile = sbuf(x.shape, nl.float32)
    one, other = loaded(x), loaded(x)
    nisa.tensor_tensor(dst=tile, data1=one, data2=other, op=nl.subtract)
    return stored(tile)


def test_infinity_from_finite_numbers():
    assert findings(inverted, tile_of(0.0, -0.0)) == [
        ("D042", "reciprocal makes inf from finite inputs", "inf at (1, 2)", "")
    ]


def test_nan_from_infinity():
    assert findings(differences, tile_of(1, -np.inf)) == [
        ("D042", "tensor_tensor makes nan from infinities", "nan at (1, 3)", "")
    ]


@pytest.mark.parametrize("values", [(np.nan, 0.0), (np.inf,), (np.nan, np.inf)])
def test_what_came_in_is_no_birth(values):
    """NaN, or infinity that stays one, is not named again."""
    doubled = [f for f in findings(added, tile_of(*values)) if f[0] != "D019"]
    assert doubled == []
