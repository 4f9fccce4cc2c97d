"""Calls of FlexAttention that are checked once, on a CPU that is taken for the GPU."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask

from oracles.attention import dense_attention
from trnsci.core.errors import DTypeError, ShapeError
from trnsparse import _attention_cuda, attention
from trnsparse.attention import block_sparse_attention
from trnsparse.masks import AttentionMask, causal_mask, local_window_mask


@pytest.fixture
def calls(monkeypatch):
    """Take the CPU for the GPU, and remember what FlexAttention is given instead of computing."""
    found = []

    def compiled(kind, scale, grouped):
        def run(q, k, v, block_mask, score_mod):
            found.append((kind, scale, grouped, block_mask, score_mod))
            return q.new_ones(*q.shape[:3], v.shape[3])

        return run

    monkeypatch.setattr(_attention_cuda, "_DEVICE", "cpu")
    monkeypatch.setattr(_attention_cuda, "_compiled", compiled)
    return found


def operands(*shape, dtype=torch.float32):
    draw = torch.manual_seed(len(shape))
    return [torch.randn(*shape, generator=draw).to(dtype) for _ in range(3)]


def unchecked(monkeypatch):
    def fail(*args):
        raise AssertionError("checked again")

    monkeypatch.setattr(attention, "_checked", fail)
    monkeypatch.setattr(attention, "_fitting", fail)


@pytest.mark.parametrize("shape", [(256, 32), (2, 256, 32), (3, 2, 256, 32)], ids=str)
def test_a_second_call_is_not_checked(calls, monkeypatch, shape):
    mask, (q, k, v) = causal_mask(256), operands(*shape)
    bias = torch.zeros(256, 256)
    first = [block_sparse_attention(q, k, v, mask, None, b) for b in (None, bias)]
    unchecked(monkeypatch)
    again = [block_sparse_attention(k, v, q, mask, None, b) for b in (None, bias)]
    assert [x.shape for x in first + again] == [q.shape] * 4
    assert all(block_mask is mask.to_block_mask() for *_, block_mask, _ in calls)
    assert [score_mod is None for *_, score_mod in calls] == [True, False, True, False]


def test_what_differs_is_checked(calls):
    mask, (q, k, v) = causal_mask(256), operands(2, 256, 32)
    block_sparse_attention(q, k, v, mask)
    with pytest.raises(ShapeError, match="mask must have"):
        block_sparse_attention(*operands(2, 128, 32), mask)
    with pytest.raises(DTypeError, match="one dtype"):
        block_sparse_attention(q, k.double(), v, mask)
    with pytest.raises(DTypeError, match=r"torch\.Tensor"):
        block_sparse_attention([1.0], k, v, mask)
    with pytest.raises(ShapeError, match="bias must broadcast"):
        block_sparse_attention(q, k, v, mask, None, torch.zeros(2, 2))
    assert len(calls) == 1


def test_kinds_that_are_compiled_apart(calls):
    """torch gives up on code that it has compiled eight times."""
    mask, (q, k, v) = causal_mask(256), operands(1, 4, 256, 32)
    block_sparse_attention(q, k, v, mask)
    block_sparse_attention(q[:, :2], k[:, :2], v[:, :2], mask)
    block_sparse_attention(q, k[:, :2], v[:, :2], mask)
    block_sparse_attention(q.half(), k.half(), v.half(), mask)
    block_sparse_attention(q, k, v, causal_mask(256, 256))
    assert len({kind for kind, *_ in calls}) == len(calls) == 5
    block_sparse_attention(q, k, v, local_window_mask(256, 1))
    block_sparse_attention(*operands(1, 4, 384, 32), causal_mask(384))
    assert len({kind for kind, *_ in calls}) == 5


def test_a_scale_that_is_a_tensor_is_read_each_time(calls):
    mask, (q, k, v) = causal_mask(256), operands(256, 32)
    scale = torch.tensor(0.5)
    block_sparse_attention(q, k, v, mask, scale)
    block_sparse_attention(q, k, v, mask, scale.mul_(2))
    assert [scale for _, scale, *_ in calls] == [0.5, 1.0]


def test_plans_do_not_grow_without_end(calls):
    mask, (q, k, v) = causal_mask(256), operands(256, 32)
    for number in range(150):
        block_sparse_attention(q, k, v, mask, float(number))
    assert len(mask.plans) <= 64


def test_a_transform_goes_the_way_that_it_sees(calls):
    mask, (q, k, v) = causal_mask(256), operands(2, 256, 32)
    block_sparse_attention(q[0], k[0], v[0], mask)
    torch.func.vmap(lambda x: block_sparse_attention(x, k[0], v[0], mask))(q)
    assert len(calls) == 1


@pytest.mark.slow
def test_flex_attention_computes_it(monkeypatch):
    monkeypatch.setattr(_attention_cuda, "_DEVICE", "cpu")
    monkeypatch.setattr(_attention_cuda, "_BACKEND", "eager")
    torch._dynamo.reset()
    draw = torch.manual_seed(0)
    q = torch.randn(1, 4, 200, 16, generator=draw)
    k, v = (torch.randn(1, 2, 200, 16, generator=draw) for _ in range(2))
    bias = torch.randn(4, 200, 200, generator=draw)
    mask = local_window_mask(200, 0, causal=True)
    wide = [x.double() for x in (q, k, v)]
    for _ in range(2):
        got = block_sparse_attention(q, k, v, mask, 0.3, bias)
        want = dense_attention(*wide, mask.to_dense(), 0.3, bias.double())
        assert len(mask.plans) == 1
        torch.testing.assert_close(got.double(), want, rtol=0, atol=1e-5)
    _attention_cuda._compiled.cache_clear()
    torch._dynamo.reset()


def test_a_block_mask_that_changes_is_another_mask(calls):
    theirs = create_block_mask(lambda b, h, i, j: i >= j, None, None, 256, 256, device="cpu")
    q, k, v = operands(1, 1, 256, 32)
    block_sparse_attention(q, k, v, theirs)
    block_sparse_attention(q, k, v, theirs)
    assert all(block_mask is theirs for *_, block_mask, _ in calls)
    before = theirs._trnsparse_mask[1]
    theirs.kv_num_blocks.zero_()
    block_sparse_attention(q, k, v, theirs)
    assert theirs._trnsparse_mask[1] is not before


def test_a_mask_that_was_used_is_copied_without_what_was_kept(calls):
    mask, (q, k, v) = causal_mask(256), operands(256, 32)
    block_sparse_attention(q, k, v, mask)
    for other in (pickle.loads(pickle.dumps(mask)), copy.deepcopy(mask), copy.copy(mask)):
        assert isinstance(other, AttentionMask)
        assert not other.plans
        assert torch.equal(other.to_dense(), mask.to_dense())
