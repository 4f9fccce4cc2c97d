"""The contract of public functions, for trnfft."""

from __future__ import annotations

from typing import ClassVar

import torch

import trnfft as tf
from trnsci.core.testing.public import PublicContract

X = (2, 4)


def of_complex(function):
    return lambda x, y: function(torch.complex(x, y))


def window(x):
    return torch.hann_window(4, dtype=x.dtype, device=x.device)


def stft(x):
    return tf.stft(x, 4, window=window(x), return_complex=True)


def istft(x, y):
    z = torch.complex(x, y)
    return tf.istft(torch.cat([z[:1].real.to(z.dtype), z[1:]]), 4, window=window(x))


COMPLEX = ("fft", "ifft", "fft2", "ifft2", "fftn", "ifftn", "hfft", "hfft2", "hfftn")
BACK = ("irfft", "irfft2", "irfftn")
REAL = ("ihfft", "ihfft2", "ihfftn", "rfft", "rfft2", "rfftn", "fftshift", "ifftshift")
COSINES = ("dct", "dctn", "dst", "dstn", "idct", "idctn", "idst", "idstn")


class TestPublicFunctions(PublicContract):
    package = tf
    calls: ClassVar = {
        **{name: (of_complex(getattr(tf, name)), X, X) for name in (*COMPLEX, *BACK)},
        **{name: (getattr(tf, name), X) for name in (*REAL, *COSINES)},
        "complex_matmul": (
            lambda a, b: tf.complex_matmul(a, b).to_torch_complex(),
            (2, 3),
            (3, 2),
        ),
        "correlate": (tf.correlate, (4,), (3,)),
        "czt": (lambda x: tf.czt(x, 5, 0.9 - 0.2j, 1j), (4,)),
        "fftconvolve": (tf.fftconvolve, (4,), (3,)),
        "oaconvolve": (tf.oaconvolve, (9,), (3,)),
        "fht": (lambda a: tf.fht(a, 0.1, 0.5), (4,)),
        "ifht": (lambda a: tf.ifht(a, 0.1, 0.5), (4,)),
        "stft": (stft, (9,)),
        "istft": (istft, (3, 5), (3, 5)),
    }
