"""Transforms of one vector on a CPU: by torch's MKL, or by SciPy where torch has none.

On x86-64 torch calls MKL and prepares a new descriptor for every call, which for most lengths takes
several times as long as the transform. A vector that comes again is computed by a descriptor that
is kept, whose bits are torch's. Without MKL torch runs the code that SciPy runs, but SciPy keeps
what it prepares.

The choice depends on the platform and on the length alone and not on what this process has
computed: who computes a transform decides its last bits, and those should be the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.nn.functional import pad

from trnfft._descriptors import MAY_KEEP
from trnfft._eager import host_transform
from trnfft._single import DTYPES, HALF_SPECTRUM, REAL_INPUT, single
from trnsci.core.eager import readable

__all__ = ["vector_transform"]

# torch does not show this in public.
_function_modes = torch._C._len_torch_function_stack


def vector_transform(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the transform ``name`` of CPU vectors that are of no subclass.

    Args:
        name: The transform, with the arguments of ``torch.fft``; left out where they are defaults.
        function: What computes it by torch.
    """
    return _by_mkl(name, function) if MAY_KEEP else _by_scipy(name, function)


def _by_scipy(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the transform that SciPy computes where it can."""

    def transform(x: Tensor, n: Any = None, dim: Any = -1, norm: Any = None) -> Tensor:
        result = single(name, x, n, dim, norm)
        return function(x, n, dim, norm) if result is None else result

    return transform


def _by_mkl(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the transform that a descriptor computes where it can.

    What has none because it is cut, padded, strided or of another kind is copied into what may have
    one. That happens at every call, so that the last one is as the first.
    """
    half = name in HALF_SPECTRUM

    def unknown(x: Tensor, n: Any = None, dim: Any = -1, norm: Any = None) -> Tensor:
        if is_dynamo_compiling() or _function_modes():
            return function(x, n, dim, norm)
        plain = x.is_contiguous() and not x.is_neg() and not x.is_conj()
        if n is None and plain and (not half or x.is_complex()):
            return function(x, None, dim, norm)
        if (
            (n is None or (type(n) is int and n > 0))
            and (type(dim) is int and dim in (-1, 0))
            and x.dtype in DTYPES
            and not (name in REAL_INPUT and x.is_complex())
            and x.numel()
            and readable(x)
        ):
            copy = _copied(x, half, n)
            if copy is not x:
                return known(copy, n if half else None, -1, norm)
        return function(x, n, dim, norm)

    known = host_transform(name, unknown)
    return known


def _copied(x: Tensor, half: bool, n: int | None) -> Tensor:
    """Return what is transformed for a vector: contiguous, complex bins, entries for n points."""
    copy = x.resolve_conj().resolve_neg()
    if half and not x.is_complex():
        copy = copy.to(x.dtype.to_complex())
    size = len(x) if n is None else n // 2 + 1 if half else n
    if size < len(x):
        copy = copy[:size]
    elif size > len(x):
        copy = pad(copy, (0, size - len(x)))
    return copy.contiguous()
