"""Logarithm, exponential and normals in float64 on tensors, as ``series`` defines them.

With ``compiled`` true, loops that numba compiles give the same bits for tensors on a CPU.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from trnrand._stream.series import SPLIT_BITS, Elementary, defined
from trnrand._stream.words import unit53
from trnrand.engines import MASK
from trnsci.core.numbers.constants import Constants


def _split(x: Tensor) -> tuple[Tensor, Tensor]:
    bits = x.view(torch.int64)
    exponent = (bits - SPLIT_BITS) >> 52
    return exponent.double(), (bits - (exponent << 52)).view(torch.float64)


def _scaled(x: Tensor, k: Tensor) -> Tensor:
    half = k.long() >> 1
    return x * _power(half) * _power(k.long() - half)


def _power(k: Tensor) -> Tensor:
    """Return 2**k for normal results, from a table: vmap has no rule for views of another dtype."""
    (powers,) = _POWERS(_LEAST_EXPONENT, k.device, torch.float64)
    return powers[k - _LEAST_EXPONENT]


_LEAST_EXPONENT = -1022
_POWERS: Constants[int] = Constants(lambda least: [np.ldexp(1.0, np.arange(least, 1024))])


@cache
def _arrays() -> Elementary:
    return defined(_split, _scaled, torch.floor, torch.clamp, lambda function: function)


def log(x: Tensor, compiled: bool = False) -> Tensor:
    """Return logarithms of positive normal numbers; the result for 0 is finite."""
    return _applied("log", x, compiled)


def log1p(x: Tensor, compiled: bool = False) -> Tensor:
    """Return log(1 + x) for x > -1."""
    return _applied("log1p", x, compiled)


def exp(x: Tensor, compiled: bool = False) -> Tensor:
    """Return exponentials, 0 or infinite where they under- or overflow."""
    return _applied("exp", x, compiled)


def _applied(name: str, x: Tensor, compiled: bool) -> Tensor:
    if not (compiled and x.is_cpu):
        result: Tensor = getattr(_arrays(), name)(x)
        return result
    from trnrand._stream.compiled_elementary import LOOPS

    out = torch.empty(x.shape, dtype=torch.float64)
    LOOPS[name](x.reshape(-1).numpy(), out.view(-1).numpy())
    return out


def root(x: Tensor) -> Tensor:
    """Return correctly rounded square roots."""
    if x.is_cpu:
        # NumPy, since torch's vectorised square root is not always correctly rounded.
        return torch.from_numpy(np.asarray(np.sqrt(x.numpy())))
    return x.sqrt()


def logistic(x: Tensor, compiled: bool = False) -> Tensor:
    """Return 1 / (1 + exp(-x))."""
    return 1 / (1 + exp(-x, compiled))


def proportions(logarithms: Tensor, compiled: bool = False) -> Tensor:
    """Return exp(x) over its sum in the last dimension, summed by halves."""
    if compiled and logarithms.is_cpu:
        from trnrand._stream.compiled_elementary import proportions as loop

        rows = logarithms.reshape(-1, logarithms.shape[-1])
        out = torch.empty(rows.shape, dtype=torch.float64)
        loop(rows.numpy(), out.numpy())
        return out.view(logarithms.shape)
    parts = exp(logarithms - logarithms.amax(-1, keepdim=True))
    total = parts
    while (width := total.shape[-1]) > 1:
        half = width // 2
        pairs = total[..., :half] + total[..., half : 2 * half]
        total = torch.cat([pairs, total[..., 2 * half :]], dim=-1)
    return parts / total


def normals(blocks: Tensor, both: bool, compiled: bool = False) -> tuple[Tensor, Tensor]:
    """Return n normals of (n, 2) paired words, and the n normals that are independent of them.

    The second result is empty unless ``both`` is true. Magnitudes are at most 9.4.
    """
    if compiled and blocks.is_cpu:
        from trnrand._stream import compiled_elementary

        count = len(blocks)
        first = torch.empty(count, dtype=torch.float64)
        second = torch.empty(count if both else 0, dtype=torch.float64)
        compiled_elementary.normals(blocks.numpy(), first.numpy(), second.numpy())
        return first, second
    functions, (high, low) = _arrays(), blocks.unbind(1)
    # All 64 bits, first word on top. Both parts are exact, so small uniforms keep full precision.
    lower = (high >> 32 & MASK).double().add_(1.0)
    u = (high & MASK).double().mul_(2.0**32).add_(lower).mul_(2.0**-64)
    radius = root(functions.log(u).mul_(-2.0))
    angle = unit53(low)
    cosines = radius * functions.cosine(angle)
    return cosines, radius * functions.sine(angle) if both else cosines[:0]
