"""Tensors of every kind for the transforms, and how far results may be from the definition."""

import math

import numpy as np
import torch

from oracles.fourier_kernels import relative_error
from trnfft import ComplexTensor
from trnfft._complex.parts import Parts

COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}
# What a ComplexTensor with such parts says about itself; bfloat16 has no complex dtype.
DTYPES = {torch.float16: torch.complex32, torch.bfloat16: torch.bfloat16, **COMPLEX}
ROUNDOFF = {torch.float32: 2.0**-24, torch.float64: 2.0**-53}


def in_parts(re, im):
    """A ComplexTensor that holds its two parts, as on a device without complex numbers."""
    return ComplexTensor._of(Parts(re, im))


def array(value):
    """The values of a tensor of any kind, in float64 or complex128."""
    if isinstance(value, ComplexTensor):
        values = np.empty(value.shape, complex)
        values.real, values.imag = array(value.real), array(value.imag)
        return values
    value = value.detach().cpu().resolve_conj()
    return value.to(torch.complex128 if value.is_complex() else torch.float64).numpy()


def randn(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def bound(points, dtype=torch.float32):
    """The relative L2 error that a transform of so many points may have.

    In float32 it is 5e-7 log2(N) + 2e-7: of the order of 8 and 3 roundoffs, where a transform of
    log2(N) stages, each with a product by a rounded root and a sum, has at most about 4 for each.
    """
    return (5e-7 * math.log2(points) + 2e-7) * ROUNDOFF[dtype] / ROUNDOFF[torch.float32]


def assert_near(got, want, points, dtype=torch.float32, factor=1.0):
    """The L2 error of ``got`` over the norm of ``want`` is within the bound."""
    values = array(got)
    assert values.shape == want.shape
    assert np.isfinite(values).all()
    norm = np.linalg.norm(want)
    if norm == 0:
        assert not values.any()
        return
    error = relative_error(values, want)
    assert error <= factor * bound(max(points, 2), dtype), (error, points)
