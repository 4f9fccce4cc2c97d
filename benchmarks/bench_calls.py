"""Function calls and time of small problems, compared with torch's own call.

    python benchmarks/bench_calls.py                 print the table
    python benchmarks/bench_calls.py --device cuda   the same on a GPU
    python benchmarks/bench_calls.py --calls gemm    also list the functions that gemm calls

Calls are counted as cProfile counts them, Python functions and built-in ones: noise does not change
them. The ratio is the median time over that of torch's call for the same problem, in turns.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
from collections.abc import Callable

import torch
from runner import measure, ratio, show

import trnblas
import trnfft
import trnrand
import trnsparse
import trntensor

Call = Callable[[], object]

MOST_CALLS = {"gemm": 25, "axpy": 18, "fft": 30, "uniform": 30, "einsum": 35, "A @ x": 35}
MOST_RATIO = {"gemm": 3.0, "axpy": 3.0, "fft": 3.0, "uniform": 5.0, "einsum": 5.0, "A @ x": 3.0}


def problems(device: str) -> dict[str, tuple[Call, Call]]:
    """Return the call of a library and that of torch, by name."""
    draw = torch.Generator().manual_seed(1)
    a, b = (torch.randn(8, 8, generator=draw).to(device) for _ in range(2))
    x, y = (torch.randn(64, generator=draw).to(device) for _ in range(2))
    dense = torch.eye(64).to(device)
    sparse, csr = trnsparse.from_dense(dense), dense.to_sparse_csr()
    return {
        "gemm": (lambda: trnblas.gemm(1.0, a, b), lambda: torch.mm(a, b)),
        "axpy": (lambda: trnblas.axpy(2.0, x, y), lambda: torch.add(y, x, alpha=2.0)),
        "fft": (lambda: trnfft.fft(x), lambda: torch.fft.fft(x)),
        "uniform": (
            lambda: trnrand.uniform(64, device=device),
            lambda: torch.rand(64, device=device),
        ),
        "einsum": (
            lambda: trntensor.einsum("ij,jk->ik", a, b),
            lambda: torch.einsum("ij,jk->ik", a, b),
        ),
        "A @ x": (lambda: sparse @ x, lambda: csr @ x),
    }


def profiled(call: Call) -> pstats.Stats:
    """Return the profile of one call, after others that import and fill caches."""
    for _ in range(20):
        call()
    profile = cProfile.Profile()
    profile.runcall(call)
    return pstats.Stats(profile)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--calls", metavar="NAME", default="")
    options = parser.parse_args()
    torch.set_num_threads(1)
    finish = torch.cuda.synchronize if options.device == "cuda" else None
    rows = []
    for name, (ours, theirs) in problems(options.device).items():
        stats = profiled(ours)
        # The lambda of the problem, and the end of the profile.
        calls = stats.total_calls - 2
        timings = measure({"ours": ours, "torch": theirs}, 51, calls=20, finish=finish)
        times = ratio(timings["ours"], timings["torch"])
        reached = calls <= MOST_CALLS[name] and times <= 1.05 * MOST_RATIO[name]
        found = f"{calls} calls, {times:.2f} of torch's time"
        goal = f"<= {MOST_CALLS[name]}, {MOST_RATIO[name]:g}"
        rows.append((name, found, goal, "" if reached else "missed"))
        if name == options.calls:
            stats.sort_stats("ncalls").print_stats()
    show(rows)


if __name__ == "__main__":
    main()
