"""Numbers on a CUDA device, drawn on the CPU so that they are the same everywhere."""

from __future__ import annotations

import torch


def normal(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to("cuda", dtype)
