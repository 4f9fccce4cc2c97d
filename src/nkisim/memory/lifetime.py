"""When a tensor was in use: what is left of it after its bytes are gone."""

from __future__ import annotations

from dataclasses import dataclass

from nkisim.diagnostics import Spot, assigned_name, line_of
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
        made: What made it: the spot, or file and line.
        first_use, last_use: Numbers of the first instruction that wrote it and of the last that
            used it, or -1.
    """

    region: MemoryRegion
    shape: tuple[int, ...]
    dtype: DType
    name: str
    address: Address | None
    made: Spot | tuple[str, int]
    first_use: int = -1
    last_use: int = -1

    @property
    def line(self) -> tuple[str, int]:
        """File and line that made it."""
        code, number = self.made
        return (code, number) if isinstance(code, str) else line_of((code, number))

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
