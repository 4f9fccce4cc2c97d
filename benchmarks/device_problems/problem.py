"""A problem of ``bench_device.py``: a call that launches one kernel, and its least work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

import torch

import nkisim
from trnsci.core.backend.launch import SIMULATE
from trnsci.core.tiles.hardware import CORES, ITEMSIZE, TILE


class _Profiled(BaseException):
    """Ends a call at its launch; no handler of errors in between catches it."""

    def __init__(self, profile: nkisim.Profile) -> None:
        super().__init__()
        self.profile = profile


@dataclass(frozen=True)
class Problem:
    """One call of a library.

    Attributes:
        name: Operation and sizes.
        library: Import name of the library.
        prepare: Returns the call, made with operands whose values do not matter.
        nbytes: Bytes of operands and results, each moved once.
        flops: Operations of products that no algorithm avoids; 0 if bytes bound the problem.
        goal_us: Goal on gen3, None for a size without one.
        dtype: Dtype of the products.
        values: Whether the kernel needs values to run.
    """

    name: str
    library: str
    prepare: Callable[[], Callable[[], Any]]
    nbytes: int
    flops: int = 0
    goal_us: float | None = None
    dtype: str = "float32"
    values: bool = False

    def profile(self, target: str) -> nkisim.Profile:
        """Return the profile of the first kernel that the call launches, by shapes."""

        def simulate(kernel: Any) -> Callable[..., NoReturn]:
            def run(*arguments: Any) -> NoReturn:
                predict = nkisim.profile(kernel, target, values=self.values, advice=False)
                raise _Profiled(predict(*arguments))

            return run

        library = import_module(self.library)
        call = self.prepare()
        try:
            with (
                library.backend("simulator"),
                library.LIBRARY.requiring("1"),
                SIMULATE.scope(simulate),
                torch.no_grad(),
            ):
                call()
        except _Profiled as found:
            return found.profile
        raise RuntimeError(f"{self.name}: the call launched no kernel")

    def bound_us(self, target: str) -> float:
        """Return the least time that the bytes and the products allow on a generation."""
        core = CORES[target]
        passes = ITEMSIZE[self.dtype] ** 2 / 4  # float32 takes four, bfloat16 one
        products = passes * self.flops / (2 * TILE * TILE * core.tensor_ghz)
        return max(self.nbytes / core.dma_bytes_per_ns, products) / 1e3
