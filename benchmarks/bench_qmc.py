"""Quasi-random points of trnrand, SciPy and torch, in one run.

    python benchmarks/bench_qmc.py               print the table
    python benchmarks/bench_qmc.py --numba       the same with numba loaded
    python benchmarks/bench_qmc.py --record      also append to benchmarks/results/

A call creates its engine, scrambles it and draws. SciPy draws float64, torch and trnrand float32.
Scrambling in SciPy and torch is trnrand's "linear"; nested scrambling does more. The goal is at
most 1.05 of the time of the faster baseline if that is 200 microseconds or more, and at most 5 times
it if it is less. Contenders are timed in turns, so that noise is shared.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import torch
from runner import Timing, clock_for, judged, measure, record, show
from scipy.stats import qmc as scipy_qmc

from trnrand import qmc

Call = Callable[[], object]
SIZES = ((2**20, 2), (2**17, 10), (2**16, 64), (2**10, 1000), (2**4, 2**4))
SET = (2**17, 10)
PAIRS = (2000, 8)


def sobol_problems() -> Iterator[tuple[str, dict[str, Call]]]:
    """Yield Sobol' sets: plain, and with each scrambling, with their baselines."""
    for n, d in SIZES:
        for method in (False, "linear", "owen"):
            plain = method is False
            yield (
                f"sobol {'plain' if plain else method} {n} x {d}",
                {
                    "trnrand": lambda n=n, d=d, s=method: qmc.sobol(n, d, 1, s),
                    "scipy": lambda n=n, d=d, s=not plain: scipy_qmc.Sobol(
                        d, scramble=s, rng=np.random.default_rng(1)
                    ).random(n),
                    "torch": lambda n=n, d=d, s=not plain: torch.quasirandom.SobolEngine(
                        d, scramble=s, seed=1
                    ).draw(n),
                },
            )


def other_problems() -> Iterator[tuple[str, dict[str, Call]]]:
    """Yield Halton and Latin hypercube sets, and discrepancies."""
    n, d = SET
    for scramble in (False, True):
        yield (
            f"halton {'scrambled' if scramble else 'plain'} {n} x {d}",
            {
                "trnrand": lambda s=scramble: qmc.halton(n, d, scramble=s, seed=1),
                "scipy": lambda s=scramble: scipy_qmc.Halton(
                    d, scramble=s, rng=np.random.default_rng(1)
                ).random(n),
            },
        )
    yield (
        f"latin_hypercube {n} x {d}",
        {
            "trnrand": lambda: qmc.latin_hypercube(n, d, seed=1),
            "scipy": lambda: scipy_qmc.LatinHypercube(d, rng=np.random.default_rng(1)).random(n),
        },
    )
    points = np.random.default_rng(1).random(PAIRS)
    tensor = torch.from_numpy(points)
    for method in ("CD", "WD", "MD", "L2-star"):
        yield (
            f"discrepancy {method} {PAIRS[0]} x {PAIRS[1]}",
            {
                "trnrand": lambda m=method: qmc.discrepancy(tensor, m),
                "scipy": lambda m=method: scipy_qmc.discrepancy(points, method=m),
            },
        )


def row_of(problem: str, timings: dict[str, Timing]) -> tuple[str, str, str, str]:
    """Return a row: time compared with the faster baseline, and the goal."""
    ours = timings["trnrand"]
    best = min((name for name in timings if name != "trnrand"), key=lambda n: timings[n].p50)
    times = ", ".join(f"{name} {t.p50 * 1e3:.3f}" for name, t in timings.items())
    shown, goal, verdict = judged(ours, timings[best], best)
    return problem, f"{shown} ({times} ms)", goal, verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--numba", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if options.numba:
        import numba  # noqa: F401
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "The balance properties")
    loaded = "with" if "numba" in sys.modules else "without"
    print(f"CPU, torch {torch.__version__}, one thread, {loaded} numba")
    clock = clock_for("cpu", 1, options.record)
    rows = []
    for problems in (sobol_problems(), other_problems()):
        for problem, contenders in problems:
            timings = measure(contenders, clock=clock)
            rows.append(row_of(problem, timings))
            if options.record:
                record("qmc", f"{problem} {loaded} numba", timings)
    show(rows)


if __name__ == "__main__":
    main()
