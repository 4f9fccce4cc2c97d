"""Between memory and arithmetic: how operands become arrays and results become bytes.

Loaders and storers are made once per call signature and then run in every call, so each does only
what its dtype and layout need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nkisim.diagnostics import Rule, flag
from nkisim.dtypes import UNSIGNED, DType, decode, encode
from nkisim.machine.core import CORE
from nkisim.memory import NkiTensor, read_elements, report_unwritten
from nkisim.spec import rules
from nkisim.spec.instruction import Arithmetic
from nkisim.spec.operands import Operand

__all__ = [
    "Convert",
    "Loader",
    "Storer",
    "commit",
    "commit_where",
    "make_loader",
    "make_narrower",
    "make_storer",
    "make_widener",
    "note_written",
    "overlaps",
    "prepare_read",
    "trace_read",
]

Convert = Callable[[np.ndarray], np.ndarray]
Loader = Callable[[NkiTensor], np.ndarray]
Storer = Callable[[NkiTensor, Any], None]

_FLOAT32 = np.dtype(np.float32)
_EXACT = 2.0**24
_NARROW_FLOATS = ("float16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2")


def prepare_read(tensor: NkiTensor, instruction: str, operand: str) -> np.ndarray:
    """Note a read, check that it was written, and return the elements in storage form."""
    storage = tensor.storage
    if storage.psum is not None or storage.shared is not None:
        _note_read(tensor, instruction)
    return tensor.array if storage.complete else read_elements(tensor, instruction, operand)


def trace_read(tensor: NkiTensor, instruction: str, operand: str) -> None:
    """Note a read and check that it was written, without looking at the elements."""
    _note_read(tensor, instruction)
    report_unwritten(tensor, instruction, operand)


def _note_read(tensor: NkiTensor, instruction: str) -> None:
    storage = tensor.storage
    if storage.psum is not None:
        storage.psum.read(tensor.region)
    if storage.shared is not None:
        core, epoch = _sharer()
        storage.shared.read(tensor, core, epoch, instruction)


def commit(tensor: NkiTensor, stored: Any) -> None:
    """Put elements in storage form into a tensor and note that they were written."""
    tensor.array[...] = stored
    note_written(tensor)


def commit_where(tensor: NkiTensor, stored: np.ndarray, where: np.ndarray) -> None:
    """Put elements in storage form into a tensor where ``where`` is true; the others stay."""
    tensor.array[where] = stored[where] if stored.ndim else stored
    storage = tensor.storage
    storage.mark_written_where(where, tensor.start, tensor.strides, tensor.itemsize)
    storage.version += 1
    tensor.alloc.written = True
    _tell_watchers(tensor, where)


def note_written(tensor: NkiTensor) -> None:
    """Note that every element of a tensor was written."""
    storage = tensor.storage
    if not storage.complete:
        storage.mark_written(*tensor.region)
    storage.version += 1
    tensor.alloc.written = True
    if storage.psum is not None or storage.shared is not None:
        _tell_watchers(tensor)


def _tell_watchers(tensor: NkiTensor, where: np.ndarray | None = None) -> None:
    """Tell those who follow the writes to a storage."""
    storage = tensor.storage
    if storage.psum is not None:
        storage.psum.write(tensor.region)
    if storage.shared is not None:
        core, epoch = _sharer()
        storage.shared.write(tensor, core, epoch, where)


def _sharer() -> tuple[int, int]:
    """Return the running core's number in its pair and how often it has synchronised."""
    core = CORE.get()
    assert core is not None and core.member is not None
    return core.member.core, core.member.synchronised


def make_widener(tensor: NkiTensor, name: str, instruction: str, *, inexact: Rule) -> Convert:
    """Return what turns elements of this type from storage form into float32."""
    dtype = tensor.dtype
    if tensor.alloc.storage_dtype(dtype) == _FLOAT32:
        return _same
    if dtype.bits == 32 and dtype.is_integer:

        def widen_integers(stored: np.ndarray) -> np.ndarray:
            values = decode(stored, dtype)
            _check_exact(stored, values, inexact, instruction, name)
            return values

        return widen_integers
    return lambda stored: decode(stored, dtype)


def make_narrower(tensor: NkiTensor, name: str, instruction: str, *, inexact: Rule) -> Convert:
    """Return what rounds float32 values into the storage form of this type."""
    dtype = tensor.dtype
    if _keeps_float32(tensor):
        return _same
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


def make_loader(
    tensor: NkiTensor,
    operand: Operand,
    name: str,
    instruction: str,
    arithmetic: Arithmetic,
    *,
    inexact: Rule,
) -> Loader:
    """Return the function that reads an operand of this layout for this arithmetic."""
    flatten = _flattener(tensor, operand)
    if arithmetic == "bits":
        unsigned = UNSIGNED[tensor.dtype.itemsize]
        return lambda t: flatten(prepare_read(t, instruction, name).view(unsigned)).astype(
            np.uint32
        )
    if arithmetic == "integer":
        return lambda t: flatten(prepare_read(t, instruction, name)).astype(np.int64)
    widen: Convert = _same
    if arithmetic == "fp32":
        widen = make_widener(tensor, name, instruction, inexact=inexact)
    if widen is _same and flatten is _same:
        return lambda t: prepare_read(t, instruction, name)
    return lambda t: widen(flatten(prepare_read(t, instruction, name)))


