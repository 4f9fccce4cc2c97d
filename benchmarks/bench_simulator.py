"""How fast the simulator is, as ratios against NumPy in the same run.

    python benchmarks/bench_simulator.py            print the table
    python benchmarks/bench_simulator.py --record   also append to benchmarks/results/

Three goals: the fixed cost of a small instruction, a tiled bfloat16 GEMM beside np.matmul on
float32, and a bfloat16 element-wise instruction beside the same operation on ml_dtypes arrays. The
last one is shown twice, without torch in the process and with it, because conversions use torch's
kernels when the user has imported it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import ml_dtypes
import numpy as np
from runner import Timing, measure, record, show

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl

BF16 = ml_dtypes.bfloat16


def small_instruction_us(count: int = 20_000) -> float:
    """Return microseconds per instruction of an 8x8 tensor_tensor in a loop, default clients on."""
    spent = []

    def kernel(x):
        tile = nl.load(x)
        out_tile = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf)
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(count // 5):
                nisa.tensor_tensor(dst=out_tile, data1=tile, data2=tile, op=nl.add)
            spent.append((time.perf_counter() - start) / (count // 5))
        out = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, out_tile)
        return out

    nkisim.simulate(kernel)(np.ones((8, 8), np.float32))
    return sorted(spent)[len(spent) // 2] * 1e6


def gemm(a_t, b):
    """Multiply with A given transposed, in 128x128x512 matmuls; operands stay in SBUF."""
    k_size, m_size = a_t.shape
    n_size = b.shape[1]
    out = nl.ndarray((m_size, n_size), dtype=a_t.dtype, buffer=nl.shared_hbm)
    a_tiles, b_tiles = [], []
    for k in range(0, k_size, 128):
        a_tile = nl.ndarray((128, m_size), dtype=a_t.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=a_tile, src=a_t[k : k + 128, :])
        a_tiles.append(a_tile)
        b_tile = nl.ndarray((128, n_size), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=b_tile, src=b[k : k + 128, :])
        b_tiles.append(b_tile)
    for m in range(0, m_size, 128):
        for n in range(0, n_size, 512):
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for i in range(len(a_tiles)):
                nisa.nc_matmul(
                    dst=total,
                    stationary=a_tiles[i][:, m : m + 128],
                    moving=b_tiles[i][:, n : n + 512],
                    accumulate=i > 0,
                )
            tile = nl.ndarray((128, 512), dtype=a_t.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=tile, src=total)
            nisa.dma_copy(dst=out[m : m + 128, n : n + 512], src=tile)
    return out


def gemm_timings(size: int = 1024) -> dict[str, Timing]:
    """Time the simulated GEMM beside np.matmul on float32 matrices of the same size."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size)).astype(BF16) for _ in range(2))
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    simulated = nkisim.simulate(gemm)
    return measure(
        {
            "nkisim bf16 gemm": lambda: simulated(a, b),
            "np.matmul float32": lambda: np.matmul(wide_a, wide_b),
        }
    )


def elementwise_timings(repeats: int = 50) -> dict[str, Timing]:
    """Time a bf16 add on (128, 2048) inside a kernel beside the same add of ml_dtypes arrays."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((128, 2048)).astype(BF16) for _ in range(2))
    samples: dict[str, list[float]] = {"nkisim": [], "ml_dtypes": []}

    def kernel(x, y):
        left, right = nl.load(x), nl.load(y)
        tile = nl.ndarray((128, 2048), dtype=nl.bfloat16, buffer=nl.sbuf)
        for _ in range(repeats):
            start = time.perf_counter()
            nisa.tensor_tensor(dst=tile, data1=left, data2=right, op=nl.add)
            middle = time.perf_counter()
            a + b
            samples["nkisim"].append(middle - start)
            samples["ml_dtypes"].append(time.perf_counter() - middle)
        out = nl.ndarray((128, 2048), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    nkisim.simulate(kernel)(a, b)
    cut = repeats // 5
    return {
        name: Timing(*(sorted(times)[i] for i in (cut, repeats // 2, repeats - cut)))
        for name, times in samples.items()
    }


def elementwise_ratio() -> float:
    """Return how many times faster the simulated bf16 add is than ml_dtypes."""
    timings = elementwise_timings()
    return timings["ml_dtypes"].p50 / timings["nkisim"].p50


def with_torch() -> float:
    """Return the same ratio in a process that has imported torch."""
    code = "import torch, bench_simulator; print(bench_simulator.elementwise_ratio())"
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=__file__.rpartition("/")[0] or ".",
    )
    return float(found.stdout)


def main() -> None:
    """Measure, print, and record when asked."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--record", action="store_true", help="append to benchmarks/results")
    keep = parser.parse_args().record
    micros = small_instruction_us()
    gemms = gemm_timings()
    ratio = gemms["nkisim bf16 gemm"].p50 / gemms["np.matmul float32"].p50
    elementwise = elementwise_timings()
    plain = elementwise["ml_dtypes"].p50 / elementwise["nkisim"].p50
    rows = [
        ("8x8 tensor_tensor in a loop", f"{micros:.1f} us each", "<= 10 us", micros <= 10),
        ("bf16 GEMM 1024^3 / np.matmul float32", f"{ratio:.2f}x", "<= 2x", ratio <= 2),
        ("ml_dtypes / bf16 add (128, 2048)", f"{plain:.1f}x", ">= 5x", plain >= 5),
    ]
    try:
        helped = with_torch()
        rows.append(("  the same with torch imported", f"{helped:.1f}x", ">= 5x", helped >= 5))
    except subprocess.CalledProcessError:
        print("torch is not installed: the row with torch is left out")
    show([(p, m, g, "reached" if ok else "missed") for p, m, g, ok in rows])
    if keep:
        record("bench_simulator", "gemm 1024^3 bf16", gemms)
        record("bench_simulator", "add (128, 2048) bf16", elementwise)


if __name__ == "__main__":
    main()
