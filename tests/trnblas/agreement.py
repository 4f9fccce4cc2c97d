"""Random operands, and comparison with an oracle within a bound that follows from the dtype."""

from __future__ import annotations

import numpy as np
import torch

# Largest relative error of one rounding; that of a complex product is below four of them.
ROUNDOFF = {
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
    torch.float32: 2.0**-24,
    torch.float64: 2.0**-53,
    torch.complex64: 4 * 2.0**-24,
    torch.complex128: 4 * 2.0**-53,
}
FLOATING = list(ROUNDOFF)
INTEGERS = [torch.int8, torch.uint8, torch.int32, torch.int64]


def draw(shape, dtype, seed):
    """A tensor of normal numbers, or of small integers that no product here overflows."""
    generator = torch.Generator().manual_seed(seed)
    if dtype in ROUNDOFF:
        return torch.randn(shape, dtype=dtype, generator=generator)
    low = 0 if dtype is torch.uint8 else -2
    return torch.randint(low, 3, shape, dtype=dtype, generator=generator)


def array(tensor):
    """The values as float64 or complex128."""
    wide = torch.complex128 if tensor.is_complex() else torch.float64
    return tensor.detach().cpu().resolve_conj().to(wide).numpy()


def assert_agrees(got, want, dtype, steps, magnitude):
    """``got`` is within ``steps`` roundings, each relative to ``magnitude``, of ``want``."""
    assert got.dtype is dtype
    assert tuple(got.shape) == np.shape(want)
    real = {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype, dtype)
    # The least normal number is for results that underflow.
    tiny = torch.finfo(real).tiny if dtype in ROUNDOFF else 0
    bound = steps * ROUNDOFF.get(dtype, 0) * magnitude + tiny
    off = np.abs(array(got) - want)
    assert (off <= bound).all(), f"{np.max(off - bound)} beyond the bound"
