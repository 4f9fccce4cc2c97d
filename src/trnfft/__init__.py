"""Fourier transforms and complex tensors, everywhere torch runs and on a NeuronCore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfft._library import (
    LIBRARY,  # first: its error explains how to install torch if it is missing
)

# isort: split
from trnfft import _registration as protocols
from trnfft._paths.precision import get_precision
from trnfft.chirp_z import czt
from trnfft.complex_tensor import ComplexTensor, complex_matmul
from trnfft.convolution import correlate, fftconvolve, oaconvolve
from trnfft.cosine import dct, dctn, dst, dstn, idct, idctn, idst, idstn
from trnfft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from trnfft.hankel import fht, fhtoffset, ifht
from trnfft.lengths import next_fast_len
from trnfft.nd import (
    fft2,
    fftn,
    hfft2,
    hfftn,
    ifft2,
    ifftn,
    ihfft2,
    ihfftn,
    irfft2,
    irfftn,
    rfft2,
    rfftn,
)
from trnfft.plan import FFTPlan, clear_plan_cache, plan
from trnfft.short_time import istft, stft
from trnfft.transforms import fft, hfft, ifft, ihfft, irfft, rfft
from trnsci import __version__ as __version__
from trnsci.core.backend.library import surface
from trnsci.core.errors import NkiFallbackWarning

if TYPE_CHECKING:
    from trnfft import distributed as distributed
    from trnfft import nki as nki
    from trnfft import nn as nn
    from trnfft import torch_fft

    HAS_NKI: bool

__all__ = [
    "HAS_NKI",
    "ComplexTensor",
    "FFTPlan",
    "NkiFallbackWarning",
    "backend",
    "clear_plan_cache",
    "complex_matmul",
    "correlate",
    "czt",
    "dct",
    "dctn",
    "dst",
    "dstn",
    "fft",
    "fft2",
    "fftconvolve",
    "fftfreq",
    "fftn",
    "fftshift",
    "fht",
    "fhtoffset",
    "get_backend",
    "get_precision",
    "hfft",
    "hfft2",
    "hfftn",
    "idct",
    "idctn",
    "idst",
    "idstn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ifht",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "istft",
    "next_fast_len",
    "oaconvolve",
    "plan",
    "precision",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
    "set_backend",
    "set_precision",
    "stft",
    "torch_fft",
]

protocols.register()

set_backend = LIBRARY.set_backend
get_backend = LIBRARY.get_backend
backend = LIBRARY.backend
set_precision = LIBRARY.set_precision
precision = LIBRARY.precision
__getattr__, __dir__ = surface(
    __name__,
    LIBRARY,
    {
        "distributed": "trnfft.distributed",
        "nki": "trnfft.nki",
        "nn": "trnfft.nn",
        "torch_fft": "trnfft.torch_fft",
    },
)
