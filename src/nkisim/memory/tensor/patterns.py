"""Methods of tensors for another shape, type or access pattern, and descriptions of a view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from nkisim.diagnostics import flag
from nkisim.memory import rules
from nkisim.memory.region import is_on_chip, is_sbuf
from nkisim.memory.tensor.access import (
    bad_offset,
    dynamic_offset,
    pattern_geometry,
    pattern_of_part,
    refuse_columns,
    reinterpreted_geometry,
    reshaped_strides,
)
from nkisim.memory.tensor.geometry import Indirection, View
from nkisim.memory.tensor.methods import changed, documented, integer, refuse
from nkisim.memory.tensor.views import ViewMethods
from nkisim.versions import since


class PatternMethods(ViewMethods):
    """The methods of tensors for another shape, type or access pattern."""

    __slots__ = ()

    def _reshape_of_tensor(
        self, new_shape: Sequence[int] | None = None, shape: Sequence[int] | None = None
    ) -> Self:
        """Return the same elements under another shape; on chip the partition count stays."""
        given = [one for one in (new_shape, shape) if one is not None]
        if len(given) != 1:
            why = f"got {len(given)} of new_shape and shape"
            refuse(self, "reshape", why, "one of them", "pass the new shape once")
        return self._reshaped(given[0], of_parts=False)

    def _reshape_of_view(self, shape: Sequence[int]) -> Self:
        """Return the same elements under another shape; on chip the partition count stays.

        A part of a tensor is refused if the new shape would need a copy.
        """
        return self._reshaped(shape, of_parts=True)

    @changed({"0.4.0": _reshape_of_tensor, "0.5.0": _reshape_of_view})
    def reshape(self, shape: Sequence[int]) -> Self:
        """Return the same elements under another shape; on chip the partition count stays."""
        return self._reshaped(shape, of_parts=False)

    def _reshaped(self, shape: Sequence[int], *, of_parts: bool) -> Self:
        return self.rearranged(*reshaped_strides(self, shape, of_parts=of_parts))

    def view(self, dtype: Any) -> Self:
        """Return the same bytes as another type; the last dimension absorbs the change of size."""
        refuse_columns(self, "view")
        if self.indirection is not None and since("0.5.0"):
            flag(
                rules.NESTED_PATTERN,
                f"view({dtype}) of {self.describe()}, which has a dynamic offset",
                operand=self.name,
                fix="call view() before select(), vector_select() or ap()",
            )
        shape, kind, start, strides = reinterpreted_geometry(self, dtype)
        whole, indirection = self.form.whole, self.indirection
        return self.derived(shape, start, strides, dtype=kind, whole=whole, indirection=indirection)

    reinterpret_cast = documented(view, "reinterpret_cast")

    def _ap_of_view(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int | None = None,
        scalar_offset: Any = None,
        vector_offset: Any = None,
        indirect_dim: int = 0,
        dtype: Any = None,
    ) -> Self:
        """Return the view described by a hardware access pattern on the tensor's memory.

        Args:
            pattern: One ``[step, count]`` per dimension, in elements of the (re-interpreted)
                memory.
            offset: Elements added to the start of this view.
            scalar_offset: A register or 1x1 SBUF tile added along ``indirect_dim`` when the
                view is used.
            vector_offset: A ``(P, 1)`` SBUF tile with one index along ``indirect_dim`` per row
                of the view.
            indirect_dim: Dimension of this view that the offsets count in.
            dtype: Reinterpret the bytes as this type.
        """
        refuse_columns(self, "ap")
        shape, kind, start, strides = pattern_geometry(self, pattern, offset or 0, dtype)
        indirection = dynamic_offset(self, scalar_offset, vector_offset, indirect_dim)
        return self.derived(
            shape, start, strides, dtype=kind, indirection=indirection, trusted=False
        )

    @changed({"0.5.0": _ap_of_view})
    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int = 0,
        scalar_offset: Any = None,
        vector_offset: Any = None,
        indirect_dim: int = 0,
        dtype: Any = None,
    ) -> Self:
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
        geometry = pattern_geometry if self.form.whole else pattern_of_part
        shape, kind, start, strides = geometry(self, pattern, offset, dtype)
        indirection = dynamic_offset(self, scalar_offset, vector_offset, indirect_dim)
        return self.derived(
            shape, start, strides, dtype=kind, indirection=indirection, trusted=False
        )

    @documented
    def indirect(self, index: Any, num_elem: int | None = None) -> Self:
        """Return the elements of each partition that offsets in an SBUF tile select.

        All partitions of a group of n have the same offsets; n is 16, for the Tensor engine 32. The
        rows of ``index`` on the partitions of the group hold the offsets: offset i is in row i mod
        n of these rows and in column i div n. An offset is the number of an element in a partition
        of this view. NeuronCore-v4 takes such views as operands of some instructions.

        Args:
            index: Integers, with as many partitions as this view.
            num_elem: Number of offsets. The default is all elements of ``index`` and needs a view
                with a single group.
        """
        if self.indirection is not None:
            bad_offset(self, "the tensor has a dynamic offset already", "indirect")
        if not is_on_chip(self.buffer) or not self.is_contiguous():
            why = f"{self.describe()}, pattern {self.get_pattern()}"
            refuse(self, "indirect", why, "a contiguous SBUF or PSUM tile", "gather from a tile")
        if not isinstance(index, View) or not is_sbuf(index.buffer) or not index.dtype.is_integer:
            shown = index.describe() if isinstance(index, View) else repr(index)
            bad_offset(self, f"index is {shown}, needs integers in SBUF", "indirect")
        if index.indirection is not None or index.shape[0] != self.shape[0]:
            why = f"index has shape {index.shape}, needs {self.shape[0]} partitions"
            bad_offset(self, why, "indirect")
        count = index.size if num_elem is None else integer(self, "indirect", "num_elem", num_elem)
        if not 0 < count <= index.size:
            allowed = f"1 to {index.size}, the elements of index"
            refuse(self, "indirect", f"num_elem is {count}", allowed, "use fewer offsets")
        indirection = Indirection("columns", index, self.itemsize, self.free_size)
        strides = (self.form.strides[0], self.itemsize)
        return self.derived(
            (self.shape[0], count), self.form.start, strides, indirection=indirection, trusted=False
        )

    # -- descriptions ------------------------------------------------------------------------------

    @documented
    def is_contiguous(self) -> bool:
        """Return whether elements lie densely in row-major order; on chip, in each partition."""
        strides, expected = self.form.strides, self.itemsize
        for dim in range(self.ndim - 1, is_on_chip(self.buffer) - 1, -1):
            if self.shape[dim] != 1 and strides[dim] != expected:
                return False
            expected *= self.shape[dim]
        return True

    @documented
    def is_indirect(self) -> bool:
        """Return whether the view has an offset that is read when an instruction uses it."""
        return self.indirection is not None

    @documented
    def is_identity(self) -> bool:
        """Return whether the view is a whole tensor, without indices or an access pattern."""
        return self.whole

    def _sim_value(self) -> np.ndarray:
        """Return the current data, copied."""
        if self.indirection is not None:
            why = "the view has an offset that is read when an instruction uses it"
            refuse(self, "sim_value", why, "a static view", "read the whole tensor")
        return self._elements.copy()

    sim_value = documented(property(_sim_value), "sim_value")

    def _device_value(self) -> None:
        """Return None: tensors have no data on a device."""

    device_value = documented(property(_device_value), "device_value")

    def _data(self) -> Any:
        """Return the tensor itself; ``data`` of a grid returns its operand in the same way."""
        return self

    data = documented(property(_data), "data")
