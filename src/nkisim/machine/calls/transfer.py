"""Loaders and storers: conversion of operands to arrays, and of results to bytes.

They are built once per call signature and run in every call, so each does only the work that its
dtype and layout need.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nkisim.diagnostics import Rule, flag
from nkisim.dtypes import UNSIGNED, DType, bfloat16, decode, encode
from nkisim.machine.accesses import (
    commit,
    commit_where,
    note_written,
    prepare_read,
    reads_garbage,
)
from nkisim.machine.calls.operands import Rows, part_of
from nkisim.machine.core import CORE
from nkisim.memory import NkiTensor
from nkisim.spec import rules
from nkisim.spec.instruction import Arithmetic
from nkisim.spec.operands import Operand

Convert = Callable[[np.ndarray], np.ndarray]
Loader = Callable[..., Any]
"""Takes an operand; one that DMA gathers also takes the mask of the rows that a scatter writes."""
Storer = Callable[[Any, Any], None]
Note = Callable[[Any], object]
"""Records a write to an operand."""
Store = tuple[int, Storer, Note]
"""A result's place in the arguments, the function that writes it, and the one that records it."""
Loaded = tuple[NkiTensor, np.ndarray]
"""An operand as its view and its elements in storage form."""

_FLOAT32, _BFLOAT16 = np.dtype(np.float32), bfloat16.numpy
_EXACT = 2.0**24
_SMALL = 1024
"""Elements up to which the general conversion is faster than selecting a special one."""

_NARROW_FLOATS = ("float16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2")


class Partial(NamedTuple):
    """Some elements of an operand or a result.

    Attributes:
        values: All elements; elements that are not present have arbitrary values.
        where: Mask of the elements that are present, in the same shape.
    """

    values: np.ndarray
    where: np.ndarray


def make_widener(tensor: NkiTensor, name: str, instruction: str, *, inexact: Rule) -> Convert:
    """Return the conversion of this type from storage form to float32."""
    dtype = tensor.dtype
    if tensor.origin.storage_dtype(dtype) == _FLOAT32:
        return unconverted
    if dtype.bits == 32 and dtype.is_integer:

        def widen_integers(stored: np.ndarray) -> np.ndarray:
            values = decode(stored, dtype)
            _check_exact(stored, values, inexact, instruction, name)
            return values

        return widen_integers
    if dtype is bfloat16:
        return lambda stored: stored.astype(_FLOAT32)
    return lambda stored: decode(stored, dtype)


def make_narrower(tensor: NkiTensor, name: str, instruction: str, *, inexact: Rule) -> Convert:
    """Return the conversion that rounds float32 values to the storage form of this type."""
    dtype = tensor.dtype
    if keeps_float32(tensor):
        return unconverted
    if dtype.is_integer:

        def narrow_to_integers(values: np.ndarray) -> np.ndarray:
            values = np.asarray(values)
            _check_integer_range(values, dtype, instruction, name, inexact=inexact)
            return encode(values, dtype)

        return narrow_to_integers
    if dtype in _NARROW_FLOATS:

        def narrow_to_floats(values: np.ndarray) -> np.ndarray:
            stored = encode(values, dtype)
            _check_overflow(values, stored, dtype, instruction, name)
            return stored

        return narrow_to_floats
    return lambda values: encode(values, dtype)


def make_converter(
    tensor: NkiTensor, operand: Operand, name: str, instruction: str, *, inexact: Rule
) -> Convert:
    """Return the conversion of stored elements to the argument of a body in float32."""
    widen = make_widener(tensor, name, instruction, inexact=inexact)
    flatten = _flattener(tensor, operand)
    if flatten is unconverted:
        return widen
    return flatten if widen is unconverted else lambda stored: widen(flatten(stored))


def make_loader(
    tensor: NkiTensor,
    operand: Operand,
    name: str,
    instruction: str,
    arithmetic: Arithmetic,
    *,
    inexact: Rule,
    part: np.ndarray | None = None,
) -> Loader:
    """Return the function that reads an operand of this layout for this arithmetic."""
    flatten = _flattener(tensor, operand)
    read = functools.partial(prepare_read, decides=True) if operand.decides else prepare_read
    if tensor.indirection is not None and tensor.indirection.kind == "vector":
        widen = make_widener(tensor, name, instruction, inexact=inexact)
        found = widen if arithmetic == "fp32" else unconverted
        return lambda rows, taken=None: _gathered(rows, found, instruction, name, taken)
    if operand.as_view:
        return lambda t: (t, read(t, instruction, name, part))
    if arithmetic == "bits":
        unsigned = UNSIGNED[tensor.dtype.itemsize]
        return lambda t: flatten(read(t, instruction, name).view(unsigned)).astype(np.uint32)
    if arithmetic == "integer":
        return lambda t: flatten(read(t, instruction, name)).astype(np.int64)
    convert = flatten
    if arithmetic == "fp32":
        convert = make_converter(tensor, operand, name, instruction, inexact=inexact)
    if operand.gathers:
        return lambda t, taken=None: convert(read(t, instruction, name, part_of(t, taken)))
    if convert is unconverted:
        return lambda t: read(t, instruction, name, part)
    return lambda t: convert(read(t, instruction, name, part))