def make_storer(
    tensor: NkiTensor,
    operand: Operand,
    name: str,
    instruction: str,
    arithmetic: Arithmetic,
    *,
    inexact: Rule,
) -> Storer:
    """Return the function that rounds a result into an operand of this layout."""
    shape = tensor.shape
    if arithmetic in ("bits", "integer"):
        unsigned, stored_as = UNSIGNED[tensor.dtype.itemsize], tensor.dtype.numpy
        return lambda t, result: commit(t, result.astype(unsigned).view(stored_as).reshape(shape))
    narrow: Convert = _same
    if arithmetic == "fp32":
        narrow = make_narrower(tensor, name, instruction, inexact=inexact)
    if len(shape) != 2 and not operand.flat:
        return lambda t, result: commit(t, narrow(result).reshape(shape))
    if narrow is _same:
        return commit
    return lambda t, result: commit(t, narrow(result))


def overlaps(a: NkiTensor, b: NkiTensor) -> bool:
    """Tell whether two views of one storage share bytes."""
    return bool(np.shares_memory(a.array, b.array))


def _keeps_float32(tensor: NkiTensor) -> bool:
    """Tell whether float32 results go into storage unchanged."""
    return tensor.alloc.storage_dtype(tensor.dtype) == _FLOAT32 and (
        tensor.dtype != "tfloat32" or not tensor.alloc.precise
    )


def _same(array: np.ndarray) -> np.ndarray:
    return array


def _flattener(tensor: NkiTensor, operand: Operand) -> Callable[[np.ndarray], np.ndarray]:
    """Return what brings an operand into the form (partitions, elements)."""
    if operand.flat or len(tensor.shape) == 2:
        return _same
    rows, free = tensor.shape[0], tensor.free_size
    return lambda array: array.reshape(rows, free)


def _check_exact(
    stored: np.ndarray, values: np.ndarray, rule: Rule, instruction: str, operand: str
) -> None:
    """Flag integers that float32 cannot hold."""
    if stored.size == 0 or max(int(stored.max()), -int(stored.min())) <= _EXACT:
        return
    lost = values.astype(np.float64) != stored
    if not lost.any():
        return
    at = np.unravel_index(int(np.argmax(lost)), lost.shape)
    flag(
        rule,
        f"{instruction} {operand}: {int(lost.sum())} integers are not exact in float32",
        instruction=instruction,
        operand=operand,
        seen=f"{int(stored[at])} becomes {int(values[at])}",
        allowed="magnitudes up to 2^24",
        fix="use tensor_tensor on int32 tiles in SBUF (exact on GpSimd), a same-dtype tensor_copy, "
        "bitwise operators, or split into 12-bit halves",
    )


def _check_integer_range(
    result: np.ndarray, dtype: DType, instruction: str, operand: str, *, inexact: Rule
) -> None:
    """Flag floats that saturate on their way into an integer, and sums that lost exactness."""
    if result.size == 0:
        return
    limits: Any = np.iinfo(dtype.numpy)
    low, high = float(result.min()), float(result.max())
    if not (low >= limits.min - 0.5 and high <= limits.max + 0.5):
        wide = result.astype(np.float64)
        outside = ~((wide >= limits.min - 0.5) & (wide <= limits.max + 0.5))
        worst = result[np.unravel_index(int(np.argmax(outside)), outside.shape)]
        flag(
            rules.INTEGER_RANGE,
            f"{instruction} {operand}: {int(outside.sum())} values do not fit {dtype}",
            instruction=instruction,
            operand=operand,
            seen=worst,
            allowed=f"{limits.min} to {limits.max}",
            fix="clip before converting, or use a wider type",
        )
    elif inexact is not rules.INEXACT_MOVE and dtype.bits == 32 and max(-low, high) > _EXACT:
        flag(
            inexact,
            f"{instruction} {operand}: integer results beyond 2^24 were computed in float32",
            instruction=instruction,
            operand=operand,
            seen=high if high > -low else low,
            allowed="magnitudes up to 2^24",
            fix="use tensor_tensor on int32 tiles in SBUF (exact on GpSimd), or split into "
            "12-bit halves",
        )


def _check_overflow(
    result: np.ndarray, stored: np.ndarray, dtype: DType, instruction: str, operand: str
) -> None:
    """Flag finite values that the destination cannot hold."""
    limit = dtype.max_finite
    assert limit is not None
    if result.size == 0 or (result.max() <= limit and result.min() >= -limit):
        return
    over = np.isfinite(result) & ~np.isfinite(stored.astype(np.float32))
    if over.any():
        worst = result[
            np.unravel_index(int(np.argmax(np.abs(np.where(over, result, 0)))), over.shape)
        ]
        flag(
            rules.FLOAT_OVERFLOW,
            f"{instruction} {operand}: {int(over.sum())} finite values overflow {dtype}",
            instruction=instruction,
            operand=operand,
            seen=worst,
            allowed=f"magnitudes up to {limit:g}",
            fix="scale or clip before the conversion",
        )
