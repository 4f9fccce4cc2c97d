"""When a tensor was in use: what is left of it after its bytes are gone."""

from __future__ import annotations

from dataclasses import dataclass

from nkisim.diagnostics import assigned_name
from nkisim.dtypes import DType
from nkisim.memory.region import MemoryRegion

__all__ = ["Address", "Lifetime"]

Address = tuple[int, int]
"""Partition and byte offset of an explicitly placed tensor."""


@dataclass(slots=True)
class Lifetime:
    """The record of one allocation; runs keep these, and let the memory of dead tiles go.

    Attributes:
        region, shape, dtype, name, address: What was allocated.
        line: File and line that made it.
        first_use, last_use: Numbers of the first instruction that wrote it and of the last that
            used it, or -1.
    """

    region: MemoryRegion
    shape: tuple[int, ...]
    dtype: DType
    name: str
    address: Address | None
    line: tuple[str, int]
    first_use: int = -1
    last_use: int = -1

    @property
    def label(self) -> str:
        """The name it was given, else that of the variable it was assigned to, or "unnamed"."""
        return self.name or assigned_name(*self.line) or "unnamed"

    def read(self, clock: int) -> None:
        """Note a use."""
        self.last_use = clock

    def written(self, clock: int) -> None:
        """Note a write."""
        self.last_use = clock
        if self.first_use < 0:
            self.first_use = clock
