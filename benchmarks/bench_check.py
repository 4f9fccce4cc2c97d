"""Cost of checking: source rules per 1,000 lines, and a check compared with a simulation.

    python benchmarks/bench_check.py            print the table
    python benchmarks/bench_check.py --record   also append to benchmarks/results/

Source rules are timed on a new file of 1,000 lines each time, because unchanged files are cached. A
check of the tiled GEMM, with every rule and detector, is compared with its simulation.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import ml_dtypes
from runner import Timing, measure, record, show

import nkisim
from kernels import gemm, gemm_problem

LINES = 1000
MOST_SECONDS = 0.5
MOST_RATIO = 4.0

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n"
KERNEL = '''@nki.jit
def kernel{0}(x, scale):
    """Scale and exponentiate a matrix, 128 rows at a time."""
    rows, cols = x.shape
    out = nl.ndarray((rows, cols), dtype=x.dtype, buffer=nl.shared_hbm)
    for r in range(0, rows, 128):
        r1 = min(r + 128, rows)
        tile = nl.ndarray((r1 - r, cols), dtype=x.dtype, buffer=nl.sbuf)
        total = nl.ndarray((r1 - r, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[r:r1, 0:cols])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
        if cols > 512:
            nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[r:r1, 0:cols], src=tile)
    return out


'''


def source_of(lines: int = LINES) -> str:
    """Return a file of kernels with the given number of lines."""
    text, number = HEAD, 0
    while text.count("\n") < lines:
        text += KERNEL.format(number)
        number += 1
    return text


def source_seconds(lines: int = LINES, rounds: int = 5) -> float:
    """Return the minimum processor seconds of the source rules for a new file."""
    best = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds):
            file = Path(folder) / f"kernels{turn}.py"
            file.write_text(source_of(lines))
            begin = time.process_time()
            report = nkisim.check_source(file)
            best = min(best, time.process_time() - begin)
            assert report.ok, str(report)
    return best


def gemm_timings(size: int = 1024, rounds: int = 5) -> dict[str, Timing]:
    """Time a check of the tiled GEMM and its simulation, in turns."""
    problem = gemm_problem(size, ml_dtypes.bfloat16)
    simulated, checked = nkisim.simulate(gemm), nkisim.check(gemm)
    return measure(
        {
            "simulate": lambda: simulated(*problem.arguments),
            "check": lambda: checked(*problem.arguments),
        },
        rounds,
    )


def row(problem: str, measured: float, unit: str, most: float) -> tuple[str, str, str, str]:
    """Return a line of the table."""
    verdict = "ok" if measured <= most else "missed"
    return problem, f"{measured:.3g} {unit}".strip(), f"<= {most:g} {unit}".strip(), verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--size", type=int, default=1024)
    options = parser.parse_args()
    seconds = source_seconds()
    timings = gemm_timings(options.size)
    ratio = timings["check"].p50 / timings["simulate"].p50
    show(
        [
            row(f"source rules, {LINES} lines", seconds, "s", MOST_SECONDS),
            row(f"check over simulate, GEMM {options.size}^3", ratio, "", MOST_RATIO),
        ]
    )
    if options.record:
        record("bench_check", f"gemm {options.size}", timings)


if __name__ == "__main__":
    main()
