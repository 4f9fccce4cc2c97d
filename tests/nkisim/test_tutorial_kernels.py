"""The kernels of examples/, at sizes around their tiles, on every generation.

Bounds are first-order error analysis with the largest relative error ``u`` of a rounding: 2^-24 in
float32, in which everything is computed, and 2^-8 in bfloat16, to which a result is rounded once. A
sum of n terms, in whatever order, is wrong by at most n * u * (sum of absolute terms). Exponentials
and inverse roots are float32 functions that are right to four units.
"""

import importlib.util
import math
from collections import Counter
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import nkisim
from each_case import each_case
from pairwise import in_turn, pairwise

EXAMPLES = Path(__file__).parents[2] / "examples"
U = 2.0**-24
FUNCTION = 4 * U
ROUNDING = {np.dtype(np.float32): U, np.dtype(ml_dtypes.bfloat16): 2.0**-8}

TARGETS, DTYPES = ["gen2", "gen3", "gen4"], list(ROUNDING)
each_target = pytest.mark.parametrize("target", TARGETS)
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


@cache
def script(name):
    """Return a script of examples/ as a module, without running its ``main``."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def each_pair(names, *axes):
    """Cases in which any two values of two axes meet, one test per generation, the last axis."""
    return each_case(names, pairwise(*axes, TARGETS), group=lambda *case: case[-1])


def around(*tiles):
    """Return the sizes one below, at and one above each tile, all dimensions together."""
    return [tuple(tile + step for tile in tiles) for step in (-1, 0, 1)]


def draw(dtype, *shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def wide(*arrays):
    return [array.astype(np.float64) for array in arrays]


def outputs(kernel, target, *arguments):
    """Return the kernel's result in float64, after a check that found nothing."""
    report = nkisim.check(kernel, target=target)(*arguments)
    assert report.codes == set(), str(report)
    out = report.outputs
    assert out.dtype == arguments[0].dtype
    return out.astype(np.float64)


def assert_within(out, exact, bound):
    assert out.shape == exact.shape
    excess = np.abs(out - exact) - bound
    # `not >` would let NaN pass.
    assert (excess <= 0).all(), f"{(~(excess <= 0)).sum()} elements, worst by {np.nanmax(excess)}"


@each_pair("shape, dtype, target", [(1, 1), *around(128, 2048)], DTYPES)
def test_tensor_add(shape, dtype, target):
    a, b = draw(dtype, shape, shape)
    out = outputs(script("tensor_add").tensor_add, target, a, b)
    exact = np.add(*wide(a, b))
    # The sum is rounded to float32 and then to the output's type, which is nothing for float32.
    assert_within(out, exact, (ROUNDING[dtype] + (dtype != np.float32) * 2 * U) * np.abs(exact))


@each_pair(
    "shape, dtype, target",
    [(1, 1, 1), (3, 5, 130), (130, 70, 2), *around(128, 64, 64)],
    DTYPES,
)
def test_transpose_free_axes(shape, dtype, target):
    (x,) = draw(dtype, shape)
    out = outputs(script("transpose").transpose_free_axes, target, x)
    np.testing.assert_array_equal(out, wide(x)[0].transpose(0, 2, 1))


@each_pair("shape, dtype, target", [(1, 1), (1, 200), (5, 33), *around(128, 256)], DTYPES)
def test_transpose_matrix(shape, dtype, target):
    (x,) = draw(dtype, shape)
    out = outputs(script("transpose").transpose_matrix, target, x)
    np.testing.assert_array_equal(out, wide(x)[0].T)


