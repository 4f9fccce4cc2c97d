"""The line that wrote an element of an output last."""

from __future__ import annotations

from typing import Any

from nkisim.machine import Event
from nkisim.memory import NkiTensor, is_hbm


class Writers:
    """A watcher of a run that keeps the instructions that wrote to HBM."""

    def __init__(self) -> None:
        self._found: list[tuple[Any, Any, str, int]] = []

    def __call__(self, event: Event) -> None:
        """Keep what an instruction writes to HBM: allocation, region and line."""
        for _, tensor in event.writes:
            if is_hbm(tensor.buffer):
                line = (event.place.file, event.place.line)
                self._found.append((tensor.life, tensor.region, *line))

    def of(self, tensor: NkiTensor, index: tuple[int, ...]) -> tuple[str, int] | None:
        """Return file and line of the last instruction that wrote an element of a tensor."""
        start, _, strides, itemsize = tensor.region
        at = start + sum(i * step for i, step in zip(index, strides, strict=True))
        for life, region, file, line in reversed(self._found):
            if life is tensor.life and _covers(region, at, itemsize):
                return file, line
        return None


def _covers(region: Any, at: int, itemsize: int) -> bool:
    """Return whether a strided region has the element at a byte."""
    start, shape, strides, _ = region
    dims = [(step, extent) for step, extent in zip(strides, shape, strict=True) if step]
    first = start + sum(step * (extent - 1) for step, extent in dims if step < 0)
    rest = at - first
    if rest < 0:
        return False
    for step, extent in sorted(dims, key=lambda dim: abs(dim[0]), reverse=True):
        rest -= min(rest // abs(step), extent - 1) * abs(step)
    return rest < itemsize
