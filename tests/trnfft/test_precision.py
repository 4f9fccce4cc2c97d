"""The levels of precision: who chooses, what the names mean, and what each level computes."""

import threading

import numpy as np
import pytest
import torch

import trnfft
from each_case import each_case
from oracles import fourier as oracle
from oracles.fourier_kernels import relative_error
from trnfft import ComplexTensor
from trnsci.core.counters import counts

from .agreement import array, randn

LEVELS = {
    "fast": "fast",
    "fp32": "fp32",
    "double": "double",
    "bf16": "fast",
    "bf16_refined": "fp32",
    "kahan": "fp32",
    "ozaki": "fp32",
    "ozaki_hq": "fp32",
}


def level():
    """Return the level at which a transform by one product is computed on kernels."""
    x = randn(2, 16)
    with trnfft.backend("simulator"):
        before = counts()
        got = trnfft.fft(x).to_torch_complex()
    if "doublefloat_transform" in (counts() - before).launches:
        return "double"
    # bfloat16 rounds operands by up to 2^-9 of each, float32 by up to 2^-24.
    return "fp32" if relative_error(got, torch.fft.fft(x.double())) < 2.0**-16 else "fast"


@each_case("mode", LEVELS)
def test_modes_and_the_levels_they_mean(mode):
    assert (trnfft.get_precision(), level()) == ("fp32", "fp32")
    trnfft.set_precision(mode)
    try:
        assert (trnfft.get_precision(), level()) == (mode, LEVELS[mode])
    finally:
        trnfft.set_precision("fp32")


def test_blocks_nest_and_end():
    with trnfft.precision("double"):
        with trnfft.precision("fast"):
            assert trnfft.get_precision() == "fast"
            trnfft.set_precision("fp32")
            assert trnfft.get_precision() == "fp32"
        assert trnfft.get_precision() == "double"
    with pytest.raises(KeyError), trnfft.precision("double"):
        raise KeyError
    assert trnfft.get_precision() == "fp32"


def test_a_block_holds_for_its_thread():
    seen = []
    with trnfft.precision("double"):
        thread = threading.Thread(target=lambda: seen.append(trnfft.get_precision()))
        thread.start()
        thread.join()
    assert seen == ["fp32"]


def test_the_next_transform_is_computed_on_the_level_that_was_chosen():
    x = randn(2, 8)
    exact = torch.fft.rfft(x.double()).to(torch.complex64)

    def is_exact():
        return torch.equal(trnfft.rfft(x).to_torch_complex(), exact)

    assert not is_exact()
    with trnfft.precision("double"):
        assert is_exact()
        other = threading.Thread(target=trnfft.set_precision, args=("fp32",))
        other.start()
        other.join()
        assert is_exact()
    assert not is_exact()
    trnfft.set_precision("double")
    try:
        assert is_exact()
    finally:
        trnfft.set_precision("fp32")
    assert not is_exact()


def test_unknown_modes_are_refused():
    for call in (trnfft.set_precision, lambda mode: trnfft.precision(mode).__enter__()):
        with pytest.raises(
            ValueError, match=r"got precision 'quad', accepted: .*fast, fp32, double"
        ):
            call("quad")
    with pytest.raises(ValueError, match="verified must be a bool"):
        trnfft.set_ozaki_product_precision_verified("yes")
    trnfft.set_ozaki_product_precision_verified(True)
    trnfft.set_ozaki_product_precision_verified(verified=False)


@each_case("name", ["fft", "rfft", "irfft", "fft2", "dct"])
def test_double_is_rounded_once_and_keeps_the_dtype(name):
    x = randn(3, 509)
    if name == "irfft":
        x = trnfft.rfft(x)
    wide = ComplexTensor(x.real.double(), x.imag.double()) if name == "irfft" else x.double()
    call = getattr(trnfft, name)
    with trnfft.precision("double"):
        got = call(x)
    assert got.dtype is (torch.float32 if isinstance(got, torch.Tensor) else torch.complex64)
    np.testing.assert_array_equal(array(got), rounded(array(call(wide))))


def rounded(values):
    return values.astype(np.complex64 if np.iscomplexobj(values) else np.float32).astype(
        values.dtype
    )


def test_double_is_at_the_last_bit_of_float32():
    x = randn(997, dtype=torch.complex64)
    want = oracle.fft(array(x))
    with trnfft.precision("double"):
        exact = relative_error(array(trnfft.fft(x)), want)
    # One rounding of each part: at most u of it.
    assert exact <= 2.0**-24
    assert relative_error(array(trnfft.fft(x)), want) > exact


def test_double_with_other_dtypes():
    with trnfft.precision("double"):
        assert trnfft.fft(randn(8).bfloat16()).dtype is torch.bfloat16
        assert trnfft.fft(randn(8, dtype=torch.complex64)).dtype is torch.complex64
        assert trnfft.fft(randn(8, dtype=torch.float64)).dtype is torch.complex128
        assert trnfft.fft(torch.arange(8)).dtype is torch.complex64
        assert trnfft.stft(randn(40), 8, return_complex=False).dtype is torch.float32
        assert trnfft.stft(randn(40), 8, return_complex=True).dtype is torch.complex64
        assert trnfft.istft(trnfft.stft(randn(40), 8), 8).dtype is torch.float32
        assert trnfft.fftconvolve(randn(5), randn(4)).dtype is torch.float32
        tracked = randn(8).requires_grad_()
        trnfft.rfft(tracked).real.sum().backward()
        assert tracked.grad.dtype is torch.float32
