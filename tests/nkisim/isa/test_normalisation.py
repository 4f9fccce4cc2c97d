"""bn_stats and bn_aggr against sums of squares in float64."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import nkisim.isa as nisa
from comparing import assert_within
from drawn import examples
from each_case import each_case
from oracles import elementwise, reductions
from oracles.reductions import UNIT

from .harness import ALL_DTYPES, FLOATS, PARTITIONS, Operand, Problem, chunks, run

SIZES = [2, 3, 33, 128, 129, 511, 512]


def statistics_with_bounds(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(count, mean, variance * count) of each row, and what float32 may miss.

    The mean is a sum of n terms and a quotient: n + 1 roundings of at most the mean magnitude. The
    sum of squared deviations is bounded as if computed from the sum of squares, the less accurate
    way: n + 3 roundings, each of at most the sum of squares, twice for the two sums subtracted.
    """
    count, mean, spread = reductions.statistics(rows)
    wide = np.float64(rows)
    n = rows.shape[1]
    mean_error = (n + 1) * UNIT * np.abs(wide).mean(axis=1)
    spread_error = 2 * (n + 3) * UNIT * np.square(wide).sum(axis=1)
    values = np.stack([count, mean, spread], axis=1)
    return values, np.stack([np.zeros_like(count), mean_error, spread_error], axis=1)


@examples(40)
@given(data=st.data())
def test_bn_stats_describes_even_and_odd_elements(data):
    problem = Problem(data, sizes=SIZES)
    free, start = problem.free_shape(), problem.start()
    place = problem.choose(["sbuf", "sbuf", "psum"])
    kinds = ["float32"] if place == "psum" else ALL_DTYPES
    x = problem.read(problem.choose(kinds), free, start, "small", place)
    dst = problem.write(problem.choose(["float32", "float32", "bfloat16"]), (6,), problem.start())

    def instruction(data, dst):
        nisa.bn_stats(dst=dst, data=data)

    got = run(instruction, {"data": x, "dst": dst})["dst"]
    rows = elementwise.widen(x.rows)
    for columns, elements in ((slice(0, 3), rows[:, 0::2]), (slice(3, 6), rows[:, 1::2])):
        assert_within(got[:, columns], *statistics_with_bounds(elements))


def test_bn_stats_of_one_element_has_no_odd_elements():
    x = np.array([[2.5], [-1.0]], np.float32)
    operands = {
        "data": Operand(x, lambda t: t, np.arange(2).reshape(2, 1)),
        "dst": Operand(np.full((2, 6), 7, np.float32), lambda t: t, np.arange(12).reshape(2, 6)),
    }

    def instruction(data, dst):
        nisa.bn_stats(dst=dst, data=data)

    got = run(instruction, operands)["dst"]
    assert got[:, :4].tolist() == [[1.0, 2.5, 0.0, 0.0], [1.0, -1.0, 0.0, 0.0]]


@examples(40)
@given(data=st.data())
def test_bn_aggr_joins_groups_of_any_size(data):
    problem = Problem(data, partitions=PARTITIONS)
    groups, start = problem.choose([1, 2, 5, 16]), problem.start()
    shape = problem.choose([(3 * groups,), (groups, 3)])
    base = problem.read(problem.choose(["float32", "float32", "bfloat16"]), shape, start, "small")
    view = base.positions.reshape(problem.partitions, groups, 3)
    if np.unique(view).size != view.size:
        return  # a broadcast view cannot hold a count, a mean and a spread of its own
    stored = base.base.copy()
    flat = stored.reshape(-1)
    flat[view[..., 0]] = problem.rng.integers(1, 200, view.shape[:2]).astype(stored.dtype)
    flat[view[..., 2]] = np.abs(flat[view[..., 2]].astype(np.float32) * 50).astype(stored.dtype)
    x = Operand(stored, base.take, base.positions)
    dst = problem.write(problem.choose(FLOATS), (2,), problem.start())

    def instruction(data, dst):
        nisa.bn_aggr(dst=dst, data=data)

    got = run(instruction, {"data": x, "dst": dst})["dst"]
    tuples = np.float64(elementwise.widen(x.rows)).reshape(problem.partitions, groups, 3)
    mean, variance = reductions.aggregate(tuples)
    count, means, spreads = (tuples[..., i] for i in range(3))
    total = count.sum(axis=1)
    # Products, sums over the groups and quotients: groups + 3 roundings of at most the magnitudes
    # that are summed; twice for the variance, which may subtract the square of the mean.
    mean_error = (groups + 3) * UNIT * (count * np.abs(means)).sum(axis=1) / total
    power = (spreads + count * np.square(means)).sum(axis=1) / total
    assert_within(got[:, 0], mean, mean_error)
    assert_within(got[:, 1], variance, 2 * (groups + 5) * UNIT * power)


@each_case("columns", [511, 512, 513, 1300])
@each_case("dtype", ["float32", "bfloat16"])
def test_mean_and_variance_of_long_rows(columns, dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((128, columns), np.float32) + np.float32(3)
    x = x.astype(elementwise.DTYPES[dtype])
    cuts = list(chunks(columns, -(-columns // 512)))
    where = np.arange(x.size).reshape(x.shape)
    operands = {
        "data": Operand(x, lambda t: t, where),
        "stats": Operand(
            np.zeros((128, 6 * len(cuts)), np.float32),
            lambda t: t,
            np.arange(128 * 6 * len(cuts)).reshape(128, -1),
        ),
        "dst": Operand(np.zeros((128, 2), np.float32), lambda t: t, np.arange(256).reshape(128, 2)),
    }

    def instruction(data, stats, dst):
        for i, cut in enumerate(cuts):
            nisa.bn_stats(dst=stats[:, 6 * i : 6 * i + 6], data=data[:, cut])
        nisa.bn_aggr(dst=dst, data=stats)

    got = run(instruction, operands)["dst"]
    wide = np.float64(x)
    # 512 terms at most in one sum, then one sum over the groups; see the bounds above.
    roundings = 512 + 2 * len(cuts) + 8
    assert_within(got[:, 0], wide.mean(axis=1), roundings * UNIT * np.abs(wide).mean(axis=1))
    assert_within(got[:, 1], wide.var(axis=1), 2 * roundings * UNIT * np.square(wide).mean(axis=1))
