"""Many products of small matrices in one call: cuBLAS's sample of batched SGEMM.

python examples/nvidia_samples/batch_cublas.py                      64 products of 256^3, on torch
TRNBLAS_USE_SIMULATOR=1 python examples/nvidia_samples/batch_cublas.py --batch 3 --size 64
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import torch

import trnblas
import trnrand


def measured(batch: int, size: int, iterations: int, seed: int = 0) -> tuple[float, float]:
    """Return the shortest time of a call in seconds, and the relative error of its result."""
    generator = trnrand.Generator(seed)
    A, B = (trnrand.normal(batch, size, size, generator=generator) for _ in range(2))
    times = []
    for _ in range(iterations):
        start = time.perf_counter()
        C = trnblas.batched_gemm(1.0, A, B)
        times.append(time.perf_counter() - start)
    exact = A.double() @ B.double()
    return min(times), float((C.double() - exact).norm() / exact.norm())


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="batched matrix products")
    parser.add_argument("--demo", action="store_true", help="64 products of 256^3 (default)")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--iterations", type=int, default=5)
    options = parser.parse_args(arguments)
    seconds, error = measured(options.batch, options.size, options.iterations)
    rate = 2 * options.batch * options.size**3 / seconds * 1e-12
    # Sums of `size` products: each rounding is of relative size 2^-24.
    said = "passed" if error <= options.size * torch.finfo(torch.float32).eps else "FAILED"
    print(
        f"{options.batch} x {options.size}^3: {seconds * 1e3:.3f} ms, {rate:.3f} TFLOPS, "
        f"relative error {error:.2e}, {said}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
