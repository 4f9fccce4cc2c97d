"""Triton kernels for CUDA devices: words and standard samples in one launch.

torch's operations would need a hundred launches for the same words. Here words stay in the
registers of a thread, which converts each block to four neighbouring samples and stores them
together, 16 bytes at a time if the request begins at a block. Sums and products are not fused, so
samples are bit-identical on all backends. Importing this module imports Triton; a kernel is
compiled at the first use of its engine, kind and dtype.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from trnrand._kernels.definitions import (
    LEAST_EXPONENTIAL,
    LEAST_SQUARE,
    LOG,
    LOG_SPLIT_BITS,
    MINUS_TWO_LN2,
    SINE,
    TURN24,
)
from trnrand.engines import MASK, THREEFRY_PARITY, THREEFRY_ROTATIONS, EngineName

# Blocks of a program: four for each thread of four warps. Sixteen samples per thread hide the
# latency of the rounds, and 10**5 samples are enough programs for all multiprocessors.
_LANES = 512
_OPTIONS = {"num_warps": 4, "enable_fp_fusion": False}

# All constants in one tuple, since Triton compares every global of a kernel with its first value at
# each launch: LOG from index 0 on, SINE from 10, LOG_SPLIT_BITS 14, MINUS_TWO_LN2 15, LEAST_SQUARE
# 16, TURN24 17, LEAST_EXPONENTIAL 18, THREEFRY_PARITY 19, and the rotations from 20 on.
_NUMBERS = tl.constexpr(
    (
        *LOG,
        *SINE,
        LOG_SPLIT_BITS,
        MINUS_TWO_LN2,
        LEAST_SQUARE,
        TURN24,
        LEAST_EXPONENTIAL,
        THREEFRY_PARITY,
        *(left for pair in THREEFRY_ROTATIONS for left in pair),
    )
)

_SIGN = 1 << 31

# Triton must not compile these arguments as constants: they change from call to call.
_ANY_VALUE = ["count", "skipped", "first_low", "first_high", "domain", "k0", "k1"]


@triton.jit
def _rotated(word, left: tl.constexpr):
    return (word << left) | (word >> (32 - left))


@triton.jit
def _two_rounds(a0, a1, a2, a3, row: tl.constexpr):
    """Return the words after the rounds with that row of rotations and the next."""
    a0 += a1
    a1 = _rotated(a1, _NUMBERS[20 + 2 * row]) ^ a0
    a2 += a3
    a3 = _rotated(a3, _NUMBERS[21 + 2 * row]) ^ a2
    a0 += a3
    a3 = _rotated(a3, _NUMBERS[22 + 2 * row]) ^ a0
    a2 += a1
    a1 = _rotated(a1, _NUMBERS[23 + 2 * row]) ^ a2
    return a0, a1, a2, a3


@triton.jit
def _four_rounds(a0, a1, a2, a3, row: tl.constexpr):
    """Return the words after the rounds with that row of rotations and the next three."""
    a0, a1, a2, a3 = _two_rounds(a0, a1, a2, a3, row)
    return _two_rounds(a0, a1, a2, a3, row + 2)


@triton.jit
def _threefry(c0, c1, c2, c3, k0, k1):
    """Return the block of a counter; the third and fourth word of the key are 0."""
    k4 = k0 ^ k1 ^ _NUMBERS[19]
    a0, a1, a2, a3 = _four_rounds(c0 + k0, c1 + k1, c2, c3, 0)
    a0, a1, a2, a3 = _four_rounds(a0 + k1, a1, a2, a3 + k4 + 1, 4)
    a0, a1, a2, a3 = _four_rounds(a0, a1, a2 + k4, a3 + k0 + 2, 0)
    a0, a1, a2, a3 = _four_rounds(a0, a1 + k4, a2 + k0, a3 + k1 + 3, 4)
    a0, a1, a2, a3 = _four_rounds(a0 + k4, a1 + k0, a2 + k1, a3 + 4, 0)
    return a0 + k0, a1 + k1, a2, a3 + 5


@triton.jit
def _block(step, first_low, first_high, domain, k0, k1, is_philox: tl.constexpr):
    """Return the words at ``first + step``; ``first``, the domain and the key are int32 words."""
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
def _minus_two_log(u):
    """Return -2 log(u), as ``definitions`` describes it."""
    bits = u.to(tl.int32, bitcast=True)
    exponent = (bits - _NUMBERS[14]) >> 23
    f = (bits - (exponent << 23)).to(tl.float32, bitcast=True) - 1.0
    g = f * _NUMBERS[0] + _NUMBERS[1]
    for i in tl.static_range(2, 10):
        g = g * f + _NUMBERS[i]
    return exponent.to(tl.float32) * _NUMBERS[15] + g * f


@triton.jit
def _sine(steps):
    """Return the sine of up to a quarter turn, in steps, as ``definitions`` describes it."""
    x = steps * _NUMBERS[17]
    square = x * x
    p = square * _NUMBERS[10] + _NUMBERS[11]
    p = p * square + _NUMBERS[12]
    p = p * square + _NUMBERS[13]
    return p * square * x + x


@triton.jit
def _samples(word, next_word, kind: tl.constexpr, bits: tl.constexpr):
    """Return two standard samples from neighbouring words."""
    if kind == "words":
        a = word.to(tl.int32, bitcast=True)
        b = next_word.to(tl.int32, bitcast=True)
    elif kind == "normal":
        # u = (word + 1) / 2**32 is never 0; the sum is rounded once.
        lower = (word & 0xFFFF).to(tl.float32) + 1.0
        u = ((word >> 16).to(tl.float32) * 65536.0 + lower) * (2.0**-32)
        radius = tl.sqrt_rn(tl.maximum(_minus_two_log(u), _NUMBERS[16]))
        before = 8388608.0 - (next_word >> 8).to(tl.float32)
        folded = tl.maximum(tl.minimum(before, 8388608.0 - before), -8388608.0 - before)
        a = radius * _sine(tl.abs(before) - 4194304.0)
        b = radius * _sine(folded)
    elif kind == "exponential":
        a = _minus_two_log((16777216.0 - (word >> 8).to(tl.float32)) * (2.0**-24)) * 0.5
        b = _minus_two_log((16777216.0 - (next_word >> 8).to(tl.float32)) * (2.0**-24)) * 0.5
        a = tl.maximum(a, _NUMBERS[18])
        b = tl.maximum(b, _NUMBERS[18])
    else:
        a = (word >> (32 - bits)).to(tl.float32) * (2.0**-bits)
        b = (next_word >> (32 - bits)).to(tl.float32) * (2.0**-bits)
    return a, b


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
    aligned: tl.constexpr,
    lanes: tl.constexpr,
):
    """Write the samples of the blocks from ``first`` on, without the first ``skipped`` samples.

    ``aligned`` is true if ``skipped`` is 0, as a constant for the compiler.
    """
    begin = tl.program_id(0).to(tl.int64) * lanes
    w0, w1, w2, w3 = _block(
        begin + tl.arange(0, lanes), first_low, first_high, domain, k0, k1, is_philox
    )
    s0, s1 = _samples(w0, w1, kind, bits)
    s2, s3 = _samples(w2, w3, kind, bits)
    # Samples that are neighbours in memory are in the registers of one thread.
    samples = tl.interleave(tl.interleave(s0, s2), tl.interleave(s1, s3))
    samples = samples.to(out.dtype.element_ty)
    at = 4 * begin + tl.arange(0, 4 * lanes)
    if aligned:
        # Unmasked stores have the full width of the hardware.
        if 4 * (begin + lanes) <= count:
            tl.store(out + at, samples)
        else:
            tl.store(out + at, samples, mask=at < count)
    else:
        at -= skipped
        tl.store(out + at, samples, mask=(at >= 0) & (at < count))


def blocks(engine: EngineName, seed: int, first: int, steps: Tensor, domain: int) -> Tensor:
    """Return the blocks at ``first + steps``, int64 on a CUDA device, as int32 of shape (n, 4)."""
    out = torch.empty((steps.numel(), 4), dtype=torch.int32, device=steps.device)
    words = _words(seed, first, domain)
    constants = (engine == "philox", _LANES)
    _launch(_blocks_kernel, steps.numel(), out, steps, steps.numel(), *words, *constants)
    return out


def fill(
    kind: str, engine: EngineName, seed: int, start: int, domain: int, out: Tensor, bits: int
) -> None:
    """Fill a one-dimensional tensor on a CUDA device with standard samples from ``start`` on.

    A uniform, and the uniform of an exponential, has the top ``bits`` of its word.
    """
    count, skipped = out.numel(), start % 4
    words = _words(seed, start // 4, domain)
    constants = (engine == "philox", kind, bits, skipped == 0, _LANES)
    _launch(_fill_kernel, (skipped + count + 3) // 4, out, count, skipped, *words, *constants)


def _launch(kernel: Any, count: int, out: Tensor, *arguments: object) -> None:
    """Launch a kernel that makes ``count`` blocks, on the device of its result."""
    if not count:
        return
    launch = kernel[((count + _LANES - 1) // _LANES,)]
    if out.get_device() == torch.cuda.current_device():
        launch(out, *arguments, **_OPTIONS)
        return
    with torch.cuda.device(out.device):
        launch(out, *arguments, **_OPTIONS)


def _words(seed: int, first: int, domain: int) -> tuple[int, int, int, int, int]:
    """Return the words of counter and key as int32; the domain is small enough for it."""
    # The first two words of a key are the halves of the seed for both engines.
    return *_halves(first), int(domain), *_halves(seed)


def _halves(number: int) -> tuple[int, int]:
    """Return the low and the high 32 bits as int32."""
    low, high = number & MASK, number >> 32 & MASK
    return (low ^ _SIGN) - _SIGN, (high ^ _SIGN) - _SIGN
