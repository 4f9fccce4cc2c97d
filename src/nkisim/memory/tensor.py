"""``NkiTensor``: a view of device memory, and the ways to make another view of it.

No view copies. A tensor is a byte start and byte strides in a storage; slicing, ``ap``, ``reshape``
and ``view`` only compute new ones. On chip the first dimension is the partition dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from nkisim.diagnostics import flag
from nkisim.dtypes import DType, decode
from nkisim.memory import rules
from nkisim.memory.form import Form, layout_id
from nkisim.memory.indexing import Index, index_view
from nkisim.memory.objects import NKIObject
from nkisim.memory.psum import Region
from nkisim.memory.region import MemoryRegion, is_on_chip
from nkisim.memory.requests import is_tuple_of_ints
from nkisim.removed import NoOperators, missing_method

if TYPE_CHECKING:
    from nkisim.memory.allocation import Allocation
    from nkisim.memory.indirect import Indirection

__all__ = ["NkiTensor"]

_KEPT_SLICES = 256

_NO_SLICES: dict[tuple[Any, ...], NkiTensor] = {}
"""What a tensor has that was never sliced; stays empty."""


class NkiTensor(NoOperators, NKIObject):
    """A tensor in HBM, SBUF or PSUM, or a view of one.

    Attributes:
        shape: Extents; on chip the first one counts partitions.
        dtype: Element type.
        buffer: Memory it lives in.
        region: Byte start, shape, strides and item size: the footprint in the storage.
        form: What it has in common with tensors like it.

    A view that was made by an access pattern is not ``trusted``: its extent is checked when used.
    """

    __slots__ = (
        "_array",
        "_layout",
        "_slices",
        "alloc",
        "buffer",
        "dtype",
        "form",
        "indirect",
        "itemsize",
        "region",
        "shape",
        "start",
        "storage",
        "strides",
        "trusted",
        "whole",
    )

    assign: ClassVar[Callable[[NkiTensor, Any], None]]
    """What ``t[...] = value`` does; the instruction set provides it."""

    def __init__(
        self,
        alloc: Allocation,
        shape: tuple[int, ...],
        dtype: DType,
        start: int,
        strides: tuple[int, ...],
        *,
        whole: bool = False,
        indirect: Indirection | None = None,
        trusted: bool = True,
    ) -> None:
        form = Form(shape, dtype, start, strides, alloc.itemsize(dtype), whole=whole)
        self._adopt(alloc, form, indirect, trusted)

    @classmethod
    def formed(cls, alloc: Allocation, form: Form) -> NkiTensor:
        """Return the tensor of a form in an allocation."""
        self: NkiTensor = object.__new__(cls)
        self._adopt(alloc, form)
        return self

    def _adopt(
        self,
        alloc: Allocation,
        form: Form,
        indirect: Indirection | None = None,
        trusted: bool = True,
    ) -> None:
        self.alloc = alloc
        self.storage = alloc.storage
        self.buffer: MemoryRegion = alloc.region
        self.form = form
        self.shape = form.shape
        self.dtype = form.dtype
        self.itemsize = form.itemsize
        self.start = form.start
        self.strides = form.strides
        self.region: Region = form.region
        self.whole = form.whole
        self.indirect = indirect
        self.trusted = trusted
        self._array: np.ndarray | None = None
        self._layout = form.layout
        self._slices: dict[tuple[Any, ...], NkiTensor] = _NO_SLICES

    # -- what kernels read -------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def name(self) -> str:
        """Name given at allocation, or ``"unnamed"``."""
        return self.alloc.name or "unnamed"

    @property
    def offset(self) -> int:
        """Start of the access in elements from the beginning of the tensor it views."""
        rows, rest = divmod(self.start - self.alloc.start, self.alloc.pitch)
        return rows * self._free_elements + rest // self.itemsize

    def get_pattern(self) -> list[list[int]]:
        """Return the access pattern: one ``[step, count]`` in elements per dimension."""
        pitch = self.alloc.pitch
        pattern = []
        for extent, stride in zip(self.shape, self.strides, strict=True):
            rows, rest = divmod(stride, pitch) if is_on_chip(self.buffer) else (0, stride)
            pattern.append([rows * self._free_elements + rest // self.itemsize, extent])
        return pattern

    # -- other views -------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> NkiTensor:
        """Return the view that an index selects; nothing is clipped."""
        if type(index) is not tuple:
            return self._view(index)
        if len(index) == 2:
            rows, columns = index
            plane = None
        elif len(index) == 3:
            rows, plane, columns = index
            if type(plane) is not int:
                return self._view(index)
        else:
            return self._view(index)
        if not (type(rows) is type(columns) is slice and rows.step is columns.step is None):
            return self._view(index)
        # Loops over tiles take the same slices again and again; a view never changes.
        key = first, last, _, left, right = (
            rows.start,
            rows.stop,
            plane,
            columns.start,
            columns.stop,
        )
        # 8.0 would find what 8 has left, but is no index.
        if (
            type(first) is float
            or type(last) is float
            or type(left) is float
            or type(right) is float
        ):
            return self._view(index)
        view = self._slices.get(key)
        if view is None:
            form = self.form.views.get(key)
            if form is None:
                form = self._sliced(*key)
                if form is None:
                    return self._view(index)
            view = NkiTensor.formed(self.alloc, form)
            if len(self._slices) % _KEPT_SLICES == 0:  # none yet, or as many as are kept
                self._slices = {}
            self._slices[key] = view
        return view

    def _sliced(
        self, first: Any, last: Any, plane: int | None, left: Any, right: Any
    ) -> Form | None:
        """Return the form of ``self[first:last, left:right]``, with a plane of three dimensions.

        None where it is not certain that no rule breaks: for other indices than integers, or
        outside the tensor.
        """
        shape, strides, start = self.shape, self.strides, self.start
        if self.indirect is not None or not self.trusted:
            return None
        if plane is not None and len(shape) == 3 and 0 <= plane < shape[1]:
            start += plane * strides[1]
            shape, strides = shape[::2], strides[::2]
        elif plane is not None or len(shape) != 2:
            return None
        bounds = (
            0 if first is None else first,
            shape[0] if last is None else last,
            0 if left is None else left,
            shape[1] if right is None else right,
        )
        if not is_tuple_of_ints(bounds):
            return None
        top, bottom, begin, end = bounds
        if not (0 <= top < bottom <= shape[0] and 0 <= begin < end <= shape[1]):
            return None
        start += top * strides[0] + begin * strides[1]
        form = Form((bottom - top, end - begin), self.dtype, start, strides, self.itemsize)
        if len(self.form.views) < _KEPT_SLICES:
            self.form.views[first, last, plane, left, right] = form
        return form

    def _view(self, index: Index | tuple[Index, ...]) -> NkiTensor:
        if self.indirect is not None and self.indirect.kind == "vector":
            flag(
                rules.NESTED_PATTERN,
                "cannot index an access pattern that has a vector_offset",
                operand=self.name,
                fix="put the selection into the pattern and slice the index tile",
            )
        start, shape, strides = index_view(self, index)
        return NkiTensor(
            self.alloc,
            shape,
            self.dtype,
            start,
            strides,
            indirect=self.indirect,
            trusted=self.trusted,
        )

    def __setitem__(self, index: Index | tuple[Index, ...], value: Any) -> None:
        """Copy ``value`` into a view; a finding, for the compiler has no such statement."""
        flag(
            rules.SUBSCRIPT_ASSIGNMENT,
            f"assignment to a subscript of tensor `{self.name}`",
            operand=self.name,
            fix="nisa.tensor_copy(dst=t[...], src=value), or nisa.dma_copy when one side is in HBM",
        )
        NkiTensor.assign(self[index], value)

    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int = 0,
        scalar_offset: Any = None,
        vector_offset: Any = None,
        indirect_dim: int = 0,
        dtype: Any = None,
    ) -> NkiTensor:
        """Return the view described by a hardware access pattern.

        Args:
            pattern: One ``[step, count]`` per dimension, in elements of the (re-interpreted)
                tensor.
            offset: First element, counted from the beginning of the tensor.
            scalar_offset: A register or 1x1 SBUF tile added along ``indirect_dim`` when the
                view is used.
            vector_offset: A ``(P, 1)`` SBUF tile with one index along ``indirect_dim`` per row
                of the view.
            indirect_dim: Dimension of the tensor that the offsets count in.
            dtype: Reinterpret the bytes as this type.
        """
        from nkisim.memory.access import access_view

        return access_view(self, pattern, offset, scalar_offset, vector_offset, indirect_dim, dtype)

    def reshape(self, shape: Sequence[int]) -> NkiTensor:
        """Return the same elements under another shape; on chip the partition count stays."""
        from nkisim.memory.access import reshape_view

        return reshape_view(self, shape)

    def view(self, dtype: Any) -> NkiTensor:
        """Return the same bytes as another type; the last dimension absorbs the change of size."""
        from nkisim.memory.access import dtype_view

        return dtype_view(self, dtype)

    if not TYPE_CHECKING:  # type checkers shall know misspelt attributes

        def __getattr__(self, name: str) -> NoReturn:
            missing_method(name)

    # -- what the machine reads --------------------------------------------------------------------

    @property
    def array(self) -> np.ndarray:
        """The elements in storage form; shares memory."""
        if self._array is None:
            if not self.trusted:
                self._check_bounds()
            storage_dtype = self.alloc.storage_dtype(self.dtype)
            self._array = self.storage.view(self.start, self.shape, self.strides, storage_dtype)
        return self._array

    @property
    def layout(self) -> int:
        """Number that is equal for tensors which every static check treats alike."""
        if self._layout < 0:
            psum_offset = self.free_byte_offset if self.buffer is MemoryRegion.psum else 0
            self._layout = layout_id(
                (
                    self.shape,
                    self.dtype,
                    self.buffer,
                    self.strides,
                    self.start_partition,
                    psum_offset,
                    None if self.indirect is None else self.indirect.layout,
                    self.alloc.is_argument,
                )
            )
            self.form.layout = self._layout
        return self._layout

    @property
    def start_partition(self) -> int:
        """First partition touched; 0 in HBM."""
        if not is_on_chip(self.buffer):
            return 0
        return self.start // self.storage.pitch

    @property
    def free_byte_offset(self) -> int:
        """First byte touched inside a partition."""
        return self.start % self.storage.pitch

    @property
    def partitions(self) -> int:
        """Extent of the first dimension."""
        return self.shape[0]

    @property
    def free_size(self) -> int:
        """Elements per partition."""
        count = 1
        for extent in self.shape[1:]:
            count *= extent
        return count

    @property
    def last_byte(self) -> int:
        """Offset of the last byte touched in the storage."""
        return self.start + _reach(self.shape, self.strides)[1] + self.itemsize - 1

    @property
    def _free_elements(self) -> int:
        """Elements of this dtype in one row of the allocation; everything for HBM."""
        return self.alloc.row_bytes // self.itemsize

    def _check_bounds(self) -> None:
        if 0 in self.shape:
            return
        before, _ = _reach(self.shape, self.strides)
        if self.start + before < 0 or self.last_byte >= self.storage.data.size:
            self._out_of_bounds()
        elif is_on_chip(self.buffer):
            pitch = self.storage.pitch
            row = self.start % pitch - self.alloc.start % pitch
            low, high = _reach(self.shape[1:], self.strides[1:])
            rows_ok = self.strides[0] % pitch == 0 or self.shape[0] == 1
            if rows_ok and (row + low < 0 or row + high + self.itemsize > self.alloc.row_bytes):
                self._out_of_bounds()

    def _out_of_bounds(self) -> None:
        size = self.alloc.elements(self.itemsize)
        first = self.offset
        low, high = _reach(
            *zip(*((count, step) for step, count in self.get_pattern()), strict=True)
        )
        flag(
            rules.PATTERN_OUT_OF_BOUNDS,
            f"access pattern of tensor `{self.name}` touches elements [{first + low}, "
            f"{first + high}], "
            f"but the tensor has {size} ({self._free_elements} per row)",
            operand=self.name,
            seen=f"pattern {self.get_pattern()} with offset {first}",
            allowed=f"elements 0 to {size - 1}, inside each row",
            fix="correct the count, the step or the offset",
        )

    # -- Python protocol ---------------------------------------------------------------------------

    def __bool__(self) -> bool:
        flag(
            rules.TENSOR_TRUTH,
            f"the truth value of tensor `{self.name}` does not depend on its contents",
            operand=self.name,
            fix="compare metadata such as shape, or use register_load with a dynamic loop, or a "
            "predicate instruction",
        )
        return True

    def __iter__(self) -> Any:
        raise TypeError("'NkiTensor' object is not iterable; loop over range(t.shape[0]) and index")

    __hash__ = object.__hash__

    def describe(self) -> str:
        """Return dtype, shape, buffer and name in one line."""
        named = f" `{self.alloc.name}`" if self.alloc.name else ""
        return f"{self.dtype} {self.shape} in {self.buffer.value}{named}"

    def __repr__(self) -> str:
        head = f"NkiTensor(shape={self.shape}, dtype={self.dtype}, buffer={self.buffer.value}"
        if self.alloc.name:
            head += f", name={self.alloc.name!r}"
        if self.indirect is not None:
            return head + ", indirect)"
        values = self.array
        if self.dtype.kind == "float" and values.dtype != np.float32:
            values = decode(values, self.dtype)
        hidden = self.storage.unwritten(*self.region)
        return f"{head},\n{values if hidden is None else np.ma.array(values, mask=hidden)})"


def _reach(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Return how far a pattern reaches before and behind its start."""
    low = high = 0
    for extent, stride in zip(shape, strides, strict=True):
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    return low, high
