"""Runs kernels on the two cores of a logical core."""

from __future__ import annotations

import faulthandler
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import drawn
import nkisim
import nkisim.isa as nisa
import nkisim.language as nl
from tiles import hbm, sbuf

#: Of adversarial schedules, half of them in runs without the slow tests.
SEEDS = range(round(20 * drawn.SHARE))


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """Ends the test process, with every thread's stack, when a test waits for ever."""
    faulthandler.dump_traceback_later(60, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """Fails a test after which a thread of a run is still there."""
    yield
    left = {t.name for t in threading.enumerate() if t.name.startswith("nkisim")}
    assert left <= {"nkisim helper"}  # which stays with the process


def both(tile: Any) -> Any:
    """Return a new output with the tile of each core."""
    out = hbm((2, *tile.shape), tile.dtype)
    nisa.dma_copy(dst=out[nl.program_id(0)], src=tile)
    return out


def swapped(tile: Any, pipe_id: int = 0, **options: Any) -> Any:
    """Return a tile of the other core, for one of this."""
    got, other = sbuf(tile.shape, tile.dtype), 1 - nl.program_id(0)
    nisa.sendrecv(tile, got, send_to_rank=other, recv_from_rank=other, pipe_id=pipe_id, **options)
    return got


def report_of(kernel: Callable[..., Any], *arguments: Any, **options: Any) -> nkisim.Report:
    """Report of a kernel on two cores."""
    return nkisim.check(nkisim.jit(kernel)[2], **options)(*arguments)


def on_two_cores(kernel: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Output of a kernel on two cores that must have no finding."""
    report = report_of(kernel, *arguments, **options)
    assert not report.findings, str(report)
    return report.outputs


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Small integers, exact in float32."""
    return np.random.default_rng(0).integers(-100, 100, shape).astype(dtype)
