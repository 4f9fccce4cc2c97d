"""Sums whose error hardly grows with the number of elements: norms, moduli, inner products.

On a CPU torch adds the terms of a norm sequentially: for 20 million float32 numbers the last four
digits are wrong. Blocked summation has an error that does not grow with the count.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from trnsci.core.numbers.values import concrete

# Up to this count the norm is one torch call.
_FEW = 256
# Squares added at a time: 16 of them in each lane of a vector register, of 16 lanes or of 8.
_LONG_REGISTERS = torch.backends.cpu.get_cpu_capability().startswith("AVX")
_BLOCK = 256 if _LONG_REGISTERS else 128
# Up to this count the squares stay in the cache until the pairwise sum reads them.
_SQUARES = 2**15
# Moduli computed at a time: they stay in the cache until the pairwise sum reads them.
_SPAN = 2**18
# Norms in this range are not affected by overflow or underflow of squares: with a norm of
# at least 2^-40, elements whose squares vanish in float32 (below 2^-75) are smaller than half an
# ulp of it for any count up to 2^20 times 2^20, and the margin of float64 is larger.
_SAFE_NORM = (2.0**-40, 2.0**60)
# Up to this count any order of an inner product in float64 keeps the bound of doublefloat.
_SHORT = 2**12
# Terms added at a time beyond it: four levels of sums reach 2**40 terms within that bound.
_TERMS = 2**10
_NARROW = (torch.float16, torch.bfloat16)


def two_norm(x: Tensor) -> Tensor:
    """Return the 2-norm of a tensor of real numbers; no square overflows or underflows."""
    if x.dtype in _NARROW:
        return two_norm(x.to(torch.float32)).to(x.dtype)
    if x.is_cpu and concrete(x):
        pairwise = _FEW < x.numel() <= _SQUARES
        norm = torch.sum(x * x).sqrt_() if pairwise else _blocked_norm(x)
        low, high = _SAFE_NORM
        if low < norm.item() < high:
            return norm
    if x.dtype is not torch.float64:
        # Squares of float32 neither overflow nor underflow in float64.
        return torch.linalg.vector_norm(x, dtype=torch.float64).to(x.dtype)
    if x.numel() == 0:
        return torch.linalg.vector_norm(x)
    # Dividing by a power of two is exact. If the largest is zero, infinite or NaN, the plain
    # norm and its derivative are already correct.
    largest = x.detach().abs().amax()
    _, exponent = torch.frexp(largest)
    power = torch.ldexp(torch.ones_like(largest), exponent - 1)
    power = torch.where((largest > 0) & largest.isfinite(), power, torch.ones_like(power))
    return _blocked_norm(x / power) * power


def inner_product(x: Tensor, y: Tensor) -> Tensor:
    """Return the inner product of float64 vectors, within 2**-41 of the sum of moduli of terms."""
    if x.numel() <= _SHORT:
        return torch.dot(x, y)
    whole = x.numel() - x.numel() % _TERMS
    rows, columns = x[:whole].reshape(-1, 1, _TERMS), y[:whole].reshape(-1, _TERMS, 1)
    sums = torch.cat([torch.bmm(rows, columns).view(-1), torch.dot(x[whole:], y[whole:])[None]])
    while sums.numel() > 1:
        size = min(_TERMS, sums.numel())
        sums = pad(sums, (0, -sums.numel() % size)).view(-1, size).sum(1)
    return sums.reshape(())


def moduli_sum(x: Tensor) -> Tensor:
    """Return the sum of the moduli of a tensor of real numbers, integers in int64."""
    if not x.is_floating_point():
        # The modulus of the least int8 overflows int8.
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
    flat = x.reshape(-1)
    whole = count - count % _BLOCK
    norms = torch.linalg.vector_norm(flat[:whole].view(-1, _BLOCK), dim=1)
    if whole < count:
        norms = torch.cat([norms, torch.linalg.vector_norm(flat[whole:]).reshape(1)])
    return _blocked_norm(norms)
