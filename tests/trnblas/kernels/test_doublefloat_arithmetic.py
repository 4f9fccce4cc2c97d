"""Double-float arithmetic against exact fractions: errors, hostile values, level 1."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

import nkisim
import trnblas
from each_case import each_case
from oracles.exact_pairs import EXACT, exact_sum, fractions
from trnblas._kernels import doublefloat_vectors as kernels
from trnblas._library import LIBRARY
from trnblas._paths import level_launches
from trnsci.core.counters import counts
from trnsci.core.errors import DTypeError, FlagError

from .harness_products import run

GENERATIONS = ("gen2", "gen3", "gen4")
U2 = Fraction(2) ** -48
BOUNDS = {"add": 3 * U2 / (1 - 4 * Fraction(2) ** -24), "multiply": 9 * U2, "divide": 5 * U2}
TINY = Fraction(2) ** -121  # what subnormal numbers may cost
SHAPE = 128, 40


def elementwise(a, b, operation, generation="gen3"):
    return run(kernels.doublefloat_elementwise, generation, *a, *b, operation)


def with_low_parts(rng, high):
    """Return normalized pairs; low parts are 0, half the last bit, just less, any or tiny."""
    half = np.spacing(np.abs(high)).astype(np.float64) / 2
    even = high.view(np.uint32) % 2 == 0  # half the last bit then rounds to high
    kinds = [
        np.zeros(high.shape),
        np.where(even, half, 0),
        half * (1 - 2.0**-23),
        half * rng.uniform(0, 1, high.shape),
        half * 2.0 ** -rng.integers(0, 40, high.shape),
    ]
    low = np.choose(rng.integers(0, len(kinds), high.shape), kinds)
    low = (low * rng.choice([-1, 1], high.shape)).astype(np.float32).astype(np.float64)
    # Next to a power of two the last bit is half as large on one side.
    rounded = (high + low).astype(np.float32)
    return rounded, (high + low - rounded).astype(np.float32)


def pairs(rng, shape, exponents):
    """Return normalized pairs; high parts have all, few or extreme bits."""
    bits = rng.integers(0, 2**23, shape)
    bits = np.choose(rng.integers(0, 4, shape), [bits, bits & ~0xFFF, 0, 2**23 - 1])
    high = np.ldexp(1 + bits / 2**23, rng.integers(-exponents, exponents + 1, shape))
    high = (high * rng.choice([-1, 1], shape)).astype(np.float32)
    return with_low_parts(rng, high)


def nearly_opposite(rng, a):
    """Return pairs whose high parts cancel those of ``a``, wholly or but for a few bits."""
    high = -a[0] + rng.integers(-2, 3, SHAPE).astype(np.float32) * np.spacing(a[0])
    return with_low_parts(rng, high)


def assert_bounded(got, exact, bounds):
    """Assert that no computed pair is further from its exact value than its bound."""
    above = [
        (i, float(abs(value - want) / bound))
        for i, (value, want, bound) in enumerate(zip(fractions(*got), exact, bounds, strict=True))
        if abs(value - want) > bound
    ]
    assert not above, f"{len(above)} of {len(exact)} above the bound, such as {above[0]}"


def assert_accurate(a, b, operation):
    got = elementwise(a, b, operation)
    exact = [EXACT[operation](x, y) for x, y in zip(fractions(*a), fractions(*b), strict=True)]
    assert_bounded(got, exact, [BOUNDS[operation] * abs(value) for value in exact])
    # The result is normalized: its high part is the sum, rounded.
    assert np.array_equal((got[0].astype(np.float64) + got[1]).astype(np.float32), got[0])


@each_case("operation", EXACT)
@each_case("exponents", [3, 29])
def test_no_element_of_10_240_is_above_the_bound(operation, exponents):
    rng = np.random.default_rng(exponents)
    assert_accurate(pairs(rng, SHAPE, exponents), pairs(rng, SHAPE, exponents), operation)


def test_sums_of_nearly_opposite_numbers():
    rng = np.random.default_rng(0)
    a = pairs(rng, SHAPE, 20)
    assert_accurate(a, nearly_opposite(rng, a), "add")
    assert_accurate(a, (-a[0], -a[1]), "add")


def test_quotients_of_equal_and_of_reciprocal_numbers():
    a = pairs(np.random.default_rng(0), SHAPE, 20)
    ones = np.ones(SHAPE, np.float32), np.zeros(SHAPE, np.float32)
    assert_accurate(a, a, "divide")
    assert_accurate(ones, a, "divide")
    assert np.array_equal(elementwise(a, a, "divide")[0], ones[0])
    assert np.array_equal(elementwise(a, ones, "divide"), a)


SPECIAL = np.float32(
    [0, -0.0, 1, np.inf, -np.inf, np.nan, 2.0**-149, 2.0**-126, 2.0**127, -(2.0**115)]
)


@each_case("operation", EXACT)
def test_never_a_wrong_finite_number(operation):
    """Any bits, and every two special values: what is finite is accurate, or as small as stated."""
    rng = np.random.default_rng(5)
    highs = rng.integers(0, 2**32, (2, *SHAPE), dtype=np.uint32).view(np.float32)
    highs[0, 0:10, 0:10], highs[1, 0:10, 0:10] = SPECIAL[:, None], SPECIAL
    with np.errstate(all="ignore"):
        a, b = (with_low_parts(rng, high) for high in highs)
    high, low = elementwise(a, b, operation)
    finite = np.isfinite(high) & np.isfinite(low)
    usable = np.isfinite(a[0]) & np.isfinite(b[0]) & ((operation != "divide") | (b[0] != 0))
    assert not (finite & ~usable).any()
    kept = [x[finite] for x in (*a, *b, high, low)]
    assert len(kept[0]) > 1000
    left, right = fractions(*kept[:2]), fractions(*kept[2:4])
    exact = [EXACT[operation](x, y) for x, y in zip(left, right, strict=True)]
    floors = [TINY * (1 + 1 / abs(y)) if operation == "divide" else TINY for y in right]
    bounds = [BOUNDS[operation] * abs(x) + t for x, t in zip(exact, floors, strict=True)]
    assert_bounded(kept[4:], exact, bounds)
    # All of moderate size is finite.
    moderate = [(np.abs(x[0]) > 2.0**-50) & (np.abs(x[0]) < 2.0**50) for x in (a, b)]
    assert finite[moderate[0] & moderate[1]].all()


# -- sums ------------------------------------------------------------------------------------------


def sum_bound(columns, rows=1):
    """Return the bound of the docstring, for tiles of up to 512 columns."""
    width = min(512, 2 ** int(np.ceil(np.log2(columns))))
    tiles = rows * -(-columns // 512)
    return Fraction(31, 10) * (tiles + int(np.log2(width)) + 7) * U2


@each_case(("shape", "generation"), [((128, 1), "gen2"), ((3, 700), "gen3"), ((130, 33), "gen4")])
def test_sums_and_inner_products(shape, generation):
    rng = np.random.default_rng(shape)
    x, y = pairs(rng, shape, 12), pairs(rng, shape, 12)
    tiles = -(-shape[0] // 128)
    exact = fractions(*x)
    got = run(kernels.doublefloat_sum, generation, *x)
    bound = sum_bound(shape[1], tiles) * exact_sum(map(abs, exact))
    assert_bounded(got, [exact_sum(exact)], [bound])
    products = [a * b for a, b in zip(exact, fractions(*y), strict=True)]
    got = run(kernels.doublefloat_dot, generation, *x, *y)
    bound = (9 * U2 + sum_bound(shape[1], tiles)) * exact_sum(map(abs, products))
    assert_bounded(got, [exact_sum(products)], [bound])


def test_a_sum_that_cancels_but_for_its_smallest_term():
    """Each number has its opposite elsewhere; all partial sums are exact, so nothing is lost."""
    rng = np.random.default_rng(1)
    high = rng.integers(-(2**20), 2**20, (128, 64)).astype(np.float32)
    low = np.zeros_like(high)
    high[64:], high[0, 0], high[64, 0] = -high[:64], 2.0**25, -(2.0**25)
    low[7, 7] = 2.0**-20
    high[7, 7] = high[71, 7] = 1.0
    high[71, 7] = -1.0
    assert float(np.sum(run(kernels.doublefloat_sum, "gen3", high, low))) == 2.0**-20


@each_case("generation", GENERATIONS)
def test_the_source_has_no_finding(generation):
    x = np.ones((3, 70), np.float32), np.zeros((3, 70), np.float32)
    one = np.ones((1, 1), np.float32)
    calls = [(kernels.doublefloat_elementwise, (*x, *x, name)) for name in EXACT]
    calls += [
        (kernels.doublefloat_axpy, (one, one, *x, *x)),
        (kernels.doublefloat_dot, (*x, *x)),
        (kernels.doublefloat_sum, x),
    ]
    for kernel, arguments in calls:
        assert not list(nkisim.check(kernel, target=generation)(*arguments).findings)


# -- level 1 ---------------------------------------------------------------------------------------


def simulated(function, *args, **options):
    """Return the result at doublefloat, and the kernels that were launched."""
    before = counts()
    with LIBRARY.backend("simulator"):
        got = function(*args, precision="doublefloat", **options)
    return got, (counts() - before).launches


def drawn(rng, count, dtype, spread):
    values = rng.standard_normal(count) * np.exp2(rng.uniform(-spread, spread, count))
    return torch.tensor(values).to(dtype)


def rounding(dtype):
    """Return the roundings of a result: to float64 once or twice, then to its dtype."""
    return Fraction(2) ** -52 + (Fraction(2) ** -24 if dtype is torch.float32 else 0)


@each_case("dtype", [torch.float32, torch.float64], ids=str)
@each_case(
    ("count", "spread"), [(1, 0), (127, 3), (700, 60), (2, -20), (700, -60), (700, -120), (5, -400)]
)
def test_level_1(dtype, count, spread):
    """Below zero the spread is that of elements that grow in x and shrink in y: no term is small.

    The largest of each vector does not meet the largest of the other.
    """
    rng = np.random.default_rng(count)
    x, y = drawn(rng, count, dtype, abs(spread)), drawn(rng, count, dtype, max(spread, 0))
    if spread < 0:
        x, y = drawn(rng, count, torch.float64, 0), drawn(rng, count, torch.float64, 0)
        powers = torch.linspace(spread, -spread, count, dtype=torch.float64)
        x, y = (x * torch.exp2(powers)).to(dtype), (y * torch.exp2(-powers)).to(dtype)
        if dtype is torch.float32:
            x, y = (v.nan_to_num(0.0, 0.0, 0.0) for v in (x, y))
    alpha = rng.standard_normal()
    left, right = fractions(x), fractions(y)
    once = rounding(dtype)

    got, launches = simulated(trnblas.dot, x, y)
    assert launches == {"doublefloat_dot": 1}
    assert got.dtype is dtype
    products = [a * b for a, b in zip(left, right, strict=True)]
    exact, moduli = exact_sum(products), exact_sum(map(abs, products))
    assert_bounded([got], [exact], [Fraction(2) ** -41 * moduli + once * abs(exact)])

    got, launches = simulated(trnblas.nrm2, x)
    assert launches == {"doublefloat_dot": 1}
    square = exact_sum(a * a for a in left)
    # (1 + e)**2 is at most 1 + 2.1 e.
    bound = Fraction(21, 10) * (Fraction(2) ** -41 + once)
    assert abs(fractions(got)[0] ** 2 - square) <= bound * square

    got, launches = simulated(trnblas.axpy, alpha, x.reshape(1, -1), y.reshape(1, -1))
    assert launches == {"doublefloat_axpy": 1}
    assert got.shape == (1, count)
    terms = [(Fraction(alpha) * a, b) for a, b in zip(left, right, strict=True)]
    bounds = [Fraction(2) ** -44 * (abs(a) + abs(b)) + once * abs(a + b) for a, b in terms]
    assert_bounded([got], [a + b for a, b in terms], bounds)


@each_case("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_sizes_beyond_float32(scale):
    """The scale is no power of two: products differ by its own rounding."""
    rng = np.random.default_rng(0)
    x, y = drawn(rng, 300, torch.float64, 1), drawn(rng, 300, torch.float64, 1)
    large = x * scale
    assert simulated(trnblas.nrm2, large)[0] == pytest.approx(
        float(x.norm()) * scale, rel=2.0**-41 + 2.0**-50
    )
    want = 2 * large.numpy() + y.numpy() * scale
    got = simulated(trnblas.axpy, 2.0, large, y * scale)[0].numpy()
    magnitudes = np.abs(2 * large.numpy()) + np.abs(y.numpy() * scale)
    assert (np.abs(got - want) <= (2.0**-44 + 2.0**-51) * magnitudes).all()
    zeros = torch.zeros(300, dtype=torch.float64)
    for left, right in ((zeros, y * scale), (large, zeros)):
        got, want = simulated(trnblas.axpy, 0.5, left, right)[0], 0.5 * left + right
        assert ((got - want).abs() <= 2.0**-44 * want.abs()).all()
    assert not simulated(trnblas.axpy, scale, zeros, zeros)[0].any()
    assert simulated(trnblas.dot, x * 1e-200, x * 1e250)[0] == pytest.approx(
        float(x @ x) * 1e50, rel=2.0**-41 + 2.0**-48
    )


@each_case("value", [np.nan, np.inf, -np.inf])
def test_a_factor_of_axpy_that_is_not_finite_gives_what_torch_gives(value):
    x = torch.tensor([0.0, 2.0, -3.0, np.inf, np.nan], dtype=torch.float64)
    y = torch.tensor([1.0, -np.inf, 4.0, 5.0, 6.0], dtype=torch.float64)
    for factor in (value, torch.tensor(value, dtype=torch.float64)):
        got = simulated(trnblas.axpy, factor, x, y)[0]
        assert torch.equal(got.nan_to_num(7.5), torch.add(y, x, alpha=value).nan_to_num(7.5))
        assert bool(got[1:3].isinf().any()) == np.isinf(value)


def test_zero_times_a_power_beyond_float64_is_zero():
    """1.7e308 is all but the largest number: a product of two is near 2**2048."""
    huge = torch.tensor([1.7e308, 0.0], dtype=torch.float64)
    assert simulated(trnblas.dot, huge, huge.flip(0))[0] == 0
    assert float(simulated(trnblas.nrm2, huge)[0]) == pytest.approx(1.7e308, rel=2.0**-41)
    assert simulated(trnblas.axpy, 1.7e308, huge, huge)[0].tolist() == [np.inf, 0.0]


@each_case("value", [np.nan, np.inf, -np.inf])
@each_case("dtype", [torch.float32, torch.float64], ids=str)
def test_nan_and_infinities_are_those_of_torch(value, dtype):
    x, y = drawn(np.random.default_rng(0), 200, dtype, 1), torch.ones(200, dtype=dtype)
    x[3] = value
    y[7] = -np.inf
    y[3] = 0.5
    for function, args in (
        (trnblas.dot, (x, y)),
        (trnblas.dot, (x, x)),
        (trnblas.nrm2, (x,)),
        (trnblas.axpy, (-2.0, x, y)),
    ):
        got = simulated(function, *args)[0]
        want = function(*args)
        # Finite elements agree as float32 does.
        assert torch.allclose(got, want, rtol=1e-5, equal_nan=True), function


def test_factors_that_are_tensors_or_zero_and_out():
    rng = np.random.default_rng(0)
    x, y = drawn(rng, 50, torch.float64, 1), drawn(rng, 50, torch.float64, 1)
    number = simulated(trnblas.axpy, 0.3, x, y)[0]
    factor = torch.tensor(0.3, dtype=torch.float64)
    assert torch.equal(simulated(trnblas.axpy, factor, x, y)[0], number)
    x[0] = np.nan
    got, launches = simulated(trnblas.axpy, 0.0, x, y)
    assert torch.equal(got, y)
    assert not launches
    assert torch.equal(simulated(trnblas.axpy, 0 * factor, x, y)[0], y)
    for function, args in ((trnblas.dot, (y, y)), (trnblas.nrm2, (y,)), (trnblas.axpy, (1, y, y))):
        want, _ = simulated(function, *args)
        out = torch.empty_like(want)
        assert simulated(function, *args, out=out)[0] is out
        assert torch.equal(out, want)


def test_long_vectors_are_several_launches(monkeypatch):
    monkeypatch.setattr(level_launches, "MOST_ELEMENTS", 300)
    x = drawn(np.random.default_rng(0), 1000, torch.float64, 1)
    got, launches = simulated(trnblas.dot, x, x)
    assert launches == {"doublefloat_dot": 4}
    assert float(got) == pytest.approx(float(x @ x), rel=2.0**-41 + 2.0**-48)


def test_wrong_levels_are_named():
    x = torch.ones(3)
    calls = {"dot": (x, x), "nrm2": (x,), "axpy": (1, x, x)}
    for name, args in calls.items():
        function = getattr(trnblas, name)
        with pytest.raises(FlagError, match=rf"{name}: got precision 'float128'"):
            function(*args, precision="float128")
        for dtype in (torch.float16, torch.bfloat16):
            cast = [a.to(dtype) if isinstance(a, torch.Tensor) else a for a in args]
            with pytest.raises(
                DTypeError, match=f"{name}: precision='doublefloat' takes .*{dtype}"
            ):
                function(*cast, precision="doublefloat")
        with trnblas.precision("doublefloat"), LIBRARY.backend("simulator"):
            before = counts()
            assert function(*args) == pytest.approx(function(*args, precision="float32"))
            assert len((counts() - before).launches) == 1
        for level in (None, "bfloat16", "float16x3", "float32"):
            assert torch.equal(function(*args, precision=level), function(*args))
