"""Geometry of a tensor: byte start and byte strides in a storage, and derived properties."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from nkisim.diagnostics import flag
from nkisim.dtypes import DType
from nkisim.memory import rules
from nkisim.memory.layout import Form, layout_id, through
from nkisim.memory.log import Lifetime, Origin
from nkisim.memory.region import MemoryRegion, is_on_chip
from nkisim.memory.storage import Storage
from nkisim.memory.tensor.refused import HiddenFromKernels
from nkisim.memory.written_map import Region, Runs, runs_of
from nkisim.objects import NKIObject


class Indirection(NamedTuple):
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


_NO_SLICES: dict[Form, Any] = {}
"""Empty mapping of slices, shared by tensors that were never sliced."""


class View(NKIObject):
    """A view of an allocation: the base of ``NkiTensor``.

    Attributes:
        life: The record of the allocation and its use.
        storage: The bytes, possibly shared with other explicitly placed tensors; not shown to a
            kernel.
        array: The elements in storage form, which share memory; not shown to a kernel.
        form: Description shared with equal tensors.
        shape: Extents; on chip the first one counts partitions.
        dtype: Element type.
        indirection: An offset that is read when an instruction uses the view, or None.
        trusted: False for a view made by an access pattern, until its extent was checked.
        origin: The request for the allocation.
        buffer: Memory that holds it.
        start, itemsize: Its position in the storage and the size of an element, in bytes.
        region: Byte start, shape, strides and item size: the footprint in the storage.
        whole: True when it covers its whole allocation, in the original or another shape.
    """

    __slots__ = (
        "_array",
        "_owner",
        "_slices",
        "_storage",
        "dtype",
        "form",
        "indirection",
        "life",
        "recorded",
        "shape",
        "trusted",
    )

    life: Lifetime
    _storage: Storage
    _owner: object  # freed with the last view; the storage itself if not shared
    form: Form
    shape: tuple[int, ...]
    dtype: DType
    indirection: Indirection | None
    trusted: bool
    recorded: Any  # its number in a program that is being recorded; else not set
    _array: np.ndarray | None
    _slices: dict[Form, Any]

    origin: Origin = through("life.origin")
    buffer: MemoryRegion = through("form.buffer")
    start: int = through("form.start")
    itemsize: int = through("form.itemsize")
    region: Region = through("form.region")
    whole: bool = through("form.whole")
    storage: Storage = HiddenFromKernels("storage", "_storage")  # type: ignore[assignment]
    array: np.ndarray = HiddenFromKernels("array", "_elements")  # type: ignore[assignment]

    def __init__(
        self,
        life: Lifetime,
        storage: Storage,
        owner: object,
        form: Form,
        indirection: Indirection | None = None,
        trusted: bool = True,
    ) -> None:
        self.life = life
        self._storage = storage
        self._owner = owner
        self.form = form
        self.shape = form.shape
        self.dtype = form.dtype
        self.indirection = indirection
        self.trusted = trusted
        self._array = None
        self._slices = _NO_SLICES

    def derived(
        self,
        shape: tuple[int, ...],
        start: int,
        strides: tuple[int, ...],
        *,
        dtype: DType | None = None,
        whole: bool = False,
        indirection: Indirection | None = None,
        trusted: bool = True,
    ) -> Self:
        """Return another view of the same allocation; it is trusted only if this one is."""
        kind = self.dtype if dtype is None else dtype
        itemsize = self.life.origin.itemsize(kind)
        form = Form(shape, kind, self.form.buffer, start, strides, itemsize, whole=whole)
        trusted = trusted and self.trusted
        return type(self)(self.life, self._storage, self._owner, form, indirection, trusted)

    # -- what kernels read -------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return _product(self.shape)

    @property
    def name(self) -> str:
        """Name given at allocation, else the name of the variable, else ``"unnamed"``."""
        return self.life.label

    @property
    def offset(self) -> int:
        """Start of the access in elements from the beginning of the tensor it views."""
        rows, rest = divmod(self.form.start - self.life.origin.form.start, self._storage.pitch)
        return rows * self._row_elements + rest // self.form.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours in each dimension."""
        if not is_on_chip(self.form.buffer):
            return tuple(stride // self.form.itemsize for stride in self.form.strides)
        steps = []
        for stride in self.form.strides:
            rows, rest = divmod(abs(stride), self._storage.pitch)
            step = rows * self._row_elements + rest // self.form.itemsize
            steps.append(step if stride >= 0 else -step)
        return tuple(steps)

    def get_pattern(self) -> list[list[int]]:
        """Return the access pattern: one ``[step, count]`` in elements per dimension."""
        return [[step, extent] for step, extent in zip(self.strides, self.shape, strict=True)]

    def describe(self) -> str:
        """Return dtype, shape, buffer and name in one line."""
        label = self.life.label
        named = f" `{label}`" if label != "unnamed" else ""
        return f"{self.dtype} {self.shape} in {self.form.buffer.value}{named}"

    # -- what the machine reads --------------------------------------------------------------------

    @property
    def _elements(self) -> np.ndarray:
        """The elements in storage form; shares memory."""
        if self._array is None:
            self.check_bounds()
            kind = self.life.origin.storage_dtype(self.dtype)
            form = self.form
            if 0 in form.shape:
                return np.empty(form.shape, kind)  # start may exceed the memory
            found = np.ndarray(form.shape, kind, self._storage.data, form.start, form.strides)
            if self._storage.borrowed:
                return found  # not cached: the first write copies the bytes
            self._array = found
        return self._array

    @property
    def layout(self) -> int:
        """Number of the static layout; tensors with equal numbers pass the same static checks."""
        form = self.form
        if form.layout < 0:
            psum_offset = self.free_byte_offset if self.form.buffer is MemoryRegion.psum else 0
            form.layout = layout_id(
                (
                    self.shape,
                    self.dtype,
                    self.form.buffer,
                    self.form.strides,
                    self.start_partition,
                    psum_offset,
                    None if self.indirection is None else self.indirection.layout,
                    self.life.origin.is_argument,
                    self.trusted,
                )
            )
        return form.layout

    @property
    def runs(self) -> Runs:
        """Its dense runs in memory."""
        form = self.form
        if form.runs is None:
            form.runs = runs_of(*form.region)
        return form.runs

    @property
    def start_partition(self) -> int:
        """First partition accessed; 0 in HBM."""
        return self.form.start // self._storage.pitch if is_on_chip(self.form.buffer) else 0

    @property
    def free_byte_offset(self) -> int:
        """First byte accessed inside a partition."""
        return self.form.start % self._storage.pitch

    @property
    def free_size(self) -> int:
        """Elements per partition."""
        return _product(self.shape[1:])

    @property
    def _row_elements(self) -> int:
        """Elements of this dtype in one row of the allocation; everything for HBM."""
        return self.life.origin.row_bytes // self.form.itemsize

    def fits(self) -> bool:
        """Return whether every element lies inside the allocation, in its own rows on chip."""
        origin, (start, shape, strides, itemsize) = self.life.origin, self.form.region
        rows = origin.form.shape[0] if is_on_chip(self.form.buffer) else 0
        offset, pitch = start - origin.form.start, self._storage.pitch
        return _fits(offset, shape, strides, itemsize, pitch, rows, origin.row_bytes)

    def rows_after_start(self, stride: int) -> int:
        """Return the number of rows, ``stride`` bytes apart, that fit after the start, in HBM."""
        start, shape, strides, itemsize = self.form.region
        origin, reach = self.life.origin, _reach(shape[1:], strides[1:])[1] + itemsize
        behind = origin.form.start + origin.row_bytes - start - reach
        return max(behind // stride + 1, 0)

    def check_bounds(self) -> None:
        """Check that the view lies inside its allocation; S021 if not."""
        if self.trusted:
            return
        if not self.fits():
            size, first = self.life.origin.elements(self.form.itemsize), self.offset
            pattern = self.get_pattern()
            low, high = _reach([count for _, count in pattern], [step for step, _ in pattern])
            flag(
                rules.PATTERN_OUT_OF_BOUNDS,
                f"access pattern of tensor `{self.name}` touches elements [{first + low}, "
                f"{first + high}], but the tensor has {size} ({self._row_elements} per row)",
                operand=self.name,
                seen=f"pattern {pattern} with offset {first}",
                allowed=f"elements 0 to {size - 1}, inside each row",
                fix="correct the count, the step or the offset",
            )
        self.trusted = True


@lru_cache(maxsize=4096)
def _fits(
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    itemsize: int,
    pitch: int,
    rows: int,
    row_bytes: int,
) -> bool:
    """Return whether a view lies in ``rows`` rows; with 0 rows, in one block of ``row_bytes``."""
    if 0 in shape:
        return True
    row, byte = divmod(offset, pitch)
    span = 0
    if rows and strides[0] % pitch == 0:
        span = (shape[0] - 1) * (strides[0] // pitch)
        shape, strides = shape[1:], strides[1:]
    low, high = _reach(shape, strides)
    inside = byte + low >= 0 and byte + high + itemsize <= row_bytes
    return inside and row + min(span, 0) >= 0 and row + max(span, 0) < max(rows, 1)


def _product(extents: Sequence[int]) -> int:
    count = 1
    for extent in extents:
        count *= extent
    return count


def _reach(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Return the lowest and the highest offset of a pattern from its start."""
    low = high = 0
    for extent, stride in zip(shape, strides, strict=True):
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    return low, high
