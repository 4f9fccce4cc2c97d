"""Batches for which no CUDA kernel can be compiled, shown without a device."""

import pytest
import torch

from trnsci.core.backend.compiled import CudaKernel
from trnsolver._paths.cuda import batched
from trnsolver._paths.cuda.launch import is_large
from trnsolver._paths.cuda.small_eigh import MOST_ROWS


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
    assert call(torch.eye(3).expand(4, 3, 3), None) is None
    assert len(asked) == 1


@pytest.mark.parametrize("routine", ["eigh", "svd", "qr"])
def test_batches_that_cusolver_computes_at_once_are_left_to_torch(routine):
    assert is_large(routine, torch.empty(500, 100, 100))
    assert is_large(routine, torch.empty(4, 33, 33))
    assert is_large(routine, torch.empty(64, 32, 32)) == (routine == "qr")
    assert is_large(routine, torch.empty(2, 250, 32, 32)) == (routine == "qr")
    assert is_large(routine, torch.empty(2, 2, 8, 64))
    assert not is_large(routine, torch.empty(3, 100, 100))
    assert not is_large(routine, torch.empty(100, 100))
    assert not is_large(routine, torch.empty(0, 4, 4))


@pytest.mark.parametrize("matrices", [4, 256, 257])
def test_small_eigenproblems_have_whole_warps_and_a_thread_for_every_two_pairs(matrices):
    for n in range(1, MOST_ROWS + 1):
        pairs = (n + 1) // 2
        threads = batched.small_eigh_threads(n, matrices)
        assert threads % 32 == 0
        assert max(n, pairs * (pairs + 1) // 2) <= threads <= 1024
