"""Speed and accuracy of trnfft compared with the best public call, in one run.

    python benchmarks/bench_fft.py               print the table
    python benchmarks/bench_fft.py --threads 4   with this number of threads for torch and SciPy
    python benchmarks/bench_fft.py --cuda        batches and images on a CUDA device
    python benchmarks/bench_fft.py --record      also append to benchmarks/results/

The baseline of a batch or an image is ``torch.fft``, of frames ``torch.stft``, of a layer the
product of native matrices, and of a single transform the faster of torch and ``scipy.fft`` on an
array. Goals: 1.05 of a baseline of 200 microseconds or more; below, 3 times it for a single vector
and 5 times for others. Each batch is run twice, as a native tensor and as a ComplexTensor; the
second is also the result type for a real tensor. Contenders are timed in turns, so that noise is
shared; small problems are repeated within a turn. The error is the L2 norm of the difference from
the result in float64, relative to that result; goals are 5e-7 log2(N) + 2e-7. A second table has
the predictions of the plans for a NeuronCore: nothing in it was measured.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import scipy.fft
import torch
from runner import Timing, clock_for, judged, measure, ratio, record, show
from torch import Tensor
from torch.nn import functional

import trnfft
from trnfft import ComplexTensor
from trnfft.nn import ComplexLinear

Call = Callable[[], object]
Row = tuple[str, str, str, str]

SINGLE = (64, 256, 509, 1024, 2048, 4096, 8191, 16384, 44100, 65536, 65537, 1 << 17, 1 << 20)
BATCHES = ((16, 256), (32, 1024), (128, 1024), (64, 997), (16, 44100))
IMAGES = ((64, 64), (256, 256), (1024, 1024))
VOLUMES = ((32, 64, 64), (64, 64, 64))
SIGNALS = ((1, 16000), (8, 16000))
FRAME, HOP = 512, 128
LAYERS = ((1, 512, 512), (32, 256, 256), (800, 257, 64))
TURN_S = 5e-3


@dataclass(frozen=True)
class Problem:
    """One transform of one input, with the number of its points."""

    name: str
    function: str
    x: Tensor
    points: int
    single: bool = False
    split: bool = False

    def ours(self) -> Call:
        """Return the trnfft transform, with its operand converted to the given type."""
        x = ComplexTensor(self.x) if self.split and self.x.is_complex() else self.x
        transform = getattr(trnfft, self.function)
        if self.function != "stft":
            return lambda: transform(x)
        native = None if self.split else True
        return lambda: transform(x, FRAME, HOP, return_complex=native)

    def torchs(self, x: Tensor) -> object:
        """Return the torch result for an operand."""
        if self.function != "stft":
            return getattr(torch.fft, self.function)(x)
        window = torch.hann_window(FRAME, dtype=x.dtype, device=x.device)
        return torch.stft(x, FRAME, HOP, window=window, return_complex=True)

    def rivals(self) -> dict[str, Call]:
        """Return the equivalent direct calls."""
        if self.function == "stft":
            window = torch.hann_window(FRAME, device=self.x.device)
            return {
                "torch": lambda: torch.stft(self.x, FRAME, HOP, window=window, return_complex=True)
            }
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
        want = self.torchs(self.x.to(wide))
        assert isinstance(want, Tensor)
        got = self.ours()()
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
    several = []
    for batch, n in BATCHES:
        several.append(("fft", draw(batch, n), n))
        several.append(("rfft", draw(batch, n, dtype=torch.float32), n))
    for shape in IMAGES:
        several.append(("fft2", draw(*shape), math.prod(shape)))
        several.append(("rfft2", draw(*shape, dtype=torch.float32), math.prod(shape)))
    several += [("fftn", draw(*shape), math.prod(shape)) for shape in VOLUMES]
    several += [("stft", draw(*shape, dtype=torch.float32), FRAME) for shape in SIGNALS]
    for function, x, points in several:
        name = f"{function} {' x '.join(map(str, x.shape))}"
        if x.is_complex() or function == "stft":
            found.append(Problem(f"{name}, native", function, x, points))
        found.append(Problem(f"{name}, ComplexTensor", function, x, points, split=True))
    return found


def layer_rows(device: str, clock: Callable[[], float]) -> list[Row]:
    """Return the ratios of complex layers to the product of native matrices, weights included."""
    rows = []
    finish = torch.cuda.synchronize if device == "cuda" else None
    for rows_, inputs, outputs in LAYERS:
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(rows_, inputs, dtype=torch.complex64, generator=generator).to(device)
        layer = ComplexLinear(inputs, outputs).to(device).requires_grad_(False)
        assert layer.bias_re is not None
        assert layer.bias_im is not None
        weight = torch.complex(layer.W_re.weight, layer.W_im.weight)
        bias = torch.complex(layer.bias_re, layer.bias_im)
        for name, operand in (("native", x), ("ComplexTensor", ComplexTensor(x))):
            pair: dict[str, Call] = {
                "trnfft": partial(layer, operand),
                "torch": partial(functional.linear, x, weight, bias),
            }
            timed = measure(pair, 15, clock, 20, finish)
            ours, rival = timed["trnfft"], timed["torch"]
            shown = f"{ratio(ours, rival):.3f} of {rival.p50 * 1e6:.0f} us (torch)"
            rows.append((f"linear {rows_} x {inputs} x {outputs}, {name}", shown, "", ""))
    return rows


def timings_of(
    problem: Problem, device: str, clock: Callable[[], float]
) -> tuple[str, dict[str, Timing]]:
    """Return the fastest baseline, its seconds per call and ours."""
    ours = problem.ours()
    finish = torch.cuda.synchronize if device == "cuda" else None
    once = measure({"": ours}, rounds=3, finish=finish)[""].p50
    times = max(1, min(500, int(TURN_S / once)))
    # One baseline at a time: with a third contender, the one that follows it gets its
    # memory from the system and not from the last turn, which for 2^20 points costs 40 percent.
    duels = {}
    for name, rival in problem.rivals().items():
        duels[name] = measure({"trnfft": ours, name: rival}, 15, clock, times, finish)
    fastest = min(duels, key=lambda name: duels[name][name].p50)
    return fastest, duels[fastest]


def row_of(problem: Problem, rival: str, timings: dict[str, Timing]) -> Row:
    """Return a row: the time added to a short call, or the ratio to the baseline."""
    ours, best = timings["trnfft"], timings[rival]
    error, allowed = problem.error(), 5e-7 * math.log2(problem.points) + 2e-7
    shown, goal, missed = judged(ours, best, rival, inner=problem.single)
    verdict = ", ".join(filter(None, (missed, "inexact" if error > allowed else "")))
    return problem.name, f"{shown:<28} error {error:.1e}", goal, verdict


def predicted_rows(found: list[Problem]) -> list[Row]:
    """Return predicted launches, bytes and error of the problems that are one transform."""
    rows = []
    for problem in found:
        if (problem.split and problem.x.is_complex()) or problem.function == "stft":
            continue  # the same transform again, or none that has a plan
        kind: Any = problem.function
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
    clock = clock_for(device, options.threads, options.record)
    rows = []
    chosen = problems(device)
    for problem in chosen:
        rival, timings = timings_of(problem, device, clock)
        rows.append(row_of(problem, rival, timings))
        if options.record:
            record("fft", f"{problem.name} float32 {machine}", timings)
    show(rows + layer_rows(device, clock))
    print("\npredicted for a NeuronCore, gen2")
    show(predicted_rows(chosen), ("problem", "predicted", "error bound", ""))


if __name__ == "__main__":
    main()
