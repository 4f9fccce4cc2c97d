"""What is said where a CUDA kernel cannot be had, shown without a device."""

from contextlib import nullcontext

import pytest
import torch

from trnsolver import _batched_jacobi, _batched_qr, _cuda_launch

KERNELS = {
    "householder_qr": _batched_qr.KERNEL,
    "jacobi_eigh": _batched_jacobi.EIGH_KERNEL,
    "jacobi_svd": _batched_jacobi.SVD_KERNEL,
}


@pytest.fixture
def failing(monkeypatch):
    def compile_kernel(source, name):
        raise RuntimeError("nvrtc: error: no such architecture\nand more")

    monkeypatch.setattr(torch.cuda, "_compile_kernel", compile_kernel, raising=False)
    monkeypatch.setattr(torch.cuda, "device", lambda number: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_device", lambda: -1)  # that of tensors on a CPU
    for kernel in KERNELS.values():
        kernel.handle.cache_clear()
    yield
    for kernel in KERNELS.values():
        kernel.handle.cache_clear()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_that_does_not_compile_is_said_once(failing, name, dtype):
    a = torch.eye(3, dtype=dtype)
    words = f"trnsolver: the CUDA kernel {name} for {dtype} cannot be compiled .*no such arch"
    with pytest.warns(RuntimeWarning, match=words), pytest.raises(_cuda_launch.NoKernelError):
        _cuda_launch.launch(KERNELS[name], a, [a], 1, 64)
    with pytest.raises(_cuda_launch.NoKernelError):  # a second warning would be an error here
        _cuda_launch.launch(KERNELS[name], a, [a], 1, 64)


@pytest.mark.parametrize(
    "call", [_batched_qr.batched_qr, _batched_jacobi.batched_eigh, _batched_jacobi.batched_svd]
)
def test_torch_is_asked_instead(failing, call, monkeypatch):
    for module in (_batched_qr, _batched_jacobi):
        monkeypatch.setattr(module, "suits", lambda a: True)
        monkeypatch.setattr(module, "fits", lambda a, shared_bytes: True)
    with pytest.warns(RuntimeWarning, match="cannot be compiled") as said:
        assert call(torch.eye(3).expand(4, 3, 3)) is None
    assert [one.filename for one in said] == [__file__]