@each_pair(
    "shape, pool, dtype, target",
    [(2, 3, 3), (5, 200, 90), *around(128, 16, 18)],
    [1, 2, 3],
    DTYPES,
)
def test_average_pool(shape, pool, dtype, target):
    (x,) = draw(dtype, shape)
    out = outputs(script("average_pool").average_pool, target, x, pool)
    out_h, out_w = shape[1] // pool, shape[2] // pool
    exact = np.zeros((shape[0], out_h, out_w))
    size = np.zeros_like(exact)
    for i in range(pool):
        for j in range(pool):
            taken = wide(x)[0][:, i : out_h * pool : pool, j : out_w * pool : pool]
            exact += taken / pool**2
            size += np.abs(taken) / pool**2
    # Sums, the rounded factor 1 / pool^2 and the product with it; then the output.
    assert_within(out, exact, (pool**2 + 2) * U * size + ROUNDING[dtype] * np.abs(exact))


@each_pair("shape, dtype, target", [(1, 1), (3, 5000), *around(128, 2048)], DTYPES)
def test_softmax(shape, dtype, target):
    x = (4 * draw(np.float32, shape)[0]).astype(dtype)
    out = outputs(script("softmax").softmax, target, x)
    (x64,) = wide(x)
    powers = np.exp(x64 - x64.max(axis=1, keepdims=True))
    exact = powers / powers.sum(axis=1, keepdims=True)
    # Relative: the rounded difference in an exponent changes its power by as much as the difference
    # is large, once in the sum and once in the result; the sum has `cols` terms; each chunk costs
    # an exponential, a product and a sum; then power, reciprocal, product, output.
    chunks = math.ceil(shape[1] / 2048)
    spread = np.ptp(x64, axis=1, keepdims=True)
    relative = (2 * spread + shape[1] + 4) * U + (2 + chunks) * (FUNCTION + 2 * U)
    assert_within(out, exact, (relative + ROUNDING[dtype]) * exact)


