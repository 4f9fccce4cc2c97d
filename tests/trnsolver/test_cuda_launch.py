"""What is said where a CUDA kernel cannot be had, shown without a device."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from trnsolver import _batched_jacobi, _batched_qr, _cuda_launch, _dispatch
from trnsolver._cuda_small_eigh import MOST_ROWS

KERNELS = {
    "householder_qr": _batched_qr.KERNEL,
    "factor_gram": _batched_qr.GRAM_KERNEL,
    "jacobi_eigh": _batched_jacobi.EIGH_KERNEL,
    "jacobi_svd": _batched_jacobi.SVD_KERNEL,
    "positive_qr": _batched_qr.POSITIVE_KERNEL,
    "small_eigh": _batched_jacobi.SMALL_EIGH_KERNEL,
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
    flags = SimpleNamespace(troubled=torch.zeros(1, dtype=torch.int32))
    monkeypatch.setattr(_batched_jacobi, "told", lambda: flags)  # memory is pinned for a device
    for module in (_batched_qr, _batched_jacobi):
        monkeypatch.setattr(module, "suits", lambda a: True)
        monkeypatch.setattr(module, "fits", lambda a, shared_bytes: True)
    with pytest.warns(RuntimeWarning, match="cannot be compiled") as said:
        assert call(torch.eye(3).expand(4, 3, 3)) is None
    assert [one.filename for one in said] == [__file__]


@pytest.mark.parametrize("matrices", [1, 256, 257])
def test_small_eigenproblems_have_whole_warps_and_a_thread_for_every_two_pairs(matrices):
    for n in range(1, MOST_ROWS + 1):
        pairs = (n + 1) // 2
        threads = _batched_jacobi.small_eigh_threads(n, matrices)
        assert threads % 32 == 0
        assert max(n, pairs * (pairs + 1) // 2) <= threads <= 1024


@pytest.mark.parametrize(
    ("shape", "order", "ours"),
    [
        ((64, 64), 64, True),
        ((65, 64), 64, False),
        ((3, 65, 64), 64, False),
        ((4, 65, 64), 64, True),
        ((2, 2, 65, 64), 64, True),
        ((7, 32, 5), 32, True),
        ((33, 33), 32, False),
        ((0, 65, 65), 64, False),
    ],
)
def test_which_matrices_go_to_kernels(shape, order, ours):
    assert _dispatch._is_ours(torch.empty(shape), order) == ours
