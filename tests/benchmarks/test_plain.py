"""The plain interpreter, the simulator and the routines they are timed against compute the same."""

import importlib
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import nkisim

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MODULES = ("bench_simulator", "kernels", "plain", "runner")


def load_benchmark():
    """Return bench_simulator; sys.path and sys.modules are left as they were.

    Its neighbours have common names, and tests/ has a package called kernels, too.
    """
    before = {name: sys.modules.pop(name, None) for name in MODULES}
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module("bench_simulator")
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


bench = load_benchmark()
# Two tiles or chunks in every direction, ragged where the kernel allows it.
PROBLEMS = bench.problems(size=256, rows=130, cols=600, queries=520, depth=32, points=16)
NAMES = [problem.name for problem in PROBLEMS]
GEMM = PROBLEMS[NAMES.index("GEMM 256^3 bfloat16")]

# Largest relative error of one rounding to a type.
ROUNDING = {
    np.dtype(np.float32): 2.0**-24,
    np.dtype(ml_dtypes.bfloat16): 2.0**-8,
    np.dtype(ml_dtypes.float8_e4m3): 2.0**-4,
}


def routine_result(problem):
    """Return what the problem's routine computes, in float64 and laid out like the kernel's."""
    found = problem.make_routine()()
    if problem.uses_torch:
        found = found.double().numpy()
    if np.iscomplexobj(found):
        found = np.stack([found.real, found.imag])
    return found.astype(np.float64)


def bound(problem, exact):
    """Return how far two evaluations may differ that sum in another order.

    Each rounds its result once to its type, and each of its float32 operations once. ``terms`` is
    the size of all that is added up to an element, as far as it is not the element itself.
    """
    inputs = [x.astype(np.float64) for x in problem.arguments if isinstance(x, np.ndarray)]
    u, step = ROUNDING[problem.arguments[0].dtype], 2.0**-24
    kind = problem.name.split()[0]
    if kind == "GEMM":
        operations, terms = 256 + 1, np.abs(inputs[0]).T @ np.abs(inputs[1])
    elif kind == "softmax":
        # 600 sums; an exponential has 4 roundings, and that of its argument in units of it.
        operations, terms = 600 + 2 * np.ptp(inputs[0]) + 16, np.abs(exact)
    elif kind == "layernorm":
        # 600 sums for either moment and a few operations, on rows whose deviation is about 1.
        x, weight, bias = (np.abs(part) for part in inputs)
        operations, terms = 2 * 600 + 16, 2 * x.max() * weight + bias
    elif kind == "attention":
        # The weights are positive, sum to 1 and are rounded to the type of the values; against
        # that the float32 operations do not count, and a factor 2 covers them.
        operations, terms = 2 * u / step, np.abs(inputs[2]).max()
    else:
        # Each of log2(16) stages turns and adds with 6 operations.
        operations, terms = 4 * 6, np.abs(inputs[0]).sum(axis=(0, 2))[None, :, None]
    return 2 * u * np.abs(exact) + 2 * operations * step * terms


@pytest.mark.parametrize("problem", PROBLEMS, ids=NAMES)
def test_plain_simulator_and_routine_agree(problem):
    run = nkisim.simulate(problem.kernel)
    simulated = run(*problem.arguments)
    plain = bench.interpreted(problem.kernel)(*problem.arguments)
    assert type(plain) is np.ndarray
    assert (plain.dtype, plain.shape) == (simulated.dtype, simulated.shape)
    # A kernel with findings would be slower than the one that is meant.
    assert run.report.codes == set()
    if problem.name.startswith("FFT"):
        # Element-wise throughout: no order of summation is left open.
        assert np.array_equal(plain, simulated)
    wide = simulated.astype(np.float64)
    assert (np.abs(plain.astype(np.float64) - wide) <= bound(problem, wide)).all()
    exact = routine_result(problem)
    assert wide.shape == exact.shape
    assert (np.abs(wide - exact) <= bound(problem, exact)).all()


def test_doubled_reads_and_writes_every_row():
    x = np.arange(256 * 8, dtype=np.float32).reshape(256, 8)
    for run in (nkisim.simulate(bench.doubled), bench.interpreted(bench.doubled)):
        assert np.array_equal(run(x), 2 * x)


def test_interpreting_leaves_kernel_and_arguments_alone():
    kernel = bench.example("softmax").softmax
    x = np.random.default_rng(0).standard_normal((4, 8), np.float32)
    kept = x.copy()
    bench.interpreted(kernel)(x)
    assert np.array_equal(x, kept)
    events = []
    nkisim.simulate(kernel, watchers=(events.append,))(x)
    assert events


