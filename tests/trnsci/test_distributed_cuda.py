"""Distributed functions on NCCL with one rank: the numbers, gradients and bits of gloo on a CPU."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist

if __name__ != "__main__" and not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

pytestmark = pytest.mark.cuda


def _results(device):
    """Return results and gradients of a call of each library on a mesh of one rank."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    import trnblas.distributed
    import trnfft.distributed
    import trnrand.distributed
    import trnsolver.distributed
    import trntensor.distributed

    torch.set_default_dtype(torch.float64)
    generator = torch.Generator().manual_seed(5)
    mesh = init_device_mesh(device, (1,))

    def split(*shape):
        values = torch.randn(*shape, generator=generator).to(device)
        return distribute_tensor(values, mesh, [Shard(0)]).requires_grad_()

    A, B, box = split(12, 9), split(9, 7), split(6, 5, 4)
    whole = torch.randn(12, 12, generator=generator)
    spd = distribute_tensor((whole @ whole.mT + 12 * torch.eye(12)).to(device), mesh, [Shard(0)])
    spd.requires_grad_()
    right = split(12, 2)
    calls = {
        "gemm": (lambda: trnblas.distributed.gemm(1.5, A, B), (A, B)),
        "syrk": (lambda: trnblas.distributed.syrk(1.5, A), (A,)),
        "rfftn": (lambda: trnfft.distributed.rfftn(box).abs(), (box,)),
        "solve_spd": (lambda: trnsolver.distributed.solve_spd(spd, right).x, (spd, right)),
        "cg": (lambda: trnsolver.distributed.cg(spd, right, tol=1e-12).x, (right,)),
        "einsum": (lambda: trntensor.distributed.einsum("ij,jk->ki", A, B), (A, B)),
    }
    found = {}
    for name, (call, operands) in calls.items():
        result = call()
        grads = torch.autograd.grad(result.full_tensor().square().sum(), operands)
        found[name] = [x.full_tensor().detach().cpu() for x in (result, *grads)]
    draw = trnrand.distributed.uniform(
        (50, 3),
        dtype=torch.float32,
        generator=trnrand.Generator(4, device=device),
        device_mesh=mesh,
        placements=[Shard(1)],
    )
    return found | {"uniform": [draw.full_tensor().cpu()]}


def _on(backend, folder):
    done = subprocess.run(
        [sys.executable, __file__, backend, str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return pickle.loads((folder / backend).read_bytes())


def test_nccl_gives_what_gloo_gives(tmp_path):
    ours, theirs = _on("nccl", tmp_path), _on("gloo", tmp_path)
    assert torch.equal(*ours.pop("uniform"), *theirs.pop("uniform"))
    for name, tensors in ours.items():
        for x, y in zip(tensors, theirs[name], strict=True):
            # Sums of up to 120 products, of systems with a condition below 10.
            bound = 10 * 120 * 2**-53 * float(y.abs().max())
            assert float((x - y).abs().max()) <= bound, name


def _main(backend, folder):
    dist.init_process_group(backend, f"file://{folder}/store-{backend}", rank=0, world_size=1)
    found = _results("cuda" if backend == "nccl" else "cpu")
    with open(f"{folder}/{backend}", "wb") as file:
        pickle.dump(found, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    _main(*sys.argv[1:])
