"""Standard samples of a stream: words, uniforms, normals and exponentials.

Sample i of a seed depends on the engine, the kind and the dtype alone, so a request can be split
anywhere:

===========  ============================================================================
words        word i, as its bit pattern in int32
uniform      [0, 1): the top 24, 11 or 8 bits of word i (float32, float16, bfloat16), or 53
             bits of two words (float64)
normal       of a pair (2j, 2j + 1), Box-Muller: radius from the first word with all 32 bits,
             angle from the top 24 bits of the second; float64 takes two words for each
exponential  -log(1 - u) of the uniform u; where u is 0, half a step of u
===========  ============================================================================

Normals and exponentials in half precision are those of float32, rounded.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from trnrand._kernels.definitions import (
    DOMAINS,
    GROUPS,
    LEAST_EXPONENTIAL,
    LEAST_SQUARE,
    LOG,
    LOG_SPLIT_BITS,
    MINUS_TWO_LN2,
    SINE,
    TURN24,
    Kind,
)
from trnrand._stream import numba_loops
from trnrand._stream.elementary import normals
from trnrand._stream.words import (
    UNIFORM_BITS,
    WIDE,
    Source,
    chunk_samples,
    paired,
    suits_triton,
    unit53,
)


def torch_stream(kind: Kind, source: Source, count: int, dtype: torch.dtype) -> Tensor:
    """Return ``count`` standard samples from the start of a source."""
    out = torch.empty(count, dtype=dtype, device=source.device)
    torch_fill(kind, source, out)
    return out


def torch_fill(kind: Kind, source: Source, out: Tensor) -> None:
    """Fill a one-dimensional tensor with standard samples from the start of a source."""
    if out.dtype is not torch.float64 and out.is_contiguous():
        # Exponentials in half precision are computed from float32 uniforms.
        bits = UNIFORM_BITS[out.dtype] if kind == "uniform" else 24
        stretch = (kind, source.engine, source.seed, source.start, DOMAINS[kind])
        if suits_triton(out):
            from trnrand._stream.triton_kernels import fill

            fill(*stretch, out, bits)
            return
        if out.is_cpu and kind != "words":
            single = out if out.dtype is torch.float32 else out.float()
            _array_fill(out.numel())(*stretch, single.numpy(), bits)
            if single is not out:
                out.copy_(single)
            return
    _fill_by_chunks(kind, source, out)


def _array_fill(count: int) -> Callable[..., None]:
    if numba_loops.compiled_wanted(count):
        from trnrand._stream.compiled import fill_samples
    else:
        from trnrand._stream.arrays import fill_samples
    return fill_samples


def _fill_by_chunks(kind: Kind, source: Source, out: Tensor) -> None:
    group, domain, per_sample = GROUPS[kind], int(DOMAINS[kind]), 1
    if out.dtype is torch.float64:
        domain, per_sample = domain | WIDE, 2
    # Enough samples that the overhead of fifty calls of torch per chunk is small.
    count, chunk = out.numel(), 8 * chunk_samples(source.device)
    compiled = out.is_cpu and numba_loops.compiled_wanted(count)
    skipped = source.start % group
    aligned = source.later(-skipped)._replace(compiled=compiled)
    for done in range(-skipped, count, chunk):
        samples = min(chunk, count - done)
        samples += samples % group
        words = aligned.later(done + skipped).words(domain, samples * per_sample, per_sample)
        values = _CONVERT[kind](words, out.dtype, compiled)
        low, high = max(done, 0), min(done + samples, count)
        out[low:high] = values[low - done : high - done]


def _raw(words: Tensor, dtype: torch.dtype, compiled: bool = False) -> Tensor:
    return words


def _uniforms(words: Tensor, dtype: torch.dtype, compiled: bool = False) -> Tensor:
    if dtype is torch.float64:
        return unit53(paired(words))
    bits = UNIFORM_BITS[dtype]
    # The conversion goes through float32, which is exact: some devices cannot convert integers to
    # half precision.
    top = (words >> (32 - bits)) & ((1 << bits) - 1)
    return top.float().mul_(2.0**-bits).to(dtype)


def _exponentials(words: Tensor, dtype: torch.dtype, compiled: bool = False) -> Tensor:
    if dtype is torch.float64:
        return _uniforms(words, dtype).neg_().log1p_().neg_().clamp_(min=2.0**-54)
    rest = _top24(words).neg_().add_(2.0**24).mul_(2.0**-24)
    return _minus_two_log(rest).mul_(0.5).clamp_(min=LEAST_EXPONENTIAL).to(dtype)


def _normals(words: Tensor, dtype: torch.dtype, compiled: bool = False) -> Tensor:
    if dtype is torch.float64:
        return _interleaved(*normals(paired(words.view(-1, 4)), True, compiled))
    first, second = words.view(-1, 2).unbind(1)
    # u = (word + 1) / 2**32 is never 0. Both halves are exact, so their sum is rounded once.
    upper = ((first >> 16) & 0xFFFF).float().mul_(2.0**16)
    u = (first & 0xFFFF).float().add_(1.0).add_(upper).mul_(2.0**-32)
    radius = _root(_minus_two_log(u).clamp_(min=LEAST_SQUARE))
    # Angles in steps, all exact: relative to half a turn, then reduced to quarter turns.
    before = _top24(second).neg_().add_(2.0**23)
    cosine = _sine(before.abs().sub_(2.0**22))
    folded = torch.minimum(before, 2.0**23 - before)
    sine = _sine(torch.maximum(folded, before.neg_().sub_(2.0**23)))
    return _interleaved(cosine.mul_(radius), sine.mul_(radius)).to(dtype)


def _top24(words: Tensor) -> Tensor:
    return ((words >> 8) & 0xFF_FFFF).float()


def _minus_two_log(u: Tensor) -> Tensor:
    """Return -2 log(u) of positive float32, overwriting u, as ``definitions`` describes it."""
    bits = u.view(torch.int32)
    exponent = (bits - LOG_SPLIT_BITS) >> 23
    f = (bits - (exponent << 23)).view(torch.float32).sub_(1.0)
    g = (f * LOG[0]).add_(LOG[1])
    for coefficient in LOG[2:]:
        g.mul_(f).add_(coefficient)
    return exponent.float().mul_(MINUS_TWO_LN2).add_(g.mul_(f))


def _root(square: Tensor) -> Tensor:
    """Return correctly rounded square roots of float32, overwriting the argument."""
    if square.is_cpu:
        # NumPy, since torch's vectorised square root is not always correctly rounded.
        array = square.numpy()
        np.sqrt(array, out=array)
        return square
    return square.sqrt_()


def _sine(steps: Tensor) -> Tensor:
    """Return the sine of up to a quarter turn, in steps, as ``definitions`` describes it."""
    x = steps.mul_(TURN24)
    square = x * x
    p = (square * SINE[0]).add_(SINE[1])
    for coefficient in SINE[2:]:
        p.mul_(square).add_(coefficient)
    return p.mul_(square).mul_(x).add_(x)


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    # Four times as fast as torch.stack.
    return torch.view_as_real(torch.complex(even, odd)).view(-1)


_CONVERT: dict[Kind, Callable[[Tensor, torch.dtype, bool], Tensor]] = {
    "words": _raw,
    "uniform": _uniforms,
    "normal": _normals,
    "exponential": _exponentials,
}
