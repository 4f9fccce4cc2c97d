"""Overlap-add of frames, and block lengths of convolutions."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trnfft.lengths import next_fast_len
from trnsci.core.numbers.values import concrete

# Sums of squared windows up to this are treated as zero: division would amplify rounding errors.
NEGLIGIBLE = 1e-8


def overlap_added(
    frames: Tensor, window: Tensor, hop_length: int, dropped: int, length: int | None
) -> Tensor:
    """Return the signal whose windowed frames are closest to ``frames``.

    Args:
        frames: Shape (..., frames, n_fft).
        window: Shape (n_fft,).
        hop_length: Number of samples between frames.
        dropped: Number of samples removed at the beginning and, without a length, at the end.
        length: Number of samples of the result, None for all.
    """
    count, n_fft = frames.shape[-2:]
    samples = n_fft + hop_length * (count - 1)
    stop = samples - dropped if length is None else min(dropped + length, samples)
    kept = slice(dropped, max(stop, dropped))
    flat = frames.reshape(math.prod(frames.shape[:-2]), count, n_fft)
    # For a complex window this is the sum of w^2, not of |w|^2, as in torch.
    squares = (window * window).expand(1, count, n_fft)
    envelope = _added(squares, samples, hop_length)[:, kept]
    signal = _added(flat * window, samples, hop_length)[:, kept]
    covered = envelope.abs() > NEGLIGIBLE
    if covered.is_cpu and concrete(covered) and bool(covered.all()):
        signal = signal / envelope
    else:
        plain = _added(flat, samples, hop_length)[:, kept]
        # Both branches of ``where`` are differentiated, so neither may divide by zero.
        signal = torch.where(covered, signal / torch.where(covered, envelope, 1.0), plain)
    if length is not None and signal.shape[-1] < length:
        signal = torch.nn.functional.pad(signal, (0, length - signal.shape[-1]))
    return signal.reshape(*frames.shape[:-2], signal.shape[-1])


def overlapped(blocks: Tensor, step: int) -> Tensor:
    """Return the overlap-add of blocks of shape (..., count, length) at distance ``step``."""
    count, length = blocks.shape[-2:]
    samples = length + step * (count - 1)
    flat = blocks.reshape(math.prod(blocks.shape[:-2]), count, length)
    return _added(flat, samples, step).reshape(*blocks.shape[:-2], samples)


def block_length(longer: int, shorter: int, real: bool) -> int:
    """Return the transform length that minimises the work of a convolution by blocks.

    A block of N points yields N - shorter + 1 sums. The total work is compared for successively
    doubled lengths, up to the length of a single block.
    """
    whole = next_fast_len(longer + shorter - 1, real)
    best, least = whole, whole * math.log2(whole)
    size = 1 << (2 * shorter - 1).bit_length()
    while size < whole:
        work = -(-longer // (size - shorter + 1)) * size * math.log2(size)
        if work < least:
            best, least = size, work
        size *= 2
    return best


def resized(x: Tensor, dim: int, size: int) -> Tensor:
    """Return a tensor zero-padded at the end of a dimension."""
    shape = list(x.shape)
    shape[dim] = size - shape[dim]
    return x if shape[dim] == 0 else torch.cat([x, x.new_zeros(shape)], dim)


def _added(frames: Tensor, samples: int, hop_length: int) -> Tensor:
    """Return the overlap-add of frames (B, frames, n_fft), shape (B, samples)."""
    # The adjoint of unfolding a signal into frames adds the frames, in one pass over memory.
    shape = (frames.shape[0], samples)
    added: Tensor = torch.ops.aten.unfold_backward(frames, shape, 1, frames.shape[2], hop_length)
    return added
