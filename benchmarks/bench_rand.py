"""Million samples per second of trnrand beside other generators, in one run.

    python benchmarks/bench_rand.py              print the table
    python benchmarks/bench_rand.py --count 10000000
    python benchmarks/bench_rand.py --cuda       the same on a CUDA device, against torch
    python benchmarks/bench_rand.py --record     also append to benchmarks/results/

The rivals are torch's own generator, numpy.random.Generator with SFC64 and with Philox, randomgen's
Philox where that package is installed, and
scipy.stats.qmc for Sobol points. trnrand is measured with numba loaded and without: a process that
has not imported numba makes its words with NumPy. All fill float32 with one thread. Contenders take
turns, so that noise is shared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np
import torch
from runner import measure, record, show
from torch import Tensor

import trnrand

try:
    import randomgen
except ImportError:  # pip install '.[bench]'
    randomgen = None

Call = Callable[[], object]
Row = tuple[str, str, str, str]

# Least ratio of our speed to the rival's: with numba, and without.
GOALS = {"uniform": (0.5, 0.1), "normal": (0.5, 0.1), "sobol": (1.0, 1.0)}
DIMENSIONS = 16


def without_numba(call: Call) -> Call:
    """Return the call as a process without numba makes it."""

    def run() -> None:
        numba = sys.modules.pop("numba", None)
        try:
            call()
        finally:
            if numba is not None:
                sys.modules["numba"] = numba

    return run


def numpy_rivals(law: str, count: int) -> dict[str, Call]:
    engines = {"sfc64": np.random.SFC64(1), "np philox": np.random.Philox(1)}
    if randomgen is not None:  # the same engine as ours, compiled ahead of time
        engines["randomgen philox"] = randomgen.Philox(key=1, number=4, width=32)
    method = {"uniform": "random", "normal": "standard_normal"}
    method["exponential"] = "standard_exponential"

    def call(engine: np.random.BitGenerator) -> Call:
        draw = getattr(np.random.Generator(engine), method[law])
        return lambda: draw(count, dtype=np.float32)

    return {name: call(engine) for name, engine in engines.items()}


def contenders(law: str, count: int, device: str) -> dict[str, Call]:
    """Return by name the calls that draw ``count`` samples of a law."""
    torch_draw = {"uniform": Tensor.uniform_, "normal": Tensor.normal_}
    torch_draw["exponential"] = Tensor.exponential_
    draw = getattr(trnrand, law)
    found: dict[str, Call] = {}
    for engine in ("philox", "threefry"):
        generator = trnrand.Generator(1, device, engine=engine)
        found[engine] = lambda generator=generator: draw(count, generator=generator)
    fill = torch_draw[law]
    rivals: dict[str, Call] = {"torch": lambda: fill(torch.empty(count, device=device))}
    if device != "cpu":
        return {name: synchronised(call) for name, call in {**found, **rivals}.items()}
    found |= {f"{name} plain": without_numba(call) for name, call in found.items()}
    return {**found, **rivals, **numpy_rivals(law, count)}


def synchronised(call: Call) -> Call:
    """Return a call that waits for the device."""

    def run() -> None:
        call()
        torch.cuda.synchronize()

    return run


def sobol_contenders(count: int) -> dict[str, Call]:
    from scipy.stats import qmc

    points = 1 << max(0, (count // DIMENSIONS).bit_length() - 1)
    return {
        "trnrand": lambda: trnrand.sobol(points, DIMENSIONS, scramble=False),
        "scipy": lambda: qmc.Sobol(DIMENSIONS, scramble=False).random(points),
    }


def rows_of(law: str, count: int, seconds: dict[str, float], rival: str, device: str) -> list[Row]:
    """Return a row per contender: speed, ratio to the rival, and the goal of ours on a CPU."""
    with_numba, plain = GOALS.get(law, (0.0, 0.0)) if device == "cpu" else (0.0, 0.0)
    rows = []
    for name, time in seconds.items():
        ratio = seconds[rival] / time
        goal = plain if name.endswith("plain") else with_numba
        ours = name.split()[0] in ("philox", "threefry", "trnrand")
        rows.append(
            (
                f"{law} {name}",
                f"{count / time / 1e6:.1f} M/s, {ratio:.2f} of {rival}",
                f"{goal}" if ours and goal else "",
                "under" if ours and ratio < goal else "",
            )
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    device = "cuda" if options.cuda else "cpu"
    if not options.cuda:
        import numba

        torch.set_num_threads(1)
        print(f"CPU, torch {torch.__version__}, numpy {np.__version__}, numba {numba.__version__}")
    problems = {
        law: (contenders(law, options.count, device), "torch")
        for law in ("uniform", "normal", "exponential")
    }
    if not options.cuda:
        problems["sobol"] = (sobol_contenders(options.count), "scipy")
    rows: list[Row] = []
    for law, (calls, rival) in problems.items():
        timings = measure(calls)
        rows += rows_of(law, options.count, {k: t.p50 for k, t in timings.items()}, rival, device)
        if options.record:
            record("rand", f"{law} {options.count} {device}", timings)
    show(rows)


if __name__ == "__main__":
    main()