def test_softmax_of_large_numbers_neither_overflows_nor_vanishes():
    x = np.array([[1e4, 1e4, -1e4], [-3e38, -3e38, -3e38]], dtype=np.float32)
    out = outputs(script("softmax").softmax, "gen3", x)
    exact = np.array([[0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    # exp(0) is 1; three sums, a reciprocal and a product follow.
    assert_within(out, exact, 5 * U * exact)


@each_pair(
    "shape, kernel, dtype, target",
    [(1, 2), (3, 1025), *around(128, 512)],
    ["layernorm_sums", "layernorm_stats"],
    DTYPES,
)
def test_layernorm(shape, kernel, dtype, target):
    x, weight, bias = draw(dtype, shape, shape[1], shape[1])
    eps = 1e-5
    out = outputs(getattr(script("layernorm"), kernel), target, x, weight, bias, eps)

    x64, w64, b64 = wide(x, weight, bias)
    n = shape[1]
    centred = x64 - x64.mean(axis=1, keepdims=True)
    variance = (centred**2).mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt(variance + eps)
    exact = centred * scale * w64 + b64
    # Mean: n sums, the factor 1/n, the product; one more rounding for the difference.
    mean_off = (n + 2) * U * np.abs(x64).mean(axis=1, keepdims=True)
    centred_off = mean_off + U * np.abs(centred)
    # Variance: what the mean does to it, then squares, n sums, factor, product, and eps.
    variance_off = 2 * (np.abs(centred) * centred_off).mean(axis=1, keepdims=True)
    variance_off += (n + 5) * U * (variance + eps)
    scale_off = variance_off / (2 * (variance + eps)) + FUNCTION
    normal = np.abs(centred * scale * w64)
    bound = centred_off * scale * np.abs(w64) + normal * (scale_off + 2 * U)
    # First order only; the next order is smaller by the relative error of the scale.
    bound = 1.01 * bound + U * (normal + np.abs(b64)) + ROUNDING[dtype] * np.abs(exact)
    assert_within(out, exact, bound)


def test_layernorm_keeps_small_deviations_of_large_values():
    # Values 1000 + tiny: a variance from sums of squares would lose everything, 1e6 * 2^-24 being
    # as large as the variance itself.
    x = (1000 + draw(np.float32, (4, 600))[0] / 4).astype(np.float32)
    weight, bias = np.ones(600, np.float32), np.zeros(600, np.float32)
    (x64,) = wide(x)
    exact = (x64 - x64.mean(axis=1, keepdims=True)) / np.sqrt(x64.var(axis=1, keepdims=True) + 1e-5)
    for kernel in ("layernorm_sums", "layernorm_stats"):
        out = outputs(getattr(script("layernorm"), kernel), "gen3", x, weight, bias, 1e-5)
        # The mean is off by at most 600 roundings of 1000, which is 0.036; deviations are 0.25.
        assert_within(out, exact, 600 * U * 1000 / 0.25 * (1 + np.abs(exact)))


def recurrence(a, b):
    """Return the states of the recurrence in float64, and how wrong float32 may make them."""
    state, off = np.zeros(a.shape[0]), np.zeros(a.shape[0])
    states, offs = np.empty_like(a), np.empty_like(a)
    for t in range(a.shape[1]):
        product = a[:, t] * state
        state = product + b[:, t]
        # The error so far is multiplied, then the product and the sum are rounded.
        off = (np.abs(a[:, t]) * off + U * (np.abs(product) + np.abs(state))) * (1 + 2 * U)
        states[:, t], offs[:, t] = state, off
    return states, offs


@each_pair("shape, dtype, target", [(1, 1), (3, 2500), *around(128, 1024)], DTYPES)
def test_linear_recurrence(shape, dtype, target):
    a = np.random.default_rng(0).uniform(-1, 1, shape).astype(dtype)
    (b,) = draw(dtype, shape, seed=1)
    out = outputs(script("scan").linear_recurrence, target, a, b)
    exact, off = recurrence(*wide(a, b))
    assert_within(out, exact, off + ROUNDING[dtype] * (np.abs(exact) + off))


@each_pair("shape, dtype, target", [(1, 1), (3, 2500), *around(128, 1024)], DTYPES)
def test_running_sum(shape, dtype, target):
    (x,) = draw(dtype, shape)
    out = outputs(script("scan").running_sum, target, x)
    exact, off = recurrence(np.ones(shape), wide(x)[0])
    assert_within(out, exact, off + ROUNDING[dtype] * (np.abs(exact) + off))


def test_scan_carries_its_state_in_float32():
    # After 256 ones a bfloat16 state would stand still: 256 + 1 rounds to 256.
    x = np.ones((2, 3000), dtype=ml_dtypes.bfloat16)
    out = outputs(script("scan").running_sum, "gen3", x)
    np.testing.assert_array_equal(
        out, np.cumsum(wide(x)[0], axis=1).astype(ml_dtypes.bfloat16).astype(np.float64)
    )


# Sizes around what each stage works in: an instruction, a block, a set of banks. (K, M, N)
TILES = {
    "matmul_one_tile": [(1, 1, 2), (127, 127, 511), (128, 128, 512)],
    "matmul_tiled": [(1, 1, 2), (129, 5, 6), *around(128, 128, 512)],
    "matmul_hoisted": [(1, 1, 2), (300, 130, 6), *around(128, 128, 512)],
    "matmul_blocked_free": [(1, 1, 2), (300, 5, 1030), *around(128, 512, 1024)],
    "matmul_blocked_all": [(1, 1, 2), (1030, 5, 6), *around(512, 512, 1024)],
    "matmul_psum_banks": [(1, 1, 2), (700, 5, 6), *around(128, 256, 2048)],
}


PROBLEMS = [(stage, size) for stage, sizes in TILES.items() for size in sizes]


# Sizes of one stage take turns: each stage meets both types and all generations.
@each_case("problem, dtype, target", in_turn(PROBLEMS, DTYPES, TARGETS))
def test_matmul(problem, dtype, target):
    judge_matmul(problem, dtype, target)


@pytest.mark.slow
@each_pair("problem, dtype, target", PROBLEMS, DTYPES)
def test_matmul_of_all_pairs(problem, dtype, target):
    judge_matmul(problem, dtype, target)


def judge_matmul(problem, dtype, target):
    stage, (k, m, n) = problem
    lhs_t, rhs = draw(dtype, (k, m), (k, n))
    out = outputs(getattr(script("matmul_six_stages"), stage), target, lhs_t, rhs)
    a, b = wide(lhs_t, rhs)
    exact = a.T @ b
    # A product (exact for bfloat16) and k sums; float64 is exact enough to be the judge.
    bound = (k + 1) * U * (np.abs(a).T @ np.abs(b))
    assert_within(out, exact, bound + ROUNDING[dtype] * (np.abs(exact) + bound))


def test_every_stage_of_the_matmul_is_tested():
    assert {kernel.__name__ for kernel in script("matmul_six_stages").STAGES} == set(TILES)


class TestAttentionForward:
    """Sizes are (heads, queries, keys, d)."""

    MASKS = (False, True)
    each_mask = pytest.mark.parametrize("causal", MASKS, ids=["full", "causal"])

    @staticmethod
    def script():
        return script("attention_forward")

    def judge(self, size, causal, dtype, target, scale=None, sections=1):
        """Compare one run, which joins so many sections of keys, with the definition."""
        heads, queries, keys, d = size
        q_t, k_t, v = draw(dtype, (heads, d, queries), (heads, d, keys), (heads, keys, d))
        scale = scale or 1 / math.sqrt(d)
        out = outputs(self.script().attention_forward, target, q_t, k_t, v, scale, causal)
        hidden = ~np.tri(queries, keys, dtype=bool) if causal else np.zeros((queries, keys), bool)
        q64, k64, v64 = wide(q_t, k_t, v)
        scores = scale * (q64.transpose(0, 2, 1) @ k64)
        sizes = scale * (np.abs(q64).transpose(0, 2, 1) @ np.abs(k64))
        top = scores.max(axis=-1, keepdims=True, where=~hidden, initial=-np.inf)
        bottom = scores.min(axis=-1, keepdims=True, where=~hidden, initial=np.inf)
        weights = np.where(hidden, 0.0, np.exp(np.minimum(scores - top, 0.0)))
        weights /= weights.sum(axis=-1, keepdims=True)
        exact = weights @ v64
        # A score has d products and sums and a scale. Its error and that of the maximum, and the
        # rounding of their difference, change a weight by as much, in the values and in their
        # total. Weights are rounded to the values' type on the way to the second product; the sums
        # have `keys` terms; a section costs an exponential, a product, a sum.
        largest = sizes.max(axis=-1, keepdims=True, where=~hidden, initial=0.0)
        relative = 4 * (d + 3) * U * largest + 2 * (top - bottom) * U + ROUNDING[dtype]
        relative += (2 * keys + 4) * U + (2 + 2 * sections) * (FUNCTION + 2 * U)
        bound = 1.01 * relative * (weights @ np.abs(v64))
        assert_within(out, exact, bound + ROUNDING[dtype] * (np.abs(exact) + bound))

    SIZES = (
        (1, 1, 1, 2),
        (2, 1, 2, 2),
        (1, 130, 700, 128),
        (1, 300, 40, 16),
        (2, 128, 512, 64),
        *((1, *near) for near in around(128, 128, 64)),
        *((1, *near) for near in around(512, 512, 8)),
        *((1, *near) for near in around(128, 2048, 128)[:2]),
    )

    @each_case("size, causal, dtype, target", in_turn(SIZES, MASKS, DTYPES, TARGETS))
    def test_around_tiles(self, size, causal, dtype, target):
        self.judge(size, causal, dtype, target)

    @pytest.mark.slow
    @each_pair("size, causal, dtype, target", SIZES, MASKS, DTYPES)
    def test_around_tiles_of_all_pairs(self, size, causal, dtype, target):
        self.judge(size, causal, dtype, target)

    # gen2 and gen3 keep a result in a bank, and gen2 has the least memory.
    @each_case(
        ("queries", "keys", "causal", "dtype"),
        pairwise([127, 128, 129], [127, 128, 129, 511, 512, 513, 2047, 2048, 2049], MASKS, DTYPES),
    )
    def test_tails_of_keys(self, queries, keys, causal, dtype):
        self.judge((1, queries, keys, 16), causal, dtype, "gen2", sections=2)

    @pytest.mark.slow
    @each_target
    @each_dtype
    @each_mask
    @pytest.mark.parametrize("keys", [127, 129, 511, 512, 513, 2047, 2048, 2049])
    @pytest.mark.parametrize("queries", [511, 512, 513, 2047, 2048, 2049])
    def test_tails_of_long_queries(self, queries, keys, causal, dtype, target):
        self.judge((1, queries, keys, 32), causal, dtype, target, sections=2)

    @pytest.mark.slow
    @each_mask
    @each_dtype
    def test_several_sections_and_groups(self, dtype, causal):
        self.judge((1, 4225, 4609, 16), causal, dtype, "gen2", sections=3)

    @pytest.mark.parametrize(
        ("size", "resident", "causal", "dtype", "target"),
        pairwise(
            [(2, 300, 1100, 16), (1, 641, 513, 64), (1, 2, 1025, 128)],
            [64 * 1024, 0],
            MASKS,
            DTYPES,
            TARGETS,
        ),
        ids=str,
    )
    def test_sections_are_joined(self, size, resident, causal, dtype, target, monkeypatch):
        monkeypatch.setattr(self.script(), "RESIDENT", resident)
        monkeypatch.setattr(self.script(), "SECTION", 512)
        monkeypatch.setattr(self.script(), "GROUP", 256)
        self.judge(size, causal, dtype, target, sections=3)

    @each_mask
    @pytest.mark.parametrize("scale", [2.0**-20, 3.0, 100.0])
    def test_scales(self, scale, causal, monkeypatch):
        # Three times what masks a score is beyond float32. At 100 the sections' maxima are so far
        # apart that an exponential relative to the wrong one is, too.
        monkeypatch.setattr(self.script(), "SECTION", 512)
        monkeypatch.setattr(self.script(), "GROUP", 512)
        size = (1, 1030, 1030, 4)
        self.judge(size, causal, np.dtype(np.float32), "gen2", scale=scale, sections=3)

    def test_scale_must_be_positive(self):
        arguments = draw(np.float32, (1, 2, 3), (1, 2, 3), (1, 3, 2))
        with pytest.raises(AssertionError, match="maxima"):
            nkisim.simulate(self.script().attention_forward)(*arguments, -1.0, False)

    def test_keys_are_loaded_once_while_they_fit(self):
        # A key and its value in float32, d = 128: 4 bytes on every partition each, of 64 KiB. Three
        # groups of queries, 33 tiles. Sections of 2048 keys; a group's queries, a tile's result.
        fit = self.counts(queries=4224, keys=8192, dtype=np.float32)
        assert fit["dma_copy"] == 4 * 2 + 3 + 33
        too_many = self.counts(queries=4224, keys=8320, dtype=np.float32)
        assert too_many["dma_copy"] == 3 * 5 * 2 + 3 + 33

    def test_a_section_takes_few_instructions(self):
        # Scores in 4 banks; 16 blocks of weights, of which 8 in bfloat16 are turned into a bank.
        assert self.counts(queries=128, keys=2048, dtype=ml_dtypes.bfloat16) == {
            "dma_copy": 4,
            "nc_matmul": 4 + 16,
            "tensor_reduce": 1,
            "activation": 1,
            "nc_transpose": 16,
            "tensor_copy": 2,
            "reciprocal": 1,
            "tensor_scalar": 2,
        }

    def counts(self, queries, keys, dtype):
        """Return how many instructions of each name one head with d = 128 takes."""
        names = Counter()
        run = nkisim.simulate(
            self.script().attention_forward,
            target="gen2",
            values=False,
            watchers=(lambda event: names.update([event.instruction]),),
        )
        run(*draw(dtype, (1, 128, queries), (1, 128, keys), (1, keys, 128)), 0.1, False)
        assert run.report.codes == set()
        return names
