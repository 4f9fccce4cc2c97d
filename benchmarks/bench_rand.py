"""Million samples per second of trnrand beside other generators, in one run.

    python benchmarks/bench_rand.py              print the table
    python benchmarks/bench_rand.py --count 10000000
    python benchmarks/bench_rand.py --all        every law that torch has, too
    python benchmarks/bench_rand.py --cuda       the same on a CUDA device, against torch
    python benchmarks/bench_rand.py --record     also append to benchmarks/results/

The rivals are torch's own generator, numpy.random.Generator with SFC64 and with Philox, randomgen's
Philox where that package is installed, and
scipy.stats.qmc for Sobol points. trnrand is measured with the loops that numba compiles, which it
loads by itself for draws of this size, and without, as where numba is not installed. All fill with
one thread. Contenders take turns, so that noise is shared. Small draws are measured by themselves.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from runner import measure, record, show
from torch import Tensor

import trnrand
from trnrand import _numba

try:
    import randomgen
except ImportError:  # pip install '.[bench]'
    randomgen = None

Call = Callable[[], object]
Row = tuple[str, str, str, str]

# Least ratio of our speed to the rival's on a CPU: with numba, and without; then on a CUDA device.
GOALS = {"uniform": (1.0, 0.25, 0.8), "normal": (0.7, 0.25, 0.8), "sobol": (1.0, 1.0, 0.0)}
OTHERS = (0.5, 0.25, 0.0)
MOST_MICROSECONDS = 10.0  # of a draw of one sample
DIMENSIONS = 16
CORE = ("uniform", "normal", "exponential")

TORCH: dict[str, Callable[[Tensor], object]] = {
    "uniform": Tensor.uniform_,
    "normal": Tensor.normal_,
    "exponential": Tensor.exponential_,
    "lognormal": Tensor.log_normal_,
    "cauchy": Tensor.cauchy_,
    "geometric": lambda out: out.geometric_(0.2),
    "bernoulli": lambda out: out.bernoulli_(0.3),
    "randint": lambda out: torch.randint(-5, 1000, out.shape, device=out.device),
    "randperm": lambda out: torch.randperm(out.numel(), device=out.device),
    "poisson": lambda out: torch.poisson(out.fill_(2.5)),
    "poisson 25": lambda out: torch.poisson(out.fill_(25.0)),
    "binomial": lambda out: torch.binomial(out.fill_(200.0), torch.full_like(out, 0.7)),
    "gamma": lambda out: torch._standard_gamma(out.fill_(3.0)),
}
PARAMETERS: dict[str, dict[str, float]] = {
    "geometric": {"p": 0.2},
    "bernoulli": {"p": 0.3},
    "randint": {"low": -5, "high": 1000},
    "poisson": {"lam": 2.5},
    "poisson 25": {"lam": 25.0},
    "binomial": {"n": 200, "p": 0.7},
    "gamma": {"shape": 3.0},
}


def without_numba(call: Call) -> Call:
    """Return the call as a process without numba makes it."""

    def run() -> None:
        before = _numba.compiled_wanted
        _numba.compiled_wanted = lambda samples: False
        try:
            call()
        finally:
            _numba.compiled_wanted = before

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
    draw = partial(getattr(trnrand, law.partition(" ")[0]), **PARAMETERS.get(law, {}))
    found: dict[str, Call] = {}
    for engine in ("philox", "threefry") if law in CORE else ("philox",):
        generator = trnrand.Generator(1, device, engine=engine)
        found[engine] = lambda generator=generator: draw(count, generator=generator)
    fill = TORCH[law]
    rivals: dict[str, Call] = {"torch": lambda: fill(torch.empty(count, device=device))}
    if device != "cpu":
        return {name: synchronised(call) for name, call in {**found, **rivals}.items()}
    found |= {f"{name} plain": without_numba(call) for name, call in found.items()}
    return {**found, **rivals, **(numpy_rivals(law, count) if law in CORE else {})}


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
    with_numba, plain, cuda = GOALS.get(law, OTHERS)
    if device != "cpu":
        with_numba = plain = cuda
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


def small_rows() -> list[Row]:
    """Return a row per law: microseconds of a draw of one sample, in a row of draws."""
    calls: dict[str, Call] = {"torch.rand": lambda: [torch.rand(1) for _ in range(1000)]}
    for law in ("uniform", "normal", "poisson"):
        draw = getattr(trnrand, law)
        calls[law] = lambda draw=draw: [draw(1) for _ in range(1000)]
    rows = []
    for name, timing in measure(calls).items():
        goal = 0.0 if name == "torch.rand" else MOST_MICROSECONDS
        over = "over" if goal and timing.p50 * 1e3 > goal else ""
        rows.append((f"{name}(1)", f"{timing.p50 * 1e3:.1f} us", f"{goal}" if goal else "", over))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--all", action="store_true", help="every law that torch has, too")
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
        for law in (TORCH if options.all else CORE)
    }
    if not options.cuda:
        problems["sobol"] = (sobol_contenders(options.count), "scipy")
    rows: list[Row] = []
    for law, (calls, rival) in problems.items():
        timings = measure(calls)
        rows += rows_of(law, options.count, {k: t.p50 for k, t in timings.items()}, rival, device)
        if options.record:
            record("rand", f"{law} {options.count} {device}", timings)
    if not options.cuda:
        rows += small_rows()
    show(rows)


if __name__ == "__main__":
    main()