def _gathered(
    rows: Rows, widen: Convert, instruction: str, name: str, taken: np.ndarray | None
) -> Any:
    """Return the rows selected by an index tile; a ``Partial`` if some are out of bounds."""
    table, indices, inside = rows
    if taken is not None and taken.shape == inside.shape:
        inside = inside & taken
    if not inside.any():
        found = np.zeros((len(indices), *table.shape[1:]), table._elements.dtype)
    else:
        wanted = np.where(inside, indices, indices[inside][0])
        if table._storage.complete and table._storage.shared is None:
            found = table._elements[wanted]
        else:
            found = np.concatenate(
                [prepare_read(table[int(row) : int(row) + 1], instruction, name) for row in wanted]
            )
    values = widen(found)
    if inside.all():
        return values
    where = inside.reshape(-1, *(1,) * (values.ndim - 1))
    return Partial(values, np.broadcast_to(where, values.shape))


def make_storer(
    tensor: NkiTensor,
    operand: Operand,
    name: str,
    instruction: str,
    arithmetic: Arithmetic,
    *,
    inexact: Rule,
    part: np.ndarray | None = None,
) -> Storer:
    """Return the function that rounds a result into an operand of this layout."""
    shape = tensor.shape
    if arithmetic in ("bits", "integer"):
        unsigned, stored_as = UNSIGNED[tensor.dtype.itemsize], tensor.dtype.numpy
        return lambda t, result: commit(t, result.astype(unsigned).view(stored_as).reshape(shape))
    narrow: Convert = unconverted
    if arithmetic == "fp32":
        narrow = make_narrower(tensor, name, instruction, inexact=inexact)
    if operand.gathers or operand.masked:
        return lambda t, result: _put(t, result, narrow)
    if part is not None:
        return lambda t, result: commit_where(t, narrow(result).reshape(shape), part)
    if len(shape) != 2 and not operand.flat:
        return lambda t, result: commit(t, narrow(result).reshape(shape))
    if narrow is unconverted or is_small_bfloat16(tensor):
        return commit
    return lambda t, result: commit(t, narrow(result))


def store_results(
    stores: Sequence[Store], tensors: Sequence[Any], results: tuple[Any, ...]
) -> None:
    """Write results; a result that is None is already in memory and is only recorded."""
    for number, (index, store, note) in enumerate(stores):
        part = results[number]
        if part is None:
            note(tensors[index])
        else:
            store(tensors[index], part)


def _put(target: NkiTensor | Rows, result: Any, narrow: Convert) -> None:
    """Write a result to its destination: all of it, a part, or rows selected by index."""
    values, where = result if type(result) is Partial else (result, None)
    stored = narrow(values)
    if isinstance(target, Rows):
        _scatter(target, stored, where)
    elif where is None:
        commit(target, stored if stored.shape == target.shape else stored.reshape(target.shape))
    else:
        stored = stored.reshape(target.shape) if stored.ndim else stored
        commit_where(target, stored, where.reshape(target.shape))


def _scatter(rows: Rows, stored: np.ndarray, where: np.ndarray | None) -> None:
    """Write rows selected by an index tile; rows out of bounds are skipped."""
    table, indices, keep = rows
    if where is not None:
        keep = keep & where.reshape(len(indices), -1).all(axis=1)
    stored = stored.reshape(len(indices), *table.shape[1:])
    if table._storage.complete and table._storage.shared is None:
        table._elements[indices[keep]] = stored[keep]
        note_written(table, np.zeros(table.shape, bool))
        return
    for i in np.flatnonzero(keep):
        row = int(indices[i])
        commit(table[row : row + 1], stored[i : i + 1])


def overlaps(a: NkiTensor, b: NkiTensor) -> bool:
    """Return whether two views of one storage share bytes."""
    return bool(np.shares_memory(a._elements, b._elements))


def keeps_float32(tensor: NkiTensor) -> bool:
    """Return whether float32 results are stored unchanged."""
    return tensor.origin.storage_dtype(tensor.dtype) == _FLOAT32 and (
        tensor.dtype != "tfloat32" or not tensor.origin.precise
    )


def is_small_bfloat16(tensor: NkiTensor) -> bool:
    """Return whether NumPy's assignment of float32 rounds as ``encode`` does."""
    # Runs disable NumPy's warnings. Large tiles may be rounded by compiled loops.
    kind = tensor.origin.storage_dtype(tensor.dtype)
    return kind == _BFLOAT16 and tensor.size < _SMALL and tensor.ndim == 2


