"""Poisson's equation on a periodic square by FFTs: exact to rounding for smooth sources.

python examples/poisson_fft.py
python examples/poisson_fft.py --plot poisson.png       source and solution
TRNFFT_USE_SIMULATOR=1 python examples/poisson_fft.py --grid 32

With lap(u) = f, every Fourier coefficient of u is that of f divided by minus its squared frequency.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence

import torch
from torch import Tensor

import trnfft


def solved(source: Tensor) -> Tensor:
    """Return u with lap(u) = source on a square of side 2 pi, and mean zero."""
    n = source.shape[-1]
    waves = torch.fft.fftfreq(n, 1 / n).to(source)
    half = torch.arange(n // 2 + 1).to(source)
    squares = waves.unsqueeze(1).square() + half.square()
    squares[0, 0] = 1
    factors = -1 / squares
    factors[0, 0] = 0  # the mean is free, and is taken to be zero
    spectrum = trnfft.rfft2(source)
    return trnfft.irfft2(spectrum * factors, s=(n, n))


def problem(grid: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return a source and the solution it was made from."""
    x = torch.arange(grid, dtype=torch.float64) * (2 * math.pi / grid)
    exact = torch.sin(3 * x).unsqueeze(1) * torch.cos(2 * x) + 0.5 * torch.cos(x + 1)
    source = -13 * torch.sin(3 * x).unsqueeze(1) * torch.cos(2 * x) - 0.5 * torch.cos(x + 1)
    return source.expand(grid, grid).to(dtype), exact.expand(grid, grid).to(dtype)


def plot(source: Tensor, found: Tensor, path: str) -> None:
    """Draw the source and the solution side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="tight")
    for place, (title, picture) in enumerate((("source", source), ("solution", found)), start=1):
        axes = figure.add_subplot(1, 2, place)
        axes.imshow(picture.numpy(), extent=(0, 2 * math.pi, 0, 2 * math.pi))
        axes.set_title(title)
    figure.savefig(path)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="Poisson's equation by transforms")
    parser.add_argument("--grid", type=int, default=256)
    parser.add_argument("--plot", metavar="FILE", help="draw source and solution")
    options = parser.parse_args(arguments)
    if options.grid < 2:
        parser.error("--grid: wanted: 2 or more points")
    source, exact = problem(options.grid, torch.float32)
    found = solved(source)
    error = float((found - exact).abs().max())
    # Two transforms of 2e-6 each, on a source 13 times as large as the solution.
    said = "passed" if error < 2 * 2e-6 * 13 else "FAILED"
    print(f"{options.grid} x {options.grid}: max |error| {error:.1e}, {said}")
    if options.plot:
        try:
            plot(source, found, options.plot)
        except (OSError, ValueError) as error:  # no such folder, or unknown image format
            sys.exit(f"--plot: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
