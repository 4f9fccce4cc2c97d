"""Fourier transforms of native tensors by torch, or by SciPy for long single vectors on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from trnfft._paths.arguments import Norm
from trnfft._paths.scipy_fft import SHORTEST, scipy_vector


def transform(kind: str, x: Tensor, n: int | None, dim: int, norm: Norm) -> Tensor:
    """Return the transform ``kind`` along one dimension."""
    if x.ndim == 1 and type(n) is int and n >= SHORTEST:  # n is symbolic during tracing
        found = scipy_vector(kind, x, n, norm)
        if found is not None:
            return found
    function: Callable[..., Tensor] = getattr(torch.fft, kind)
    return function(x, n, dim, norm)


def transform_nd(kind: str, x: Tensor, s: Sequence[int], dims: Sequence[int], norm: Norm) -> Tensor:
    """Return the transform ``kind`` along several dimensions."""
    function: Callable[..., Tensor] = getattr(torch.fft, kind)
    return function(x, s, dims, norm)
