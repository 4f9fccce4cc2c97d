"""A contraction of two four-index tensors: cuTENSOR's sample.

python examples/nvidia_samples/cutensor_contraction.py
TRNTENSOR_USE_SIMULATOR=1 python examples/nvidia_samples/cutensor_contraction.py
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import torch

import trnrand
import trntensor

SUBSCRIPTS = "mhkn,ukvh->munv"


def contracted(large: int, small: int, seed: int = 0) -> tuple[float, trntensor.ContractionPlan]:
    """Return the relative error of the contraction in the L2 norm, and its plan."""
    generator = trnrand.Generator(seed)
    A = trnrand.normal(large, small, small, large, generator=generator)
    B = trnrand.normal(large, small, large, small, generator=generator)
    plan = trntensor.plan_contraction(SUBSCRIPTS, A, B)
    C = trntensor.einsum(SUBSCRIPTS, A, B)
    exact = torch.einsum(SUBSCRIPTS, A.double(), B.double())
    return float((C.double() - exact).norm() / exact.norm()), plan


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="a contraction of two tensors")
    parser.add_argument("--demo", action="store_true", help="extents of 16 and 8 (default)")
    parser.add_argument("--large", type=int, default=16, help="extent of m, u, n and v")
    parser.add_argument("--small", type=int, default=8, help="extent of h and k")
    options = parser.parse_args(arguments)
    error, plan = contracted(options.large, options.small)
    print(plan)
    print(f"relative error {error:.2e}, {'passed' if error < 1e-4 else 'FAILED'}")


if __name__ == "__main__":
    main(sys.argv[1:])
