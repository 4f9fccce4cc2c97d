"""Speech enhancement with trnfft: STFT, a complex mask network, inverse STFT.

    python examples/speech_enhancement.py                 trains for a few seconds
    python examples/speech_enhancement.py --steps 400     trains for longer

The "speech" is synthetic: voiced syllables, each a stack of harmonics of a gliding pitch under
formant-like resonances and an attack-decay envelope, with silence between them, in white noise at
0 dB. The network takes the spectrogram of the noisy signal and returns a complex mask, by which it
is multiplied; the loss is computed on the waveform after the inverse transform, so gradients
pass through ``istft``, the mask, the complex layers and ``stft``. Scores are of clips outside the
training set.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import torch
from torch import Tensor, nn

import trnfft
from trnfft.nn import ComplexBatchNorm1d, ComplexConv1d, ComplexModReLU

RATE = 8000  # samples per second
SAMPLES = 4096  # of a clip
N_FFT, HOP = 256, 64
BINS = N_FFT // 2 + 1
HIDDEN = 48
FORMANTS = (500.0, 1500.0, 2500.0)  # Hz, of a neutral vowel
WIDTH = 250.0  # Hz, of a resonance
HARMONICS = 14  # of a pitch up to 253 Hz: below half the rate


def syllable(samples: int, generator: torch.Generator) -> Tensor:
    """Return harmonics of a gliding pitch under resonances, with an attack and a decay."""
    pitch, glide, *shifts = torch.rand(2 + len(FORMANTS), generator=generator).tolist()
    time = torch.arange(samples) / RATE
    frequency = (100 + 120 * pitch) * (1 + 0.3 * (glide - 0.5) * time / time[-1])
    phase = 2 * torch.pi * torch.cumsum(frequency, 0) / RATE
    resonances = [f * (0.8 + 0.4 * shift) for f, shift in zip(FORMANTS, shifts, strict=True)]
    voice = torch.zeros(samples)
    for harmonic in range(1, HARMONICS + 1):
        at = harmonic * frequency
        gain = sum(1 / (1 + ((at - resonance) / WIDTH) ** 2) for resonance in resonances)
        voice += gain * torch.sin(harmonic * phase) / harmonic**0.5
    attack, decay = 1 - torch.exp(-time / 0.01), torch.exp(-time / 0.08)
    return voice * attack * decay


def clips(count: int, seed: int, noise_db: float = 0.0) -> tuple[Tensor, Tensor]:
    """Return clean and noisy clips of shape (count, SAMPLES), the noise at ``noise_db``."""
    generator = torch.Generator().manual_seed(seed)
    clean = torch.zeros(count, SAMPLES)
    for clip in clean:
        start = int(torch.randint(0, 400, (), generator=generator))
        while (room := SAMPLES - start) > 800:
            length = min(room, int(torch.randint(800, 1600, (), generator=generator)))
            clip[start : start + length] = syllable(length, generator)
            start += length + int(torch.randint(0, 500, (), generator=generator))
    clean /= clean.square().mean(-1, keepdim=True).sqrt()
    noise = torch.randn(clean.shape, generator=generator) * 10 ** (noise_db / 20)
    return clean, clean + noise


class MaskNetwork(nn.Module):
    """A complex mask for each bin and frame, from the frames around it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            ComplexConv1d(BINS, HIDDEN, 3, padding=1),
            ComplexBatchNorm1d(HIDDEN),
            ComplexModReLU(HIDDEN, channel_dim=1),
            ComplexConv1d(HIDDEN, HIDDEN, 3, padding=2, dilation=2),
            ComplexBatchNorm1d(HIDDEN),
            ComplexModReLU(HIDDEN, channel_dim=1),
            ComplexConv1d(HIDDEN, BINS, 1),
        )

    def forward(self, noisy: Tensor) -> Tensor:
        """Return the enhanced waveform of a noisy one, both (clips, samples)."""
        spectrum = trnfft.stft(noisy, N_FFT, HOP)
        # The layers get log magnitudes; the gradient of the magnitude is finite in silent parts.
        mask = self.layers(trnfft.ComplexTensor(torch.log1p(spectrum.abs())))
        mask = mask / (1 + mask.abs())  # within the unit circle: noise is only ever removed
        return trnfft.istft(spectrum * mask, N_FFT, HOP, length=noisy.shape[-1])


def snr(clean: Tensor, estimate: Tensor) -> Tensor:
    """Return the signal-to-noise ratio of an estimate in dB, averaged over clips."""
    power = clean.square().sum(-1) / (clean - estimate).square().sum(-1)
    return 10 * torch.log10(power).mean()


def train(steps: int, seed: int = 0) -> MaskNetwork:
    """Return a network trained on clips drawn from ``seed``."""
    torch.manual_seed(seed)
    network = MaskNetwork()
    clean, noisy = clips(32, seed)
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    for step in range(steps):
        batch = torch.randperm(len(clean))[:8]
        loss = -snr(clean[batch], network(noisy[batch]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 20 == 0 or step == steps - 1:
            print(f"step {step:4d}   training SNR {-loss.item():6.2f} dB")
    return network.eval()


def main(arguments: Sequence[str] = ()) -> tuple[float, float]:
    """Train, print the SNR of unseen clips before and after, and return both."""
    parser = argparse.ArgumentParser(description="Speech enhancement by a complex mask")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    network = train(options.steps, options.seed)
    clean, noisy = clips(16, options.seed + 1)
    with torch.no_grad():
        before, after = snr(clean, noisy).item(), snr(clean, network(noisy)).item()
    print(f"unseen clips   SNR before {before:6.2f} dB   after {after:6.2f} dB")
    return before, after


if __name__ == "__main__":
    main(sys.argv[1:])
