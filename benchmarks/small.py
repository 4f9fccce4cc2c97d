"""Cost of small instructions in microseconds of processor time, in turns with NumPy calls.

Processor time is used because wall time on a shared machine includes other processes. The result is
the 20th percentile of many short turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl

TURNS, CALLS = 60, 100


def micros(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the microseconds of each call, measured in turns."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(TURNS):
        for name, call in calls.items():
            start = time.thread_time()
            for _ in range(CALLS):
                call()
            spent[name].append((time.thread_time() - start) / CALLS)
    return {name: sorted(times)[TURNS // 5] * 1e6 for name, times in spent.items()}


def small_instruction_micros() -> dict[str, float]:
    """Return the cost of instructions on 4 x 4 tiles and of a 128 x 128 one, and NumPy's."""
    found: dict[str, float] = {}

    def kernel(x):
        def tile(shape, dtype=nl.float32):
            made = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
            nisa.memset(dst=made, value=1.0)
            return made

        a, b, c = (tile((4, 4)) for _ in range(3))
        p, q = (tile((4, 4), nl.bfloat16) for _ in range(2))
        column, total = tile((4, 1)), nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
        left, right, result = (tile((128, 128)) for _ in range(3))
        u, v, w = (np.ones((128, 128), np.float32) for _ in range(3))
        e, f, g = (np.ones((4, 4), np.float32) for _ in range(3))
        found.update(
            micros(
                {
                    "tensor_tensor": lambda: nisa.tensor_tensor(c, a, b, nl.add),
                    "tensor_scalar": lambda: nisa.tensor_scalar(c, a, nl.multiply, 2.5),
                    "activation": lambda: nisa.activation(c, nl.exp, a),
                    "bf16 tensor_tensor": lambda: nisa.tensor_tensor(q, p, p, nl.add),
                    "tensor_copy": lambda: nisa.tensor_copy(c, a),
                    "tensor_reduce": lambda: nisa.tensor_reduce(column, nl.add, a, 1),
                    "nc_matmul": lambda: nisa.nc_matmul(total, a, b),
                    "bf16 nc_matmul": lambda: nisa.nc_matmul(total, p, q),
                    "nl.ndarray": lambda: nl.ndarray((4, 4), nl.float32),
                    "np.add(out=)": lambda: np.add(e, f, out=g),
                    "128x128 tensor_tensor": lambda: nisa.tensor_tensor(
                        result, left, right, nl.add
                    ),
                    "128x128 np.add(out=)": lambda: np.add(u, v, out=w),
                }
            )
        )
        return x

    nkisim.simulate(kernel)(np.ones((4, 4), np.float32))
    return found


def small_instructions(count: int) -> Callable[..., Any]:
    """Return a kernel of ``count`` instructions on one tile."""

    def kernel(x):
        a = nl.load(x)
        b = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        c = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        for i in range(count // 4):
            nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=1.0 + i)
            nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.subtract)
            nisa.activation(dst=b, op=nl.square, data=c)
            nisa.tensor_tensor(dst=a, data1=b, data2=c, op=nl.minimum)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, a)
        return out

    return kernel


def long_loop_micros(instructions: int = 100_000) -> float:
    """Return the cost per instruction in a kernel of many small ones, the call included."""
    simulated = nkisim.simulate(small_instructions(instructions))
    spent = []
    for _ in range(3):
        start = time.thread_time()
        simulated(np.ones((4, 4), np.float32))
        spent.append((time.thread_time() - start) / instructions)
    return min(spent) * 1e6
