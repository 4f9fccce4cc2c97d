"""Example calls of the public functions: those of the operations, and of functions without one."""

from __future__ import annotations

import torch

from trnfft._library import LIBRARY
from trnsci.core.examples import Example, example
from trnsci.core.testing import random_tensor

_FILTER = random_tensor(4, seed=3)
_SIGNAL = random_tensor(64, seed=5)
_IMAGE = random_tensor(4, 8, seed=6)
_MATRICES = (random_tensor(4, 4, dtype=torch.complex64, seed=seed) for seed in range(2))
_WINDOW = torch.hann_window(16)
_FRAMES = torch.stft(_SIGNAL, 16, window=_WINDOW, return_complex=True)

_WITHOUT_KERNEL = {
    **{name: example(_SIGNAL) for name in ("dct", "dst", "idct", "idst", "fftshift", "ifftshift")},
    **{name: example(_IMAGE) for name in ("dctn", "dstn", "idctn", "idstn")},
    **{name: example(_SIGNAL, 0.1, 0.0) for name in ("fht", "ifht")},
    "complex_matmul": example(*_MATRICES),
}
_OF_TRANSFORMS = {
    **{name: example(_SIGNAL, _FILTER) for name in ("correlate", "fftconvolve", "oaconvolve")},
    "czt": example(_SIGNAL, 24, complex(0.96, -0.28), 1j),
    "istft": example(_FRAMES, 16, window=_WINDOW),
}
EXAMPLES: dict[str, Example] = {**_WITHOUT_KERNEL, **_OF_TRANSFORMS, **LIBRARY.examples()}