def test_operands_are_widened_and_the_result_is_rounded_once():
    tensor_scalar = bench.interpreted.__globals__["tensor_scalar"]
    one = np.ones((1, 1), ml_dtypes.bfloat16)
    dst = np.zeros((1, 1), ml_dtypes.bfloat16)
    # 1 + 2**-8 is 1 in bfloat16, so a rounding between the operators would leave 0.
    tensor_scalar(dst, one, np.add, 2.0**-8, np.subtract, 1.0)
    assert float(dst[0, 0]) == 2.0**-8


def test_instructions_are_counted():
    # Loads of 2 tiles of both operands; 2 results of 2 products each, a copy and a store.
    assert bench.instruction_count(GEMM) == 4 + 2 * (2 + 1 + 1)


def test_contenders_and_rows_of_a_problem():
    attention = next(p for p in PROBLEMS if p.name.startswith("attention"))
    alone = bench.kernel_timings(attention, rounds=2)
    with_torch = bench.kernel_timings(attention, torch_loaded=True, rounds=2)
    assert list(alone) == ["nkisim", "plain"]
    threaded = "torch attention, all threads"
    assert list(with_torch) == ["nkisim", "plain", "torch attention", threaded]
    rows = bench.kernel_rows(attention, 100, alone, with_torch)
    assert [goal for _, _, goal, _ in rows] == ["", "<= 1.5x", "", "", "", ""]
    assert len(bench.kernel_rows(attention, 100, alone, None)) == 2
    # NumPy's routine is there without torch.
    assert "np.matmul float32" in bench.kernel_timings(GEMM, rounds=2)


def test_verdicts():
    assert bench.row("a", 8.0, "{:.1f}x", at_least=8) == ("a", "8.0x", ">= 8x", "reached")
    assert bench.row("a", 7.7, "{:.1f}x", at_least=8)[3] == "reached"  # within 5 %
    assert bench.row("a", 7.5, "{:.1f}x", at_least=8)[3] == "missed"
    assert bench.row("a", 320, "{} us", at_most=300, unit=" us")[2:] == ("<= 300 us", "missed")
    assert bench.row("a", 1.0, "{:.0f}")[2:] == ("", "")
    timings = {"slow": bench.Timing((2.0, 6.0, 9.0)), "fast": bench.Timing((1.0, 2.0, 3.0))}
    assert bench.ratio(timings, "slow", "fast") == 3.0


def test_measurements_run_on_tiny_sizes(monkeypatch):
    assert bench.long_loop_micros(40) > 0
    monkeypatch.setattr("small.TURNS", 5)
    monkeypatch.setattr("small.CALLS", 2)
    monkeypatch.setattr(bench, "long_loop_micros", lambda: 1.0)
    assert [goal for *_, goal in bench.small_rows()].count("") == 0  # every row has a goal
    assert bench.call_timings(rounds=2)["nkisim one instruction"].p50 > 0
    monkeypatch.setattr(bench, "REST", 0.001)
    timings = bench.gemm_timings(128)
    assert all(bench.gemm_ratio(timings, r) > 0 for r in (bench.ONE_THREAD, bench.ALL_THREADS))
    assert set(bench.elementwise_timings(repeats=5)) == {"nkisim", "ml_dtypes"}
    assert len(bench.gemm_without_values_timings(128, rounds=2)) == 3
    assert min(bench.large_gemm_seconds(128)) > 0


def test_peak_memory_includes_input_and_result():
    # 16384 rows of 8 KiB are 1/8 GiB, there and back; the rest of a process is far below 1 GiB.
    peak = bench.in_own_process("bench_simulator.peak_gib(16384)")
    assert 2 / 8 < peak < 2


@pytest.mark.parametrize("large", [False, True])
def test_table_and_record(large, monkeypatch, capsys):
    recorded = []
    monkeypatch.setattr(sys, "argv", ["bench", "--record", "--size", "128", "--large"][: 4 + large])
    monkeypatch.setattr(bench, "fixed_cost_rows", lambda timings: [("fixed", "", "", "")])
    monkeypatch.setattr(bench, "middle_rows", lambda timings: [("middle", "", "", "")])
    monkeypatch.setattr(bench, "large_rows", lambda: [("large", "", "", "")])
    monkeypatch.setattr(bench, "problems", lambda size: [bench.gemm_problem(size, bench.BF16)])
    monkeypatch.setattr(bench, "REST", 0.001)
    monkeypatch.setattr(bench, "record", lambda *arguments: recorded.append(arguments[1]))
    bench.main()
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()[:4]] == [
        "problem",
        "fixed",
        "middle",
        "GEMM",
    ]
    assert ("large" in printed) == large
    name = "GEMM 128^3 bfloat16"
    assert recorded == [name, f"{name}, compiled"]
