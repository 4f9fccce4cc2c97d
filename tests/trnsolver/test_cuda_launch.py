"""What is said where a CUDA kernel cannot be had, shown without a device."""

import warnings

import pytest
import torch

from trnsolver import _cuda_launch


@pytest.fixture
def failing(monkeypatch):
    def compile_kernel(source, name):
        raise RuntimeError("nvrtc: error: no such architecture\nand more")

    monkeypatch.setattr(torch.cuda, "_compile_kernel", compile_kernel, raising=False)
    _cuda_launch._compiled.cache_clear()
    yield
    _cuda_launch._compiled.cache_clear()


def test_a_kernel_that_does_not_compile_is_said_once(failing):
    with pytest.warns(RuntimeWarning, match="kernel householder_qr .* cannot be .*no such arch"):
        assert _cuda_launch._compiled("householder_qr", "", torch.float32, 0) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _cuda_launch._compiled("householder_qr", "", torch.float32, 0) is None


def test_each_kernel_is_said(failing):
    for dtype in (torch.float32, torch.float64):
        with pytest.warns(RuntimeWarning, match=str(dtype)):
            _cuda_launch._compiled("jacobi_eigh", "", dtype, 0)
