"""Block-sparse attention on torch, forward and backward, against all scores in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from each_case import each_case
from oracles.attention import dense_attention
from trnsci.core import explain
from trnsci.core.counters import counts
from trnsci.core.errors import DTypeError, ShapeError
from trnsci.core.testing import unit_roundoff
from trnsparse import BSRMatrix, backend, block_sparse_attention_tiled
from trnsparse.attention import block_sparse_attention
from trnsparse.masks import AttentionMask, causal_mask, local_window_mask

MASKS = {
    "full": lambda n: AttentionMask.from_dense(torch.ones(n, n, dtype=torch.bool), 16),
    "causal": lambda n: causal_mask(n, 16),
    "local": lambda n: local_window_mask(n, 1, 16),
    "local causal": lambda n: local_window_mask(n, 1, 16, causal=True),
    "diagonal": lambda n: local_window_mask(n, 0, 16),
    "ragged": lambda n: AttentionMask.from_blocks(blocks(1, 1, n), (n, n), 16),
    "per head": lambda n: AttentionMask.from_blocks(blocks(1, 4, n), (n, n), 16),
    "per batch": lambda n: AttentionMask.from_blocks(blocks(2, 1, n), (n, n), 16, causal=True),
    "elements": lambda n: AttentionMask.from_dense(blocks(2, 4, n, 1, 0.03), 16),
    "empty": lambda n: AttentionMask.from_dense(torch.zeros(n, n, dtype=torch.bool), 16),
}


def blocks(batch, heads, n, size=16, share=0.3):
    rows = -(-n // size)
    chosen = torch.rand(batch, heads, rows, rows, generator=torch.manual_seed(5)) < share
    chosen[..., 1, :] = False  # a row that sees nothing
    chosen[..., -1, :] = True
    return chosen


def problem(n, dtype, groups=2, d=8, dv=8):
    draw = torch.manual_seed(n)
    q = torch.randn(2, 4, n, d, generator=draw).to(dtype)
    k = torch.randn(2, groups, n, d, generator=draw).to(dtype)
    v = torch.randn(2, groups, n, dv, generator=draw).to(dtype)
    return q, k, v


def check(q, k, v, mask, scale, bias=None):
    """Hold attention and its gradients against those of all scores in float64."""
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    if bias is not None:
        leaves.append(bias.clone().requires_grad_())
        wide.append(bias.double().requires_grad_())
    out = block_sparse_attention(*leaves[:3], mask, scale, *leaves[3:])
    seen = mask.to_dense()
    want = dense_attention(*wide[:3], seen, scale, *wide[3:])
    weight = torch.randn(want.shape, generator=torch.manual_seed(1), dtype=torch.float64)
    got_grads = torch.autograd.grad((out * weight.to(out.dtype)).sum(), leaves)
    want_grads = torch.autograd.grad((want * weight).sum(), wide)
    assert out.dtype is q.dtype
    # A score of size s is off by a few roundings of s, and so is, relatively, its weight; results
    # are sums of weights times operands, or of products of two weights with them.
    heads = q.shape[1] // k.shape[1]
    scores = scale * wide[0] @ wide[1].repeat_interleave(heads, 1).mT
    bound = 4 * (4 + float(scores.detach().abs().max())) * unit_roundoff(q.dtype)
    for got, exact in zip((out, *got_grads), (want, *want_grads), strict=True):
        error, size = float((got - exact).detach().abs().max()), float(exact.detach().abs().max())
        assert error <= bound * max(1.0, size)
    hidden = ~seen.any(-1).broadcast_to(out.shape[:-1])
    assert not out[hidden].any()


@each_case("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@each_case("name", MASKS)
def test_every_mask(name, dtype):
    check(*problem(50, dtype), MASKS[name](50), 0.4)


@each_case("n", [15, 16, 17, 64])
@each_case("name", ["causal", "local", "elements"])
def test_lengths_around_blocks(n, name):
    check(*problem(n, torch.float32), MASKS[name](n), 0.4)


@each_case("name", ["causal", "ragged", "per head", "elements"])
@each_case("shape", [(2, 4, 50, 50), (4, 1, 50), (1, 50), (2, 1, 50, 50)], ids=str)
def test_bias(name, shape):
    bias = torch.randn(*shape, generator=torch.manual_seed(3))
    check(*problem(50, torch.float32), MASKS[name](50), 0.4, bias)


@pytest.mark.parametrize("scale", [2.5, -0.7, 0.0])
def test_scale(scale):
    check(*problem(40, torch.float32), MASKS["causal"](40), scale)


@each_case(("d", "dv"), [(8, 3), (3, 8), (1, 1)])
@each_case("groups", [1, 4])
def test_widths_and_groups(d, dv, groups):
    check(*problem(40, torch.float64, groups, d, dv), MASKS["local causal"](40), 0.3)


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 12),
    st.integers(1, 12),
    st.sampled_from([0.0, 0.05, 0.6]),
    st.integers(0, 2**16),
)
def test_any_pattern(queries, keys, rows, columns, share, seed):
    draw = torch.manual_seed(seed)
    seen = torch.rand(1, 2, queries, keys, generator=draw) < share
    q = torch.randn(1, 2, queries, 4, generator=draw, dtype=torch.float64)
    k, v = torch.randn(2, 1, 2, keys, 4, generator=draw, dtype=torch.float64)
    check(q, k, v, AttentionMask.from_dense(seen, (rows, columns)), 0.5)


@pytest.mark.slow
def test_flex_attention_and_its_block_mask():
    q, k, v = (torch.randn(1, 2, 256, 16, generator=torch.manual_seed(i)) for i in range(3))

    def window(b, h, i, j):
        return (i >= j) & (i - j < 70 + 10 * h)

    mask = create_block_mask(window, None, 2, 256, 256, device="cpu")
    with pytest.warns(UserWarning, match="flex_attention called without torch.compile"):
        want = flex_attention(q, k, v, block_mask=mask)
    got = block_sparse_attention(q, k, v, mask)
    assert float((got - want).abs().max()) < 64 * unit_roundoff(torch.float32)


def test_a_block_mask_that_changes_in_place_is_another_mask():
    theirs = create_block_mask(lambda b, h, i, j: i >= j, None, None, 256, 256, device="cpu")
    q, k, v = (torch.randn(1, 1, 256, 16, generator=torch.manual_seed(i)) for i in range(3))
    assert block_sparse_attention(q, k, v, theirs).abs().amin() > 0
    theirs.kv_num_blocks.zero_()
    seen = AttentionMask.of(theirs).to_dense()
    assert not seen[:128].any()
    assert not block_sparse_attention(q, k, v, theirs)[:, :, :128].any()


def test_a_scale_that_is_a_tensor_is_read_each_time():
    q, k, v = problem(40, torch.float64)
    mask, scale = MASKS["causal"](40), torch.tensor(0.5)
    for _ in range(2):
        want = block_sparse_attention(q, k, v, mask, float(scale))
        assert torch.equal(block_sparse_attention(q, k, v, mask, scale), want)
        scale.mul_(2)


def test_one_head():
    q, k, v = (x[0, 0] for x in problem(40, torch.float64, 4))
    mask = MASKS["ragged"](40)
    got = block_sparse_attention(q, k, v, mask)
    want = dense_attention(*(x[None, None] for x in (q, k, v)), mask.to_dense(), 8**-0.5)
    assert got.shape == (40, 8)
    assert torch.allclose(got, want[0, 0], rtol=1e-13, atol=1e-13)
    assert torch.equal(got, block_sparse_attention_tiled(q, k, v, mask))


@pytest.mark.parametrize("where", ["pytorch", "simulator"])
def test_the_pattern_of_a_matrix_in_blocks_and_a_tail(where):
    """The last 44 of 300 queries are no whole block, and have their attention all the same."""
    pattern = torch.zeros(300, 300)
    pattern[:128, :128] = pattern[256:, 128:] = 1.0
    matrix = BSRMatrix.from_dense(pattern, 128)
    q, k, v = (torch.randn(300, 8, generator=torch.manual_seed(i)) for i in range(3))
    with backend(where):
        got = block_sparse_attention(q, k, v, matrix, scale=0.9)
    four = [x[None, None].double() for x in (q, k, v)]
    want = dense_attention(*four, pattern.bool(), 0.9)[0, 0]
    assert float((got - want).abs().max()) < 1e-5
    assert not got[128:256].any()
    assert got[256:].abs().amin() > 0


def test_explain_tells_the_path_without_running():
    q, k, v = problem(40, torch.float32)
    with backend("simulator"):
        before = counts()
        told = str(explain(block_sparse_attention, q, k, v, MASKS["causal"](40)))
        assert not (counts() - before).launches
    assert "trnsparse.attention" in told
    assert "simulator" in told


def test_gradients_of_gradients():
    mask = AttentionMask.from_dense(blocks(1, 1, 6, 1, 0.4), 2)
    tensors = [
        torch.randn(
            1, 1, 6, 2, dtype=torch.float64, generator=torch.manual_seed(i)
        ).requires_grad_()
        for i in range(3)
    ]
    attention = lambda *x: block_sparse_attention(*x, mask)  # noqa: E731
    assert torch.autograd.gradcheck(attention, tensors)
    assert torch.autograd.gradgradcheck(attention, tensors, fast_mode=True)


def test_a_nan_reaches_its_query_only():
    q, k, v = problem(50, torch.float32)
    q[0, 0, 20, 3] = torch.nan
    out = block_sparse_attention(q, k, v, MASKS["local"](50))
    bad = out.isnan().any(-1)
    assert bad[0, 0, 20]
    assert bad.sum() == 1


def test_no_queries_and_no_heads():
    mask = AttentionMask.from_dense(torch.ones(0, 5, dtype=torch.bool), 4)
    out = block_sparse_attention(
        torch.ones(2, 0, 3), torch.ones(2, 5, 3), torch.ones(2, 5, 4), mask
    )
    assert out.shape == (2, 0, 4)


def test_wrong_operands_are_refused():
    q, k, v = problem(50, torch.float32)
    mask = MASKS["causal"](50)
    with pytest.raises(ShapeError, match="mask must have"):
        block_sparse_attention(q, k, v, MASKS["causal"](40))
    with pytest.raises(ShapeError, match="must divide"):
        block_sparse_attention(
            q, k[:, :1].expand(-1, 3, -1, -1), v[:, :1].expand(-1, 3, -1, -1), mask
        )
    with pytest.raises(ShapeError, match="bias must broadcast"):
        block_sparse_attention(q, k, v, mask, bias=torch.zeros(3, 50, 50))
    with pytest.raises(DTypeError, match="one dtype"):
        block_sparse_attention(q, k.double(), v, mask)
    with pytest.raises(DTypeError, match="floating"):
        block_sparse_attention(q.int(), k.int(), v.int(), mask)
    with pytest.raises(ShapeError, match="Q must be"):
        block_sparse_attention_tiled(q, k, v, mask)


def test_no_batch_at_all():
    q = torch.zeros(0, 2, 20, 4, requires_grad=True)
    out = block_sparse_attention(q, q, q, causal_mask(20, 8))
    assert out.shape == q.shape
    assert torch.autograd.grad(out.sum(), q)[0].shape == q.shape


def test_gradients_where_nothing_is_seen_are_zero():
    nothing = AttentionMask.from_blocks(torch.zeros(3, 3, dtype=torch.bool), (20, 20), 8)
    leaves = [torch.ones(20, 4, requires_grad=True) for _ in range(3)]
    bias = torch.ones(20, 20, requires_grad=True)
    out = block_sparse_attention(*leaves, nothing, None, bias)
    assert not out.any()
    for grad in torch.autograd.grad(out.sum(), [*leaves, bias]):
        assert not grad.any()


def test_a_mask_that_is_made_inside_of_a_transform():
    q = torch.randn(6, 3, generator=torch.manual_seed(0), dtype=torch.float64)

    def total(x):
        return block_sparse_attention(x, x, x, causal_mask(6, 4)).square().sum()

    leaf = q.clone().requires_grad_()
    want = torch.autograd.grad(total(leaf), leaf)[0]
    torch.testing.assert_close(torch.func.grad(total)(q), want)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(total))(q[None])[0], want)
