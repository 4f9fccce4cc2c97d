"""The STFT kernel against framing, windowing and transforming by definition in float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from comparing import assert_within
from each_case import each_case
from oracles.fourier_kernels import (
    BFLOAT16_ROUNDOFF,
    complex_product,
    fourier_matrix,
    frames,
    relative_error,
)
from trnfft._kernels.dft_constants import stft_constants
from trnfft._kernels.parts_tiling import parts_tiling
from trnfft._kernels.stft import frame_count, stft

from ...trnblas.kernels.harness_products import DTYPES, Count, run, values

GENERATIONS = ("gen2", "gen3", "gen4")
LIMIT = 2e-6  # relative L2 error that every kernel transform keeps in float32


def hann(n):
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)


def transform(x_re, x_im, window, hop, onesided=True, scale=1.0, generation="gen3"):
    dtype = str(x_re.dtype)
    batch, length = x_re.shape
    n_fft = len(window)
    w = [part.astype(DTYPES[dtype]) for part in stft_constants(window, onesided, scale)]
    count, bins = frame_count(length, n_fft, hop), w[0].shape[1]
    lefts = 1 if x_im is None else 2
    wide = dtype == "bfloat16"
    plan = parts_tiling(batch * count, bins, n_fft, dtype, generation, lefts=lefts, wide=wide)
    re, im = run(stft, generation, x_re, x_im, *w, hop, plan.blocks)
    assert re.dtype == im.dtype == np.float32
    return re + 1j * im.astype(np.float64)


def defined(x_re, x_im, window, hop, bins):
    n_fft = len(window)
    x = x_re.astype(np.float64) + (0 if x_im is None else 1j * x_im.astype(np.float64))
    return (frames(x, n_fft, hop) * window) @ fourier_matrix(n_fft)[:, :bins]


# (signals, samples, n_fft, hop)
CASES = [
    (1, 1, 1, 1),
    (3, 700, 400, 160),  # frames of all signals in one tile
    (2, 16000, 512, 128),
    (1, 2048, 128, 64),
    (5, 1000, 100, 7),  # 129 frames each: tiles across signals
    (1, 4160, 257, 16),
    (2, 600, 251, 251),
    (2, 999, 64, 200),  # samples between frames are skipped
    (4, 129, 129, 3),  # one frame per signal
    (1, 3000, 1024, 256),
]


@each_case("case", CASES, ids=str)
def test_real_signals(case):
    batch, length, n_fft, hop = case
    x, window = values(batch, length), hann(n_fft) + 0.1
    got = transform(x, None, window, hop)
    bins = n_fft // 2 + 1
    assert got.shape == (batch, 1 + (length - n_fft) // hop, bins)
    assert relative_error(got, defined(x, None, window, hop, bins)) <= LIMIT


@each_case("generation", GENERATIONS)
@each_case("case", [(2, 900, 200, 50), (1, 33000, 256, 128)], ids=str)
def test_every_generation_and_complex_signals(generation, case):
    batch, length, n_fft, hop = case
    x_re, x_im = values(batch, length, seed=1), values(batch, length, seed=2)
    window = hann(n_fft)
    got = transform(x_re, x_im, window, hop, onesided=False, generation=generation)
    assert relative_error(got, defined(x_re, x_im, window, hop, n_fft)) <= LIMIT
    got = transform(x_re, None, window, hop, generation=generation)
    assert relative_error(got, defined(x_re, None, window, hop, n_fft // 2 + 1)) <= LIMIT


def test_every_element_is_within_the_bound_of_its_sum():
    x, window, n_fft, hop = values(2, 1500), hann(300), 300, 75
    got = transform(x, None, window, hop)[0]
    matrix = window[:, None] * fourier_matrix(n_fft)[:, :151]
    want = complex_product(frames(x.astype(np.float64), n_fft, hop)[0], matrix, rounded_matrix=True)
    for part, expected in zip((got.real, got.imag), want, strict=True):
        assert_within(part.astype(np.float32), expected.value, expected.tolerance)


def test_scale_is_part_of_the_matrix():
    x, window = values(1, 500), hann(64)
    got = transform(x, None, window, 16, scale=64**-0.5)
    assert relative_error(got, defined(x, None, window, 16, 33) / 8) <= LIMIT


def test_window_zeros_hide_what_is_outside():
    x, window = values(1, 256), hann(256)
    window[:50] = window[200:] = 0.0
    other = x.copy()
    other[0, :50] += 1000.0
    assert np.array_equal(transform(x, None, window, 1), transform(other, None, window, 1))


def test_bfloat16_is_as_good_as_its_matrix():
    x, window = values(2, 2000).astype(ml_dtypes.bfloat16), hann(256)
    got = transform(x, None, window, 64)
    # Signals are exact and sums are float32: the root mean square of the matrix's rounding is left.
    limit = BFLOAT16_ROUNDOFF / 3**0.5
    assert relative_error(got, defined(x, None, window, 64, 129)) <= limit


@each_case("generation", GENERATIONS)
def test_frames_are_read_from_the_signal_and_nothing_is_written_but_the_result(generation):
    batch, length, n_fft, hop = 3, 20000, 512, 128
    count, bins = frame_count(length, n_fft, hop), 257
    plan = parts_tiling(batch * count, bins, n_fft, "float32", generation, lefts=1)
    x, w = np.zeros((batch, length), np.float32), np.zeros((n_fft, bins), np.float32)
    counted = Count(stft, generation, x, None, w, w, hop, plan.blocks)
    rows = batch * count
    want = 4 * (rows * n_fft + 2 * n_fft * bins + 2 * rows * bins)
    assert counted.hbm_bytes == plan.hbm_bytes == want
    assert counted.sbuf_bytes <= plan.sbuf_bytes
    assert counted.psum_banks <= plan.psum_banks
    # The window is in the matrix: no instruction multiplies by it.
    used = {"dma_copy", "nc_matmul", "nc_transpose", "tensor_copy"}
    assert set(counted.instructions) == used
