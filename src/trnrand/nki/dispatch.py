"""Reference implementations of the engines, for code that handles counters and keys itself."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trnrand._library import LIBRARY
from trnrand._paths.torch_path import torch_stream
from trnrand._stream.words import Source
from trnrand.engines import (
    MASK,
    PHILOX_M0,
    PHILOX_M1,
    PHILOX_ROUNDS,
    PHILOX_W0,
    PHILOX_W1,
    THREEFRY_PARITY,
    THREEFRY_ROTATIONS,
    THREEFRY_ROUNDS,
    EngineName,
    philox4x32,
    threefry4x32,
)
from trnrand.errors import ShapeError
from trnsci.core.backend.library import backend_names
from trnsci.core.errors import NkiFallbackWarning

__all__ = [
    "PHILOX_M0",
    "PHILOX_M1",
    "PHILOX_ROUNDS",
    "PHILOX_W0",
    "PHILOX_W1",
    "THREEFRY_ROTATIONS",
    "THREEFRY_ROUNDS",
    "THREEFRY_SKEIN_KS_PARITY",
    "TWO_PI",
    "UINT32_MASK",
    "NkiFallbackWarning",
    "box_muller_cpu",
    "philox4x32_reference",
    "philox_uniform_cpu",
    "threefry4x32_reference",
    "threefry_uniform_cpu",
]

UINT32_MASK = MASK
TWO_PI = 2 * math.pi
THREEFRY_SKEIN_KS_PARITY = THREEFRY_PARITY

philox4x32_reference = philox4x32
threefry4x32_reference = threefry4x32


def philox_uniform_cpu(
    n_elements: int, seed: int, counter_offset: int = 0, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return uniforms on [0, 1), starting at block ``counter_offset`` (four samples per block)."""
    return _uniforms("philox", n_elements, seed, counter_offset, dtype)


def threefry_uniform_cpu(
    n_elements: int, seed: int, counter_offset: int = 0, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return uniforms on [0, 1) as ``philox_uniform_cpu`` does, from Threefry."""
    return _uniforms("threefry", n_elements, seed, counter_offset, dtype)


def box_muller_cpu(uniforms: Tensor) -> Tensor:
    """Return normals by the Box-Muller transform of neighbouring pairs of ``uniforms``.

    The result has the shape of ``uniforms``. The first uniform of a pair gives the radius, the
    second the angle. A first uniform of 0 is replaced by the smallest normal number of the dtype.

    Raises:
        ShapeError: The number of uniforms is odd.
    """
    if uniforms.numel() % 2:
        raise ShapeError(f"box_muller_cpu: uniforms must be an even number, got {uniforms.numel()}")
    first, second = uniforms.reshape(-1, 2).unbind(1)
    radius = torch.sqrt(-2 * torch.log(first.clamp_min(torch.finfo(uniforms.dtype).tiny)))
    angle = TWO_PI * second
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1).reshape(uniforms.shape)


def _uniforms(engine: EngineName, count: int, seed: int, offset: int, dtype: torch.dtype) -> Tensor:
    source = Source(engine, seed & (1 << 64) - 1, 4 * offset, torch.device("cpu"))
    return torch_stream("uniform", source, count, dtype)


__getattr__ = backend_names(__name__, LIBRARY)
