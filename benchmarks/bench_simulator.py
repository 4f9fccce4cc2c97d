"""Speed of the simulator as ratios to NumPy, torch and a plain interpreter, in one run.

    python benchmarks/bench_simulator.py            print the table
    python benchmarks/bench_simulator.py --large    also a 4096^3 GEMM and 1 GiB of input
    python benchmarks/bench_simulator.py --size 512 another size of the GEMM rows
    python benchmarks/bench_simulator.py --record   also append to benchmarks/results/

Fixed costs come first: of an instruction, of a call, of a bfloat16 element-wise instruction. Then
the kernels are compared with the plain interpreter of plain.py, which executes the same
instructions, and with the NumPy or torch routine that computes the same result: with NumPy
arithmetic (NKISIM_FAST=0), and with compiled loops if numba is installed.

All contenders use one thread, as products of the simulator do; np.matmul and torch attention are
also shown with their default number of threads.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import ml_dtypes
import numpy as np
from plain import interpreted
from runner import NEAR, Timing, measure, record, show
from small import long_loop_micros, small_instruction_micros
from threadpoolctl import ThreadpoolController

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from kernels import Problem, doubled, example, gemm, gemm_problem, one_instruction, problems

BF16 = ml_dtypes.bfloat16

ONE_THREAD = "np.matmul float32, one thread"
ALL_THREADS = "np.matmul float32, all threads"

REST = 0.15
"""Seconds after which idle BLAS threads are asleep."""

Row = tuple[str, str, str, str]


def gemm_timings(size: int = 1024) -> dict[str, Timing]:
    """Time the simulated GEMM and np.matmul on float32 matrices, on one thread and on all."""
    problem = gemm_problem(size, BF16)
    simulated, product = nkisim.simulate(gemm), problem.make_routine()
    found: dict[str, Timing] = {}
    for name, rival in ((ALL_THREADS, product), (ONE_THREAD, on_one_thread(product))):
        contenders = {"nkisim": lambda: simulated(*problem.arguments), name: rival}
        found |= measure(contenders, rest=REST)
        found[f"nkisim beside {name}"] = found["nkisim"]
    return found


def gemm_ratio(timings: dict[str, Timing], rival: str) -> float:
    """Return the ratio of the simulator time to the baseline of the same run."""
    return ratio(timings, f"nkisim beside {rival}", rival)


def on_one_thread(function: Callable[[], object]) -> Callable[[], object]:
    """Return ``function`` with BLAS, and torch if it is loaded, limited to one thread."""
    controller = ThreadpoolController()
    torch = sys.modules.get("torch")

    def held() -> object:
        with controller.limit(limits=1, user_api="blas"):
            if torch is None:
                return function()
            threads = torch.get_num_threads()
            torch.set_num_threads(1)
            try:
                return function()
            finally:
                torch.set_num_threads(threads)

    return held


def elementwise_timings(repeats: int = 50, turn: int = 5) -> dict[str, Timing]:
    """Time a bf16 add on (128, 2048) in a kernel and the same add of ml_dtypes arrays.

    A turn has a few calls, so that operands are in the cache for most of them.
    """
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((128, 2048)).astype(BF16) for _ in range(2))
    samples: dict[str, list[float]] = {"nkisim": [], "ml_dtypes": []}

    def kernel(x, y):
        left, right = nl.load(x), nl.load(y)
        tile = nl.ndarray((128, 2048), dtype=nl.bfloat16, buffer=nl.sbuf)
        for _ in range(repeats):
            start = time.perf_counter()
            for _ in range(turn):
                nisa.tensor_tensor(dst=tile, data1=left, data2=right, op=nl.add)
            middle = time.perf_counter()
            for _ in range(turn):
                a + b
            samples["nkisim"].append((middle - start) / turn)
            samples["ml_dtypes"].append((time.perf_counter() - middle) / turn)
        out = nl.ndarray((128, 2048), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    nkisim.simulate(kernel)(a, b)
    return {name: Timing(tuple(times)) for name, times in samples.items()}


def elementwise_ratio() -> float:
    """Return the time of the simulated bf16 add relative to that of ml_dtypes."""
    timings = elementwise_timings()
    return timings["nkisim"].p50 / timings["ml_dtypes"].p50


def in_own_process(expression: str, before: str = "import bench_simulator") -> float:
    """Return the value of an expression on this module, evaluated in a new process."""
    found = subprocess.run(
        [sys.executable, "-c", f"{before}; print({expression})"],
        capture_output=True,
        text=True,
        check=True,
        cwd=__file__.rpartition("/")[0] or ".",
    )
    return float(found.stdout)


def elementwise_ratio_with(module: str) -> float:
    """Return the same ratio in a process that has imported ``module``."""
    return in_own_process(
        "bench_simulator.elementwise_ratio()", f"import {module}, bench_simulator"
    )


def call_timings(rounds: int = 300) -> dict[str, Timing]:
    """Time a whole call of a kernel that copies 8x8 elements, from ``simulate`` to its result."""
    x = np.ones((8, 8), np.float32)
    return measure({"nkisim one instruction": lambda: nkisim.simulate(one_instruction)(x)}, rounds)


def instruction_count(problem: Problem) -> int:
    """Return the number of instructions that a kernel executes."""
    events: list[object] = []
    nkisim.simulate(problem.kernel, watchers=(events.append,))(*problem.arguments)
    return len(events)


def kernel_timings(
    problem: Problem, *, torch_loaded: bool = False, rounds: int = 15
) -> dict[str, Timing]:
    """Time the simulator, the plain interpreter and, if it is available, the routine."""
    simulated = nkisim.simulate(problem.kernel)
    plainly = interpreted(problem.kernel)
    contenders: dict[str, Callable[[], object]] = {
        "nkisim": lambda: simulated(*problem.arguments),
        "plain": on_one_thread(lambda: plainly(*problem.arguments)),
    }
    if torch_loaded or not problem.uses_torch:
        routine = problem.make_routine()
        contenders[problem.routine] = on_one_thread(routine)
        if is_attention(problem):
            contenders[f"{problem.routine}, all threads"] = routine
    return measure(contenders, rounds)


def is_attention(problem: Problem) -> bool:
    """Return whether a problem is attention, which has its own goal."""
    return problem.name.startswith("attention")


REFERENCE_MS = {
    "GEMM 1024^3 float32": 40,
    "GEMM 1024^3 bfloat16": 39,
    "GEMM 1024^3 float8_e4m3": 50,
    "softmax (1024, 2048) bfloat16": 11,
    "layernorm (1024, 2048) bfloat16": 9,
    "attention (2048, 128) bfloat16": 64,
}
"""Milliseconds of hand-written loops on two Neoverse N1 cores."""


def kernel_rows(
    problem: Problem, count: int, numpy: dict[str, Timing], compiled: dict[str, Timing] | None
) -> list[Row]:
    """Return the rows of one problem: with NumPy arithmetic, and with compiled loops."""
    plain = ratio(numpy, "nkisim", "plain")
    rows = [
        row(problem.name, count / numpy["nkisim"].p50, "{:,.0f} instructions/s"),
        row("  nkisim / plain, NumPy", plain, "{:.2f}x", at_most=1.5),
    ]
    if compiled is not None:
        value, millis = ratio(compiled, "nkisim", "plain"), compiled["nkisim"].p50 * 1e3
        rows.append(row("  nkisim / plain, compiled", value, "{:.2f}x"))
        limit = REFERENCE_MS.get(problem.name)
        goal = None if limit is None else 2 * limit
        rows.append(row("  compiled, goal on N1", millis, "{:.0f} ms", at_most=goal, unit=" ms"))
    against = numpy if problem.routine in numpy else compiled or {}
    for routine in sorted(against.keys() - {"nkisim", "plain"}):
        rows.append(row(f"  nkisim / {routine}", ratio(against, "nkisim", routine), "{:.2f}x"))
    return rows


def numba_works() -> bool:
    """Return whether the simulator can compile loops here."""
    from nkisim.compiled import numba_problem

    return not numba_problem()


def gemm_without_values_timings(size: int = 2048, rounds: int = 5) -> dict[str, Timing]:
    """Time the bf16 GEMM with and without values, and its routine."""
    problem = gemm_problem(size, BF16)
    simulated = nkisim.simulate(gemm)
    traced = nkisim.simulate(gemm, values=False)
    return measure(
        {
            "nkisim": lambda: simulated(*problem.arguments),
            "nkisim values=False": lambda: traced(*problem.arguments),
            ONE_THREAD: on_one_thread(problem.make_routine()),
        },
        rounds,
    )


def large_gemm_seconds(size: int = 4096) -> tuple[float, float]:
    """Return the seconds of one blocked bf16 GEMM with values, and of one without."""
    kernel = example("matmul_six_stages").matmul_psum_banks
    arguments = gemm_problem(size, BF16).arguments
    spent = []
    for values in (True, False):
        run = nkisim.simulate(kernel, values=values)
        start = time.perf_counter()
        run(*arguments)
        spent.append(time.perf_counter() - start)
    return spent[0], spent[1]


def peak_gib(rows: int = 131_072) -> float:
    """Return the peak memory of this process after a kernel over ``rows`` times 8 KiB.

    The result is as large as the input, and both are alive at the end.
    """
    x = np.ones((rows, 2048), np.float32)
    nkisim.simulate(doubled)(x)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # macOS counts in bytes, Linux in KiB.
    return peak / 2**30 if sys.platform == "darwin" else peak / 2**20


def ratio(timings: dict[str, Timing], over: str, under: str) -> float:
    """Return the quotient of two contenders' medians."""
    return timings[over].p50 / timings[under].p50


