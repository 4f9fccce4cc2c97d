"""Tables of kernels are made once: not for every call, nor for every size of a batch."""

import numpy as np
import pytest
import torch

import trnfft
from each_case import each_case
from required import requiring
from trnfft._kernels import dft_constants
from trnfft._planning import recipe, tables
from trnsci.core.testing import random_tensor


@pytest.fixture(autouse=True)
def on_simulator():
    trnfft.clear_plan_cache()
    with requiring("trnfft"), trnfft.backend("simulator"):
        yield
    trnfft.clear_plan_cache()


@pytest.fixture
def made(monkeypatch):
    """What was made of recipes since the test began."""
    found = []
    make = recipe.Recipe._made

    def counted(self):
        found.append((self.kind, self.sizes))
        return make(self)

    monkeypatch.setattr(recipe.Recipe, "_made", counted)
    return found


@pytest.mark.parametrize("n", [20, 600, 1031])
@pytest.mark.parametrize("kind", ["fft", "rfft"])
def test_transforms_of_all_batches_share_a_table(kind, n, made):
    for batch in (1, 2, 5):
        getattr(trnfft, kind)(random_tensor(batch, n))
    assert made == [(kind, (n,))]


def test_images_share_tables(made):
    for batch in (1, 3):
        trnfft.fft2(random_tensor(batch, 6, 8))
        trnfft.hfftn(random_tensor(batch, 4, 3, 5, dtype=torch.complex64), dim=(1, 2, 3))
    assert made == [("fftn", (6, 8)), ("hfftn", (4, 3, 8))]


def test_frames_share_matrices(monkeypatch):
    windows = []
    make = dft_constants.stft_constants

    def counted(window, onesided=True, scale=1.0):
        windows.append(len(window))
        return make(window, onesided, scale)

    monkeypatch.setattr(tables, "stft_constants", counted)
    for batch in (1, 2, 4):
        trnfft.stft(random_tensor(batch, 100), 16)
    assert windows == [16]
    trnfft.stft(random_tensor(2, 100), 16, normalized=True)
    trnfft.stft(random_tensor(2, 100), 16, onesided=False)
    assert windows == [16] * 3


def test_a_window_that_was_written_to_has_other_matrices():
    x, window = random_tensor(1, 64), torch.ones(16)
    first = trnfft.stft(x, 16, window=window, center=False)
    window *= 2
    second = trnfft.stft(x, 16, window=window, center=False)
    assert torch.equal(second.real, 2 * first.real)


@each_case("length", [1, 2, 7, 16])
def test_hann_window_is_by_its_definition(length):
    k = np.arange(length)
    # A window of one sample is one, as in torch and SciPy; the formula's zero would erase it.
    want = np.sin(np.pi * k / length) ** 2 if length > 1 else np.ones(1)
    for dtype in (torch.float32, torch.complex64, torch.float64):
        got = tables.hann_window(length, torch.empty(0, dtype=dtype))
        assert got.dtype is dtype.to_real()
        # The angles of the definition, up to pi, were rounded three times.
        bound = torch.finfo(got.dtype).eps + 3 * 2.0**-53 * np.pi
        assert np.abs(got.numpy() - want).max() <= bound
        assert tables.hann_window(length, torch.empty(0, dtype=dtype)) is got


def test_a_window_first_needed_by_a_fake_tensor_is_one_for_all():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = tables.hann_window(24, torch.empty(3))
    assert type(fake) is not torch.Tensor
    with torch.device("meta"):
        window = tables.hann_window(24, torch.empty(3, device="cpu"))
    assert window.device.type == "cpu"
    assert window.sum().item() == pytest.approx(12.0, abs=1e-5)


def test_clearing_plans_forgets_tables(made):
    trnfft.fft(random_tensor(2, 20))
    trnfft.clear_plan_cache()
    trnfft.fft(random_tensor(2, 20))
    assert len(made) == 2
