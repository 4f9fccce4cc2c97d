"""Doublefloat products against exact integers, and the bounds they promise."""

from __future__ import annotations

from math import log2

import ml_dtypes
import numpy as np
import pytest
import torch

import nkisim
import trnblas
from each_case import each_case
from oracles.exact_products import errors_by_norms
from pairwise import in_turn, pairwise
from trnblas._kernels.bfloat16 import bfloat16_gemm
from trnblas._kernels.doublefloat import doublefloat_gemm
from trnblas._kernels.float16x3 import float16x3_gemm
from trnblas._library import LIBRARY
from trnblas._paths import level_launches
from trnblas._precise import slicing
from trnblas._precise.ladder import level_bound
from trnsci.core.counters import counts
from trnsci.core.errors import DTypeError, FlagError
from trnsci.core.testing import refusals_expected
from trnsci.core.tiles.tiling_gemm import gemm_tiling

from .harness_products import launcher

GENERATIONS = ("gen2", "gen3", "gen4")
U64 = 2.0**-53


def product(a, b, slices=0, generation="gen3"):
    launch, left, right = launcher(generation), torch.as_tensor(a), torch.as_tensor(b)
    if slices:
        panels = left[None], right[None]
        return level_launches.sliced_product(launch, *panels, slices, False, False)[0].numpy()
    options = slicing.PROMISE, False, False
    return level_launches.doublefloat_gemm(launch, left, right, *options).numpy()


def ill_scaled(rng, rows, columns, phi):
    spread = np.exp(phi * rng.standard_normal((rows, columns)))
    return rng.uniform(-1, 1, (rows, columns)) * spread


def assert_bounded(a, b, slices=0):
    """Assert that no entry has an error above the bound; return the errors over the bound."""
    depth = a.shape[1]
    bound = slicing.bound(slices or slicing.fewest_slices(slicing.PROMISE, depth), depth)
    ratios = errors_by_norms(product(a, b, slices), a, b) / bound
    assert (ratios <= 1).all(), f"{(ratios > 1).sum()} above the bound, up to {ratios.max():.3g}"
    return ratios


# -- errors ----------------------------------------------------------------------------------------


@each_case("phi", range(5))
def test_no_entry_of_10_000_is_above_the_bound(phi):
    """Together: 2000 entries of each distribution."""
    rng = np.random.default_rng(phi)
    assert_bounded(ill_scaled(rng, 40, 24, phi), ill_scaled(rng, 24, 50, phi))


@pytest.mark.slow
@each_case("phi", [0, 2, 4])
@each_case("shape", [(100, 129, 100), (25, 1100, 40)], ids=str)
@each_case("slices", [7, 8])
def test_no_entry_is_above_the_bound_at_several_sizes(phi, shape, slices):
    rng = np.random.default_rng((phi, *shape))
    assert_bounded(ill_scaled(rng, *shape[:2], phi), ill_scaled(rng, *shape[1:], phi), slices)


@each_case("slices", range(slicing.FEWEST_SLICES, slicing.MOST_SLICES + 1))
def test_every_number_of_slices(slices):
    rng = np.random.default_rng(slices)
    ratios = assert_bounded(ill_scaled(rng, 6, 140, 1), ill_scaled(rng, 140, 5, 1), slices)
    # Fewer slices do leave an error: a bound that is never approached would hide a lost pair.
    assert slices > 7 or log2(ratios.max()) > -9


@each_case("depth", [1, 2, 127, 128, 129, 511, 513, 1023, 1024, 1025, 2049, 4097])
def test_every_cut_of_the_contraction(depth):
    rng = np.random.default_rng(depth)
    assert_bounded(ill_scaled(rng, 3, depth, 1), ill_scaled(rng, depth, 2, 1))


