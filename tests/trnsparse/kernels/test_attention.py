"""Attention kernels, forward and backward, in strict simulation on every generation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nkisim
from drawn import examples
from oracles.attention import dense_attention
from required import requiring
from trnsci.core.counters import counts
from trnsci.core.testing import unit_roundoff
from trnsparse import backend
from trnsparse._attention.pattern import pattern_of
from trnsparse._kernels import attention_panel as panel_module
from trnsparse._kernels.attention import attention
from trnsparse._kernels.attention_backward import attention_backward
from trnsparse._kernels.attention_pieces import Blocks
from trnsparse.attention import block_sparse_attention
from trnsparse.masks import AttentionMask, causal_mask, local_window_mask

from .harness import GENERATIONS, Count, run, values


def blocks_of(mask, heads):
    found = pattern_of(mask.encoded(1, heads))
    return Blocks(found.sizes, found.own, found.starts, found.columns, found.which, found.packed)


def tables_of(mask):
    return mask.hidden("cpu").numpy() if mask.partial() else None


def ragged(heads, queries, keys, size, share=0.4, causal=False):
    grid = -(-queries // size[0]), -(-keys // size[1])
    chosen = np.random.default_rng(queries).random((1, heads, *grid)) < share
    chosen[..., 0, :] = False
    chosen[..., -1, :] = True
    return AttentionMask.from_blocks(chosen, (queries, keys), size, causal=causal)


def check(mask, heads, groups, d, dv, scale, generation, dtype="float32", bias=False):
    """Hold both kernels against all scores in float64."""
    queries, keys = mask.seq_lengths
    q = values(heads, queries, d, dtype=dtype, seed=1)
    k = values(groups, keys, d, dtype=dtype, seed=2)
    v = values(groups, keys, dv, dtype=dtype, seed=3)
    grad = values(heads, queries, dv, dtype=dtype, seed=4)
    pattern, tables = blocks_of(mask, heads), tables_of(mask)
    added = values(pattern.places[-1], *mask.block_size, dtype=dtype, seed=5) if bias else None

    wide = [torch.from_numpy(x.astype(np.float64))[None].requires_grad_() for x in (q, k, v)]
    dense = None
    if added is not None:
        dense = torch.zeros(1, heads, queries, keys, dtype=torch.float64)
        for h in range(heads):
            for i, row in enumerate(range(0, queries, mask.block_size[0])):
                base = pattern.own[h] * -(-queries // mask.block_size[0])
                for b in range(pattern.starts[base + i], pattern.starts[base + i + 1]):
                    column = pattern.columns[b] * mask.block_size[1]
                    place = pattern.places[h] + b - pattern.starts[base]
                    block = torch.from_numpy(added[place].astype(np.float64))
                    rows, columns = block.shape
                    dense[0, h, row : row + rows, column : column + columns] = block
    seen = mask.to_dense()
    want = dense_attention(*wide, seen, scale, dense)
    grads = torch.autograd.grad(want, wide, torch.from_numpy(grad.astype(np.float64))[None])
    shared = wide[1].detach().repeat_interleave(heads // groups, 1)
    scores = scale * wide[0].detach() @ shared.mT
    if dense is not None:
        scores = scores + dense
    exact_logs = torch.where(seen, scores, -torch.inf).logsumexp(-1)[0].numpy()

    out, logs = run(attention, generation, q, k, v, added, tables, pattern, scale)
    # A score of size s is off by a few roundings of s, and so is, relatively, its weight.
    bound = 8 * (4 + float(scores.abs().max())) * unit_roundoff(getattr(torch, dtype))
    compare(out, want[0], bound)
    hidden = np.isneginf(exact_logs)
    assert (logs[..., 0][hidden] < -1e38).all()
    assert not out[hidden].any()
    assert np.abs(logs[..., 0] - exact_logs)[~hidden].max(initial=0) <= bound

    far = np.where(logs < -1e38, np.float32(3e38), logs)
    zeros = np.zeros_like(logs)
    got = run(
        attention_backward,
        generation,
        grad,
        zeros,
        q,
        k,
        v,
        out,
        far,
        added,
        tables,
        pattern,
        scale,
    )
    for result, exact in zip(got[:3], grads, strict=True):
        compare(result, exact[0], 4 * bound)
    return got


def compare(got, want, bound):
    exact = want.detach().numpy()
    error = np.abs(got.astype(np.float64) - exact).max()
    assert error <= bound * max(1.0, np.abs(exact).max())


@pytest.mark.parametrize(
    ("generation", "dtype"),
    [("gen2", "float32"), *((g, dtype) for g in GENERATIONS for dtype in ("bfloat16", "float16"))],
)
def test_every_generation(generation, dtype):
    check(ragged(2, 300, 260, (128, 128)), 2, 1, 16, 8, 0.25, generation, dtype)


@pytest.mark.parametrize("n", [127, 128, 129])
def test_lengths_around_tiles(n):
    check(causal_mask(n), 1, 1, 8, 8, 0.5, "gen3")


# -- float16 ---------------------------------------------------------------------------------------

U = 2.0**-11
TINY = 2.0**-25  # half of the smallest float16, by which a smaller number is rounded


class Bounds(NamedTuple):
    """The attention and its gradients in float64, each with a bound of the error of each element.

    Scores, their exponentials and all sums are float32. Rounded to float16 are the weights of the
    values, relative to the largest of a row; the weights of the gradients, times 2^15; the
    gradients by scores; and results. A float16 is off by U of itself, or by TINY.
    """

    out: Any
    d_q: Any
    d_k: Any
    d_v: Any


def defined(q, k, v, grad, seen, scale):
    """Return the attention of one head with its bounds."""
    q, k, v, grad = (torch.from_numpy(x[0].astype(np.float64)) for x in (q, k, v, grad))
    scores = (scale * q @ k.mT).masked_fill(~seen, -torch.inf)
    share = (scores - scores.amax(-1, keepdim=True)).exp()
    count = seen.sum(-1).max()
    p = share / share.sum(-1, keepdim=True)
    # Roundings of a score, of its exponential and of the total, relative to a weight.
    off = 2 * 2.0**-24 * (scale * (q.shape[1] + 4) * (q.abs() @ k.abs().mT).amax(1) + 16 + count)
    off = off.unsqueeze(1)
    out = p @ v
    e_out = (U + off) * (p @ v.abs()) + TINY * (seen.double() @ v.abs())
    e_out = e_out + U * out.abs() + TINY
    d_p = grad @ v.mT
    inner = (grad * out).sum(-1, keepdim=True)
    e_inner = (grad.abs() * e_out).sum(-1, keepdim=True)
    sizes = grad.abs() @ v.abs().mT + (grad * out).abs().sum(-1, keepdim=True)
    d_s = p * (d_p - inner)
    e_s = p * (e_inner + 2.0**-24 * (v.shape[1] + 4) * sizes) + (U + off) * d_s.abs() + TINY * seen
    d_q, d_k, d_v = scale * d_s @ k, scale * d_s.mT @ q, p.mT @ grad
    e_q, e_k = scale * e_s @ k.abs(), scale * e_s.mT @ q.abs()
    e_v = ((U + off) * p + 2.0**-15 * TINY * seen).mT @ grad.abs()
    # Float32 sums of gradients; their terms are at most the errors divided by U.
    few = 2.0**-24 * (count + len(q)) / U
    found = [(out, e_out)]
    for exact, error in ((d_q, e_q), (d_k, e_k), (d_v, e_v)):
        found.append((exact, (1 + few) * error + U * exact.abs() + TINY))
    return Bounds(*found)


def assert_within_bounds(q, k, v, grad, mask, scale, generation):
    bounds = defined(q, k, v, grad, mask.to_dense(), scale)
    pattern, tables = blocks_of(mask, 1), tables_of(mask)
    out, logs = run(attention, generation, q, k, v, None, tables, pattern, scale)
    zeros, rest = np.zeros_like(logs), (None, tables, pattern, scale)
    grads = run(attention_backward, generation, grad, zeros, q, k, v, out, logs, *rest)
    for got, (exact, error) in zip((out, *grads), bounds, strict=True):
        assert got.dtype == np.float16
        wide = torch.from_numpy(got[0].astype(np.float64))
        # One percent for products of errors.
        assert ((wide - exact).abs() <= 1.01 * error).all()


def halves(n, d, *sizes):
    """Queries, keys, values and gradients of one head, of given sizes."""
    return [
        (size * values(1, n, d, seed=i)).astype(np.float16) for i, size in enumerate(sizes, start=1)
    ]


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("n", [127, 128, 129])
def test_float16_around_tiles(n, generation):
    assert_within_bounds(*halves(n, 16, 1, 1, 1, 1), causal_mask(n), 0.25, generation)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(
    "sizes",
    [
        (400, 400, 1, 1),  # products of queries and keys beyond 65504
        (1, 1, 2.0**-18, 1),  # subnormal values
        (1, 1, 1, 2.0**-18),  # subnormal gradients
        (1, 1, 8000, 1e-3),  # values near the largest
    ],
)
def test_the_range_of_float16(sizes, generation):
    operands = halves(200, 8, *sizes)
    scale = 1e-5 if sizes[0] == 400 else 0.3
    if sizes[0] == 400:
        assert np.abs(operands[0][0].astype("f8") @ operands[1][0].astype("f8").T).max() > 3 * 65504
    assert_within_bounds(*operands, causal_mask(200), scale, generation)


def test_weights_of_many_keys_have_eleven_bits():
    """Weights are subnormal where many keys share them; gradients by values are sums of them."""
    n = 111_476  # 2^24 / 150.5: a float16 of its weight would be off by 7 U
    here = 300  # of them: the others are in the sums of the forward run alone
    mask = AttentionMask.from_blocks(np.ones((1, 1, 1, 3), bool), (2, here), (2, 128))
    q, grad = np.zeros((1, 2, 2), np.float16), np.full((1, 2, 2), 1000, np.float16)
    k = v = np.zeros((1, here, 2), np.float16)
    column = np.full((1, 2, 1), np.log(n), np.float32)
    rest = None, tables_of(mask), blocks_of(mask, 1), 1.0
    zeros = np.zeros_like(column)
    found = run(attention_backward, "gen3", grad, zeros, q, k, v, 0 * q, column, *rest)[2]
    assert np.abs(found.astype(np.float64) * n / 2000 - 1).max() <= 2.5 * U


@pytest.mark.parametrize("where", ["simulator", "pytorch"])
def test_gradients_beyond_float16_are_infinite(where):
    """The first of 40 keys gets the gradients of all queries: more than 65504 of 24,000 each."""
    q = torch.zeros(40, 8, dtype=torch.float16)
    v = torch.zeros(40, 8, dtype=torch.float16).requires_grad_()
    with backend(where):
        out = block_sparse_attention(q, q, v, causal_mask(40, 16))
        found = torch.autograd.grad(out, v, torch.full_like(out, 24_000))[0]
    want = 24_000 * (1 / torch.arange(1.0, 41.0, dtype=torch.float64)).flip(0).cumsum(0).flip(0)
    beyond = want > 66_000
    assert not out.any()
    assert 0 < beyond.sum() < 40
    assert not ((want > 65_000) & ~beyond).any()
    assert (found[beyond] == torch.inf).all()
    assert float((found.mT - want)[:, ~beyond].abs().max()) <= 65504 * 4 * U


@pytest.mark.parametrize("where", ["simulator", "pytorch"])
def test_scores_beyond_float16_are_those_of_float32(where):
    q, k, v = (torch.from_numpy(x) for x in halves(40, 8, 400, 400, 1))
    mask = causal_mask(40, 16)
    with backend(where):
        out = block_sparse_attention(q, k, v, mask, 1e-5)
    want = dense_attention(*(x[None].double() for x in (q, k, v)), mask.to_dense(), 1e-5)[0]
    assert out.dtype is torch.float16
    assert float((out - want).abs().max()) <= 4 * U * float(v.abs().max())


@pytest.mark.parametrize(
    "mask",
    [
        local_window_mask(300, 1, causal=True),
        local_window_mask(260, 0),
        ragged(2, 90, 101, (32, 48), causal=True),
        ragged(2, 300, 700, (256, 192)),
        AttentionMask.from_dense(torch.zeros(60, 70, dtype=torch.bool), 32),
        AttentionMask.from_dense(
            torch.rand(1, 2, 70, 65, generator=torch.manual_seed(1)) < 0.02, 32
        ),
        AttentionMask.from_dense(torch.eye(20, dtype=torch.bool), (8, 1)),
    ],
    ids=["window", "diagonal", "small blocks", "large blocks", "empty", "elements", "columns"],
)
def test_masks(mask):
    check(mask, 2, 2, 8, 4, 0.4, "gen3")


@pytest.mark.parametrize(("d", "dv"), [(2, 2), (128, 128), (130, 260)])
def test_widths(d, dv):
    check(ragged(1, 150, 200, (128, 128)), 1, 1, d, dv, d**-0.5, "gen3")


@pytest.mark.parametrize("scale", [-0.7, 0.0, 2.0])
def test_scales(scale):
    check(causal_mask(70, 64), 2, 1, 8, 8, scale, "gen2")


@pytest.mark.parametrize("generation", GENERATIONS)
def test_bias(generation):
    mask = AttentionMask.from_dense(
        torch.rand(1, 2, 96, 64, generator=torch.manual_seed(2)) < 0.05, 32
    )
    got = check(mask, 2, 1, 8, 4, 0.4, generation, bias=True)
    # The sum of a row of gradients by scores is 0: all scores of a query may grow together.
    pattern = blocks_of(mask, 2)
    for h in range(2):
        base = pattern.own[h] * 3
        for i in range(3):
            first, last = pattern.starts[base + i], pattern.starts[base + i + 1]
            shift = pattern.places[h] - pattern.starts[base]
            rows = got[3][first + shift : last + shift].sum((0, 2))
            assert np.abs(rows).max(initial=0) < 1e-5


def test_more_keys_than_a_panel_holds(monkeypatch):
    monkeypatch.setattr(panel_module, "PANEL_BYTES", 5000)
    assert panel_module.pieces_per_panel(8, 8, 4) == 4
    check(ragged(2, 100, 900, (64, 64)), 2, 1, 8, 8, 0.3, "gen3")


def test_keys_that_do_not_stay_in_sbuf(monkeypatch):
    from trnsparse._kernels import attention as module

    monkeypatch.setattr(module, "RESIDENT", 0)
    check(ragged(2, 200, 700, (128, 128)), 2, 1, 8, 8, 0.3, "gen3")


def test_a_nan_reaches_its_query_only():
    mask = local_window_mask(256, 1)
    q, k, v = (values(1, 256, 8, seed=i) for i in range(3))
    q[0, 5, 2] = np.nan
    for generation in GENERATIONS:
        out, _ = run(attention, generation, q, k, v, None, None, blocks_of(mask, 1), 0.3)
        assert np.flatnonzero(np.isnan(out).any((0, 2))).tolist() == [5]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_work_grows_with_blocks_and_not_with_the_whole(generation):
    def cost(n):
        mask = local_window_mask(n * 128, 1)
        x, column = np.zeros((1, n * 128, 64), np.float32), np.zeros((1, n * 128, 1), np.float32)
        pattern = blocks_of(mask, 1)
        forward = Count(attention, generation, x, x, x, None, None, pattern, 0.1)
        backward = Count(
            attention_backward, generation, x, column, x, x, x, x, column, None, None, pattern, 0.1
        )
        return [
            (c.instructions["nc_matmul"], c.hbm_bytes, c.instructions.total())
            for c in (forward, backward)
        ]

    for small, middle, large in zip(cost(3), cost(5), cost(9), strict=True):
        # Each further row of blocks costs the same: linear in stored blocks, 3 n - 2 of n^2.
        for a, b, c in zip(small, middle, large, strict=True):
            assert (c - b) == 2 * (b - a)


@pytest.mark.slow
@pytest.mark.parametrize(("tokens", "width"), [(8192, 128), (2048, 512), (16384, 64)])
def test_large_problems_fit_the_smallest_core(tokens, width):
    mask = local_window_mask(tokens, 1, causal=True)
    x, column = (np.zeros((1, tokens, d), np.float32) for d in (width, 1))
    rest = None, tables_of(mask), blocks_of(mask, 1), 0.1
    for kernel, operands in (
        (attention, (x, x, x)),
        (attention_backward, (x, column, x, x, x, x, column)),
    ):
        simulation = nkisim.simulate(kernel, strictness="strict", target="gen2", values=False)
        simulation(*operands, *rest)
        assert not simulation.report.findings, simulation.report.findings


def test_a_row_is_not_padded_to_the_longest():
    chosen = np.eye(8, dtype=bool)
    chosen[0] = True
    x = np.zeros((1, 1024, 64), np.float32)
    found = {}
    for name, pattern in (("diagonal", np.eye(8, dtype=bool)), ("one full row", chosen)):
        mask = AttentionMask.from_blocks(pattern, (1024, 1024))
        count = Count(attention, "gen3", x, x, x, None, None, blocks_of(mask, 1), 0.1)
        found[name] = count.instructions["nc_transpose"]
    # Queries and keys are turned once each, then the weights of every block.
    assert found == {"diagonal": 16 + 8, "one full row": 16 + 15}


@examples(15)
@given(
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from([0.0, 0.1, 0.7]),
    st.integers(0, 2**16),
)
def test_any_pattern(queries, keys, rows, columns, share, seed):
    draw = torch.manual_seed(seed)
    seen = torch.rand(1, 2, queries, keys, generator=draw) < share
    mask = AttentionMask.from_dense(seen, (rows, columns))
    q = torch.randn(1, 2, queries, 3, generator=draw).requires_grad_()
    k, v = (torch.randn(1, 1, keys, 3, generator=draw).requires_grad_() for _ in range(2))
    with requiring("trnsparse"), backend("simulator"):
        out = block_sparse_attention(q, k, v, mask)
        got = torch.autograd.grad(out.square().sum(), (q, k, v))
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    want = dense_attention(*wide, seen, 3**-0.5)
    exact = torch.autograd.grad(want.square().sum(), wide)
    for x, y in zip((out, *got), (want, *exact), strict=True):
        assert float((x - y).detach().abs().max()) < 1e-5 * max(1.0, float(y.detach().abs().max()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["ragged", "causal", "per head", "diagonal"])
def test_one_launch_each_way(name, dtype):
    mask = {
        "ragged": ragged(1, 40, 50, (16, 16)),
        "causal": causal_mask(50, 16),
        "per head": ragged(4, 50, 50, (16, 16)),
        "diagonal": local_window_mask(50, 0, 16),
    }[name]
    queries, keys = mask.seq_lengths
    shapes = (2, 4, queries, 1), (2, 2, keys, 1), (2, 2, keys, 1), (queries, keys)
    drawn = [torch.from_numpy(values(*shape, seed=i)) for i, shape in enumerate(shapes, start=1)]
    q, k, v, bias = (x.to(dtype).requires_grad_() for x in drawn)
    with backend("simulator"):
        before = counts()
        out = block_sparse_attention(q, k, v, mask, -0.8, bias)
        got = torch.autograd.grad(out.square().sum(), (q, k, v, bias))
        assert dict((counts() - before).launches) == {"attention": 1, "attention_backward": 1}
    wide = [x.detach().double().requires_grad_() for x in (q, k, v, bias)]
    want = dense_attention(*wide[:3], mask.to_dense(), -0.8, wide[3])
    exact = torch.autograd.grad(want.square().sum(), wide)
    for x, y in zip((out, *got), (want, *exact), strict=True):
        assert x.dtype is dtype
        # As in check, with scores of up to 10, for a product of two results.
        bound = 2 * 8 * (4 + 10) * unit_roundoff(dtype)
        assert float((x - y).detach().abs().max()) < bound * max(1.0, float(y.detach().abs().max()))
