"""Validation cases of the trnfft kernels: those of the operations, and of kernels without one."""

from __future__ import annotations

import torch
from torch import Tensor

import trnfft.nki  # noqa: F401  (declares the operations of complex products)
from trnfft._library import LIBRARY
from trnfft._planning.choice import butterfly_constants
from trnfft.transforms import PROMISED
from trnsci.core.evidence import Case, launcher
from trnsci.core.numbers.conversions import widest
from trnsci.core.testing import random_tensor

__all__ = ["CASES"]


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
        lambda x: torch.fft.fft(widest(x)),
        "torch in float64",
        lambda x: PROMISED,
        public=False,
    ),
    Case(
        "butterfly_stage_kernel",
        "one stage of a butterfly FFT",
        _rows,
        _stages,
        lambda x: torch.fft.fft(widest(x)),
        "torch in float64",
        lambda x: PROMISED,
        public=False,
    ),
    *LIBRARY.evidence(),
)
