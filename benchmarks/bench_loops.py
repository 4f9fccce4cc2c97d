"""Time and memory of long loops of small instructions, as ratio of two lengths.

    python benchmarks/bench_loops.py            10^5 and 10^6 instructions, some minutes
    python benchmarks/bench_loops.py --quick    2 * 10^4 and 10^5 instructions

A ratio of 1 means that the time per instruction, or the memory, does not depend on the number of
instructions. Each loop runs in a process of its own: memory is the maximum of its resident set
less that of a loop of 2,000 instructions, time is processor time.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl

SHORT = 2_000

Turn = Callable[[int, Any, list[Any]], None]
"""Runs four instructions: takes the number of the turn, a tile of 32 x 32, and a list."""


def automatic(turn: int, tile: Any, kept: list[Any]) -> None:
    """Matmul into a PSUM tile, copy, fill and add, with tiles that the allocator places."""
    acc = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.psum)
    _instructions(turn, tile, acc)


def placed(turn: int, tile: Any, kept: list[Any]) -> None:
    """Run the same instructions with PSUM tiles at eight addresses in turn."""
    at = (0, 2048 * (turn % 8))
    acc = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.psum, address=at)
    _instructions(turn, tile, acc)


def placed_and_kept(turn: int, tile: Any, kept: list[Any]) -> None:
    """Keep the last 64 placed tiles in scope."""
    at = (0, 2048 * (turn % 8))
    acc = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.psum, address=at)
    _instructions(turn, tile, acc)
    kept.append(acc)
    if len(kept) > 64:
        del kept[0]


def numbers(turn: int, tile: Any, kept: list[Any]) -> None:
    """Run instructions with a number that changes in each call."""
    where = nl.ndarray((32, 32), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=where, pattern=[[1, 32]], offset=turn)
    nisa.memset(dst=where, value=turn)
    nisa.memset(dst=tile, value=0.5 * turn)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0 + turn)


def _instructions(turn: int, tile: Any, acc: Any) -> None:
    nisa.nc_matmul(dst=acc, stationary=tile, moving=tile)
    copy = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=copy, src=acc)
    nisa.memset(dst=tile, value=0.5)
    nisa.tensor_tensor(dst=copy, data1=copy, data2=tile, op=nl.add)


LOOPS: dict[str, Turn] = {
    "without address=": automatic,
    "with address=": placed,
    "with address=, tiles kept in scope": placed_and_kept,
    "numbers that change in each call": numbers,
}


def run(name: str, instructions: int) -> tuple[float, float]:
    """Return microseconds per instruction and the process's largest resident set in MiB."""
    turn_of = LOOPS[name]

    def kernel(x):
        tile, kept = nl.load(x), []
        for turn in range(instructions // 4):
            turn_of(turn, tile, kept)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    x = np.ones((32, 32), np.float32)
    start = time.process_time()
    nkisim.simulate(kernel)(x)
    spent = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return spent / instructions * 1e6, peak


def in_a_process(name: str, instructions: int) -> tuple[float, float]:
    """Run a loop in a process of its own."""
    command = [sys.executable, __file__, "--one", name, str(instructions)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    micros, peak = printed.split()[-2:]
    return float(micros), float(peak)


def table(lengths: tuple[int, int]) -> list[tuple[str, ...]]:
    """Return a row per loop: cost at both lengths, and their ratio."""
    rows = []
    for name in LOOPS:
        _, least = in_a_process(name, SHORT)
        (few, small), (many, large) = (in_a_process(name, length) for length in lengths)
        rows.append(
            (
                name,
                f"{few:.1f}",
                f"{many:.1f}",
                f"{many / few:.2f}",
                f"{small - least:.1f}",
                f"{large - least:.1f}",
                f"{large / small:.2f}",
            )
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="shorter loops")
    parser.add_argument("--one", nargs=2, metavar=("LOOP", "INSTRUCTIONS"), help="run one loop")
    options = parser.parse_args()
    if options.one:
        print(*run(options.one[0], int(options.one[1])))
        return
    lengths = (20_000, 100_000) if options.quick else (100_000, 1_000_000)
    print(f"{lengths[0]:,} and {lengths[1]:,} instructions")
    print(f"{'loop':36}{'us':>8}{'us':>8}{'ratio':>7}{'MiB':>8}{'MiB':>8}{'ratio':>7}")
    for name, *values in table(lengths):
        widths = (8, 8, 7, 8, 8, 7)
        print(f"{name:36}" + "".join(f"{v:>{w}}" for v, w in zip(values, widths, strict=True)))


if __name__ == "__main__":
    main()
