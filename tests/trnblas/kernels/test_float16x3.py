"""Products by three float16 products against exact integers, and the bounds they promise.

The promise has two parts: 3 * 2**-22 from operands, and 3 K roundings of float32 sums, one of which
is at most 2**-24 of magnitudes. Both are relative to |A| |B| for entries within 2**18 of the
largest of their row of A or column of B, and to the 2-norms for others.
"""

from __future__ import annotations

import numpy as np
import torch

from each_case import each_case
from oracles.exact_products import errors_by_magnitudes, errors_by_norms
from trnblas._paths import level_launches
from trnblas._precise.ladder import level_bound

from .harness_products import launcher

GENERATIONS = ("gen2", "gen3", "gen4")
U = 2.0**-24


def halves(a, b, generation="gen3"):
    operands = torch.as_tensor(a), torch.as_tensor(b)
    got = level_launches.float16x3_gemm(launcher(generation), *operands, False).numpy()
    assert got.dtype == np.float32
    return got


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


@each_case("generation", GENERATIONS)
@each_case("shape", [(1, 1, 1), (127, 129, 511), (130, 40, 513), (2, 4100, 3)], ids=str)
def test_every_generation(generation, shape):
    m, k, n = shape
    rng = np.random.default_rng(shape)
    a, b = normal(rng, m, k), normal(rng, k, n)
    wide = a.astype(np.float64), b.astype(np.float64)
    magnitudes = np.abs(wide[0]) @ np.abs(wide[1])
    # float64 adds errors of K 2**-53: less than the two roundings that the bound has besides.
    bound = 3 * 2.0**-22 + (3 * k + 2) * U
    assert (np.abs(halves(a, b, generation) - wide[0] @ wide[1]) <= bound * magnitudes).all()


# -- operands --------------------------------------------------------------------------------------


def hostile_values(count):
    """Return float32 numbers in [1, 2) whose two float16 parts leave most of them."""
    rng = np.random.default_rng(count)
    bits = rng.integers(0, 2**23, count)
    rests = np.array([0, 1, 2, 3, 2**11 - 1, 2**11, 2**11 + 1, 2**12 - 1, 2**12, 2**12 + 1])
    bits[::2] = (bits[::2] >> 12 << 12) + rng.choice(rests, len(bits[::2]))
    bits[:4] = 0, 2**23 - 1, 2**12, 2**12 - 1
    return (1 + bits * 2.0**-23).astype(np.float32)


@each_case("exponent", [0, 9, 17])
@each_case("scale", [2.0**-100, 1.0, 2.0**60])
def test_two_parts_leave_at_most_2_22_of_an_entry(scale, exponent):
    """The entries are alone in their sums, with powers of two: nothing else is rounded.

    Each row has a large entry, which meets a zero, and one up to 2**18 below it. Products and
    differences are exact in float64.
    """
    small = hostile_values(600) * 2.0**-exponent / 2
    rows = np.stack([np.full_like(small, 1.999), small], 1) * np.float32(scale)
    right = np.float32([[0.0, 0.0], [1.0, -0.25]])
    want = rows.astype(np.float64) @ right
    for got in (halves(rows, right), halves(right.T.copy(), rows.T.copy()).T):
        assert (np.abs(got - want) <= 2.0**-22 * np.abs(want)).all()


def test_no_entry_of_10_000_products_of_one_term_is_above_the_bound():
    a, b = hostile_values(100)[:, None], hostile_values(100)[None]
    assert errors_by_magnitudes(halves(a, b), a, b).max() <= 3 * 2.0**-22 + 3 * U


# -- sums ------------------------------------------------------------------------------------------

# Rows of entries within 2**18 of the largest.
NEAR = {
    "one large": lambda rng: np.where(
        np.arange(300) == 7, 1.0, 2.0**-18 * rng.choice([1, -1], 300)
    ),
    "all ranges": lambda rng: hostile_values(190) * 2.0 ** -(np.arange(190) % 19) * 0.999,
    "ones": lambda rng: np.ones(1024),
    "just below two": lambda rng: np.full(500, 2 - 2.0**-23),
    "at the largest float16": lambda rng: np.array([65520.0, 65519.996, 65504.0, 65488.0, 1.0]),
    "ties": lambda rng: 1 + 2.0**-11 * rng.integers(0, 4, 200) + 2.0**-22,
    "cancelling": lambda rng: np.concatenate([x := hostile_values(100), -x, [2.0**-18]]),
    "zeros": lambda rng: np.zeros(40),
    "huge": lambda rng: 2.0**120 * hostile_values(40),
    "tiny": lambda rng: 2.0**-126 * hostile_values(40),
}
# Rows of entries of any range.
FAR = {
    "halves": lambda rng: 2.0 ** -np.arange(60.0),
    "one large": lambda rng: np.where(np.arange(300) == 7, 1.0, 2.0**-24 * hostile_values(300)),
    "huge and tiny": lambda rng: np.where(np.arange(40) % 2, 1e35, 1e-38),
    "subnormal": lambda rng: 2.0**-149 * rng.integers(-9, 9, 40),
    "ill-scaled": lambda rng: rng.uniform(-1, 1, 200) * np.exp(4 * rng.standard_normal(200)),
}


def operands_of(make, name):
    """Return three rows of a kind, one of them backwards, and two columns of it or of others."""
    rng = np.random.default_rng(len(name))
    rows = np.stack([make(rng), make(rng), make(rng)[::-1]]).astype(np.float32)
    columns = np.stack([make(rng), make(rng)], 1)
    columns = (columns / (np.abs(columns).max() or 1.0)).astype(np.float32)
    others = hostile_values(columns.size).reshape(columns.shape) * rng.choice([-1, 1])
    return rows, columns, others


@each_case("name", NEAR)
def test_entries_near_their_largest_have_the_bound_by_magnitudes(name):
    a, *sides = operands_of(NEAR[name], name)
    sums = 3 * a.shape[1] * U / (1 - a.shape[1] * U) * (1 + 2.0**-9)
    for b in sides:
        assert errors_by_magnitudes(halves(a, b), a, b).max() <= 3 * 2.0**-22 + sums


@each_case("name", FAR)
def test_entries_of_any_range_have_the_bound_by_norms(name):
    a, *sides = operands_of(FAR[name], name)
    for b in sides:
        errors = errors_by_norms(halves(a, b), a, b)
        # Half of the least float32 number, where the result is subnormal.
        least = 2.0**-150 / np.maximum(np.linalg.norm(a.astype(np.float64), axis=1)[:, None], 1e-45)
        assert (errors <= level_bound("float16x3", a.shape[1]) + least).all()
