"""Data-dependent offsets: ``ap(scalar_offset=...)`` and ``ap(vector_offset=...)``.

The offsets are read when an instruction uses the view. Both count in units of one step of
``indirect_dim`` of the tensor's own shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import index as as_int
from typing import Any, Literal

import numpy as np

from nkisim.diagnostics import flag
from nkisim.memory import rules
from nkisim.memory.region import MemoryRegion, is_hbm
from nkisim.memory.tensor import NkiTensor
from nkisim.memory.written import read_elements

__all__ = ["Indirection", "make_indirection", "resolve_scalar", "vector_rows"]


@dataclass(frozen=True, slots=True)
class Indirection:
    """A dynamic offset of a view.

    Attributes:
        kind: One offset for all rows, or one index per row.
        source: Register or tile that holds the offsets.
        stride: Bytes per unit of offset.
        extent: Number of legal offsets.
    """

    kind: Literal["scalar", "vector"]
    source: Any
    stride: int
    extent: int

    @property
    def layout(self) -> tuple[Any, ...]:
        """What static checks may look at: the kind, and the layout of an index tile."""
        source = self.source
        return (self.kind, source.layout if isinstance(source, NkiTensor) else type(source))


def make_indirection(
    tensor: NkiTensor, scalar_offset: Any, vector_offset: Any, indirect_dim: int
) -> Indirection | None:
    """Check the offset arguments of ``ap`` and return what they describe."""
    if scalar_offset is None and vector_offset is None:
        return None
    if scalar_offset is not None and vector_offset is not None:
        flag(
            rules.TWO_OFFSETS,
            "ap() takes scalar_offset or vector_offset, not both",
            operand=tensor.name,
            fix="keep one of them",
        )
    if not 0 <= indirect_dim < len(tensor.shape):
        _bad_offset(tensor, f"indirect_dim {indirect_dim} is not a dimension of {tensor.shape}")
    stride, extent = tensor.strides[indirect_dim], tensor.shape[indirect_dim]
    if scalar_offset is not None:
        if isinstance(scalar_offset, NkiTensor):
            if scalar_offset.buffer is not MemoryRegion.sbuf or scalar_offset.size != 1:
                _bad_offset(
                    tensor, f"scalar_offset is {scalar_offset.describe()}, needs a 1x1 SBUF tile"
                )
        elif not hasattr(scalar_offset, "__index__"):
            _bad_offset(tensor, f"scalar_offset is a {type(scalar_offset).__name__}")
        return Indirection("scalar", scalar_offset, stride, extent)
    if not isinstance(vector_offset, NkiTensor):
        _bad_offset(tensor, f"vector_offset is a {type(vector_offset).__name__}")
    if vector_offset.buffer is not MemoryRegion.sbuf or not vector_offset.dtype.is_integer:
        _bad_offset(tensor, f"vector_offset is {vector_offset.describe()}, needs integers in SBUF")
    if not is_hbm(tensor.buffer):
        _bad_offset(tensor, f"vector_offset indexes {tensor.describe()}, which is not in HBM")
    if indirect_dim != 0:
        _bad_offset(tensor, f"vector_offset with indirect_dim {indirect_dim}")
    return Indirection("vector", vector_offset, stride, extent)


def resolve_scalar(
    tensor: NkiTensor, *, skip: bool, instruction: str, operand: str
) -> NkiTensor | None:
    """Return the view at its scalar offset; None when it is out of bounds and may be skipped."""
    indirect = tensor.indirect
    assert indirect is not None
    if isinstance(indirect.source, NkiTensor):
        stored = read_elements(indirect.source, instruction, f"scalar_offset of {operand}")
        value = int(stored.reshape(-1)[0])
    else:
        value = as_int(indirect.source)
    resolved = NkiTensor(
        tensor.alloc,
        tensor.shape,
        tensor.dtype,
        tensor.start + value * indirect.stride,
        tensor.strides,
    )
    if 0 <= value < indirect.extent and resolved.last_byte < tensor.storage.data.size:
        return resolved
    if not skip:
        _out_of_bounds(tensor, instruction, operand, 0, value)
    return None


def vector_rows(
    tensor: NkiTensor, *, skip: bool, instruction: str, operand: str
) -> tuple[NkiTensor, np.ndarray, np.ndarray]:
    """Return the table that a vector offset indexes, the indices, and a mask of those in bounds.

    The table is the static view of all rows: its first dimension is ``indirect_dim`` of the tensor.
    """
    indirect = tensor.indirect
    assert indirect is not None
    stored = read_elements(indirect.source, instruction, f"vector_offset of {operand}")
    # Several index columns are consumed column by column, as the descriptor generator reads them.
    indices = stored.reshape(stored.shape[0], -1).T.reshape(-1).astype(np.int64)
    rows = tensor.shape[0]
    if indices.size < rows:
        _bad_offset(tensor, f"vector_offset holds {indices.size} indices for {rows} rows")
    indices = indices[:rows]
    reach = NkiTensor(
        tensor.alloc, tensor.shape[1:], tensor.dtype, tensor.start, tensor.strides[1:]
    ).last_byte
    room = (tensor.storage.data.size - 1 - reach) // indirect.stride + 1
    extent = max(min(indirect.extent, room), 0)
    inside = (indices >= 0) & (indices < extent)
    if not skip and not inside.all():
        first = int(np.argmin(inside))
        _out_of_bounds(tensor, instruction, operand, first, int(indices[first]))
    table = NkiTensor(
        tensor.alloc,
        (extent, *tensor.shape[1:]),
        tensor.dtype,
        tensor.start,
        (indirect.stride, *tensor.strides[1:]),
    )
    return table, indices, inside


def _bad_offset(tensor: NkiTensor, why: str) -> None:
    flag(
        rules.OFFSET_KIND,
        f"ap() on tensor `{tensor.name}`: {why}",
        operand=tensor.name,
        seen=why,
        allowed="scalar: register or 1x1 SBUF tile; vector: (P, 1) integer SBUF tile on an HBM "
        "tensor, dim 0",
        fix="load the offset into such a register or tile first",
    )


def _out_of_bounds(tensor: NkiTensor, instruction: str, operand: str, row: int, value: int) -> None:
    extent = tensor.indirect.extent if tensor.indirect is not None else 0
    flag(
        rules.OFFSET_OUT_OF_BOUNDS,
        f"{instruction} {operand}: index {value} of row {row} is out of bounds for size {extent}",
        instruction=instruction,
        operand=operand,
        seen=value,
        allowed=f"0 to {extent - 1}",
        fix="clip the indices, or use oob_mode.skip with a destination that was filled before",
    )