def digits_at_their_limit(depth, sign):
    """Return entries whose digits, from the second on, are all 64 units, and a large one.

    Halves of a unit of digit s + 1 in addition to those of digit s are ties, which go to even.
    """
    tie = 0.5 * 2.0**-6 * sum(2.0 ** (-7 * s) for s in range(7))
    entries = np.full(depth, sign * tie)
    entries[0] = 1 - 2.0**-53
    return entries


UNITS = [2.0 ** (1 - 7 * s) for s in range(1, 8)]
HOSTILE = {
    "one large": lambda rng: np.where(np.arange(300) == 7, 1.0, 2.0**-7 * rng.choice([1, -1], 300)),
    "ones": lambda rng: np.ones(1024),
    "signs": lambda rng: rng.choice([1.0, -1.0], 300),
    "just below one": lambda rng: np.full(1024, 1 - 2.0**-53),
    "limits": lambda rng: digits_at_their_limit(1024, 1.0),
    "limits of both signs": lambda rng: digits_at_their_limit(1024, -1.0),
    "64 units": lambda rng: np.array([64 * u * s for u in UNITS for s in (1, -1)] + [0.75]),
    "63.5 and 64.5 units": lambda rng: np.array(
        [n * u for u in UNITS for n in (0.5, 1.5, 63.5, -63.5, 64.5)] + [0.75]
    ),
    "cancelling": lambda rng: np.concatenate([x := rng.standard_normal(100), -x, [2.0**-60]]),
    "zeros": lambda rng: np.zeros(40),
    "subnormal": lambda rng: 5e-324 * rng.integers(-9, 9, 40),
    "huge": lambda rng: 1e300 * rng.standard_normal(40),
    "tiny": lambda rng: 1e-300 * rng.standard_normal(40),
    "huge and tiny": lambda rng: np.where(np.arange(40) % 2, 1e300, 1e-300),
    "few bits": lambda rng: rng.integers(-4, 5, 700) * 0.5,
    "twenty-fourth bit": lambda rng: 1 + 2.0**-24 * rng.integers(0, 3, 100) + 2.0**-48,
}


@each_case("name", HOSTILE)
def test_hostile_rows_and_columns(name):
    rng = np.random.default_rng(len(name))
    make = HOSTILE[name]
    a, b = np.stack([make(rng), make(rng), make(rng)[::-1]]), np.stack([make(rng), make(rng)], 1)
    # The product of two huge or tiny ones is beyond float64, and that of subnormal numbers rounded.
    scale = 1e250 if np.abs(a).max() < 1e-250 else 1.0
    assert_bounded(a, b / (np.abs(b).max() or 1.0) * scale)
    assert_bounded(a, scale * rng.standard_normal(b.shape))


def test_integers_that_fit_are_exact():
    rng = np.random.default_rng(0)
    a, b = rng.integers(-(2**20), 2**20, (4, 9)), rng.integers(-(2**19), 2**19, (9, 5))
    assert np.array_equal(
        product(a.astype(np.float64), b.astype(np.float64)), (a @ b).astype(float)
    )


def test_a_row_of_zeros_gives_zeros():
    a, b = np.random.default_rng(0).standard_normal((2, 5, 5))
    a[2], b[:, 3] = 0, 0
    got = product(a, b)
    assert not got[2].any()
    assert not got[:, 3].any()
    assert np.count_nonzero(got) == 16


LEVELS = {
    "doublefloat": lambda a, b, upper: level_launches.doublefloat_gemm(
        launcher("gen3"), a, b, slicing.PROMISE, False, upper
    ),
    "float16x3": lambda a, b, upper: level_launches.float16x3_gemm(launcher("gen3"), a, b, upper),
}


