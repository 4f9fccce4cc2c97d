"""Transforms that come so often that descriptors are kept for them."""

from __future__ import annotations

import threading

import torch

import trnfft
from trnfft import ComplexTensor, _eager
from trnfft._descriptors import kept_for
from trnfft._kept import CALLS
from trnsci.core.testing import random_tensor

OF_COMPLEX = ("fft", "ifft", "irfft", "hfft", "fft2", "ifft2", "fftn", "ifftn")
OF_REAL = ("rfft", "ihfft", "rfft2", "rfftn")
REALS = {torch.complex64: torch.float32, torch.complex128: torch.float64}
WIDTHS = tuple(REALS)


def drawn(name, shape, dtype=torch.complex64, seed=0):
    return random_tensor(*shape, dtype=REALS[dtype] if name in OF_REAL else dtype, seed=seed)


def native(result):
    return result.to_torch_complex() if isinstance(result, ComplexTensor) else result


def known(name, x, *args):
    """The result of a call that is known by the calls before."""
    return native(repeated(getattr(trnfft, name), x, *args))


def repeated(function, *args):
    """The result of the first call of which a descriptor may be used."""
    for _ in range(CALLS):
        function(*args)
    return function(*args)


def entry(name, x):
    """What is known of a transform by defaults."""
    return kept_for(_eager._FORMS[name], x.dtype, x.shape, torch.get_num_threads())


def torchs(name, x, *args):
    """Torch's result, without the conjugation that it leaves for later in half a spectrum."""
    found = getattr(torch.fft, name)(x, *args)
    return found.resolve_conj() if name == "ihfft" else found


def same(got, want):
    """Whether two results have one dtype, shape, layout, device and the same bits."""
    form = (got.dtype, got.shape, got.stride(), got.is_conj(), got.device)
    return form == (want.dtype, want.shape, want.stride(), want.is_conj(), want.device) and (
        got.cpu().numpy().tobytes() == want.cpu().numpy().tobytes()
    )


def assert_kept(computed, name, x, *args):
    got = known(name, x, *args)
    # Once in its trial, and the call after it.
    assert computed == [tuple(x.shape)] * 2, (name, x.shape, args)
    assert same(got, torchs(name, x, *args)), (name, x.shape, args)
    computed.clear()


def usual(name):
    return {"n": (None,), "2": ((-2, -1),)}.get(name[-1], (-1,))


def wrong_in_threads(function, inputs, wanted, times=50):
    """Return the inputs whose results, computed by as many threads at a time, are not those."""
    start, wrong = threading.Barrier(len(inputs)), []

    def work(x, want):
        if x.is_cuda:
            torch.cuda.synchronize()  # torch warns of a transform that is the first in a thread
        start.wait()
        for _ in range(times):
            if not same(function(x), want):
                wrong.append(x)

    workers = [
        threading.Thread(target=work, args=pair) for pair in zip(inputs, wanted, strict=True)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return wrong
