"""Cost of a second core: the same instructions on one core and on two, in one run.

    python benchmarks/bench_cores.py            print the table
    python benchmarks/bench_cores.py --record   also append to benchmarks/results/

Each core does the work of the single core, so two independent cores take twice the time. The
overhead on top is the scheduling of turns, the switches at accesses to shared memory, and race
detection.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from runner import Timing, measure, record, show

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl

COUNT = 2000


def private(x):
    """Compute in private memory, and store the result at the end."""
    out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for _ in range(COUNT):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    nl.store(out[nl.program_id(0)], tile)
    return out


def streamed(x):
    """Load, compute six times, store: a transfer for every three instructions."""
    out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    for _ in range(COUNT // 8):
        nisa.dma_copy(dst=tile, src=x)
        for _ in range(6):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out[nl.program_id(0)], src=tile)
    return out


def copied(x):
    """Load and store only: every instruction accesses shared memory."""
    out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    for _ in range(COUNT // 2):
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=out[nl.program_id(0)], src=tile)
    return out


def timings(kernel: Callable[..., object], shape: tuple[int, int]) -> dict[str, Timing]:
    """Time a kernel on one core and on two."""
    x = np.zeros(shape, np.float32)
    launched = {f"{cores} cores": nkisim.simulate(nkisim.jit(kernel)[cores]) for cores in (1, 2)}
    return measure({name: lambda run=run: run(x) for name, run in launched.items()}, rounds=7)


def main() -> None:
    """Print, and optionally record, the cost per instruction on one core and on two."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="append to benchmarks/results/")
    arguments = parser.parse_args()
    rows = []
    for kernel in (private, streamed, copied):
        for shape in ((8, 8), (128, 512)):
            problem = f"{kernel.__name__} {shape[0]}x{shape[1]}"
            found = timings(kernel, shape)
            one, two = (found[f"{cores} cores"].p50 / cores / COUNT * 1e6 for cores in (1, 2))
            rows.append((problem, f"{one:.1f} us", f"{two:.1f} us", f"{two / one:.2f}"))
            if arguments.record:
                record("cores", problem, found)
    show(rows, ("instruction", "one core", "two cores, each", "ratio"))


if __name__ == "__main__":
    main()