def against(timings: dict[str, Timing], other: str) -> tuple[float, str]:
    """Return the ratio of the simulator time to ``other``, and its text."""
    return ratio(timings, "nkisim", other), "{:.2f}x"


def row(
    problem: str,
    value: float,
    form: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    unit: str = "x",
) -> Row:
    """Return a row of the table; without a limit it has neither goal nor verdict."""
    if at_least is not None:
        goal, reached = f">= {at_least:g}{unit}", value * NEAR >= at_least
    elif at_most is not None:
        goal, reached = f"<= {at_most:g}{unit}", value <= at_most * NEAR
    else:
        return problem, form.format(value), "", ""
    return problem, form.format(value), goal, "reached" if reached else "missed"


def torch_is_installed() -> bool:
    """Return whether torch can be imported."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


SMALL_GOAL = 10
"""Maximum cost of a small instruction, in np.add calls on a 4x4 tile."""


def small_rows() -> list[Row]:
    """Measure small instructions: processor time relative to np.add on the same tile."""
    found = small_instruction_micros()
    large, numpy = found.pop("128x128 tensor_tensor"), found.pop("128x128 np.add(out=)")
    add = found.pop("np.add(out=)")
    rows = [
        row(f"4x4 {name} / np.add", value / add, "{:.1f}x", at_most=SMALL_GOAL)
        for name, value in found.items()
    ]
    each = long_loop_micros() / add
    return [
        *rows,
        row("100,000 small instructions / np.add", each, "{:.1f}x", at_most=SMALL_GOAL),
        row(
            "128x128 tensor_tensor beyond np.add(out=)",
            large - numpy,
            "{:.1f} us",
            at_most=10,
            unit=" us",
        ),
    ]


def fixed_cost_rows(timings: dict[str, dict[str, Timing]]) -> list[Row]:
    """Measure small and medium instructions and calls; adds to ``timings``."""
    timings["one instruction (8, 8)"] = call = call_timings()
    timings["gemm 1024^3 bf16"] = gemms = gemm_timings()
    timings["add (128, 2048) bf16"] = adds = elementwise_timings()
    call_us = call["nkisim one instruction"].p50 * 1e6
    rows = [
        *small_rows(),
        row("a call of one instruction, 8x8", call_us, "{:.0f} us", at_most=300, unit=" us"),
        row(
            f"bf16 GEMM 1024^3 / {ONE_THREAD}", gemm_ratio(gemms, ONE_THREAD), "{:.2f}x", at_most=2
        ),
        row(f"bf16 GEMM 1024^3 / {ALL_THREADS}", gemm_ratio(gemms, ALL_THREADS), "{:.2f}x"),
        row(
            "bf16 add (128, 2048) / ml_dtypes",
            ratio(adds, "nkisim", "ml_dtypes"),
            "{:.2f}x",
            at_most=1.05,
        ),
    ]
    try:
        value = elementwise_ratio_with("numba")
    except subprocess.CalledProcessError:
        print("numba is not installed: the rows with it are left out")
    else:
        rows.append(row("  the same with numba", value, "{:.2f}x", at_most=1.05))
    return rows


def large_rows() -> list[Row]:
    """Measure problems that take long or need much memory."""
    # First, because a new process inherits the peak memory of its parent.
    peak = in_own_process("bench_simulator.peak_gib()")
    seconds, traced = large_gemm_seconds()
    return [
        ("bf16 GEMM 4096^3, one run", f"{seconds:.1f} s", "finishes", "reached"),
        row("  values / values=False", seconds / traced, "{:.1f}x", at_least=20),
        row("peak memory, 1 GiB in and out", peak, "{:.2f} GiB", at_most=3.5, unit=" GiB"),
    ]


def middle_rows(timings: dict[str, dict[str, Timing]]) -> list[Row]:
    """Measure the 2048^3 GEMM; adds to ``timings``."""
    timings["gemm 2048^3 bf16"] = found = gemm_without_values_timings()
    return [
        row(f"bf16 GEMM 2048^3 / {ONE_THREAD}", *against(found, ONE_THREAD), at_most=3),
        row("  values / values=False", *against(found, "nkisim values=False"), at_least=20),
    ]


def main() -> None:
    """Measure, print, and optionally record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--record", action="store_true", help="append to benchmarks/results")
    parser.add_argument("--large", action="store_true", help="also what takes minutes or GiB")
    parser.add_argument("--size", type=int, default=1024, help="of the GEMM, a multiple of 128")
    options = parser.parse_args()
    timings: dict[str, dict[str, Timing]] = {}
    large = large_rows() if options.large else []
    rows = fixed_cost_rows(timings)
    rows += middle_rows(timings)
    chosen = problems(options.size)
    counts = [instruction_count(p) for p in chosen]
    os.environ["NKISIM_FAST"] = "0"
    numpy = [kernel_timings(p) for p in chosen]
    del os.environ["NKISIM_FAST"]
    compiled: list[dict[str, Timing] | None] = [None] * len(chosen)
    if numba_works():
        with_torch = torch_is_installed()
        compiled = [kernel_timings(p, torch_loaded=with_torch) for p in chosen]
    for problem, count, *found in zip(chosen, counts, numpy, compiled, strict=True):
        rows += kernel_rows(problem, count, *found)
        for how, measured in zip(("", ", compiled"), found, strict=True):
            if measured is not None:
                timings[problem.name + how] = measured
    show(rows + large)
    if options.record:
        for name, found in timings.items():
            record("bench_simulator", name, found)


if __name__ == "__main__":
    main()
