"""The contract of operations, for every operation of trnfft."""

from __future__ import annotations

import torch

import trnfft
import trnfft.nki
from trnfft._library import LIBRARY
from trnfft.transforms import DOUBLEFLOAT
from trnsci.core.testing import random_tensor
from trnsci.core.testing.contract import DerivativeContract, Sample

RE, IM = random_tensor(2, 4), random_tensor(2, 4, seed=1)
MASK = random_tensor(2, 4, seed=6), random_tensor(2, 4, seed=7)
MATRIX = random_tensor(4, 3, seed=2), random_tensor(4, 3, seed=3)
WEIGHT = random_tensor(3, 4, seed=4), random_tensor(3, 4, seed=5)


def spectrum(re, im):
    return trnfft.ComplexTensor(re, im)


def parts(result):
    return result.real, result.imag


class TestOperations(DerivativeContract):
    library = LIBRARY
    samples = (
        Sample("transform", lambda x, y: parts(trnfft.fft(spectrum(x, y))), (RE, IM)),
        Sample("transform", lambda x: parts(trnfft.rfft(x, norm="ortho")), (RE,)),
        Sample("transform", lambda x, y: trnfft.irfft(spectrum(x, y), 7), (RE, IM)),
        Sample("transform_nd", lambda x, y: parts(trnfft.ifft2(spectrum(x, y))), (RE, IM)),
        Sample("transform_nd", lambda x: parts(trnfft.rfft2(x)), (RE,)),
        Sample("transform_nd", lambda x, y: trnfft.irfft2(spectrum(x, y)), (RE, IM)),
        Sample(
            "doublefloat_transform",
            lambda x: DOUBLEFLOAT(x, True, "irfft", [7], "ortho"),
            (random_tensor(3, 4, 2),),
            takes_float64=True,
        ),
        Sample(
            "doublefloat_transform",
            lambda x: DOUBLEFLOAT(x, False, "rfftn", [2, 3], "backward"),
            (random_tensor(2, 2, 3),),
            takes_float64=True,
        ),
        Sample(
            "short_time",
            lambda x, w: parts(trnfft.stft(x, 4, 2, window=w, center=False)),
            (random_tensor(8), torch.hann_window(4)),
        ),
        Sample(
            "complex_gemm",
            lambda a, b, c, d: parts(trnfft.nki.complex_gemm(spectrum(a, b), spectrum(c, d))),
            (RE, IM, *MATRIX),
        ),
        Sample(
            "complex_gemm_bf16",
            lambda a, b, c, d: parts(trnfft.nki.complex_gemm_bf16(spectrum(a, b), spectrum(c, d))),
            tuple(x.bfloat16().float() for x in (RE, IM, *MATRIX)),
        ),
        Sample(
            "complex_linear",
            lambda a, b, c, d: parts(trnfft.nki.complex_linear(spectrum(a, b), c, d)),
            (RE, IM, *WEIGHT),
        ),
        Sample(
            "complex_mask",
            lambda a, b, c, d: parts(trnfft.nki.complex_mask_apply(spectrum(a, b), spectrum(c, d))),
            (*MASK, RE, IM),
        ),
    )
