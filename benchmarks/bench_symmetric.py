"""Symmetric and Hermitian operations of trnblas: time and memory compared with SciPy's BLAS.

    python benchmarks/bench_symmetric.py               print the table
    python benchmarks/bench_symmetric.py --threads 2   with this number of threads
    python benchmarks/bench_symmetric.py --dtypes float16 --sizes 64 --names symv hemv
    python benchmarks/bench_symmetric.py --memory      memory beside the operands, in matrices

The baseline is SciPy's routine on the same memory, with torch's mirror image where the result is a
whole matrix, because BLAS computes one triangle of it. Without such a routine, it is torch's best
expression. ``+`` marks calls with an accumulator. The goal is 1.2 of a baseline of 200 us or more,
else 5 times it; and no more memory than 2.2 matrices beside the operands, the result included. A
ratio is the median of three tables of one run.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from runner import GOAL_SMALL, LONG_S, NEAR, clock_for, measure, ratio, show
from scipy.linalg import blas
from threadpoolctl import threadpool_limits
from torch import Tensor

import trnblas

Call = Callable[[], object]

PREFIX = {torch.float32: "s", torch.float64: "d", torch.complex64: "c", torch.complex128: "z"}
DTYPES = ["complex64", "complex128", "float16", "bfloat16", "float64"]
NAMES = ["symv", "hemv", "her", "her2", "symm", "hemm", "syrk", "herk", "syr2k", "her2k"]
ALPHA, BETA = 0.5, -2.0
GOAL, GOAL_MATRICES = 1.2, 2.2
TURN_S = 3e-3
# Freed blocks above this size go back to the system, so that a peak of memory is that of a call.
ALLOCATION = ("MALLOC_MMAP_THRESHOLD_", "65536")


def whole(half: Tensor, hermitian: bool) -> Tensor:
    """Return torch's symmetric or Hermitian matrix of an upper triangle."""
    if not hermitian:
        return torch.triu(half) + torch.triu(half, 1).mT
    above = torch.triu(half, 1)
    return above + above.mH + torch.diag(half.diagonal().real).to(half.dtype)


