"""SciPy transforms of single vectors, for lengths where they are clearly faster than torch's.

torch prepares tables (or, on x86-64, an MKL descriptor) in every call; SciPy caches its tables. For
a single vector the preparation usually takes longer than the transform. The choice depends on the
length and on the build of torch, never on earlier calls, so results are reproducible.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnfft._paths.arguments import HALF_SPECTRUM, Norm
from trnsci.core.numbers.conversions import array_of
from trnsci.core.numbers.values import inert

_DTYPES = frozenset({torch.float32, torch.float64, torch.complex64, torch.complex128})

# Measured with torch 2.11, MKL and SciPy 1.18 on a Xeon, torch / SciPy in us: complex 256 9 / 9,
# 1024 27 / 10, 16384 395 / 101, 65536 1680 / 778, but 12288 58 / 90, 44100 195 / 427, 131072
# 597 / 1668; with a real side 1024 20 / 10, 44100 675 / 396, 131072 4911 / 964. Without MKL, on a
# Neoverse N1: 1024 19 / 37, 4096 60 / 73, 8191 816 / 552, 65537 9182 / 4898.
_HAS_MKL: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
SHORTEST = 512 if _HAS_MKL else 4097
"""Length from which on SciPy is considered."""
_COMPOSITE, _POWER_OF_TWO = 12_288, 1 << 16


def scipy_vector(kind: str, x: Tensor, n: int, norm: Norm) -> Tensor | None:
    """Return the transform ``kind`` of n points of a vector, or None if torch should compute it."""
    if is_compiling() or not x.is_cpu or x.dtype not in _DTYPES or not inert(x):
        return None
    complex_only = x.is_complex() and kind not in HALF_SPECTRUM
    if _HAS_MKL and complex_only and not _mkl_is_slow(n):
        return None
    return torch.from_numpy(getattr(scipy_fft(), kind)(array_of(x), n, -1, norm))


def _mkl_is_slow(n: int) -> bool:
    """Return whether MKL prepares a complex transform of n points slowly."""
    return n < _COMPOSITE or (n <= _POWER_OF_TWO and n.bit_count() == 1)


@cache
def scipy_fft() -> Any:
    """Return the module ``scipy.fft``, imported at the first use."""
    from scipy import fft

    return fft
