"""All eigenvalues and eigenvectors of a symmetric matrix, checked by their residuals.

python examples/nvidia_samples/cusolver_syevd.py                              order 256, on torch
TRNSOLVER_USE_SIMULATOR=1 python examples/nvidia_samples/cusolver_syevd.py --order 32
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import trnrand
import trnsolver


def errors(order: int, seed: int = 0) -> tuple[float, float]:
    """Return the residual ``norm(A V - V w) / norm(A)``, and that of ``V^T V = I``."""
    drawn = trnrand.normal(order, order, generator=trnrand.Generator(seed))
    a = 0.5 * (drawn + drawn.mT)
    w, v = trnsolver.eigh(a)
    wide_a, wide_v = a.double(), v.double()
    residual = (wide_a @ wide_v - wide_v * w.double()).norm() / wide_a.norm()
    inner = wide_v.mT @ wide_v
    inner.diagonal().sub_(1)
    return float(residual), float(inner.norm())


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description="a symmetric eigenproblem")
    parser.add_argument("--demo", action="store_true", help="order 256 (default)")
    parser.add_argument("--order", type=int, default=256)
    options = parser.parse_args(arguments)
    residual, orthogonality = errors(options.order)
    print(
        f"order {options.order}: residual {residual:.2e}, orthogonality {orthogonality:.2e}, "
        f"{'passed' if residual < 1e-3 and orthogonality < 1e-4 else 'FAILED'}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
