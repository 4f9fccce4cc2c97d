"""Contractions and decompositions on a CUDA device are those of the CPU, and stay on the device."""

import pytest
import torch

import trntensor
from trnsci.core.testing import random_tensor

from .cases import COMMON, TRICKY, operands

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

pytestmark = pytest.mark.cuda


@pytest.mark.parametrize("subscripts", TRICKY + COMMON)
def test_contractions(subscripts):
    tensors = operands(subscripts)
    got = trntensor.einsum(subscripts, *(x.cuda() for x in tensors))
    assert got.device.type == "cuda"
    assert torch.allclose(got.cpu(), trntensor.einsum(subscripts, *tensors), rtol=1e-12, atol=1e-12)


def test_slices_shards_and_precisions():
    a, b = random_tensor(40, 50).cuda(), random_tensor(50, 60).cuda()
    want = (a.double() @ b.double()).float()
    limited = trntensor.einsum("ij,jk->ik", a, b, memory_limit=2 * want.numel() * 4 + 100)
    assert torch.allclose(limited, want, atol=1e-4)
    shards = trntensor.parallel.scatter(a, 0, 3)
    together = trntensor.parallel.gather(trntensor.einsum("ij,jk->ik", shards, b))
    assert torch.allclose(together, want, atol=1e-4)
    assert torch.equal(trntensor.einsum("ij,jk->ik", a, b, precision="kahan"), want)


def test_decompositions():
    factors = [random_tensor(n, 2, dtype=torch.float64, seed=n).cuda() for n in (8, 7, 6)]
    x = trntensor.cp_reconstruct(factors, torch.ones(2, dtype=torch.float64, device="cuda"))
    for model in (
        trntensor.cp_reconstruct(*trntensor.cp_decompose(x, 2, max_iter=300)),
        trntensor.tucker_reconstruct(*trntensor.tucker_decompose(x, (2, 2, 2))),
        trntensor.tt_reconstruct(trntensor.tt_decompose(x, 2)),
    ):
        assert model.device.type == "cuda"
        assert float((model - x).norm() / x.norm()) <= 1e-5


def test_chemistry():
    b = 0.3 * random_tensor(3, 5, 7, dtype=torch.float64)
    energies = -2 - torch.rand(3).double(), 1 + torch.rand(5).double()
    got = trntensor.mp2_energy(b.cuda(), *(e.cuda() for e in energies))
    assert torch.allclose(got.cpu(), trntensor.mp2_energy(b, *energies), rtol=1e-12)
