"""How the tests of sparse kernels run them, and what they count while they run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np

import nkisim
from nkisim.language import sbuf

GENERATIONS = ("gen2", "gen3", "gen4")
DTYPES = {
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
}


def values(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    """Return normally distributed values."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(DTYPES[dtype])


def run(kernel: Any, generation: str, *arguments: Any, decided_by_values: bool = False) -> Any:
    """Return the results of a kernel in strict simulation, which must have nothing to report.

    Nor may the checks of its source and of this call, which need no values unless these decide
    what is executed.
    """
    checked = nkisim.check(kernel, target=generation, values=decided_by_values)(*arguments)
    assert not checked.findings, checked.findings
    simulation = nkisim.simulate(kernel, strictness="strict", target=generation)
    out = simulation(*arguments)
    assert not simulation.report.findings, simulation.report.findings
    return out


class Count:
    """What a run executes.

    Attributes:
        instructions: How often each was executed, by name.
        hbm_bytes: Bytes read from and written to HBM.
    """

    def __init__(
        self, kernel: Any, generation: str, *arguments: Any, decided_by_values: bool = False
    ) -> None:
        self.instructions: Counter[str] = Counter()
        self.hbm_bytes = 0
        simulation = nkisim.simulate(
            kernel,
            strictness="strict",
            target=generation,
            values=decided_by_values,
            watchers=(self._watch,),
        )
        simulation(*arguments)

    def _watch(self, event: Any) -> None:
        self.instructions[event.instruction] += 1
        if event.instruction == "dma_copy":
            for _, tensor in (*event.reads, *event.writes):
                if tensor.buffer != sbuf:
                    self.hbm_bytes += int(np.prod(tensor.shape)) * tensor.dtype.itemsize
