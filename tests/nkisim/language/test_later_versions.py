"""Functions of nki.language that NKI 0.4.0, 0.5.0 and 0.6.0 added or changed."""

import math

import ml_dtypes
import numpy as np
import pytest

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from each_case import each_case
from releases import VERSIONS
from tiles import loaded, stored


def checked(kernel, *inputs, nki, target="gen4"):
    """Return the report and the rules of a run, without those about the source."""
    report = nkisim.check(kernel, nki=nki, target=target)(*inputs)
    return report, {code for code in report.codes if code[0] not in "LW"}


def engines(kernel, *inputs, **options):
    """Return the engines of the instructions other than transfers."""
    seen = []
    nkisim.simulate(kernel, watchers=(seen.append,), **options)(*inputs)
    return [event.engine.name for event in seen if event.engine.name != "dma"]


# -- abs_max and abs_min ---------------------------------------------------------------------------


def larger(a, b):
    return a if abs(a) > abs(b) else b


def smaller(a, b):
    return a if abs(a) < abs(b) else b


MAGNITUDES = [("abs_max", larger), ("abs_min", smaller)]
FORMS = ["tiles", "column right", "column left", "number right", "number left"]


@each_case(("name", "definition"), MAGNITUDES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("version", ["0.4.0", "0.6.0"])
def test_the_operand_of_a_magnitude(version, form, name, definition):
    # Whole numbers, so that magnitudes agree often; the second operand is returned then.
    rng = np.random.default_rng(1)
    x = rng.integers(-3, 4, (8, 33)).astype(np.float32)
    y = rng.integers(-3, 4, (8, 1 if "column" in form else 33)).astype(np.float32)

    def kernel(x, y):
        a, b = loaded(x), -2.0 if "number" in form else loaded(y)
        a, b = (b, a) if form.endswith("left") else (a, b)
        return stored(getattr(nl, name)(a, b))

    report, found = checked(kernel, x, y, nki=version)
    assert not found, str(report)
    other = np.broadcast_to(np.float32(-2) if "number" in form else y, x.shape)
    a, b = (other, x) if form.endswith("left") else (x, other)
    want = [definition(p, q) for p, q in zip(a.ravel(), b.ravel(), strict=True)]
    np.testing.assert_array_equal(report.outputs.ravel(), np.float32(want))


def test_magnitudes_run_on_the_vector_engine_of_gen4_and_keep_nan():
    x = np.float32([[1, np.nan, -2, np.nan]])
    y = np.float32([[np.nan, 3, 2, np.nan]])

    def kernel(x, y, name):
        return stored(getattr(nl, name)(loaded(x), loaded(y)))

    for name, last in (("abs_max", 2), ("abs_min", 2)):
        assert engines(kernel, x, y, name, nki="0.4.0", target="gen4") == ["vector"]
        got = nkisim.simulate(kernel, nki="0.4.0", target="gen4")(x, y, name)
        np.testing.assert_array_equal(got, np.float32([[np.nan, np.nan, last, np.nan]]))
        for target in ("gen2", "gen3"):
            assert checked(kernel, x, y, name, nki="0.4.0", target=target)[1] == {"A033"}


def test_dtype_of_the_result():
    def kernel(x):
        tile = loaded(x)
        return stored(nl.abs_max(tile, 0.5)), stored(nl.abs_min(tile, tile, dtype=nl.float32))

    simulation = nkisim.simulate(kernel, nki="0.5.0", target="gen4")
    first, second = simulation(np.ones((2, 3), ml_dtypes.bfloat16))
    assert first.dtype == ml_dtypes.bfloat16
    assert second.dtype == np.float32


@each_case("name", ["average", "bypass", "prelu"])
def test_operators_that_are_no_functions(name, monkeypatch):
    monkeypatch.setenv("NKISIM_NKI", "0.6.0")
    operator = getattr(nl, name)
    assert repr(operator) == f"nl.{name}"
    with pytest.raises(TypeError, match=f"nl.{name} is an operator and cannot be called"):
        operator(1.0)


# -- copy ------------------------------------------------------------------------------------------


@each_case("version", VERSIONS)
def test_copy_of_large_integers(version):
    """Exact from 0.6.0 on; before, the Scalar engine converts through float32."""
    x = np.int32([[2**24 + 1, -(2**31), 2**30 + 1, 5]])

    def kernel(x):
        return stored(nl.copy(loaded(x)))

    report, found = checked(kernel, x, nki=version)
    exact = version >= "0.6.0"
    assert found == (set() if exact else {"D017"})
    assert np.array_equal(report.outputs, x) is exact
    assert engines(kernel, x[:, 3:], nki=version) == ["vector" if exact else "scalar"]


@each_case("version", VERSIONS)
def test_copy_of_psum(version):
    def kernel(x):
        tile = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.psum)
        nisa.tensor_copy(tile, loaded(x))
        made = nl.copy(tile)
        assert (made.buffer == nl.sbuf) is (version >= "0.6.0")
        assert made.shape == x.shape
        return stored(made)

    x = np.random.default_rng(2).standard_normal((4, 6), dtype=np.float32)
    report, found = checked(kernel, x, nki=version)
    assert not found, str(report)
    np.testing.assert_array_equal(report.outputs, x)


