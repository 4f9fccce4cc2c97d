"""How fast trnfft is beside the best direct call, and how exact, in one run.

    python benchmarks/bench_fft.py               print the table
    python benchmarks/bench_fft.py --threads 4   with so many threads for torch and for SciPy
    python benchmarks/bench_fft.py --cuda        batches and images on a CUDA device
    python benchmarks/bench_fft.py --record      also append to benchmarks/results/

The rival of a batch or an image is ``torch.fft``; that of a single transform the faster of it and
``scipy.fft`` on an array. Contenders take turns, so that noise is shared; small problems are
repeated within a turn. The error is the L2 norm of the difference from the result in float64,
relative to that result; goals are 5e-7 log2(N) + 2e-7.

A second table has what the plans predict for a NeuronCore: nothing in it was measured.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import scipy.fft
import torch
from runner import Timing, measure, record, show
from torch import Tensor

import trnfft
from trnfft import ComplexTensor
from trnfft._planning import LARGEST_IMAGE

Call = Callable[[], object]
Row = tuple[str, str, str, str]

SINGLE = (64, 256, 509, 1024, 2048, 4096, 8191, 16384, 44100, 65536, 65537, 1 << 17, 1 << 20)
BATCHES = ((32, 1024), (128, 1024), (64, 997), (16, 44100))
IMAGES = ((64, 64), (256, 256), (1024, 1024), (32, 64, 64))
LARGE = 1 << 12
TURN_S = 5e-3
GOAL_RATIO, GOAL_US = 1.05, 5.0


@dataclass(frozen=True)
class Problem:
    """One transform of one input, with the number of its points."""

    name: str
    function: str
    x: Tensor
    points: int
    single: bool = False

    def ours(self) -> object:
        """Return our transform."""
        return getattr(trnfft, self.function)(self.x)

    def rivals(self) -> dict[str, Call]:
        """Return the direct calls that do the same."""
        transform = getattr(torch.fft, self.function)
        found: dict[str, Call] = {"torch": lambda: transform(self.x)}
        if self.single:
            other, array = getattr(scipy.fft, self.function), self.x.numpy()
            workers = torch.get_num_threads()
            found["scipy"] = lambda: other(array, workers=workers)
        return found

    def error(self) -> float:
        """Return the relative error of our result in the L2 norm."""
        wide = torch.complex128 if self.x.is_complex() else torch.float64
        want = getattr(torch.fft, self.function)(self.x.to(wide))
        got = self.ours()
        native = got.to_torch_complex() if isinstance(got, ComplexTensor) else got
        assert isinstance(native, Tensor)
        return float(torch.linalg.vector_norm(native - want) / torch.linalg.vector_norm(want))


def problems(device: str) -> list[Problem]:
    """Return the problems of a device; single transforms only where SciPy can compete."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int, dtype: torch.dtype = torch.complex64) -> Tensor:
        return torch.randn(shape, dtype=dtype, generator=generator).to(device)

    found = []
    for n in SINGLE if device == "cpu" else ():
        found.append(Problem(f"fft {n}", "fft", draw(n), n, True))
        found.append(Problem(f"rfft {n}", "rfft", draw(n, dtype=torch.float32), n, True))
        found.append(Problem(f"irfft {n}", "irfft", draw(n // 2 + 1), 2 * (n // 2), True))
    for batch, n in BATCHES:
        found.append(Problem(f"fft {batch} x {n}", "fft", draw(batch, n), n))
        found.append(Problem(f"rfft {batch} x {n}", "rfft", draw(batch, n, dtype=torch.float32), n))
    for shape in IMAGES:
        found.append(Problem(f"fftn {shape}", "fftn", draw(*shape), math.prod(shape)))
    return found


def repeated(call: Call, times: int, device: str) -> Call:
    """Return a call that makes ``times`` calls and waits for the device."""

    def run() -> None:
        for _ in range(times):
            call()
        if device == "cuda":
            torch.cuda.synchronize()

    return run


def timings_of(problem: Problem, device: str) -> tuple[str, dict[str, Timing]]:
    """Return the fastest rival, and its seconds per call and ours beside it."""
    once = measure({"": repeated(problem.ours, 1, device)}, rounds=3)[""].p50
    times = max(1, min(500, int(TURN_S / once)))
    # One rival at a time: where a third contender takes its turn, the one that follows it gets its
    # memory from the system and not from the last turn, which for 2^20 points costs 40 percent.
    duels = {}
    for name, rival in problem.rivals().items():
        pair = {"trnfft": problem.ours, name: rival}
        measured = measure({k: repeated(f, times, device) for k, f in pair.items()})
        duels[name] = {
            k: Timing(t.p20 / times, t.p50 / times, t.p80 / times) for k, t in measured.items()
        }
    fastest = min(duels, key=lambda name: duels[name][name].p50)
    return fastest, duels[fastest]


def row_of(problem: Problem, rival: str, timings: dict[str, Timing]) -> Row:
    """Return a row: what we add to a small call, or the ratio to the rival of a large one."""
    ours, best = timings["trnfft"].p50, timings[rival].p50
    error, allowed = problem.error(), 5e-7 * math.log2(problem.points) + 2e-7
    added = (ours - best) * 1e6
    if problem.x.numel() >= LARGE:
        shown, goal = f"{ours / best:.3f} of {best * 1e6:.0f} us ({rival})", f"{GOAL_RATIO}"
        over = ours / best > GOAL_RATIO
    else:
        shown, goal = f"{best * 1e6:.1f} + {added:.1f} us ({rival})", f"+ {GOAL_US:.0f} us"
        over = added > GOAL_US
    verdict = [word for word, wrong in (("over", over), ("inexact", error > allowed)) if wrong]
    return (problem.name, f"{shown:<28} error {error:.1e}", goal, ", ".join(verdict))


def predicted_rows(found: list[Problem]) -> list[Row]:
    """Return launches, bytes and error by the plans of the problems that are one transform."""
    rows = []
    for problem in found:
        kind = {"fftn": "fft2"}.get(problem.function, problem.function)
        if kind == "fft2" and (problem.x.ndim != 2 or max(problem.x.shape) > LARGEST_IMAGE):
            continue
        plan = trnfft.plan(tuple(problem.x.shape), dtype=problem.x.dtype, kind=kind)
        cost = plan.cost
        text = (
            f"{cost.launches} launch, {cost.hbm_bytes / 1e6:.2f} MB, "
            f"{plan.algorithm.value} {' x '.join(map(str, plan.factors))}"
        )
        rows.append((problem.name, text, f"{plan.error_bound:.0e}", ""))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = "cuda" if options.cuda else "cpu"
    machine = torch.cuda.get_device_name() if options.cuda else "CPU"
    print(f"{machine}, float32, torch {torch.__version__}, threads {options.threads}")
    rows = []
    chosen = problems(device)
    for problem in chosen:
        rival, timings = timings_of(problem, device)
        rows.append(row_of(problem, rival, timings))
        if options.record:
            record("fft", f"{problem.name} float32 {machine}", timings)
    show(rows)
    print("\npredicted for a NeuronCore, gen2")
    show(predicted_rows(chosen), ("problem", "predicted", "error bound", ""))


if __name__ == "__main__":
    main()
