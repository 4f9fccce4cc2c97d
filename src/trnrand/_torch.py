"""Standard samples of a stream: words, uniforms, normals and exponentials.

What sample i of a seed is depends on the engine, the kind
and the dtype alone, so that requests may be cut anywhere:

===========  ============================================================================
words        word i, as its bit pattern in int32
uniform      [0, 1): the top 24, 11 or 8 bits of word i (float32, float16, bfloat16), or 53
             bits of two words (float64)
normal       of a pair (2j, 2j + 1), Box-Muller: radius from the first word with all 32 bits,
             angle from the top 24 bits of the second; float64 takes two words for each
exponential  -log(1 - u) of the uniform u
===========  ============================================================================

Normals and exponentials in half precision are those of float32, rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from trnrand._laws import DOMAINS, GROUPS, TURN24, UNIFORM_BITS, Kind
from trnrand._words import WIDE, Source, chunk_samples, paired, suits_triton, unit53
from trnrand.engines import MASK

__all__ = ["normals53", "torch_fill", "torch_stream"]


def torch_stream(kind: Kind, source: Source, count: int, dtype: torch.dtype) -> Tensor:
    """Return ``count`` standard samples from the start of a source, made by torch."""
    out = torch.empty(count, dtype=dtype, device=source.device)
    torch_fill(kind, source, out)
    return out


def torch_fill(kind: Kind, source: Source, out: Tensor) -> None:
    """Fill a one-dimensional tensor with standard samples from the start of a source."""
    group, law_domain = GROUPS[kind], DOMAINS[kind]
    wide = out.dtype is torch.float64
    if not wide and suits_triton(out) and out.is_contiguous():
        from trnrand import _triton

        # Exponentials in half precision are made of float32's uniforms.
        bits = UNIFORM_BITS[out.dtype] if kind == "uniform" else 24
        engine, seed, start = source.engine, source.seed, source.start
        _triton.fill(kind, engine, seed, start, law_domain, out, bits)
        return
    domain, per_sample = (law_domain | WIDE, 2) if wide else (law_domain, 1)
    # Enough samples that calling torch, twenty times per chunk, costs little beside the work.
    count, chunk = out.numel(), 8 * chunk_samples(source.device)
    ahead = source.start % group
    aligned = source.later(-ahead)
    for done in range(-ahead, count, chunk):
        samples = min(chunk, count - done)
        samples += samples % group
        words = aligned.later(done + ahead).words(domain, samples * per_sample, per_sample)
        values = _CONVERT[kind](words, out.dtype)
        low, high = max(done, 0), min(done + samples, count)
        out[low:high] = values[low - done : high - done]


def _raw(words: Tensor, dtype: torch.dtype) -> Tensor:
    return words


def _uniforms(words: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype is torch.float64:
        return unit53(paired(words))
    bits = UNIFORM_BITS[dtype]
    # Exact in float32 first: some devices lack a conversion of integers to half precision.
    top = (words >> (32 - bits)) & ((1 << bits) - 1)
    return top.float().mul_(2.0**-bits).to(dtype)


def _exponentials(words: Tensor, dtype: torch.dtype) -> Tensor:
    working = torch.float64 if dtype is torch.float64 else torch.float32
    return _uniforms(words, working).neg_().log1p_().neg_().to(dtype)


def _normals(words: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype is torch.float64:
        return _interleaved(*normals53(paired(words.view(-1, 4))))
    pairs = paired(words)
    radius = ((pairs & MASK) + 1).float().mul_(2.0**-32).log_().mul_(-2.0).sqrt_()
    angle = ((pairs >> 40) & 0xFF_FFFF).float().mul_(TURN24)
    return _interleaved(radius * angle.cos(), radius.mul_(angle.sin_())).to(dtype)


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    # Four times as fast as torch.stack, which copies element by element.
    return torch.view_as_real(torch.complex(even, odd)).view(-1)


def normals53(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return two tensors of normals in float64, with |z| up to 9.4, from an (n, 2) of pairs."""
    first, second = blocks.unbind(1)
    # All 64 bits, first word on top: both parts are exact, so that small uniforms keep theirs.
    lower = (first >> 32 & MASK).double().add_(1.0)
    u = (first & MASK).double().mul_(2.0**32).add_(lower).mul_(2.0**-64)
    radius = u.log_().mul_(-2.0).sqrt_()
    angle = unit53(second).mul_(2 * math.pi)
    return radius * angle.cos(), radius * angle.sin()


_CONVERT: dict[Kind, Callable[[Tensor, torch.dtype], Tensor]] = {
    "words": _raw,
    "uniform": _uniforms,
    "normal": _normals,
    "exponential": _exponentials,
}
