"""Words and standard samples in one launch, for CUDA devices, where torch brings Triton along.

torch's own operations would need a hundred launches for the same words. Each of the four words of
a block is one sample, or two neighbours are a pair of normals. Importing this module imports
Triton; a kernel is compiled when its engine, kind and dtype are first asked for.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

from trnrand._laws import TURN24
from trnrand.engines import ENGINES, MASK, THREEFRY_PARITY, THREEFRY_ROTATIONS, EngineName

__all__ = ["blocks", "fill"]

_LANES = 512

_PARITY = tl.constexpr(THREEFRY_PARITY)
_ROTATIONS = tl.constexpr(tuple(left for pair in THREEFRY_ROTATIONS for left in pair))
_TURN24 = tl.constexpr(TURN24)

# Words change from call to call, and a kernel is to serve them all.
_ANY_VALUE = ["count", "skipped", "first_low", "first_high", "domain", "k0", "k1"]


@triton.jit
def _turned(word, left: tl.constexpr):
    return (word << left) | (word >> (32 - left))


@triton.jit
def _two_rounds(a0, a1, a2, a3, row: tl.constexpr):
    """Return the words after the rounds with that row of rotations and the next."""
    a0 += a1
    a1 = _turned(a1, _ROTATIONS[2 * row]) ^ a0
    a2 += a3
    a3 = _turned(a3, _ROTATIONS[2 * row + 1]) ^ a2
    a0 += a3
    a3 = _turned(a3, _ROTATIONS[2 * row + 2]) ^ a0
    a2 += a1
    a1 = _turned(a1, _ROTATIONS[2 * row + 3]) ^ a2
    return a0, a1, a2, a3


@triton.jit
def _four_rounds(a0, a1, a2, a3, row: tl.constexpr):
    """Return the words after the rounds with that row of rotations and the next three."""
    a0, a1, a2, a3 = _two_rounds(a0, a1, a2, a3, row)
    return _two_rounds(a0, a1, a2, a3, row + 2)


@triton.jit
def _threefry(c0, c1, c2, c3, k0, k1):
    """Return the block of a counter; the third and fourth word of the key are 0."""
    k4 = k0 ^ k1 ^ _PARITY
    a0, a1, a2, a3 = _four_rounds(c0 + k0, c1 + k1, c2, c3, 0)
    a0, a1, a2, a3 = _four_rounds(a0 + k1, a1, a2, a3 + k4 + 1, 4)
    a0, a1, a2, a3 = _four_rounds(a0, a1, a2 + k4, a3 + k0 + 2, 0)
    a0, a1, a2, a3 = _four_rounds(a0, a1 + k4, a2 + k0, a3 + k1 + 3, 4)
    a0, a1, a2, a3 = _four_rounds(a0 + k4, a1 + k0, a2 + k1, a3 + 4, 0)
    return a0 + k0, a1 + k1, a2, a3 + 5


@triton.jit
def _block(step, first_low, first_high, domain, k0, k1, is_philox: tl.constexpr):
    """Return the words at ``first + step``; the words of all but the step are int32."""
    at = step + first_low.to(tl.uint32, bitcast=True).to(tl.int64)
    c0 = at.to(tl.uint32)
    c1 = (at >> 32).to(tl.uint32) + first_high.to(tl.uint32, bitcast=True)
    c3 = c0 * 0
    c2 = c3 + domain.to(tl.uint32, bitcast=True)
    key0 = c3 + k0.to(tl.uint32, bitcast=True)
    key1 = c3 + k1.to(tl.uint32, bitcast=True)
    if is_philox:
        seed = key0.to(tl.uint64) | (key1.to(tl.uint64) << 32)
        w0, w1, w2, w3 = tl.philox(seed, c0, c1, c2, c3)
    else:
        w0, w1, w2, w3 = _threefry(c0, c1, c2, c3, key0, key1)
    return w0, w1, w2, w3


@triton.jit(do_not_specialize=_ANY_VALUE)
def _blocks_kernel(
    out,
    steps,
    count,
    first_low,
    first_high,
    domain,
    k0,
    k1,
    is_philox: tl.constexpr,
    lanes: tl.constexpr,
):
    """Write the blocks at ``first + steps``."""
    i = tl.program_id(0).to(tl.int64) * lanes + tl.arange(0, lanes)
    inside = i < count
    step = tl.load(steps + i, mask=inside, other=0)
    w0, w1, w2, w3 = _block(step, first_low, first_high, domain, k0, k1, is_philox)
    to = out + 4 * i
    tl.store(to, w0.to(tl.int32, bitcast=True), mask=inside)
    tl.store(to + 1, w1.to(tl.int32, bitcast=True), mask=inside)
    tl.store(to + 2, w2.to(tl.int32, bitcast=True), mask=inside)
    tl.store(to + 3, w3.to(tl.int32, bitcast=True), mask=inside)


@triton.jit
def _samples(word, next_word, kind: tl.constexpr, bits: tl.constexpr):
    """Return two standard samples of neighbouring words."""
    if kind == "words":
        a = word.to(tl.int32, bitcast=True)
        b = next_word.to(tl.int32, bitcast=True)
    elif kind == "normal":
        # All 32 bits and one more value, so that no logarithm is of 0.
        u = (word.to(tl.int64) + 1).to(tl.float32) * (2.0**-32)
        radius = tl.sqrt_rn(-2.0 * libdevice.log(u))
        angle = (next_word >> 8).to(tl.float32) * _TURN24
        a = radius * libdevice.cos(angle)
        b = radius * libdevice.sin(angle)
    else:
        a = (word >> (32 - bits)).to(tl.float32) * (2.0**-bits)
        b = (next_word >> (32 - bits)).to(tl.float32) * (2.0**-bits)
        if kind == "exponential":
            a = -libdevice.log1p(-a)
            b = -libdevice.log1p(-b)
    return a, b


@triton.jit
def _put(out, at, sample, count):
    tl.store(out + at, sample.to(out.dtype.element_ty), mask=(at >= 0) & (at < count))


@triton.jit(do_not_specialize=_ANY_VALUE)
def _fill_kernel(
    out,
    count,
    skipped,
    first_low,
    first_high,
    domain,
    k0,
    k1,
    is_philox: tl.constexpr,
    kind: tl.constexpr,
    bits: tl.constexpr,
    lanes: tl.constexpr,
):
    """Write the samples of the blocks from ``first`` on, except for so many of the first block."""
    i = tl.program_id(0).to(tl.int64) * lanes + tl.arange(0, lanes)
    w0, w1, w2, w3 = _block(i, first_low, first_high, domain, k0, k1, is_philox)
    s0, s1 = _samples(w0, w1, kind, bits)
    s2, s3 = _samples(w2, w3, kind, bits)
    at = 4 * i - skipped
    _put(out, at, s0, count)
    _put(out, at + 1, s1, count)
    _put(out, at + 2, s2, count)
    _put(out, at + 3, s3, count)


def blocks(engine: EngineName, seed: int, first: int, steps: Tensor, domain: int) -> Tensor:
    """Return the blocks at ``first + steps``, int64 on a CUDA device, as int32 of shape (n, 4)."""
    out = torch.empty((steps.numel(), 4), dtype=torch.int32, device=steps.device)
    numbers = _words(engine, seed, first, domain)
    _launch(_blocks_kernel, steps.numel(), (out, steps, steps.numel(), *numbers), engine)
    return out


def fill(
    kind: str, engine: EngineName, seed: int, start: int, domain: int, out: Tensor, bits: int
) -> None:
    """Fill a one-dimensional tensor on a CUDA device with standard samples from ``start`` on.

    ``bits`` of a word make a uniform, and the uniform of an exponential.
    """
    count, skipped = out.numel(), start % 4
    arguments = (out, count, skipped, *_words(engine, seed, start // 4, domain))
    _launch(_fill_kernel, (skipped + count + 3) // 4, arguments, engine, kind=kind, bits=bits)


def _words(engine: EngineName, seed: int, first: int, domain: int) -> list[int]:
    """Return the words of counter and key as int32."""
    words = (first & MASK, first >> 32 & MASK, domain, *ENGINES[engine].key(seed)[:2])
    return [word - (1 << 32) if word >> 31 else word for word in words]


def _launch(kernel, number: int, arguments: tuple, engine: EngineName, **constants) -> None:
    """Start a kernel on so many blocks, on the device of its first argument."""
    if number:
        with torch.cuda.device(arguments[0].device):
            kernel[(triton.cdiv(number, _LANES),)](
                *arguments, is_philox=engine == "philox", lanes=_LANES, **constants
            )
