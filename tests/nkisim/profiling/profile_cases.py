"""A product of two matrices as a file, its profiles, and profiles made by hand."""

from __future__ import annotations

import functools

import numpy as np

import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from nkisim import Profile
from nkisim.profiling import MemoryUse, Span

ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync", "dge", "dma")
FILE = """\
import ml_dtypes
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def product(a, b):
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
    acc = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.psum)
    for k in range(0, a.shape[0], 128):
        lhs = nl.ndarray((128, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
        rhs = nl.ndarray((128, b.shape[1]), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=lhs, src=a[k : k + 128, :])
        nisa.dma_copy(dst=rhs, src=b[k : k + 128, :])
        nisa.nc_matmul(dst=acc, stationary=lhs, moving=rhs, accumulate=k > 0)
    tile = nl.ndarray(out.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=acc)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""

EXAMPLES = """

def nkisim_examples():
    yield product, tuple(np.ones((256, n), ml_dtypes.bfloat16) for n in (128, 512))
"""


@nkisim.jit
def both_cores(x):
    """Each core scales half of the rows."""
    half = x.shape[0] // 2
    first = nl.program_id(0) * half
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((half, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[first : first + half, :])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out[first : first + half, :], src=tile)
    return out


@functools.cache
def two_cores() -> Profile:
    """The profile of a kernel on two cores, without products."""
    return nkisim.profile(both_cores[2])(np.ones((128, 64), np.float32))


def made(spans=(), memory=(), cores=1, **changed) -> Profile:
    """A profile of given spans and tiles."""
    spans = sorted(spans, key=lambda span: span.start_us)
    busy = [dict.fromkeys(ENGINES, 0.0) for _ in range(cores)]
    for span in spans:
        busy[span.core][span.engine] += span.end_us - span.start_us
    latency = max((span.ready_us for span in spans), default=0.0) + 10.0
    fields = {
        "kernel": "made",
        "target": "gen3",
        "nki": "0.3.0",
        "latency_us": latency,
        "interval_us": (latency - 1, latency + 1),
        "fixed_us": 9.0,
        "host_us": 50.0,
        "engine_busy_us": busy[0],
        "utilization": {key: value / latency for key, value in busy[0].items()},
        "per_core": busy,
        "bound_by": "dma",
        "bound_us": max(busy[0].values()),
        "hbm_bytes": sum(span.nbytes for span in spans),
        "transfers": sum(bool(span.queue) for span in spans),
        "spill_bytes": 0,
        "descriptors": {"software": sum(bool(span.queue) for span in spans)},
        "assumed_descriptors": "software",
        "dma_efficiency": 0.5,
        "flops": 0.0,
        "intensity": 0.0,
        "peak_tflops": 90.0,
        "hbm_gbps": 360.0,
        "instructions": {"dma_copy": len(spans)},
        "lines": [],
        "timeline": list(spans),
        "memory": list(memory),
        "capacity": {"sbuf": 200_000, "psum": 16_384},
    }
    return Profile(**{**fields, **changed})


def span(engine: str, start: float, end: float, line: int = 1, queue: str = "") -> Span:
    """An instruction of a line."""
    name = "dma_copy" if queue else "activation"
    return Span(engine, start, end, end, name, "made.py", line, 0, 4096 if queue else 0, queue)


def tile(name: str, row_bytes: int, start: float, end: float) -> MemoryUse:
    """A tile in SBUF."""
    return MemoryUse("sbuf", name, "made.py", 1, row_bytes, start, end, 0)
