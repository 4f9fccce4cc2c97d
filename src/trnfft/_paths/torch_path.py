"""Fourier transforms of native tensors by torch, or by SciPy for long single vectors on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from trnfft._paths.arguments import REAL_INPUT, Norm
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
    if x.is_meta and torch.__version__ < "2.12":
        return one_by_one(kind, x, s, dims, norm)
    function: Callable[..., Tensor] = getattr(torch.fft, kind)
    return function(x, s, dims, norm)


def one_by_one(kind: str, x: Tensor, s: Sequence[int], dims: Sequence[int], norm: Norm) -> Tensor:
    """Return the same along one dimension after the other; the real one is the last of ``dims``.

    Before torch 2.12 results of several dimensions on the meta device can leave their storage.
    """
    single = kind.removesuffix("n")
    complex_ = single.replace("rfft", "fft").replace("hfft", "fft")
    steps = [(complex_, *each) for each in zip(s[:-1], dims[:-1], strict=True)]
    last = (single, s[-1], dims[-1])
    for name, size, dim in [last, *steps] if kind in REAL_INPUT else [*steps, last]:
        x = getattr(torch.fft, name)(x, size, dim, norm)
    return x
