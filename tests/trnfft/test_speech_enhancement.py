"""The speech enhancement example removes noise from clips that it was not trained on."""

from pathlib import Path

import pytest
import torch

from scripts import loaded

SCRIPT = Path(__file__).parents[2] / "examples" / "speech_enhancement.py"


@pytest.fixture(scope="module")
def script():
    return loaded(SCRIPT)


def test_noise_is_removed_from_unseen_clips(script, capsys):
    before, after = script.main(["--steps", "25"])
    # The noise is as strong as the speech. Silencing everything would score 0 dB as well;
    # 3 dB mean that less than half of the error is left, on clips that were not trained on.
    assert abs(before) < 0.5
    assert after > 3
    assert f"SNR before {before:6.2f} dB   after {after:6.2f} dB" in capsys.readouterr().out


def test_gradients_survive_silence(script):
    torch.manual_seed(0)
    network = script.MaskNetwork()
    clean, noisy = script.clips(2, seed=3)
    noisy[0] = 0
    script.snr(clean, network(noisy)).backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())


def test_clips_are_speech_like_and_repeatable(script):
    clean, noisy = script.clips(4, seed=5)
    again, _ = script.clips(4, seed=5)
    assert torch.equal(clean, again)
    assert clean.shape == noisy.shape == (4, script.SAMPLES)
    # Unit power each, and a spectrum with its power far below half the rate of sampling.
    assert torch.allclose(clean.square().mean(-1), torch.ones(4), atol=1e-5)
    power = torch.fft.rfft(clean).abs().square()
    assert power[:, : power.shape[1] * 7 // 8].sum() > 0.99 * power.sum()