def contenders(name: str, n: int, dtype: torch.dtype, added: bool) -> tuple[Call, Call, str]:
    """Return the call of trnblas, its baseline, and the name of the baseline."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.float32 if dtype.itemsize == 2 else dtype

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=drawn, generator=generator).to(dtype)

    a, b, c, x, y = draw(n, n), draw(n, n), draw(n, n), draw(n), draw(n)
    hermitian = name.startswith("he") and dtype.is_complex
    kind = name[2:]
    single, double = kind in ("r", "rk"), kind in ("r2", "r2k")
    operands = {"mv": (a, x), "r": (x,), "r2": (x, y), "rk": (a,)}.get(kind, (a, b))
    accumulator = y if kind == "mv" else c
    if kind in ("r", "r2"):
        extra = (accumulator,) if added else ()
    else:
        extra = (BETA, accumulator) if added else ()
    function = getattr(trnblas, name)

    def ours() -> object:
        return function(ALPHA, *operands, *extra)

    spelled = name if hermitian or name.startswith("sy") else "sy" + kind
    routine = getattr(blas, PREFIX.get(dtype, "no ") + spelled, None)
    if routine is not None:
        stored = [v.numpy().T for v in operands]
        options: dict[str, object] = {"lower": 1}
        if kind == "mm":
            options["side"] = 1
        if kind in ("rk", "r2k"):
            options["trans"] = 2 if hermitian else 1
        # The stored matrix is the transpose, which is the conjugate of a Hermitian one.
        conjugated = hermitian and kind in ("mv", "r", "r2")
        if conjugated:
            stored = [v.conj() if v.ndim == 1 else v for v in stored]
        if added and kind in ("r", "r2"):
            options["a"] = c.numpy().T
        elif added:
            array = accumulator.numpy()
            options |= {"beta": BETA} | ({"y": array.conj()} if kind == "mv" else {"c": array.T})

        def by_scipy() -> object:
            result = torch.from_numpy(routine(ALPHA, *stored, **options).T)
            if single or double:
                return whole(result, hermitian)
            return result.conj().resolve_conj() if conjugated else result

        return ours, by_scipy, "scipy"

    def by_torch() -> object:
        if kind in ("mv", "mm"):
            left, right = whole(a, hermitian), operands[1]
        else:
            left = operands[0]
            right = operands[-1].conj() if hermitian else operands[-1]
        if kind in ("r", "r2"):
            product = torch.outer(left * ALPHA, right)
        elif kind in ("rk", "r2k"):
            product = torch.matmul(left, right.mT) * ALPHA
        else:
            product = torch.matmul(left, right) * ALPHA
        if double:
            product = product + (product.mH if hermitian else product.mT)
        if not added:
            return product
        below = whole(c, hermitian) if single or double else accumulator
        return torch.add(product, below, alpha=1 if kind in ("r", "r2") else BETA)

    return ours, by_torch, "torch"


def peak_bytes(call: Call) -> int:
    """Return the bytes of physical memory that a call needs at its peak, on Linux."""
    status = Path("/proc/self/status")

    def kilobytes(key: str) -> int:
        found = re.search(rf"{key}:\s+(\d+)", status.read_text(encoding="utf-8"))
        assert found is not None
        return int(found[1])

    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # forget earlier peaks
    before = kilobytes("VmRSS")
    result = call()
    peak = kilobytes("VmHWM")
    del result
    return 1024 * (peak - before)


def row_of(name: str, n: int, dtype: torch.dtype, added: bool, threads: int) -> tuple[str, ...]:
    """Return the row of one operation."""
    ours, theirs, rival = contenders(name, n, dtype, added)
    clock = clock_for("cpu", threads, False)
    once = measure({"ours": ours}, 1, clock)["ours"].p50
    calls = max(1, int(TURN_S / max(once, 1e-7)))
    rounds = 5 if once > 0.1 else 9
    ratios, seconds = [], []
    for _ in range(3):
        timings = measure({"ours": ours, rival: theirs}, rounds, clock, calls)
        ratios.append(ratio(timings["ours"], timings[rival]))
        seconds.append(timings[rival].p50)
    found, baseline = statistics.median(ratios), statistics.median(seconds)
    goal = GOAL if baseline >= LONG_S else GOAL_SMALL
    measured = f"{found:.2f} of {baseline * 1e6:.3g} us ({rival})"
    return problem(name, n, dtype, added), measured, f"{goal:g}", verdict_of(found, goal)


def memory_row(name: str, n: int, dtype: torch.dtype, added: bool) -> tuple[str, ...]:
    """Return the row of the memory of one operation."""
    ours, theirs, rival = contenders(name, n, dtype, added)
    size = n * n * dtype.itemsize
    found, baseline = (min(peak_bytes(f) for _ in range(3)) / size for f in (ours, theirs))
    measured = f"{found:.1f} matrices, {baseline:.1f} ({rival})"
    return (
        problem(name, n, dtype, added),
        measured,
        f"{GOAL_MATRICES:g}",
        verdict_of(found, GOAL_MATRICES),
    )


def problem(name: str, n: int, dtype: torch.dtype, added: bool) -> str:
    return f"{name}{' +' if added else ''} {n} {str(dtype).removeprefix('torch.')}"


def verdict_of(found: float, goal: float) -> str:
    return "missed" if found > goal * NEAR else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dtypes", nargs="+", default=DTYPES)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 256, 1024, 2048])
    parser.add_argument("--names", nargs="+", default=NAMES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    key, value = ALLOCATION
    if options.memory and os.environ.get(key) != value:
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {key: value})
    torch.set_num_threads(options.threads)
    print(f"CPU, torch {torch.__version__}, threads {options.threads}")
    rows = []
    with threadpool_limits(options.threads):
        for dtype in options.dtypes:
            for n in options.sizes:
                for name in options.names:
                    for added in (False, True):
                        case = name, n, getattr(torch, dtype), added
                        rows.append(
                            memory_row(*case) if options.memory else row_of(*case, options.threads)
                        )
    show(rows)


if __name__ == "__main__":
    main()
