"""Random words of a stream, by position.

The counter of a block is (index low, index high, domain, stream). The low 8 bits of the domain word
number the purpose, the bits above them the attempt of a rejection sampler. Word n of a domain is
word n % 4 of block n // 4. Words are int32 tensors of their bit patterns: torch lacks uint32
arithmetic on some devices, and int32 takes half the memory of int64.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trnrand._kernels.definitions import WIDE, Domain
from trnrand._stream import numba_loops
from trnrand._stream.arrays import write_blocks
from trnrand.engines import ENGINES, MASK, EngineName, block_function, block_numbers

__all__ = [
    "FLOATS",
    "INDEX_LIMIT",
    "UNIFORM_BITS",
    "WIDE",
    "Domain",
    "Source",
    "chunk_samples",
    "has_triton",
    "paired",
    "suits_triton",
    "unit53",
    "unsigned",
]

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
"""The dtypes of continuous samples."""

UNIFORM_BITS = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
"""Bits of the significand: conversion to the dtype is exact and never rounds up to 1."""

INDEX_LIMIT = 1 << 64
"""Exclusive upper bound of sample positions and block indices."""

# A CPU chunk fits in the cache of a core; a GPU chunk is large enough to fill the device.
_CPU_CHUNK, _GPU_CHUNK = 1 << 14, 1 << 22


def chunk_samples(device: torch.device) -> int:
    """Return the number of blocks or samples per chunk, a multiple of 4."""
    return _CPU_CHUNK if device.type == "cpu" else _GPU_CHUNK


class Source(NamedTuple):
    """The words of one engine and seed from a position on.

    Attributes:
        engine: Name of the engine.
        seed: Its 64-bit seed.
        start: Position of the first sample in the stream.
        device: Device of the words.
        compiled: Whether the samples of the call are computed by compiled loops.
    """

    engine: EngineName
    seed: int
    start: int
    device: torch.device
    compiled: bool = False

    def later(self, samples: int) -> Source:
        """Return the source that starts ``samples`` later."""
        return self._replace(start=self.start + samples)

    def sized(self, samples: int) -> Source:
        """Return the source for a call of ``samples`` samples; large calls on a CPU use loops."""
        if self.device.type == "cpu" and numba_loops.compiled_wanted(samples):
            return self._replace(compiled=True)
        return self

    def words(self, domain: int, count: int, per_sample: int = 1) -> Tensor:
        """Return ``count`` words, beginning with the first word of the sample at ``start``.

        Args:
            domain: Domain word of the counter.
            count: Number of words.
            per_sample: Words per sample: 1, 2 or 4.
        """
        first = self.start * per_sample
        skipped = first % 4
        flat = self._blocks(first // 4, (skipped + count + 3) // 4, domain).view(-1)
        return flat[skipped : skipped + count]

    def slots(self, domain: int, offsets: Tensor | int, attempt: int = 0) -> Tensor:
        """Return a block of four words per sample, of shape (n, 4).

        Args:
            domain: Domain of the words.
            offsets: Offsets of the samples from ``start``, or a number n for 0, 1, ..., n - 1.
            attempt: Number of the attempt, which selects the slot of each sample.
        """
        return self._blocks(self.start, offsets, domain | attempt << 8)

    def word_at(self, domain: int, offsets: Tensor, attempt: int) -> Tensor:
        """Return the word of each single-word sample in an attempt."""
        inside = offsets + self.start % 4
        blocks = self._blocks(self.start // 4, inside >> 2, domain | attempt << 8)
        return blocks.gather(1, (inside & 3)[:, None])[:, 0]

    def _blocks(self, first: int, steps: Tensor | int, domain: int) -> Tensor:
        """Return the blocks at ``first + steps``; a number n means steps 0, 1, ..., n - 1."""
        if self.device.type == "cpu":
            return torch.from_numpy(self._blocks_on_cpu(first, steps, domain).view(np.int32))
        if isinstance(steps, int):
            steps = torch.arange(steps, device=self.device)
        if suits_triton(steps):
            from trnrand._stream import triton_kernels

            return triton_kernels.blocks(self.engine, self.seed, first, steps.contiguous(), domain)
        return _blocks_on_tensors(self.engine, self.seed, first, steps, domain)

    def _blocks_on_cpu(self, first: int, steps: Tensor | int, domain: int) -> NDArray[np.uint32]:
        count = steps if isinstance(steps, int) else steps.numel()
        chosen = None if isinstance(steps, int) else steps.numpy()
        out = np.empty((count, 4), np.uint32)
        compiled = self.compiled or numba_loops.compiled_wanted(count)
        for i in range(0, count, _CPU_CHUNK):
            part = out[i : i + _CPU_CHUNK]
            if chosen is None:
                at, these = (first + i) % INDEX_LIMIT, _first_steps()[: len(part)]
            else:
                at, these = first, chosen[i : i + _CPU_CHUNK]
            _fill(self.engine, self.seed, at, these, domain, part, compiled)
        return out


def unsigned(words: Tensor) -> Tensor:
    """Return words as int64 values in [0, 2**32)."""
    return words.long().bitwise_and_(MASK)


def paired(words: Tensor) -> Tensor:
    """Return pairs of neighbouring words as int64, low half first."""
    return words.view(torch.int64)


def unit53(pairs: Tensor) -> Tensor:
    """Return float64 in [0, 1), multiples of 2**-53: 27 bits of word one and 26 of word two."""
    if pairs.is_cpu and numba_loops.compiled_wanted(len(pairs)):
        from trnrand._stream.compiled import units

        out = torch.empty(pairs.shape, dtype=torch.float64)
        units(pairs.reshape(-1).numpy(), out.view(-1).numpy())
        return out
    joined = (pairs & 0xFFFF_FFE0).bitwise_left_shift_(21)
    joined |= (pairs >> 38).bitwise_and_(0x3FF_FFFF)
    return joined.double().mul_(2.0**-53)


@cache
def _first_steps() -> NDArray[np.int64]:
    # NumPy, since torch modes that are active at the first call would change a tensor.
    return np.arange(_CPU_CHUNK)


def _fill(
    engine: EngineName,
    seed: int,
    first: int,
    steps: NDArray[np.int64],
    domain: int,
    out: NDArray[np.uint32],
    compiled: bool,
) -> None:
    """Write the blocks at ``first + steps`` into the rows of ``out``."""
    if compiled:
        from trnrand._stream.compiled import BLOCKS

        BLOCKS[engine](out.reshape(-1), steps, block_numbers(engine, seed, first, domain))
        return
    write_blocks(engine, seed, first, steps, domain, out)


@cache
def has_triton() -> bool:
    """Return whether Triton is installed."""
    return find_spec("triton") is not None


def suits_triton(tensor: Tensor) -> bool:
    """Return whether a tensor is a plain CUDA tensor, eager mode is on and Triton is installed."""
    if torch.compiler.is_compiling() or type(tensor) is not Tensor:
        return False
    return tensor.device.type == "cuda" and has_triton()


def _blocks_on_tensors(
    engine: EngineName, seed: int, first: int, steps: Tensor, domain: int
) -> Tensor:
    at = steps + (first & MASK)
    rest = torch.full_like(at, domain), torch.zeros_like(at)
    key = ENGINES[engine].key(seed)
    words = block_function(engine)(at & MASK, (at >> 32) + (first >> 32) & MASK, *rest, *key)
    return torch.stack(words, dim=1).int()
