"""Batches for which no CUDA kernel can be compiled, shown without a device."""

import pytest
import torch

from trnsci.core.cuda import CudaKernel
from trnsolver._cuda import batched
from trnsolver._cuda.small_eigh import MOST_ROWS


@pytest.mark.parametrize(
    "call",
    [batched.batched_qr, batched.batched_eigh, batched.batched_svd],
    ids=lambda f: f.__name__,
)
def test_torch_computes_where_there_is_no_kernel(call, monkeypatch):
    asked = []
    monkeypatch.setattr(batched, "suits", lambda a: True)
    monkeypatch.setattr(batched, "fits", lambda a, shared_bytes: True)
    monkeypatch.setattr(CudaKernel, "launch", lambda self, *given: asked.append(given))
    assert call(torch.eye(3).expand(4, 3, 3)) is None
    assert len(asked) == 1


@pytest.mark.parametrize("matrices", [4, 256, 257])
def test_small_eigenproblems_have_whole_warps_and_a_thread_for_every_two_pairs(matrices):
    for n in range(1, MOST_ROWS + 1):
        pairs = (n + 1) // 2
        threads = batched.small_eigh_threads(n, matrices)
        assert threads % 32 == 0
        assert max(n, pairs * (pairs + 1) // 2) <= threads <= 1024
