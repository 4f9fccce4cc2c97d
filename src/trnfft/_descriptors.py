"""Descriptors of MKL that are kept, where torch prepares a new one for every call.

On x86-64 torch's transforms on a CPU are MKL's. To describe one to MKL and to commit it takes
longer than to compute a short one, and torch does both in every call. MKL's functions can be
reached in torch's library, so a transform that comes again is described once here, as torch
describes it, and from then on only computed.

Several threads can compute by one descriptor at a time. It is memory and nothing else, so that it
holds in a forked process too, and is freed when the last call that uses it has returned.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Sequence
from functools import cache, lru_cache, partial
from itertools import accumulate
from operator import mul
from typing import Any, NamedTuple
from weakref import finalize

import torch
from torch import Tensor

from trnfft._kept import KEPT, Form, Kept
from trnsci.core.shortcuts import new_on, outline

__all__ = ["MAY_KEEP", "Descriptor", "TwoDescriptors", "kept_for"]

_PATH = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")

MAY_KEEP = torch._C.has_mkl and os.path.exists(_PATH)
"""Whether torch computes by MKL, in the one library in which it can be looked for."""

# Names and numbers of mkl_dfti.h: what can be set, then values of it.
_FORWARD_SCALE, _BACKWARD_SCALE = 4, 5
_NUMBER_OF_TRANSFORMS, _CONJUGATE_EVEN_STORAGE, _PLACEMENT = 7, 10, 11
_INPUT_STRIDES, _OUTPUT_STRIDES, _INPUT_DISTANCE, _OUTPUT_DISTANCE = 12, 13, 14, 15
_COMPLEX, _REAL, _COMPLEX_COMPLEX, _NOT_INPLACE = 32, 33, 39, 44

_SINGLE = frozenset({torch.float32, torch.complex64})
_new = new_on("cpu")
_threads = torch.get_num_threads
_Long, _Pointer = ctypes.c_long, ctypes.c_void_p


class _Layout(NamedTuple):
    """Where entries are: from one transform to the next, and along each dimension of one."""

    distance: int
    strides: Sequence[int]


def _contiguous(shape: Sequence[int]) -> list[int]:
    """Return the strides of a contiguous tensor."""
    return [*accumulate(reversed(shape[1:]), mul, initial=1)][::-1]


class Descriptor:
    """A transform that is committed to MKL.

    Attributes:
        compute: MKL's function that computes it: of the handle and the addresses of contiguous
            input and output; returns zero where it did.
        handle: What MKL knows it by.
    """

    __slots__ = ("__weakref__", "_result", "_threads", "compute", "handle")

    def __init__(self, library: Any, form: Form, dtype: torch.dtype, shape: Sequence[int]) -> None:
        """Describe and commit a transform.

        Raises:
            RuntimeError: MKL refuses it.
        """
        self.compute = library.DftiComputeForward if form.forward else library.DftiComputeBackward
        batch, sides = shape[: len(shape) - form.rank], form.sides(shape)
        layouts = [_Layout(math.prod(side), _contiguous(side)) for side in sides]
        committed = partial(_committed, self, library, dtype, form)
        real, count = form.halved is not None, math.prod(batch)
        self.handle = committed(real, form.points(shape), count, layouts)
        self._result = outline((*batch, *sides[1]), form.result_dtype(dtype))
        self._threads = _threads()

    def of(self, x: Tensor) -> Tensor | None:
        """Return the transform of a contiguous tensor of the shape and dtype, None on failure."""
        if _threads() != self._threads:
            return None
        result = _new(*self._result)
        source = x.data_ptr()
        if source == 0 or self.compute(self.handle, source, result.data_ptr()):
            return None
        return result


class TwoDescriptors:
    """A transform of half a spectrum over several dimensions: over all but the last, then that.

    So torch computes it: MKL's transform over several dimensions differs where the bins are not
    those of reals. The result of the first step has its last dimension in front.
    """

    __slots__ = ("__weakref__", "_between", "_result", "_threads", "compute", "handles")

    def __init__(self, library: Any, form: Form, dtype: torch.dtype, shape: Sequence[int]) -> None:
        """Describe and commit both transforms.

        Raises:
            RuntimeError: MKL refuses one, or there is a batch, of which torch makes copies.
        """
        self.compute = library.DftiComputeForward if form.forward else library.DftiComputeBackward
        batch = shape[: len(shape) - form.rank]
        if math.prod(batch) != 1:
            raise RuntimeError("a batch of spectra is transformed in copies")
        *others, last = form.points(shape)
        bins, rows = shape[-1], math.prod(others)
        steps = _contiguous(others)
        columns, turned = _Layout(1, [bins * step for step in steps]), _Layout(rows, steps)
        across, along = _Layout(1, [rows]), _Layout(last, [1])
        committed = partial(_committed, self, library, dtype, form)
        self.handles = (
            committed(False, others, bins, [columns, turned]),
            committed(True, [last], rows, [across, along]),
        )
        self._between = outline((bins, *others), dtype)
        self._result = outline((*batch, *others, last), form.result_dtype(dtype))
        self._threads = _threads()

    def of(self, x: Tensor) -> Tensor | None:
        """Return the transform of a contiguous tensor of the shape and dtype, None on failure."""
        if _threads() != self._threads:
            return None
        between, result = _new(*self._between), _new(*self._result)
        source, middle = x.data_ptr(), between.data_ptr()
        first, second = self.handles
        if source == 0 or self.compute(first, source, middle):
            return None
        return None if self.compute(second, middle, result.data_ptr()) else result


@lru_cache(maxsize=KEPT)
def kept_for(form: Form, dtype: torch.dtype, shape: torch.Size, threads: int) -> Kept:
    """Return what is known of transforms; ``threads`` are those that MKL is to use.

    MKL decides by their number how to compute when a descriptor is committed.
    """
    library = _library()
    if library is None:
        return Kept(form, dtype, shape, None)
    kind = TwoDescriptors if form.halved == 0 and form.rank > 1 else Descriptor
    return Kept(form, dtype, shape, partial(kind, library, form, dtype, shape))


def _committed(
    owner: object,
    library: Any,
    dtype: torch.dtype,
    form: Form,
    real: bool,
    points: Sequence[int],
    count: int,
    layouts: Sequence[_Layout],
) -> int:
    """Return the handle of a descriptor, which is freed with its owner.

    Args:
        owner: What has it.
        library: MKL's functions.
        dtype: Of the input.
        form: The direction and the norm.
        real: Whether one side is real.
        points: Of a transform.
        count: Of transforms.
        layouts: Of the input and the output.
    """
    created = _created(library, dtype, real, points)
    # At the end of the process its memory goes anyway.
    finalize(owner, library.DftiFreeDescriptor, ctypes.byref(created)).atexit = False

    def put(what: int, value: Any) -> None:
        _succeeds(library.DftiSetValue(created, what, value))

    # In the order and with the values of torch; what it leaves at its default is left here.
    put(_PLACEMENT, _NOT_INPLACE)
    put(_NUMBER_OF_TRANSFORMS, _Long(count))
    for layout, distance in zip(layouts, (_INPUT_DISTANCE, _OUTPUT_DISTANCE), strict=True):
        put(distance, _Long(layout.distance))
    for layout, strides in zip(layouts, (_INPUT_STRIDES, _OUTPUT_STRIDES), strict=True):
        put(strides, (_Long * (len(points) + 1))(0, *layout.strides))
    if real:
        put(_CONJUGATE_EVEN_STORAGE, _COMPLEX_COMPLEX)
    scale = form.scale(math.prod(points))
    if scale != 1.0:
        put(_FORWARD_SCALE if form.forward else _BACKWARD_SCALE, ctypes.c_double(scale))
    _succeeds(library.DftiCommitDescriptor(created))
    handle: int = created.value
    return handle


def _created(library: Any, dtype: torch.dtype, real: bool, points: Sequence[int]) -> Any:
    """Return the pointer to a new descriptor."""
    handle, domain = _Pointer(), _REAL if real else _COMPLEX
    create = f"DftiCreateDescriptor_{'s' if dtype in _SINGLE else 'd'}"
    if len(points) == 1:
        status = library[f"{create}_1d"](ctypes.byref(handle), domain, _Long(points[0]))
    else:
        lengths = (_Long * len(points))(*points)
        rank = _Long(len(points))
        status = library[f"{create}_md"](ctypes.byref(handle), domain, rank, lengths)
    _succeeds(status)
    return handle


def _succeeds(status: int) -> None:
    if status:
        raise RuntimeError(f"MKL refused a descriptor, status {status}")


@cache
def _library() -> Any:
    """Return torch's library with MKL's functions, None where it has none."""
    try:
        found: Any = ctypes.CDLL(_PATH)
        for compute in (found.DftiComputeForward, found.DftiComputeBackward):
            compute.argtypes = (_Pointer, _Pointer, _Pointer)
            compute.restype = _Long
        for rest in ("SetValue", "CommitDescriptor", "FreeDescriptor"):
            found[f"Dfti{rest}"]
        for letter in "sd":
            for rank in ("1d", "md"):
                found[f"DftiCreateDescriptor_{letter}_{rank}"]
    except (OSError, AttributeError):
        return None
    return found
