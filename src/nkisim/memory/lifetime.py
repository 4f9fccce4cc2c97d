"""Origin and lifetime of tensors: records that remain after the bytes are freed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nkisim.diagnostics import assigned_name
from nkisim.dtypes import DType, float8_e8m0fnu
from nkisim.memory.layout import Form, through
from nkisim.memory.psum import Box, box_of, union_of
from nkisim.memory.region import MemoryRegion, is_on_chip

_FLOAT32 = np.dtype(np.float32)

Address = tuple[int, int]
"""Partition and byte offset of an explicitly placed tensor."""


@dataclass(slots=True, eq=False)
class Origin:
    """The request for an allocation and its line; shared by equal tiles of one line.

    Attributes:
        form: Shape, type, memory and place in the storage.
        name, address: Requested name and address.
        made: File and line of the allocation; line 0 for arguments.
        row_bytes: Bytes of the tensor in one partition; all of them in HBM.
        precise: Whether narrow floats are stored in their own type, not as float32.
        is_argument: True for arrays that the caller passed in.
    """

    form: Form
    name: str
    address: Address | None
    made: tuple[str, int]
    row_bytes: int
    precise: bool = True
    is_argument: bool = False

    def storage_dtype(self, dtype: DType) -> np.dtype[Any]:
        """Return the NumPy type that holds ``dtype`` here."""
        return dtype.numpy if self.precise else wide(dtype)

    def itemsize(self, dtype: DType) -> int:
        """Return the bytes of one element of ``dtype`` here."""
        return dtype.itemsize if self.precise else wide(dtype).itemsize

    def elements(self, itemsize: int) -> int:
        """Return the number of elements of ``itemsize`` bytes in the tensor."""
        rows = self.form.shape[0] if is_on_chip(self.form.buffer) else 1
        return rows * self.row_bytes // itemsize


def wide(dtype: DType) -> np.dtype[Any]:
    """Return the storage type when bfloat16 and float8 are stored as float32.

    Scales in float8_e8m0fnu stay bytes, of which instructions read the bits.
    """
    narrow = dtype.kind == "float" and dtype.numpy != np.float16 and dtype is not float8_e8m0fnu
    return _FLOAT32 if narrow else dtype.numpy


class Lifetime:
    """The record of one allocation; it outlives the memory of the tile.

    Attributes:
        origin: The request for the allocation.
        first_use, last_use: Numbers of the first instruction that wrote it and of the last that
            used it, or -1.
        number: Of a placed tile, its number among those of its line, from 0.
        placed: Whether it shares the bytes of its memory with other placed tiles.
        reached: Of a placed tile, the partitions and bytes in them that instructions have used;
            None before the first, and for other tiles.
        region, shape, dtype, name, address: As requested.
        line: File and line of the allocation.
    """

    __slots__ = ("_form", "first_use", "last_use", "number", "origin", "placed", "reached")

    region: MemoryRegion = through("origin.form.buffer")
    shape: tuple[int, ...] = through("origin.form.shape")
    dtype: DType = through("origin.form.dtype")
    name: str = through("origin.name")
    address: Address | None = through("origin.address")
    line: tuple[str, int] = through("origin.made")

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.first_use = -1
        self.last_use = -1
        self.number = 0
        self.placed = False
        self.reached: Box | None = None
        self._form: Form | None = None

    @property
    def label(self) -> str:
        """The given name, else that of the variable it was assigned to, or "unnamed"."""
        return self.name or assigned_name(*self.line) or "unnamed"

    def reach(self, view: Any) -> None:
        """Note the part of a placed tile that an instruction uses: a view, its offset applied."""
        form = view.form
        if form is self._form:
            return  # as the last one
        self._form = form
        known = view.indirection is None
        box = box_of((form if known else self.origin.form).region, view.storage.pitch)
        self.reached = box if self.reached is None else union_of(self.reached, box)

    def written(self, clock: int) -> None:
        """Note a write."""
        self.last_use = clock
        if self.first_use < 0:
            self.first_use = clock
