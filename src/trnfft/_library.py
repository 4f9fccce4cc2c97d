"""The backend and precision of this library, shared by all its modules."""

from __future__ import annotations

from trnsci.core.backend.library import Library
from trnsci.core.backend.precision import PrecisionLevel

_PUBLISHED: dict[str, PrecisionLevel] = {
    "fast": "bfloat16",
    "fp32": "float32",
    "double": "doublefloat",
    "bf16": "bfloat16",
    "bf16_refined": "float32",
    "kahan": "float32",
    "ozaki": "float32",
    "ozaki_hq": "float32",
}
"""Precision names of published releases, each with a level that is at least as accurate."""

LIBRARY = Library("trnfft", _PUBLISHED)
kernels_wanted = LIBRARY.kernels_wanted
no_kernel = LIBRARY.no_kernel
