"""Methods of tensors that select elements and change dimensions.

No view copies: each method computes a byte start, a shape and byte strides. A new view inherits the
allocation, the dynamic offset, and whether its extent was checked.

Dimension 0 is fixed on chip, where it counts partitions, and in a view that ``vector_select`` made,
where an index tile selects its rows. Dimensions are counted from 0; negative numbers of dimensions
are not documented and are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Self

import numpy as np

from nkisim.diagnostics import flag
from nkisim.memory import rules
from nkisim.memory.region import is_on_chip
from nkisim.memory.tensor.access import bad_offset, dynamic_offset, has_fixed_rows, refuse_columns
from nkisim.memory.tensor.geometry import View
from nkisim.memory.tensor.indexing import Index, index_view
from nkisim.memory.tensor.methods import (
    dimension,
    documented,
    integer,
    no_such_element,
    other_count,
    refuse,
    rows_stay,
)
from nkisim.versions import since


def grouping(
    shape: Sequence[int], source: Sequence[Any], target: Sequence[Any], sizes: Mapping[str, int]
) -> tuple[list[list[int]], tuple[int, ...], list[tuple[int, int]]]:
    """Return how ``rearrange`` splits, orders and merges dimensions.

    The first result has the extents of the parts of each old dimension. Extents that ``sizes`` does
    not name are -1; a dimension with one name is one part. The second is the new order of the
    parts. The third has the first and last part of each new dimension.

    Raises:
        ValueError: The patterns do not describe the shape, or have not the same names.
    """
    old, new = _groups("src_pattern", source), _groups("dst_pattern", target)
    names = [name for group in old for name in group]
    wanted = [name for group in new for name in group]
    if len(old) != len(shape):
        raise ValueError(f"src_pattern {source} has {len(old)} entries for shape {tuple(shape)}")
    if len(set(names)) != len(names) or sorted(names) != sorted(wanted):
        raise ValueError(f"src_pattern {source} and dst_pattern {target} differ in their names")
    unknown = sorted(set(sizes) - set(names))
    if unknown:
        raise ValueError(f"fixed_sizes names {unknown[0]!r}, which is not in {source}")
    split = []
    for dim, group in enumerate(old):
        extents = [int(sizes.get(name, -1)) for name in group]
        if extents.count(-1) > 1:
            raise ValueError(f"fixed_sizes leaves out more than one extent of {group}")
        if len(group) == 1 and extents[0] not in (-1, shape[dim]):
            raise ValueError(f"fixed_sizes has {group[0]}={extents[0]} for extent {shape[dim]}")
        split.append(extents)
    order = tuple(names.index(name) for name in wanted)
    ends, count = [], 0
    for group in new:
        ends.append((count, count + len(group) - 1))
        count += len(group)
    return split, order, ends


def _groups(argument: str, pattern: Sequence[Any]) -> list[list[str]]:
    """Return the names of each entry of a pattern."""
    groups = []
    for entry in pattern:
        group = [*entry] if isinstance(entry, (tuple, list)) else [entry]
        if not group or not all(isinstance(name, str) for name in group):
            raise ValueError(f"{argument} has {entry!r}, neither a name nor a tuple of names")
        groups.append(group)
    return groups


_ALL = slice(None)


class ViewMethods(View):
    """The methods of tensors that select elements and change dimensions."""

    __slots__ = ()

    # -- indexing ----------------------------------------------------------------------------------

    def indexed(self, index: Index | tuple[Index, ...]) -> Self:
        """Return the view that an index selects."""
        indirect = self.indirection
        refuse_columns(self, "an index")
        if indirect is None or indirect.kind == "scalar":
            start, shape, strides = index_view(self, index)
            return self.derived(shape, start, strides, indirection=indirect)
        rows, *columns = index if type(index) is tuple else (index,)
        if rows is Ellipsis:
            rows, columns = _ALL, [Ellipsis, *columns]
        if rows != _ALL or not since("0.5.0"):
            flag(
                rules.NESTED_PATTERN,
                "cannot index an access pattern that has a vector_offset",
                operand=self.name,
                fix="put the selection into the pattern and slice the index tile",
            )
        # An index tile selects the rows of the view, so the slice applies to the index tile.
        if type(rows) is not slice or indirect.source.free_size != 1:
            bad_offset(self, f"rows {rows} of a view with a vector_offset")
        start, shape, strides = index_view(self, (_ALL, *columns))
        source = indirect.source[rows]
        return self.derived(
            (source.shape[0], *shape[1:]),
            start,
            strides,
            indirection=indirect._replace(source=source),
        )

    @documented
    def slice(self, dim: int, start: int, end: int, step: int = 1) -> Self:
        """Return the elements from ``start`` to ``end``, exclusive, of one dimension."""
        dim = dimension(self, "slice", dim)
        for name, bound in (("start", start), ("end", end)):
            if integer(self, "slice", name, bound) < 0:
                no_such_element(self, "slice", dim, name, bound)
        return self.indexed((*(_ALL,) * dim, slice(start, end, step)))

    @documented
    def select(self, dim: int, index: Any) -> Self:
        """Return one element of a dimension, which is removed.

        On chip dimension 0 stays, with extent 1, and so does the last free dimension.

        Args:
            dim: The dimension.
            index: An integer, or a 1x1 SBUF tile or a register, read when the view is used.
        """
        dim = dimension(self, "select", dim)
        if isinstance(index, (int, np.integer)):
            if index < 0:
                no_such_element(self, "select", dim, "index", int(index))
            return self.indexed((*(_ALL,) * dim, int(index)))
        if dim == 0 and has_fixed_rows(self):
            rows_stay(self, "select", f"a dynamic index selects in dimension 0 of {self.shape}")
        indirection = dynamic_offset(self, index, None, dim, "select")
        start, shape, strides = index_view(self, (*(_ALL,) * dim, 0))
        return self.derived(shape, start, strides, indirection=indirection, trusted=False)

    @documented
    def vector_select(self, dim: int, vector_offset: Any) -> Self:
        """Return the rows of an HBM tensor that the integers of a (P, 1) SBUF tile select."""
        indirection = dynamic_offset(self, None, vector_offset, dim, "vector_select")
        if vector_offset.free_size != 1:
            why = f"vector_offset has shape {vector_offset.shape}, needs (P, 1)"
            bad_offset(self, why, "vector_select")
        form = self.form
        shape = (vector_offset.shape[0], *form.shape[1:])
        return self.derived(shape, form.start, form.strides, indirection=indirection, trusted=False)

    # -- order and number of dimensions ------------------------------------------------------------

    @documented
    def permute(self, dims: Sequence[int]) -> Self:
        """Return the dimensions in another order."""
        order = tuple(integer(self, "permute", "dims", dim) for dim in dims)
        if sorted(order) != [*range(self.ndim)]:
            allowed = f"each of 0 to {self.ndim - 1} once"
            refuse(self, "permute", f"dims is {order}", allowed, "name every dimension once")
        if has_fixed_rows(self) and order[0] != 0:
            rows_stay(self, "permute", f"dims {order} put dimension {order[0]} in its place")
        shape, strides = self.shape, self.form.strides
        return self.rearranged(
            tuple(shape[dim] for dim in order),
            tuple(strides[dim] for dim in order),
            whole=self.whole and order == tuple(range(self.ndim)),
        )

    @documented
    def broadcast(self, dim: int, size: int) -> Self:
        """Return the elements of a dimension of extent 1, repeated ``size`` times."""
        dim, size = dimension(self, "broadcast", dim), integer(self, "broadcast", "size", size)
        shape, strides = self.shape, self.form.strides
        if dim == 0 and has_fixed_rows(self):
            rows_stay(self, "broadcast", f"dimension 0 of {shape} is repeated")
        if shape[dim] != 1 or size < 1:
            why = f"dimension {dim} of {shape} to size {size}"
            refuse(
                self, "broadcast", why, "extent 1, size from 1 on", "repeat a dimension of extent 1"
            )
        return self.rearranged(
            (*shape[:dim], size, *shape[dim + 1 :]),
            (*strides[:dim], 0, *strides[dim + 1 :]),
            whole=False,
        )

    @documented
    def expand_dim(self, dim: int) -> Self:
        """Return the view with a dimension of extent 1 inserted at a position."""
        dim = dimension(self, "expand_dim", dim, last=self.ndim)
        if dim == 0 and has_fixed_rows(self):
            rows_stay(self, "expand_dim", "a dimension is inserted before it")
        shape, strides = self.shape, self.form.strides
        return self.rearranged(
            (*shape[:dim], 1, *shape[dim:]), (*strides[:dim], self.itemsize, *strides[dim:])
        )

    @documented
    def squeeze_dim(self, dim: int) -> Self:
        """Return the view without a dimension of extent 1."""
        dim = dimension(self, "squeeze_dim", dim)
        shape, strides = self.shape, self.form.strides
        if dim == 0 and has_fixed_rows(self):
            rows_stay(self, "squeeze_dim", f"it is removed from {shape}")
        if shape[dim] != 1:
            other_count(self, "squeeze_dim", f"dimension {dim} of {shape} has not extent 1")
        if is_on_chip(self.buffer) and self.ndim == 2:
            flag(
                rules.ON_CHIP_RANK,
                f"squeeze_dim() of {self.describe()} leaves one dimension",
                operand=self.name,
                seen=shape,
                allowed="the partition dimension and a free dimension",
                fix="keep the free dimension of extent 1",
            )
        return self.rearranged(
            (*shape[:dim], *shape[dim + 1 :]), (*strides[:dim], *strides[dim + 1 :])
        )

    @documented
    def reshape_dim(self, dim: int, shape: Sequence[int]) -> Self:
        """Return the view with a dimension split into several; one extent may be -1."""
        dim = dimension(self, "reshape_dim", dim)
        extents = [integer(self, "reshape_dim", "shape", extent) for extent in shape]
        known = prod(extent for extent in extents if extent != -1)
        if extents.count(-1) == 1 and known > 0:
            extents[extents.index(-1)] = self.shape[dim] // known
        if prod(extents) != self.shape[dim] or min(extents, default=0) < 1:
            other_count(self, "reshape_dim", f"dimension {dim} of {self.shape} into {tuple(shape)}")
        if dim == 0 and len(extents) > 1 and has_fixed_rows(self):
            rows_stay(self, "reshape_dim", f"it is split into {tuple(extents)}")
        old, strides = self.shape, self.form.strides
        steps = [strides[dim] * prod(extents[i + 1 :]) for i in range(len(extents))]
        return self.rearranged(
            (*old[:dim], *extents, *old[dim + 1 :]), (*strides[:dim], *steps, *strides[dim + 1 :])
        )

    @documented
    def flatten_dims(self, start_dim: int, end_dim: int) -> Self:
        """Return the view with the dimensions ``start_dim`` to ``end_dim``, inclusive, merged."""
        first = dimension(self, "flatten_dims", start_dim)
        last = dimension(self, "flatten_dims", end_dim, first=first)
        if first == 0 and has_fixed_rows(self):
            rows_stay(self, "flatten_dims", f"dimensions 0 to {last} are merged")
        shape, strides = self.shape, self.form.strides
        merged, stride = 1, self.itemsize
        for dim in range(last, first - 1, -1):
            if shape[dim] == 1:
                continue
            if merged == 1:
                stride = strides[dim]
            elif strides[dim] != merged * stride:
                pattern = self.get_pattern()[first : last + 1]
                why = f"dimensions {first} to {last} are not contiguous, pattern {pattern}"
                other_count(self, "flatten_dims", why)
            merged *= shape[dim]
        return self.rearranged(
            (*shape[:first], merged, *shape[last + 1 :]),
            (*strides[:first], stride, *strides[last + 1 :]),
        )

    @documented
    def rearrange(
        self,
        src_pattern: Sequence[Any],
        dst_pattern: Sequence[Any],
        fixed_sizes: Mapping[str, int] | None = None,
    ) -> Self:
        """Return the view with dimensions split, reordered and merged, by their names.

        Args:
            src_pattern: A name for each dimension, or a tuple of names to split it into.
            dst_pattern: The same names in the new order; a tuple of names merges them.
            fixed_sizes: Extents by name; in each tuple one may be left out.
        """
        try:
            split, order, merged = grouping(self.shape, src_pattern, dst_pattern, fixed_sizes or {})
        except ValueError as error:
            fix = "name every dimension once on both sides"
            refuse(self, "rearrange", str(error), "patterns of the same names", fix)
        view = self
        for dim in reversed(range(self.ndim)):
            if len(split[dim]) > 1:
                view = view.reshape_dim(dim, split[dim])
        view = view.permute(order)
        for first, last in reversed(merged):
            if last > first:
                view = view.flatten_dims(first, last)
        return view

    def rearranged(
        self, shape: tuple[int, ...], strides: tuple[int, ...], *, whole: bool | None = None
    ) -> Self:
        """Return a view with the same start and dynamic offset; ``whole`` defaults to its own."""
        refuse_columns(self, "a view method")
        return self.derived(
            shape,
            self.form.start,
            strides,
            whole=self.form.whole if whole is None else whole,
            indirection=self.indirection,
        )
