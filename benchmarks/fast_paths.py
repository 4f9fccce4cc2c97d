"""Worth of the fast paths of plans: time of whole kernels without them, relative to with them.

    python benchmarks/fast_paths.py            NumPy arithmetic
    python benchmarks/fast_paths.py --compiled compiled loops, if numba is installed

Processor time, in turns; each figure is the median of the ratios of adjacent turns. Bodies compute
what a path does not.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from small import small_instructions

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from kernels import layernorm_problem, problems, softmax_problem
from nkisim.machine import core
from nkisim.machine.calls import dispatch, plan

VARIANTS: dict[str, tuple[str, ...]] = {
    "both": (),
    "without shortcuts": ("shortcut",),
    "without functions": ("function",),
    "bodies only": ("shortcut", "function"),
}
"""The fields of a declaration that are ignored."""

_CACHES: dict[str, dict[Any, Any]] = {name: {} for name in VARIANTS}


def use(variant: str) -> None:
    """Make plans of one variant from now on."""
    ignored: dict[str, Any] = dict.fromkeys(VARIANTS[variant])

    def make(instruction: Any, values: Any, running: Any) -> Any:
        return plan.make_plan(dataclasses.replace(instruction, **ignored), values, running)

    dispatch.make_plan = make
    core._PLANS = _CACHES[variant]


def gelu(x):
    """Apply an activation function that is no NumPy ufunc, 128 rows at a time."""
    rows, cols = x.shape
    out = nl.ndarray((rows, cols), dtype=x.dtype, buffer=nl.shared_hbm)
    for r in range(0, rows, 128):
        tile = nl.ndarray((128, cols), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[r : r + 128, 0:cols])
        nisa.activation(dst=tile, op=nl.gelu, data=tile)
        nisa.dma_copy(dst=out[r : r + 128, 0:cols], src=tile)
    return out


def kernels() -> dict[str, Callable[[], object]]:
    """Return the measured kernels as calls."""
    chosen = [*problems(), softmax_problem(4096, 2048), layernorm_problem(4096, 2048)]
    calls = {p.name: bound(p.kernel, *p.arguments) for p in chosen}
    x = np.random.default_rng(0).standard_normal((1024, 2048), np.float32)
    for kind in (np.float32, ml_dtypes.bfloat16):
        calls[f"gelu (1024, 2048) {np.dtype(kind).name}"] = bound(gelu, x.astype(kind))
    calls["20,000 instructions on 4x4"] = bound(
        small_instructions(20_000), np.ones((4, 4), np.float32)
    )
    return calls


def bound(kernel: Any, *arguments: Any) -> Callable[[], object]:
    """Return the simulation of a kernel as a function without arguments."""
    simulated = nkisim.simulate(kernel)
    return lambda: simulated(*arguments)


def ratios(call: Callable[[], object], rounds: int) -> tuple[float, dict[str, float]]:
    """Return the milliseconds with both paths, and the ratios of the other variants to it."""
    spent: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for turn in range(rounds + 1):
        for name, times in spent.items():
            use(name)
            start = time.process_time()
            call()
            if turn:  # the first makes the plans
                times.append(time.process_time() - start)
    both = spent.pop("both")
    found = {
        name: statistics.median(a / b for a, b in zip(times, both, strict=True))
        for name, times in spent.items()
    }
    return statistics.median(both) * 1e3, found


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--compiled", action="store_true", help="with compiled loops")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each variant")
    options = parser.parse_args()
    os.environ["NKISIM_FAST"] = "1" if options.compiled else "0"
    if options.compiled:
        import numba  # noqa: F401
    print("| kernel | ms |", " | ".join([*VARIANTS][1:]), "|")
    print("|---|---|---|---|---|")
    for name, call in kernels().items():
        millis, found = ratios(call, options.rounds)
        cells = [name, f"{millis:.0f}", *(f"{value:.2f}" for value in found.values())]
        print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
