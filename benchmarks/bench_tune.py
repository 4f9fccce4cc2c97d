"""``nkisim.tune`` on two kernels with 60 variants each, for two shapes.

    python benchmarks/bench_tune.py
    python benchmarks/bench_tune.py --only softmax --jobs 2

For each shape: processor time per variant, why variants are dropped, the best one's time next to
that of the kernel's defaults, and the change of its outputs. Then what the best values for one
shape cost for the other, and the rank correlation of the times.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim.tuning import Tuning
from nkisim.tuning.result import shown


@nkisim.jit
def product(a, b, ROWS=128, COLUMNS=128, DEPTH=128):
    """Return a.T @ b by tiles of ROWS x COLUMNS, DEPTH rows of both operands at a time."""
    depth, m = a.shape
    n = b.shape[1]
    assert n % COLUMNS == 0, "COLUMNS must divide the columns of b"
    out = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(0, m, ROWS):
        for j in range(0, n, COLUMNS):
            total = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
            for k in range(0, depth, DEPTH):
                lhs = nl.ndarray((DEPTH, ROWS), dtype=a.dtype, buffer=nl.sbuf)
                rhs = nl.ndarray((DEPTH, COLUMNS), dtype=b.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=lhs, src=a[k : k + DEPTH, i : i + ROWS])
                nisa.dma_copy(dst=rhs, src=b[k : k + DEPTH, j : j + COLUMNS])
                nisa.nc_matmul(dst=total, stationary=lhs, moving=rhs, accumulate=k > 0)
            tile = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=tile, src=total)
            nisa.dma_copy(dst=out[i : i + ROWS, j : j + COLUMNS], src=tile)
    return out


@nkisim.jit
def softmax(x, ROWS=128, TILE=512, SCALE="scalar"):
    """Return exp(x) over its sums along rows, ROWS at a time, by tiles of TILE columns.

    SCALE is the engine that multiplies by the reciprocals of the sums, or "both" in turn.
    """
    rows, columns = x.shape
    assert columns % TILE == 0, "TILE must divide the columns of x"
    vector, scalar, tiles = nisa.engine.vector, nisa.engine.scalar, columns // TILE
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for r in range(0, rows, ROWS):
        tile = nl.ndarray((ROWS, columns), dtype=nl.float32, buffer=nl.sbuf)
        most = nl.ndarray((ROWS, tiles), dtype=nl.float32, buffer=nl.sbuf)
        sums = nl.ndarray((ROWS, tiles), dtype=nl.float32, buffer=nl.sbuf)
        factor = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
        for t in range(tiles):
            part = tile[:, t * TILE : (t + 1) * TILE]
            nisa.dma_copy(dst=part, src=x[r : r + ROWS, t * TILE : (t + 1) * TILE])
            nisa.tensor_reduce(dst=most[:, t : t + 1], op=nl.maximum, data=part, axis=1)
        nisa.tensor_reduce(dst=factor, op=nl.maximum, data=most, axis=1, negate=True)
        for t in range(tiles):
            part = tile[:, t * TILE : (t + 1) * TILE]
            nisa.activation(dst=part, op=nl.exp, data=part, bias=factor)
            nisa.tensor_reduce(dst=sums[:, t : t + 1], op=nl.add, data=part, axis=1)
        nisa.tensor_reduce(dst=factor, op=nl.add, data=sums, axis=1)
        nisa.reciprocal(dst=factor, data=factor)
        for t in range(tiles):
            part = tile[:, t * TILE : (t + 1) * TILE]
            nisa.tensor_scalar(
                dst=part,
                data=part,
                op0=nl.multiply,
                operand0=factor,
                engine=vector if SCALE == "vector" or (SCALE == "both" and t % 2 == 0) else scalar,
            )
            nisa.dma_copy(dst=out[r : r + ROWS, t * TILE : (t + 1) * TILE], src=part)
    return out


CASES: dict[str, tuple[Any, dict[str, list[Any]], tuple[Any, ...]]] = {
    "product": (
        product,
        {"ROWS": [32, 64, 128, 256], "COLUMNS": [64, 128, 256, 512, 1024], "DEPTH": [32, 64, 128]},
        (((512, 256), (512, 1024)), ((128, 1024), (128, 1024))),
    ),
    "softmax": (
        softmax,
        {
            "ROWS": [32, 64, 128, 256],
            "TILE": [256, 512, 1024, 2048, 3072],
            "SCALE": ["vector", "scalar", "both"],
        },
        (((256, 2048),), ((1024, 1024),)),
    ),
}
"""Kernel, space, and the shapes of its operands in two calls."""


def tuned(kernel: Any, space: dict[str, list[Any]], shapes: Any, jobs: int) -> Tuning:
    """Print the result for one call, and return it."""
    operands = [np.random.default_rng(0).standard_normal(shape, np.float32) for shape in shapes]
    start = time.process_time()
    found = nkisim.tune(kernel, space, jobs=jobs, file=Path(__file__))(*operands)
    seconds = time.process_time() - start
    count = len(found.variants) + len(found.dropped)
    default = nkisim.profile(kernel, advice=False)(*operands).latency_us
    reasons = Counter(dropped.reason.partition(":")[0] for dropped in found.dropped)
    print(f"\n{kernel.__name__} of {', '.join(map(str, shapes))}: {count} variants", end="")
    print(f", {seconds / count:.2f} s of processor time each" if jobs == 1 else "")
    print(f"  dropped: {', '.join(f'{n} {reason}' for reason, n in reasons.items())}")
    print(f"  best {shown(found.best.values)}: {found.best.latency_us:.1f} us; {found.ties} ties")
    print(f"  defaults {default:.1f} us, {default / found.best.latency_us:.2f} of the best")
    print(f"  outputs of the best: {found.agreement}")
    return found


def times(found: Tuning) -> dict[str, float]:
    """Return the times of the legal variants by their values."""
    return {shown(variant.values): variant.latency_us for variant in found.variants}


def main() -> None:
    """Tune the kernels for both shapes, and compare the orders."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=tuple(CASES), default="")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    for name, (kernel, space, calls) in CASES.items():
        if options.only not in ("", name):
            continue
        first, second = (tuned(kernel, space, shapes, options.jobs) for shapes in calls)
        for one, other in ((first, second), (second, first)):
            cost = times(other).get(shown(one.best.values))
            told = "illegal" if cost is None else f"{cost / other.best.latency_us:.2f} of the best"
            print(f"  {shown(one.best.values)} for the other shape: {told}")
        both = sorted(times(first).keys() & times(second).keys())
        orders = [np.argsort(np.argsort([times(f)[k] for k in both])) for f in (first, second)]
        print(f"  rank correlation of {len(both)} times: {np.corrcoef(*orders)[0, 1]:.2f}")


if __name__ == "__main__":
    main()
