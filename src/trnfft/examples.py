"""Example calls of the public functions; see ``trnsci.core.examples``."""

from __future__ import annotations

import torch

from trnsci.core.examples import Example, example
from trnsci.core.testing import random_tensor

_FILTER = random_tensor(4, seed=3)
_SIGNAL = random_tensor(64, seed=5)
_SPECTRUM = torch.fft.fft(_SIGNAL)
_IMAGE = random_tensor(4, 8, seed=6)
_MATRICES = (random_tensor(4, 4, dtype=torch.complex64, seed=seed) for seed in range(2))
_WINDOW = torch.hann_window(16)
_FRAMES = torch.stft(_SIGNAL, 16, window=_WINDOW, return_complex=True)

_TRANSFORMS = {
    **{
        name: example(_SPECTRUM if name[:2] in ("if", "ir", "hf") else _SIGNAL)
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "dct", "dst", "idct", "idst")
    },
    **{
        name: example(_IMAGE.to(torch.complex64) if name[:2] in ("ir", "hf") else _IMAGE)
        for kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
        for name in (f"{kind}2", f"{kind}n")
    },
    **{name: example(_IMAGE) for name in ("dctn", "dstn", "idctn", "idstn")},
    "fft, long": example(random_tensor(2048)),
    "fft, prime length": example(random_tensor(521)),
    "fftn, 3-D": example(random_tensor(2, 3, 4)),
}
_OTHERS = {
    "complex_matmul": example(*_MATRICES),
    "correlate": example(_SIGNAL, _FILTER),
    "fftconvolve": example(_SIGNAL, _FILTER),
    "fftshift": example(_SIGNAL),
    "fht": example(_SIGNAL, 0.1, 0.0),
    "ifftshift": example(_SIGNAL),
    "ifht": example(_SIGNAL, 0.1, 0.0),
    "istft": example(_FRAMES, 16, window=_WINDOW),
    "oaconvolve": example(_SIGNAL, _FILTER),
    "stft": example(_SIGNAL, 16, window=_WINDOW, return_complex=True),
}

EXAMPLES: dict[str, Example] = {**_TRANSFORMS, **_OTHERS}
