"""Poisson's equation on a periodic box in thirteen digits, by transforms on kernels.

    python examples/double_precision/poisson.py                      on the simulator
    python examples/double_precision/poisson.py --sides 16 15 14
    python examples/double_precision/poisson.py --backend nki        on a NeuronCore

With lap(u) = f, every Fourier coefficient of u is that of f divided by minus its squared frequency.
Each of the two transforms over three dimensions is one launch; the factors are applied by torch.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence

import torch
from _comparison import BACKENDS, compare
from torch import Tensor

import trnfft


def solved(source: Tensor) -> Tensor:
    """Return u with lap(u) = source on a box of sides 2 pi, and mean zero."""
    *leading, last = source.shape
    axes = [torch.fft.fftfreq(n, 1 / n).to(source) for n in leading]
    axes.append(torch.arange(last // 2 + 1).to(source))
    squares = sum(axis.square() for axis in torch.meshgrid(*axes, indexing="ij"))
    factors = torch.where(squares == 0, 0.0, -1 / squares)  # the mean is free, and is zero
    return trnfft.irfftn(trnfft.rfftn(source) * factors, s=source.shape)


def problem(sides: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return a source in float64 and the solution it was made from."""
    points = (torch.arange(n, dtype=torch.float64) * (2 * math.pi / n) for n in sides)
    x, y, z = torch.meshgrid(*points, indexing="ij")
    first = torch.sin(3 * x) * torch.cos(2 * y) * torch.cos(z)
    second = 0.5 * torch.cos(x + y + 1) * torch.sin(2 * z)
    return -14 * first - 6 * second, first + second


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="Poisson's equation at doublefloat")
    parser.add_argument("--backend", default=BACKENDS[0], choices=BACKENDS)
    parser.add_argument("--sides", type=int, nargs=3, default=(12, 10, 9), metavar="N")
    options = parser.parse_args(arguments)
    if min(options.sides) < 7:
        parser.error("--sides: wanted: 7 or more points, for waves of frequency 3")
    source, _ = problem(options.sides)
    compare("Poisson", solved, (source,), options.backend)


if __name__ == "__main__":
    main(sys.argv[1:])