def test_copy_converts_on_request():
    x = np.float32([[1.00390625, 3.0]])  # halfway between two bfloat16 numbers; even is 1
    for version in VERSIONS:
        got = nkisim.simulate(lambda x: stored(nl.copy(loaded(x), nl.bfloat16)), nki=version)(x)
        assert got.dtype == ml_dtypes.bfloat16
        assert got.astype(float).tolist() == [[1.0, 3.0]]


# -- rsqrt -----------------------------------------------------------------------------------------


def test_rsqrt_by_gpsimd_takes_every_positive_number_from_0_5_0_on():
    x = np.float32([[2.0**-100, 2.0**-87, 0.25, 3.0, 2.0**100]])

    def kernel(x):
        return stored(nl.rsqrt(loaded(x)))

    for version in VERSIONS:
        report, found = checked(kernel, x, nki=version)
        newer = version >= "0.5.0"
        assert found == (set() if newer else {"D021"})
        assert engines(kernel, x[:, 2:4], nki=version) == ["gpsimd" if newer else "scalar"]
        if newer:
            exact = 1 / np.sqrt(x.astype(np.float64))
            assert (np.abs(report.outputs - exact) <= np.spacing(exact.astype(np.float32))).all()


def test_rsqrt_of_psum_is_refused_from_0_5_0_on():
    def kernel(x):
        tile = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.psum)
        nisa.tensor_copy(tile, loaded(x))
        return stored(nl.rsqrt(tile))

    for version in VERSIONS:
        found = checked(kernel, np.ones((4, 4), np.float32), nki=version)[1]
        assert found == ({"M022"} if version >= "0.5.0" else set())


# -- sin -------------------------------------------------------------------------------------------


def test_sin_of_any_argument_from_0_6_0_on():
    """The argument is rounded by at most half an ulp of 2 pi in each of 5 steps, the sine once."""
    x = np.random.default_rng(3).uniform(-(2.0**16), 2.0**16, (16, 64)).astype(np.float32)
    x[0, :4] = 0.0, math.pi, -math.pi, 2.0**16

    def kernel(x):
        return stored(nl.sin(loaded(x)))

    for version in VERSIONS:
        report, found = checked(kernel, x, nki=version)
        assert found == (set() if version >= "0.6.0" else {"D021"}), str(report)
    exact = np.vectorize(math.sin)(x.astype(np.float64))
    assert np.abs(report.outputs - exact).max() <= 3 * np.spacing(np.float32(2 * math.pi))
