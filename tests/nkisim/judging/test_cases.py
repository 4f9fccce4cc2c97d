"""The cases of a verdict: their values and their shapes."""

import numpy as np

from nkisim.dtypes import DTYPES
from nkisim.judging.cases import cases_of, signatures_of, without_values
from nkisim.trials import Arguments

from ...each_case import each_case


def array_of(dtype, *shape):
    return np.full(shape, 0.5, DTYPES[dtype].numpy)


def made(array, *, seed=1, hostile=True, nonfinite=True, extents=()):
    """The cases of two arguments, and the values of the first one by the cases' names."""
    given = Arguments((array,), {"y": array.copy()})
    found = [*cases_of(given, seed, [{}, *extents], hostile=hostile, nonfinite=nonfinite)]
    assert {value.dtype for case in found for value in (*case[1][0], case[1][1]["y"])} == {
        array.dtype
    }
    return found, {case.name: np.float32(case.arguments.args[0]) for case in found}


def test_fresh_values_are_uniform_and_differ_from_case_to_case():
    found, values = made(array_of("float32", 100, 10))
    assert np.all(values["as given"] == 0.5)
    for name, low in (("fresh values", -1.0), ("fresh values again", 0.25)):
        quarters = np.histogram(values[name], 4, (low, 1.0))[0]
        assert (quarters.sum(), quarters.min() > 200) == (1000, True)
    drawn = [values[name] for name in ("fresh values", "fresh values again", "large values")]
    drawn += [found[1].arguments.kwargs["y"]]
    assert len({array.ravel().argsort().tobytes() for array in drawn}) == len(drawn)
    again, other = (made(array_of("float32", 100, 10), seed=seed)[1] for seed in (1, 2))
    assert all(np.array_equal(again[name], values[name]) for name in values)
    same = {name for name in values if np.array_equal(other[name], values[name])}
    assert same == {"as given", "zeros"}


@each_case("dtype", ["float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2"])
def test_hostile_values(dtype):
    _, values = made(array_of(dtype, 8, 4, 33))
    for name, expected in (("zeros", {0}), ("signs", {-1, 1}), ("ties", {-0.75, 0.5, 1.25})):
        assert set(np.unique(values[name])) == expected
    # Sums of sixteen squares of large values are finite in the type, and of 25 are not.
    most, largest = np.abs(values["large values"]).max(), DTYPES[dtype].max_finite
    assert 16 * most**2 <= largest
    assert 25 * most**2 > largest or 4000 < most <= 4096
    assert 0.85 < np.abs(values["tiny values"]).max() * most <= 1.0
    rows = np.sort(np.abs(values["one large among small"]).reshape(-1, 33))
    assert rows[:, -1].min() >= most > 0.011 >= rows[:, -2].max()
    assert len(set(values["one large among small"].reshape(-1, 33).argmax(axis=1))) > 10
    endless = np.isinf(values["infinities"])
    assert 3 <= endless.sum() <= 4
    assert np.all(np.abs(values["infinities"][~endless]) <= 1)
    assert np.isinf(made(array_of(dtype, 2))[1]["infinities"]).all()
    assert made(array_of(dtype))[1]["one large among small"] >= most


def test_which_cases_there_are():
    x, others = array_of("float32", 128, 64), [{128: 127}, {64: 1, 128: 5}]
    assert set(made(x)[1]) - set(made(x, nonfinite=False)[1]) == {"infinities"}
    assert len(made(x)[1]) == 10
    found, values = made(x, hostile=False, extents=others)
    names = ["127 in place of 128", "1 in place of 64, 5 in place of 128"]
    assert [*values] == ["as given", "fresh values", "fresh values again", *names]
    assert [case.signature for case in found] == [0, 0, 0, 1, 2]
    assert (values[names[0]].shape, values[names[1]].shape) == ((127, 64), (5, 1))
    assert values[names[0]].min() < -0.9
    integers = made(np.array([3, 9, 5, 4] * 10, np.int32), extents=[{40: 41}])[1].values()
    assert {(value.min(), value.max()) for value in integers} == {(3, 9)}
    ((empty,), kwargs) = without_values(Arguments((x,), {"scale": 2.0}), {128: 5})
    assert (empty.shape, empty.dtype, empty.strides) == ((5, 64), x.dtype, (0, 0))
    assert (empty.any(), kwargs) == (False, {"scale": 2.0})


@each_case(
    "shape, expected",
    [
        ((128, 64), [{128: 127}, {64: 63}, {128: 129}, {64: 65}, {128: 1}, {64: 1}]),
        ((1, 3), [{3: 2}, {1: 2}, {3: 4}, {3: 1}]),
        ((256,), [{256: 384}, {256: 255}, {256: 257}, {256: 1}]),
    ],
)
def test_other_shapes_have_tails_and_one_row(shape, expected):
    """Each extent in turn: one more tile, one less, one more, and 1."""
    given = Arguments((array_of("float32", *shape),), {})
    assert signatures_of(given, shapes=True) == [{}, *expected]
    assert signatures_of(given, shapes=False) == [{}]
    many = signatures_of(Arguments((array_of("float32", 9, 8, 7, 6, 5),), {}), shapes=True)
    assert (len(many), {n for extents in many for n in extents}) == (11, {9, 8, 7, 6, 5})
