"""A real image to its spectrum and back: cuFFT's sample of 2-D real transforms.

python examples/nvidia_samples/simple_cufft_2d_r2c.py                 512 x 512, on torch
TRNFFT_USE_SIMULATOR=1 python examples/nvidia_samples/simple_cufft_2d_r2c.py --size 64
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import trnfft
import trnrand


def roundtrip_error(size: int, seed: int = 0) -> float:
    """Return the relative error of ``irfft2(rfft2(x))`` in the L2 norm."""
    x = trnrand.normal(size, size, generator=trnrand.Generator(seed))
    back = trnfft.irfft2(trnfft.rfft2(x), s=(size, size))
    return float((back - x).norm() / x.norm())


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="a real 2-D transform and its inverse")
    parser.add_argument("--demo", action="store_true", help="512 x 512 (default)")
    parser.add_argument("--size", type=int, default=512)
    options = parser.parse_args(arguments)
    error = roundtrip_error(options.size)
    said = "passed" if error < 1e-4 else "FAILED"
    print(f"{options.size} x {options.size}: relative error {error:.2e}, {said}")


if __name__ == "__main__":
    main(sys.argv[1:])
