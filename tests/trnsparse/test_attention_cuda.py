"""Attention on a CUDA device: FlexAttention where it suits, gathered blocks elsewhere."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask

from oracles.attention import dense_attention
from trnsci.core.testing import unit_roundoff
from trnsparse._attention.cuda import suits_flex
from trnsparse.attention import block_sparse_attention
from trnsparse.masks import AttentionMask, causal_mask, local_window_mask

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

pytestmark = [
    pytest.mark.cuda,
    # What the compiler says of itself.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(autouse=True)
def fresh_compiler():
    """Compile anew: torch gives up on a function that was compiled eight times."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def check(mask, q, k, v, bias=None):
    leaves = [x.cuda().requires_grad_() for x in (q, k, v)]
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    if bias is not None:
        leaves.append(bias.cuda().requires_grad_())
        wide.append(bias.double().requires_grad_())
    out = block_sparse_attention(*leaves[:3], mask, 0.2, *leaves[3:])
    assert out.is_cuda
    seen = AttentionMask.of(mask).to_dense()
    want = dense_attention(*wide[:3], seen, 0.2, *wide[3:])
    weight = torch.randn(want.shape, generator=torch.manual_seed(9), dtype=torch.float64)
    grads = torch.autograd.grad((out * weight.to(out)).sum(), leaves)
    exact = torch.autograd.grad((want * weight).sum(), wide)
    bound = 64 * unit_roundoff(q.dtype)
    for got, truth in zip((out, *grads), (want, *exact), strict=True):
        error = float((got.detach().cpu() - truth.detach()).abs().max())
        assert error <= bound * max(1.0, float(truth.detach().abs().max()))


def operands(n, dtype=torch.float32, d=32, groups=2):
    draw = torch.manual_seed(n)
    q = torch.randn(1, 4, n, d, generator=draw).to(dtype)
    k, v = (torch.randn(1, groups, n, d, generator=draw).to(dtype) for _ in range(2))
    return q, k, v


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "mask", [causal_mask(512), local_window_mask(512, 1)], ids=["causal", "window"]
)
def test_flex_attention_computes(mask, dtype):
    q, k, v = operands(512, dtype)
    assert suits_flex(q.cuda(), k.cuda(), v.cuda(), None, mask.block_size)
    check(mask, q, k, v)


def test_a_block_mask_of_torch_is_used_as_it_is():
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 384, 384, device="cuda")
    assert AttentionMask.of(mask).to_block_mask("cuda") is mask
    check(mask, *operands(384))


def test_a_function_that_reads_a_tensor_of_the_device():
    document = (torch.arange(384) // 100).cuda()

    def same(b, h, i, j):
        return document[i] == document[j]

    mask = create_block_mask(same, None, None, 384, 384, device="cuda")
    check(mask, *operands(384))


def test_a_bias():
    bias = torch.randn(4, 256, 256, generator=torch.manual_seed(1))
    check(causal_mask(256), *operands(256), bias)


@pytest.mark.parametrize("case", ["small blocks", "float64", "narrow"])
def test_gathered_blocks_elsewhere(case):
    dtype = torch.float64 if case == "float64" else torch.float32
    mask = causal_mask(100, 16) if case == "small blocks" else causal_mask(100)
    q, k, v = operands(100, dtype, 8 if case == "narrow" else 32)
    assert not suits_flex(q.cuda(), k.cuda(), v.cuda(), None, mask.block_size)
    check(mask, q, k, v)
