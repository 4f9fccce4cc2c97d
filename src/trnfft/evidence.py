"""Validation cases for the kernels of trnfft, one for each algorithm of a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import trnfft
import trnfft.nki
from trnfft import torch_fft
from trnfft._library import LIBRARY
from trnfft._planning.choice import butterfly_constants
from trnsci.core.evidence import Case, launcher
from trnsci.core.testing import random_tensor

__all__ = ["CASES"]

_TORCH = "torch in float64"
_PROMISED = 2e-6
"""Bound of the relative L2 error of every float32 transform."""


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.complex128 if x.is_complex() else torch.float64)


def _transform(
    kernel: str, title: str, name: str, *shape: int, real: bool = False, **options: Any
) -> Case:
    """Return the case of a function that also exists in torch.fft."""
    dtype = torch.float32 if real else torch.complex64
    ours: Callable[..., Tensor] = getattr(torch_fft, name)
    theirs: Callable[..., Tensor] = getattr(torch.fft, name)
    return Case(
        kernel,
        title,
        lambda: (random_tensor(*shape, dtype=dtype),),
        lambda x: ours(x, **options),
        lambda x: theirs(_wide(x), **options),
        _TORCH,
        lambda x: _PROMISED,
    )


def _windowed() -> tuple[Tensor, Tensor]:
    return random_tensor(2, 1000), torch.hann_window(200)


def _stft(x: Tensor, window: Tensor) -> Tensor:
    return torch.stft(
        x.double(), 200, 80, window=window.double(), return_complex=True, pad_mode="reflect"
    )


def _butterflies(x: Tensor) -> Tensor:
    from trnfft._kernels.butterfly import butterfly

    table = torch.from_numpy(butterfly_constants(x.shape[1], False))
    parts = (x.real.contiguous(), x.imag.contiguous())
    return torch.complex(*launcher(LIBRARY)(butterfly, *parts, table, False, 1.0))


def _stages(x: Tensor) -> Tensor:
    from trnfft._kernels.butterfly import butterfly_stage_kernel

    table = torch.from_numpy(butterfly_constants(x.shape[1], False))
    parts = (x.real.contiguous(), x.imag.contiguous())
    for stage in range(4):
        parts = launcher(LIBRARY)(butterfly_stage_kernel, *parts, table, stage, False)
    return torch.complex(*parts)


def _rows() -> tuple[Tensor]:
    return (random_tensor(3, 256, dtype=torch.complex64),)


CASES = (
    Case(
        "butterfly",
        "butterfly FFT",
        _rows,
        _butterflies,
        lambda x: torch.fft.fft(_wide(x)),
        _TORCH,
        lambda x: _PROMISED,
        public=False,
    ),
    Case(
        "butterfly_stage_kernel",
        "one stage of a butterfly FFT",
        _rows,
        _stages,
        lambda x: torch.fft.fft(_wide(x)),
        _TORCH,
        lambda x: _PROMISED,
        public=False,
    ),
    _transform("dft", "FFT by one product", "fft", 5, 200),
    _transform("stacked", "FFT by stacked factors", "fft", 2, 2048),
    _transform("four_step", "four-step FFT", "rfft", 2, 2048, real=True),
    _transform("bluestein", "FFT of a prime length", "fft", 2, 1031),
    _transform("rfft", "real FFT", "rfft", 5, 200, real=True),
    _transform("irfft", "inverse real FFT", "irfft", 5, 101),
    _transform("two_d", "2-D FFT", "fft2", 2, 130, 20),
    _transform("stacked_image", "2-D FFT by stacked factors", "fft2", 1024, 20),
    _transform("n_d", "n-D FFT", "fftn", 6, 10, 12, 7),
    Case(
        "stft",
        "short-time FFT",
        _windowed,
        lambda x, window: trnfft.stft(x, 200, 80, window=window, return_complex=True),
        _stft,
        _TORCH,
        lambda x, window: _PROMISED,
    ),
    Case(
        "complex_mask",
        "complex mask",
        lambda: tuple(random_tensor(70, 130, dtype=torch.complex64, seed=x) for x in (0, 4)),
        trnfft.nki.complex_mask_apply,
        lambda mask, x: _wide(mask) * _wide(x),
        _TORCH,
        lambda mask, x: 3 * 2.0**-24 * 2**0.5,
    ),
)