@each_case(
    "level, value, batches, upper",
    pairwise(
        LEVELS,
        [np.nan, np.inf, -np.inf],
        [((), ()), ((2,), ()), ((), (2,)), ((2,), (2,))],
        [False, True],
    ),
)
def test_a_nan_or_an_infinity_enters_its_row_and_column_as_in_float64(level, value, batches, upper):
    rng = np.random.default_rng(0)
    a, b = (
        torch.as_tensor(rng.standard_normal((*batch, *shape)).astype(np.float32))
        for batch, shape in zip(batches, ((6, 30), (30, 6)), strict=True)
    )
    clean = LEVELS[level](a, b, upper)
    a[..., 1, 3], b[..., 4, 2], b[..., 3, 5] = value, value, 0  # of which one meets a zero
    exact = a.double() @ b.double()
    want = exact.triu() if upper else exact
    got = LEVELS[level](a, b, upper)
    special = ~want.isfinite()
    assert special.sum() >= 6
    torch.testing.assert_close(got[special].double(), want[special], equal_nan=True)
    same = torch.ones(6, 6, dtype=torch.bool)
    same[1], same[:, 2], same[:, 5] = False, False, False
    assert torch.equal(got[..., same], clean[..., same])


def test_float32_operands_round_the_product_once():
    rng = np.random.default_rng(0)
    a, b = (ill_scaled(rng, *shape, 2).astype(np.float32) for shape in ((20, 50), (50, 30)))
    got = product(a, b)
    assert got.dtype == np.float32
    wide = product(a.astype(np.float64), b.astype(np.float64))
    assert np.array_equal(got, wide.astype(np.float32))


def test_a_product_beyond_the_range_of_float32_is_infinite_there_and_finite_in_float64():
    a, b = np.array([[1e30, 1.0], [1.0, 1.0]], np.float32), np.array([[1e30], [1.0]], np.float32)
    assert product(a, b)[0, 0] == np.inf
    assert product(a.astype(np.float64), b.astype(np.float64))[0, 0] == pytest.approx(1e60)


# -- shapes and generations ------------------------------------------------------------------------


EDGES = (1, 1, 1), (1, 130, 1), (127, 129, 511), (129, 127, 513), (128, 128, 512), (2, 1025, 130)


@each_case(("shape", "generation"), in_turn(EDGES, GENERATIONS), ids=str)
def test_every_generation(generation, shape):
    assert_on_generation(generation, shape)


@pytest.mark.slow
@each_case("generation", GENERATIONS)
@each_case("shape", EDGES, ids=str)
def test_every_shape_on_every_generation(generation, shape):
    assert_on_generation(generation, shape)


def assert_on_generation(generation, shape):
    """Strictly simulated; float64's own sum is compared, with its error of K roundings."""
    m, k, n = shape
    rng = np.random.default_rng(shape)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    allowed = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=0)
    bound = slicing.bound(8, k) + k * U64
    assert (np.abs(product(a, b, 8, generation) - a @ b) <= bound * allowed).all()


@each_case(
    ("generation", "rows", "depth"), [("gen2", 2, 140), ("gen3", 130, 1), ("gen4", 130, 140)]
)
def test_the_source_has_no_finding(generation, rows, depth):
    """With one chunk of the contraction or, on gen2, two."""
    a, b = np.zeros((depth, rows), np.float32), np.zeros((depth, 140), np.float32)
    chunk = 128 if generation == "gen2" else slicing.chunk_rows(8, depth)
    plan = 8, chunk, slicing.pair_groups(8, depth), (0, depth)
    assert not list(nkisim.check(doublefloat_gemm, target=generation)(a, a, b, b, *plan).findings)
    assert not list(nkisim.check(float16x3_gemm, target=generation)(a, b).findings)
    narrow = [x.astype(ml_dtypes.bfloat16) for x in (a.T, b)]
    blocks = gemm_tiling(rows, 140, depth, "bfloat16", generation).blocks
    assert not list(nkisim.check(bfloat16_gemm, target=generation)(*narrow, blocks).findings)


KERNEL_LEVELS = "bfloat16", "float16x3", "doublefloat"


