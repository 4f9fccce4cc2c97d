"""How the tests of matrix-product kernels run them, and what they count while they run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import torch

import nkisim
from nkisim.language import psum, sbuf
from trnsci.core.numbers.conversions import read_only_array_of

DTYPES = {
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
}


def values(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    """Return normally distributed values."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(DTYPES[dtype])


def run(kernel: Any, generation: str, *arguments: Any) -> np.ndarray:
    """Return the result of a kernel in strict simulation, which must have nothing to report."""
    simulation = nkisim.simulate(kernel, strictness="strict", target=generation)
    out = simulation(*arguments)
    assert not simulation.report.findings, simulation.report.findings
    return out


def launcher(generation="gen3"):
    """Return a launch function that simulates strictly and accepts no finding."""

    def launch(kernel, *args):
        arrays = [read_only_array_of(x) if isinstance(x, torch.Tensor) else x for x in args]
        results = run(kernel, generation, *arrays)
        single = not isinstance(results, (tuple, list))
        return torch.tensor(results) if single else tuple(map(torch.tensor, results))

    return launch


class Count:
    """What a run executes and occupies.

    Attributes:
        instructions: How often each was executed, by name.
        hbm_bytes: Bytes read from and written to HBM.
        moving_columns: Columns that products stream.
        sbuf_bytes, psum_banks: The most in use at once, per partition.
    """

    def __init__(self, kernel: Any, generation: str, *arguments: Any) -> None:
        self.instructions: Counter[str] = Counter()
        self.hbm_bytes = 0
        self.moving_columns = 0
        self._lives: dict[int, Any] = {}
        simulation = nkisim.simulate(
            kernel, strictness="strict", target=generation, values=False, watchers=(self._watch,)
        )
        simulation(*arguments)
        self.sbuf_bytes = self._peak(sbuf, 1)
        self.psum_banks = self._peak(psum, 2048)

    def _peak(self, region: Any, unit: int) -> int:
        """Return the most units per partition that are live at once."""
        changes = []
        for life in self._lives.values():
            if life.region == region:
                nbytes = int(np.prod(life.shape[1:])) * life.dtype.itemsize
                units = -(-nbytes // unit)
                # What an instruction reads last is still there while it writes.
                changes += [(life.first_use, 0, units), (life.last_use, 1, -units)]
        live = peak = 0
        for _, _, units in sorted(changes):
            live += units
            peak = max(peak, live)
        return peak

    def _watch(self, event: Any) -> None:
        self.instructions[event.instruction] += 1
        for _, tensor in (*event.reads, *event.writes):
            self._lives[id(tensor.life)] = tensor.life
        if event.instruction == "dma_copy":
            for _, tensor in (*event.reads, *event.writes):
                if tensor.buffer != sbuf:
                    self.hbm_bytes += int(np.prod(tensor.shape)) * tensor.dtype.itemsize
        if event.instruction == "nc_matmul":
            moving = dict(event.reads)["moving"]
            self.moving_columns += moving.shape[-1]
