"""Data-dependent offsets of a view, of ``ap``, ``select``, ``vector_select`` and ``indirect``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Indirection:
    """A dynamic offset of a view, read when an instruction uses it.

    Attributes:
        kind: One offset for all rows, one index per row, or an offset per element of a row.
        source: Register or tile that holds the offsets.
        stride: Bytes per unit of offset: one step of ``indirect_dim`` of the tensor's own shape.
        extent: Number of legal offsets.
    """

    kind: Literal["scalar", "vector", "columns"]
    source: Any
    stride: int
    extent: int

    @property
    def layout(self) -> tuple[Any, ...]:
        """Key for static checks: the kind, and the layout of an index tile."""
        return (self.kind, getattr(self.source, "layout", type(self.source)))