@each_case(("level", "generation"), in_turn(KERNEL_LEVELS, GENERATIONS))
def test_batches_and_triangles(generation, level):
    assert_batches_and_triangles(generation, level)


@pytest.mark.slow
@each_case("generation", GENERATIONS)
@each_case("level", KERNEL_LEVELS)
def test_batches_and_triangles_on_every_generation(generation, level):
    assert_batches_and_triangles(generation, level)


def assert_batches_and_triangles(generation, level):
    """Strictly simulated, within the bound of the level; below the triangle are zeros."""
    rng = np.random.default_rng(0)
    a, b = (torch.tensor(rng.standard_normal(s)) for s in ((2, 600, 30), (2, 30, 600)))
    a, b = (a, b) if level == "doublefloat" else (a.float(), b.float())
    launched = getattr(level_launches, f"{level}_gemm")
    options = (slicing.PROMISE, False) if level == "doublefloat" else ()
    norms = a.double().norm(dim=-1)[..., None] * b.double().norm(dim=-2)[:, None]
    bound = slicing.PROMISE + 30 * U64 if options else level_bound(level, 30) + 2.0**-24
    for upper in (False, True):
        got = launched(launcher(generation), a, b, *options, upper).double()
        want = a.double() @ b.double()
        want = want.triu() if upper else want
        assert ((got - want).abs() <= bound * norms).all()


@each_case("slices", [8, 10, 11, 16])
def test_panels_fit_in_the_smallest_sbuf(slices):
    a, b = np.zeros((1024, 256), np.float32), np.zeros((1024, 512), np.float32)
    plan = slicing.chunk_rows(slices, 1024), slicing.pair_groups(slices, 1024)
    simulation = nkisim.simulate(doublefloat_gemm, strictness="strict", target="gen2", values=False)
    simulation(a, a, b, b, slices, *plan, (0, 1024))
    assert not simulation.report.findings


# -- plans -----------------------------------------------------------------------------------------


@each_case("slices", range(slicing.FEWEST_SLICES, slicing.MOST_SLICES + 1))
@each_case("depth", [1, 100, 640, 1024, 4096])
def test_sums_are_exact_and_grow(slices, depth):
    groups = slicing.pair_groups(slices, depth)
    rows = min(depth, slicing.chunk_rows(slices, depth))
    weights = [sum(group[0]) for group in groups]
    assert weights == sorted(weights, reverse=True)
    for group, weight in zip(groups, weights, strict=True):
        assert {sum(pair) for pair in group} == {weight}
        assert weight == slices + 2 or rows * len(group) * 64**2 <= 2**24
    pairs = [pair for group in groups for pair in group]
    every = {(i, j) for i in range(1, slices + 1) for j in range(1, slices + 1)}
    assert sorted(pairs) == sorted(p for p in every if sum(p) <= slices + 2)


def test_eight_slices_prove_the_promise_and_seven_ten_digits():
    for depth in (1, 128, 1024, 4096, 10_000):
        assert slicing.fewest_slices(2.0**-45, depth) <= 8
        assert slicing.fewest_slices(1e-10, depth) <= 7
    assert slicing.fewest_slices(2.0**-45, 100_000) == 9
    assert slicing.fewest_slices(2.0**-45, slicing.MOST_DEPTH) <= slicing.MOST_SLICES
    assert sum(map(len, slicing.pair_groups(8, 4096))) == 43
    assert sum(map(len, slicing.pair_groups(7, 4096))) == 34
    assert slicing.fewest_slices(1e-3, 100) == 3
    with pytest.raises(FlagError, match="at least"):
        slicing.fewest_slices(1e-16, 100)


# -- the public function ---------------------------------------------------------------------------


def at(level, a, b):
    return trnblas.gemm(1.0, a, b, precision=level)


