"""``NkiTensor``: a view of device memory.

No view copies. A tensor is a byte start and byte strides in a storage; slicing and the methods of
``views`` and ``patterns`` only compute new ones. On chip the first dimension counts partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from nkisim.diagnostics import flag
from nkisim.dtypes import decode
from nkisim.memory import rules
from nkisim.memory.layout import Form
from nkisim.memory.requests import is_tuple_of_ints
from nkisim.memory.tensor.geometry import Indirection
from nkisim.memory.tensor.indexing import Index
from nkisim.memory.tensor.patterns import PatternMethods
from nkisim.memory.tensor.refused import NoOperators
from nkisim.versions.rules import is_off

_KEPT_SLICES = 256


class NkiTensor(PatternMethods, NoOperators):
    """A tensor in HBM, SBUF or PSUM, or a view of one."""

    __slots__ = ()

    assign: ClassVar[Callable[[NkiTensor, Any], None]]
    """Implementation of ``t[...] = value``, set by the instruction set."""

    # -- other views -------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> NkiTensor:
        """Return the view that an index selects; nothing is clipped."""
        if type(key) is not tuple:
            return self.indexed(key)
        if len(key) == 2:
            rows, columns = key
            plane = None
        elif len(key) == 3:
            rows, plane, columns = key
            if type(plane) is not int:
                return self.indexed(key)
        else:
            return self.indexed(key)
        if not (type(rows) is type(columns) is slice and rows.step is columns.step is None):
            return self.indexed(key)
        # Loops over tiles take the same slices again and again; a view never changes.
        first, last, left, right = rows.start, rows.stop, columns.start, columns.stop
        # 8.0 and True equal the cached keys 8 and 1, but are no indices.
        if not (type(first) is type(last) is type(left) is type(right) is int) and not (
            (type(left) is int or left is None)
            and (type(right) is int or right is None)
            and (type(first) is int or first is None)
            and (type(last) is int or last is None)
        ):
            return self.indexed(key)
        bounds = (first, last, plane, left, right)
        form = self.form.views.get(bounds)
        if form is None:
            form = self._sliced(*bounds)
            if form is None:
                return self.indexed(key)
        view = self._slices.get(form)
        if view is None:
            view = NkiTensor(self.life, self._storage, self._owner, form)
            if self._storage.complete:  # while being filled, each part is sliced only once
                if len(self._slices) % _KEPT_SLICES == 0:  # empty, or full
                    self._slices = {}
                self._slices[form] = view
        return view

    def _sliced(
        self, first: Any, last: Any, plane: int | None, left: Any, right: Any
    ) -> Form | None:
        """Return the form of ``self[first:last, left:right]``, with an integer ``plane`` between.

        None if the slice may break a rule: bounds that are no integers or exceed the tensor, and
        views with a dynamic offset or of unchecked extent.
        """
        form = self.form
        shape, strides, start = form.shape, form.strides, form.start
        if self.indirection is not None or not self.trusted:
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
        extents = (bottom - top, end - begin)
        if len(form.views) == _KEPT_SLICES:
            form.views.clear()
        view = Form(extents, form.dtype, form.buffer, start, strides, form.itemsize)
        form.views[first, last, plane, left, right] = view
        return view

    def __setitem__(self, key: Index | tuple[Index, ...], value: Any) -> None:
        """Copy ``value`` into a view; a finding before NKI 0.6.0, and if ``value`` is no tensor."""
        if isinstance(value, NkiTensor) and is_off("L028"):
            NkiTensor.assign(self[key], value)
            return
        flag(
            rules.SUBSCRIPT_ASSIGNMENT,
            f"assignment to a subscript of tensor `{self.name}`",
            operand=self.name,
            fix="nisa.tensor_copy(dst=t[...], src=value), or nisa.dma_copy when one side is in HBM",
        )
        NkiTensor.assign(self[key], value)

    def with_axis(self, axis: int) -> NkiTensor:
        """Return the view with a dimension of extent 1 inserted."""
        form = self.form
        shape = (*form.shape[:axis], 1, *form.shape[axis:])
        strides = (*form.strides[:axis], form.itemsize, *form.strides[axis:])
        return self.derived(
            shape, form.start, strides, whole=form.whole, indirection=self.indirection
        )

    def repeated(self, shape: tuple[int, ...]) -> NkiTensor:
        """Return a view of ``shape`` that repeats dimensions of extent 1 with stride 0.

        If ``shape`` has more dimensions than this view, the additional ones repeat every element.
        """
        repeated = [
            stride if old == new else 0
            for old, stride, new in zip(self.shape, self.form.strides, shape, strict=False)
        ]
        strides = (*repeated, *(0,) * (len(shape) - len(repeated)))
        return self.derived(shape, self.form.start, strides, indirection=self.indirection)

    def settled(self, shift: int) -> NkiTensor:
        """Return the view shifted by ``shift`` bytes, without a dynamic offset."""
        return self.derived(self.shape, self.form.start + shift, self.form.strides, trusted=False)

    def table(self, indirect: Indirection, rows: int) -> NkiTensor:
        """Return all rows that a vector offset can select, as one view."""
        form = self.form
        shape, strides = (rows, *form.shape[1:]), (indirect.stride, *form.strides[1:])
        return self.derived(shape, form.start, strides, trusted=False)

    def columns(self, indirect: Indirection) -> NkiTensor:
        """Return all elements that tensor indirection can select, as (partitions, elements)."""
        shape, strides = (self.shape[0], indirect.extent), self.form.strides
        return self.derived(shape, self.form.start, strides, trusted=False)

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

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        head = f"NkiTensor(shape={self.shape}, dtype={self.dtype}, buffer={self.form.buffer.value}"
        if self.life.name:
            head += f", name={self.life.name!r}"
        if self.indirection is not None:
            return head + ", indirect)"
        values = self._elements
        if self.dtype.kind == "float" and values.dtype != np.float32:
            values = decode(values, self.dtype)
        hidden = self._storage.unwritten(self.form.region)
        return f"{head},\n{values if hidden is None else np.ma.array(values, mask=hidden)})"