def unconverted(array: np.ndarray) -> np.ndarray:
    """Return elements as they are stored."""
    return array


def _flattener(tensor: NkiTensor, operand: Operand) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function that reshapes an operand to (partitions, elements)."""
    if operand.flat or len(tensor.shape) == 2:
        return unconverted
    rows, free = tensor.shape[0], tensor.free_size
    return lambda array: array.reshape(rows, free)


def _check_exact(
    stored: np.ndarray, values: np.ndarray, rule: Rule, instruction: str, operand: str
) -> None:
    """Flag integers that are not exact in float32."""
    if stored.size == 0 or max(int(stored.max()), -int(stored.min())) <= _EXACT:
        return
    lost = values.astype(np.float64) != stored
    if not lost.any():
        return
    at = _first(lost)
    flag(
        rule,
        f"{instruction} {operand}: {int(lost.sum())} integers are not exact in float32",
        instruction=instruction,
        operand=operand,
        seen=f"{int(stored[at])} becomes {int(values[at])} at {at}",
        allowed="magnitudes up to 2^24",
        fix="use tensor_tensor on int32 tiles in SBUF (exact on GpSimd), a same-dtype tensor_copy, "
        "bitwise operators, or split into 12-bit halves",
    )


def _first(mask: np.ndarray) -> tuple[int, ...]:
    """Return the index of the first element that is true."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


def _check_integer_range(
    result: np.ndarray, dtype: DType, instruction: str, operand: str, *, inexact: Rule
) -> None:
    """Flag floats that saturate when converted to an integer, and inexact sums."""
    if result.size == 0:
        return
    limits: Any = np.iinfo(dtype.numpy)
    low, high = float(result.min()), float(result.max())
    if not (low >= limits.min - 0.5 and high <= limits.max + 0.5):
        wide = result.astype(np.float64)
        if reads_garbage():
            wide = np.nan_to_num(wide, nan=0.0)  # unwritten elements read as NaN
        outside = ~((wide >= limits.min - 0.5) & (wide <= limits.max + 0.5))
        if not outside.any():
            return
        at = _first(outside)
        flag(
            rules.INTEGER_RANGE,
            f"{instruction} {operand}: {int(outside.sum())} values do not fit {dtype}",
            instruction=instruction,
            operand=operand,
            seen=f"{result[at]} at {at}",
            allowed=f"{limits.min} to {limits.max}",
            fix="clip before converting, or use a wider type",
        )
        return
    # Kernels round on purpose by arithmetic into integers, but not by a copy.
    if inexact is rules.INEXACT_MOVE and _watches_values() and result.dtype.kind == "f":
        _check_fractions(result, dtype, instruction, operand)
    if inexact is not rules.INEXACT_MOVE and dtype.bits == 32 and max(-low, high) > _EXACT:
        at = _first(np.abs(result) == max(-low, high))
        flag(
            inexact,
            f"{instruction} {operand}: integer results beyond 2^24 were computed in float32",
            instruction=instruction,
            operand=operand,
            seen=f"{result[at]} at {at}",
            allowed="magnitudes up to 2^24",
            fix="use tensor_tensor on int32 tiles in SBUF (exact on GpSimd), or split into "
            "12-bit halves",
        )


def _watches_values() -> bool:
    core = CORE.get()
    return core is not None and core.recorder.watches_values


def _check_fractions(result: np.ndarray, dtype: DType, instruction: str, operand: str) -> None:
    """Flag fractions that are rounded."""
    lost = (result != np.rint(result)) & np.isfinite(result)
    if lost.any():
        at = _first(lost)
        flag(
            rules.FRACTION_LOST,
            f"{instruction} {operand}: {int(lost.sum())} of {result.size} values are rounded to "
            f"{dtype}",
            instruction=instruction,
            operand=operand,
            seen=f"{result[at]} at {at}",
            fix="keep a float type if the fraction matters, or make the values whole first",
        )


def _check_overflow(
    result: np.ndarray, stored: np.ndarray, dtype: DType, instruction: str, operand: str
) -> None:
    """Flag finite values that overflow the destination's dtype."""
    limit = dtype.max_finite
    assert limit is not None
    if result.size == 0 or (result.max() <= limit and result.min() >= -limit):
        return
    over = np.isfinite(result) & ~np.isfinite(stored.astype(np.float32))
    if over.any():
        sizes = np.abs(np.where(over, result, 0))
        at = _first(sizes == sizes.max())
        flag(
            rules.FLOAT_OVERFLOW,
            f"{instruction} {operand}: {int(over.sum())} finite values overflow {dtype}",
            instruction=instruction,
            operand=operand,
            seen=f"{result[at]} at {at}",
            allowed=f"magnitudes up to {limit:g}",
            fix="scale or clip before the conversion",
        )
