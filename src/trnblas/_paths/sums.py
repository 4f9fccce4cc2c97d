"""Norms and sums of moduli, accurate to a few roundings however many elements there are.

On a CPU torch adds the terms of a norm one after the other, so that of 20 million float32 numbers
the last four digits are wrong. Adding within blocks, and then the sums of the blocks, leaves an
error that does not grow with the count.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.eager import concrete

__all__ = ["moduli_sum", "two_norm"]

# Numbers whose norm is one call.
_FEW = 256
# Squares added at a time: 16 of them in each lane of a vector register, of 16 lanes or of 8.
_LONG_REGISTERS = torch.backends.cpu.get_cpu_capability().startswith("AVX")
_BLOCK = 256 if _LONG_REGISTERS else 128
# Float32 numbers that are added in float64 for less than the calls that small blocks take.
_WIDE = 0 if _LONG_REGISTERS else 2**14
# Moduli taken at a time: they stay in a cache on their way to the sum, which is in pairs.
_SPAN = 2**18
# Norms between these cannot have lost anything to overflow or underflow of squares: with a norm of
# at least 2^-40, elements whose squares vanish in float32 (below 2^-75) are smaller than half an
# ulp of it for any count up to 2^20 times 2^20, and float64 has more room still.
_SAFE_NORM = (2.0**-40, 2.0**60)
_NARROW = (torch.float16, torch.bfloat16)


def two_norm(x: Tensor) -> Tensor:
    """Return the 2-norm of a tensor of real numbers; no square overflows or underflows."""
    if x.dtype in _NARROW:
        return two_norm(x.to(torch.float32)).to(x.dtype)
    if x.is_cpu and concrete(x):
        norm = _blocked_norm(x)
        low, high = _SAFE_NORM
        if low < norm.item() < high:
            return norm
    if x.dtype is not torch.float64:
        # Squares of float32 neither overflow nor vanish in float64.
        return torch.linalg.vector_norm(x, dtype=torch.float64).to(x.dtype)
    if x.numel() == 0:
        return torch.linalg.vector_norm(x)
    # Dividing by a power of two is exact. Where the largest is zero, infinite or NaN, the plain
    # norm is already right, and so is its derivative.
    largest = x.detach().abs().amax()
    _, exponent = torch.frexp(largest)
    power = torch.ldexp(torch.ones_like(largest), exponent - 1)
    power = torch.where((largest > 0) & largest.isfinite(), power, torch.ones_like(power))
    return _blocked_norm(x / power) * power


def moduli_sum(x: Tensor) -> Tensor:
    """Return the sum of the moduli of a tensor of real numbers, integers in int64."""
    if not x.is_floating_point():
        # The modulus of the least int8 is no int8.
        return x.to(torch.int64).abs().sum()
    wide = torch.float32 if x.dtype in _NARROW else x.dtype
    count = x.numel()
    if count <= _SPAN or not x.is_cpu:
        total = x.abs().sum(dtype=wide)
    else:
        flat = x.reshape(-1)
        spans = (flat[start : start + _SPAN] for start in range(0, count, _SPAN))
        total = torch.stack([span.abs().sum(dtype=wide) for span in spans]).sum()
    return total if wide is x.dtype else total.to(x.dtype)


def _blocked_norm(x: Tensor) -> Tensor:
    """Return the 2-norm of the norms of blocks; squares may overflow."""
    count = x.numel()
    if count <= _FEW or not x.is_cpu:
        return torch.linalg.vector_norm(x)
    if count <= _WIDE and x.dtype is torch.float32:
        return torch.linalg.vector_norm(x, dtype=torch.float64).to(torch.float32)
    flat = x.reshape(-1)
    whole = count - count % _BLOCK
    norms = torch.linalg.vector_norm(flat[:whole].view(-1, _BLOCK), dim=1)
    if whole < count:
        norms = torch.cat([norms, torch.linalg.vector_norm(flat[whole:]).reshape(1)])
    return _blocked_norm(norms)