@each_case("dtype", [torch.float32, torch.float64], ids=str)
def test_the_operation_runs_the_kernel_and_keeps_the_dtype(dtype):
    a = torch.tensor(np.random.default_rng(0).standard_normal((2, 3, 20)), dtype=dtype)
    b = a[0].mT.contiguous()
    before = counts()
    with LIBRARY.backend("simulator"):
        got = at("doublefloat", a, b)
    assert (counts() - before).launches == {"doublefloat_gemm": 1}
    assert got.dtype is dtype
    want = a.double() @ b.double()
    allowed = (slicing.PROMISE + 20 * U64) * a.norm(dim=-1)[..., None] * b.norm(dim=0)
    rounded = torch.finfo(dtype).eps / 2 * want.abs()
    assert ((got - want).abs() <= allowed + rounded).all()
    with LIBRARY.backend("pytorch"):
        assert torch.equal(at("doublefloat", a, b), want.to(dtype))


@each_case("depth", [70, 4100])
def test_blocks_of_the_contraction_are_launches(depth):
    before = counts()
    with LIBRARY.backend("simulator"):
        at("doublefloat", torch.ones(2, depth), torch.ones(depth, 2))
    assert (counts() - before).launches == {"doublefloat_gemm": 1 if depth < 4096 else 2}


@each_case("backend", ["simulator", "pytorch"])
def test_gradients_have_the_level_of_the_forward(backend):
    rng = np.random.default_rng(0)
    a, b, g = (torch.tensor(rng.standard_normal(s)) for s in ((6, 40), (40, 7), (6, 7)))
    a.requires_grad_()
    b.requires_grad_()
    before = counts()
    with LIBRARY.backend(backend):
        of_a, of_b = torch.autograd.grad(at("doublefloat", a, b), (a, b), g)
    launches = (counts() - before).launches
    assert launches == ({"doublefloat_gemm": 3} if backend == "simulator" else {})
    left, right, pulled = a.detach().numpy(), b.detach().numpy(), g.numpy()
    assert errors_by_norms(of_a.numpy(), pulled, right.T).max() <= slicing.PROMISE
    assert errors_by_norms(of_b.numpy(), left.T, pulled).max() <= slicing.PROMISE


@refusals_expected()
def test_a_contraction_without_a_proof_is_refused():
    ones = torch.ones(1, slicing.MOST_DEPTH + 1)
    before = counts()
    with LIBRARY.backend("simulator"):
        assert at("doublefloat", ones, ones.mT) == slicing.MOST_DEPTH + 1
    found = counts() - before
    assert not found.launches
    assert found.refusals


@each_case("backend", ["simulator", "pytorch"])
@each_case("level", ["float32", "float16x3", "doublefloat"])
def test_factors_transpositions_and_out(level, backend):
    """Within the bound of float16x3, the widest, and some roundings of float32."""
    rng = np.random.default_rng(0)
    a, b, c = (torch.tensor(rng.standard_normal(s)).float() for s in ((20, 6), (7, 20), (6, 7)))
    out = torch.empty(6, 7)
    with LIBRARY.backend(backend):
        got = trnblas.gemm(2.0, a, b, -1.0, c, True, "T", precision=level, out=out)
        assert (trnblas.gemm(0.0, a, b, 1.0, c, True, "T", precision=level) == c).all()
    assert got is out
    want = 2.0 * a.double().mT @ b.double().mT - c.double()
    magnitude = 2.0 * a.abs().mT @ b.abs().mT + c.abs()
    assert ((got - want).abs() <= (3 * 2.0**-22 + 70 * 2.0**-24) * magnitude).all()


def test_wrong_arguments_are_named():
    x = torch.ones(2, 2)
    with pytest.raises(FlagError, match=r"gemm: got precision 'float128', accepted: bfloat16, .*"):
        at("float128", x, x)
    for dtype in (torch.int64, torch.bfloat16):
        with pytest.raises(DTypeError, match=f"gemm: precision='doublefloat' takes .*{dtype}"):
            at("doublefloat", x.to(dtype), x.to(dtype))
