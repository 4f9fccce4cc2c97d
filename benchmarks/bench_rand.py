"""Draws of trnrand and of other generators, in one run.

    python benchmarks/bench_rand.py              print the table
    python benchmarks/bench_rand.py --count 10000000
    python benchmarks/bench_rand.py --all        also the other distributions of torch and NumPy
    python benchmarks/bench_rand.py --law beta   only these, of several --law
    python benchmarks/bench_rand.py --device cuda  the same on a CUDA device, against torch
    python benchmarks/bench_rand.py --record     also append to benchmarks/results/

The baselines are torch's own generator and numpy.random.Generator with Philox. NumPy's SFC64, whose
streams have no positions, and randomgen's Philox, if that package is installed, are shown for
comparison. The goal is at most 1.05 of the time of the faster baseline if that is 200 microseconds
or more, and at most 5 times as long if it is less; for a million uniforms, normals or exponentials
on a CUDA device it is 1.2. It applies to trnrand with loops compiled by numba; trnrand without
numba is shown as "plain". All use one thread. Contenders are timed in turns, so that noise is
shared.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from runner import Timing, clock_for, judged, measure, ratio, record, show
from torch import Tensor

import trnrand
from trnrand._stream import numba_loops

try:
    import randomgen
except ImportError:  # pip install '.[bench]'
    randomgen = None

Call = Callable[[], object]
Row = tuple[str, str, str, str]

SMALL = (1, 64, 1000)
CORE = ("uniform", "normal", "exponential")
MOST_ON_CUDA = 1.2

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
    "gamma": lambda out: torch.distributions.Gamma(out.fill_(3.0), 1.0).sample(),
}
# Draws of NumPy that torch lacks or that are faster than torch's, by a generator and a count.
NUMPY: dict[str, Callable[[np.random.Generator, int], object]] = {
    "gamma": lambda draw, count: draw.gamma(3.0, size=count),
    "student_t": lambda draw, count: draw.standard_t(4.0, size=count),
    "beta": lambda draw, count: draw.beta(2.0, 3.0, size=count),
    "beta small": lambda draw, count: draw.beta(0.5, 2.0, size=count),
    "hypergeometric": lambda draw, count: draw.hypergeometric(300, 500, 200, size=count),
    "hypergeometric large": lambda draw, count: draw.hypergeometric(10**5, 10**5, 10**4, count),
    "multinomial": lambda draw, count: draw.multinomial(1000, WEIGHTS.numpy(), count // WIDTH),
    "dirichlet": lambda draw, count: draw.dirichlet(WEIGHTS.numpy(), count // WIDTH),
    "dirichlet large": lambda draw, count: draw.dirichlet(10 * WEIGHTS.numpy(), count // WIDTH),
    "dirichlet of 3": lambda draw, count: draw.dirichlet((1.0, 2.0, 3.0), count // 3),
    "dirichlet of 4": lambda draw, count: draw.dirichlet((0.5,) * 4, count // 4),
}
WIDTH = 10
WEIGHTS = torch.arange(1.0, WIDTH + 1, dtype=torch.float64)
WEIGHTS /= WEIGHTS.sum()
DIRICHLET = {
    "dirichlet large": 10 * WEIGHTS,
    "dirichlet of 3": torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64),
    "dirichlet of 4": torch.full((4,), 0.5, dtype=torch.float64),
}
PARAMETERS: dict[str, dict[str, float]] = {
    "student_t": {"df": 4.0},
    "beta": {"alpha": 2.0, "beta": 3.0},
    "beta small": {"alpha": 0.5, "beta": 2.0},
    "hypergeometric": {"good": 300, "bad": 500, "draws": 200},
    "hypergeometric large": {"good": 10**5, "bad": 10**5, "draws": 10**4},
    "geometric": {"p": 0.2},
    "bernoulli": {"p": 0.3},
    "randint": {"low": -5, "high": 1000},
    "poisson": {"lam": 2.5},
    "poisson 25": {"lam": 25.0},
    "binomial": {"n": 200, "p": 0.7},
    "gamma": {"shape": 3.0},
}


def without_numba(call: Call) -> Call:
    """Return the call without compiled loops, as in a process without numba."""

    def run() -> None:
        before = numba_loops.compiled_wanted
        numba_loops.compiled_wanted = lambda samples: False
        try:
            call()
        finally:
            numba_loops.compiled_wanted = before

    return run


def numpy_rivals(law: str, count: int) -> dict[str, Call]:
    engines = {"sfc64": np.random.SFC64(1), "np philox": np.random.Philox(1)}
    if randomgen is not None:  # the same engine as trnrand, compiled ahead of time
        engines["randomgen philox"] = randomgen.Philox(key=1, number=4, width=32)
    method = {"uniform": "random", "normal": "standard_normal"}
    method["exponential"] = "standard_exponential"

    def call(engine: np.random.BitGenerator) -> Call:
        draw = getattr(np.random.Generator(engine), method[law])
        return lambda: draw(count, dtype=np.float32)

    return {name: call(engine) for name, engine in engines.items()}


def drawn(law: str, count: int, generator: trnrand.Generator) -> object:
    """Draw ``count`` samples of a distribution."""
    draw = partial(getattr(trnrand, law.partition(" ")[0]), **PARAMETERS.get(law, {}))
    if law == "multinomial":
        return draw(1000, WEIGHTS, count // WIDTH, generator=generator)
    if law.startswith("dirichlet"):
        weights = DIRICHLET.get(law, WEIGHTS)
        return draw(weights, count // len(weights), generator=generator)
    if law == "randint":
        return draw(size=(count,), generator=generator)
    return draw(count, generator=generator)


def contenders(law: str, count: int, device: str) -> dict[str, Call]:
    """Return by name the calls that draw ``count`` samples of a distribution."""
    found: dict[str, Call] = {}
    for engine in ("philox", "threefry") if law in CORE else ("philox",):
        generator = trnrand.Generator(1, device, engine=engine)
        found[engine] = partial(drawn, law, count, generator)
    rivals: dict[str, Call] = {}
    if law in TORCH:
        fill = TORCH[law]
        rivals["torch"] = lambda: fill(torch.empty(count, device=device))
    if law in NUMPY and device == "cpu":
        for name, engine in (("np philox", np.random.Philox(1)), ("np pcg64", np.random.PCG64(1))):
            rivals[name] = partial(NUMPY[law], np.random.Generator(engine), count)
    if device != "cpu":
        return {name: synchronised(call) for name, call in {**found, **rivals}.items()}
    found |= {f"{name} plain": without_numba(call) for name, call in found.items()}
    return {**found, **rivals, **(numpy_rivals(law, count) if law in CORE else {})}


def synchronised(call: Call) -> Call:
    """Return a call that synchronizes the device."""

    def run() -> None:
        call()
        torch.cuda.synchronize()

    return run


def rows_of(law: str, count: int, device: str, timings: dict[str, Timing]) -> list[Row]:
    """Return a row per contender: its speed, and for trnrand the goal and the verdict."""
    baselines = [name for name in timings if name in ("torch", "np philox", "np pcg64")]
    best = min(baselines, key=lambda name: timings[name].p50)
    rows = []
    for name, timing in timings.items():
        speed = f"{timing.p50 * 1e6:.1f} us, {count / timing.p50 / 1e6:.1f} M/s"
        shown, goal, verdict = judged(timing, timings[best], best)
        if device == "cuda" and law in CORE and count >= 10**6:
            missed = ratio(timing, timings[best]) > 1.05 * MOST_ON_CUDA
            goal, verdict = f"{MOST_ON_CUDA:g}", "missed" if missed else ""
        if name not in ("philox", "threefry"):
            goal = verdict = ""
        rows.append((f"{law}({count}) {name}", f"{speed}, {shown}", goal, verdict))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--all", action="store_true", help="also those of torch and NumPy")
    parser.add_argument("--law", action="append", help="only this distribution")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    device = options.device
    if device == "cpu":
        import numba

        torch.set_num_threads(1)
        print(f"CPU, torch {torch.__version__}, numpy {np.__version__}, numba {numba.__version__}")
    more = () if device == "cuda" else tuple(law for law in NUMPY if law not in TORCH)
    laws = (*TORCH, *more) if options.all else CORE
    laws = tuple(options.law or laws)
    problems = [(law, options.count, 1) for law in laws]
    problems += [(law, count, 100) for law in laws if law not in more for count in SMALL]
    if "multinomial" in laws:
        problems.append(("multinomial", 1000 * WIDTH, 10))
    clock = clock_for(device, 1, options.record)
    rows: list[Row] = []
    for law, count, calls in problems:
        timings = measure(contenders(law, count, device), calls=calls, clock=clock)
        rows += rows_of(law, count, device, timings)
        if options.record:
            record("rand", f"{law} {count} {device}", timings)
    show(rows)


if __name__ == "__main__":
    main()
