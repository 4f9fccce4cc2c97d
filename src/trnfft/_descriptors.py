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
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from itertools import accumulate
from operator import mul
from typing import Any, NamedTuple
from weakref import finalize

import torch
from torch import Tensor

from trnfft._kept import CALLS, KEPT, LONGEST, REALS, Form, Kept, Prepared
from trnsci.core.errors import KernelError
from trnsci.core.shortcuts import new_on, outline

__all__ = [
    "LONG_KEPT",
    "MAY_KEEP",
    "TABLE_BYTES",
    "Conjugated",
    "Descriptor",
    "Mirrored",
    "TwoDescriptors",
    "kept_for",
    "long_kept_for",
]

_PATH = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")

MAY_KEEP = torch._C.has_mkl and os.path.exists(_PATH)
"""Whether torch computes by MKL, in the one library in which it can be looked for."""

# Names and numbers of mkl_dfti.h: what can be set, then values of it.
_FORWARD_SCALE, _BACKWARD_SCALE = 4, 5
_NUMBER_OF_TRANSFORMS, _CONJUGATE_EVEN_STORAGE, _PLACEMENT = 7, 10, 11
_INPUT_STRIDES, _OUTPUT_STRIDES, _INPUT_DISTANCE, _OUTPUT_DISTANCE = 12, 13, 14, 15
_COMPLEX, _REAL, _COMPLEX_COMPLEX, _NOT_INPLACE = 32, 33, 39, 44

_SINGLE = frozenset({torch.float32, torch.complex64})
_REVERSED = {None: "forward", "ortho": "ortho", "forward": None}

LONG_KEPT = 4
"""Transforms of long vectors that are remembered."""
TABLE_BYTES = 64 << 20
"""Memory that a descriptor of a vector may take."""
# Points of reals below which to mirror half a spectrum takes longer than to describe a transform.
_LEAST_MIRRORED = 512
# Up to this prime factor tables take 16 bytes a point in double precision, above up to 80.
_SMOOTH = 1000
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

    def __init__(
        self,
        library: Any,
        form: Form,
        dtype: torch.dtype,
        shape: Sequence[int],
        room: Sequence[int] | None = None,
    ) -> None:
        """Describe and commit a transform.

        Args:
            library: MKL's functions.
            form: What is transformed, and how.
            dtype: Of the input.
            shape: Of the input.
            room: Shape of the results, where they are to have more room than they need.

        Raises:
            KernelError: MKL refuses it.
        """
        self.compute = library.DftiComputeForward if form.forward else library.DftiComputeBackward
        batch, sides = shape[: len(shape) - form.rank], form.sides(shape)
        layouts = [_Layout(math.prod(side), _contiguous(side)) for side in sides]
        committed = partial(_committed, self, library, dtype, form)
        real, count = form.halved is not None, math.prod(batch)
        self.handle = committed(real, form.points(shape), count, layouts)
        self._result = outline(room or (*batch, *sides[1]), form.result_dtype(dtype))
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
            KernelError: MKL refuses one, or there is a batch, of which torch makes copies.
        """
        self.compute = library.DftiComputeForward if form.forward else library.DftiComputeBackward
        batch = shape[: len(shape) - form.rank]
        if math.prod(batch) != 1:
            raise KernelError("a batch of spectra is transformed in copies")
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


class Conjugated:
    """A transform of the other direction, as torch has them of half a spectrum: of its conjugate.

    Those are ``hfft``, as ``irfft`` of the conjugate, and ``ihfft``, as the conjugate of ``rfft``.
    """

    __slots__ = ("__weakref__", "_half_given", "inner")

    def __init__(self, library: Any, form: Form, dtype: torch.dtype, shape: Sequence[int]) -> None:
        """Describe and commit the transform that has a descriptor.

        Raises:
            KernelError: MKL refuses it.
        """
        self._half_given = form.halved == 0
        self.inner = Descriptor(library, _reversed(form), dtype, shape)

    def of(self, x: Tensor) -> Tensor | None:
        """Return the transform of a contiguous tensor of the shape and dtype, None on failure."""
        if self._half_given:
            return self.inner.of(x.conj_physical())
        found = self.inner.of(x)
        return None if found is None else found.conj_physical_()


class Mirrored:
    """The whole spectrum of a real vector: half of it is computed, and mirrored."""

    __slots__ = ("__weakref__", "_backward", "_half", "_points", "inner")

    def __init__(self, library: Any, form: Form, dtype: torch.dtype, shape: Sequence[int]) -> None:
        """Describe and commit the transform to half a spectrum, in room for a whole one.

        Raises:
            KernelError: MKL refuses it.
        """
        self._backward = not form.forward
        half = (form if form.forward else _reversed(form))._replace(halved=1, mirrored=False)
        self._points, self._half = shape[0], shape[0] // 2 + 1
        self.inner = Descriptor(library, half, dtype, shape, room=shape)

    def of(self, x: Tensor) -> Tensor | None:
        """Return the transform of a contiguous tensor of the shape and dtype, None on failure.

        The conjugation of a backward one is left for later, as torch leaves it.
        """
        found = self.inner.of(x)
        if found is None:
            return None
        image = found[1 : (self._points + 1) // 2].flip(0)
        torch.conj_physical(image, out=found[self._half :])
        return found.conj() if self._backward else found


def kept_anew(form: Form, dtype: torch.dtype, shape: torch.Size, threads: int) -> Kept:
    """Return what is to be known of transforms; ``threads`` are those that MKL is to use.

    MKL decides by their number how to compute when a descriptor is committed.
    """
    library = _library()
    if library is None:
        return Kept(form, dtype, shape, None)
    kind: Callable[..., Prepared] = Descriptor
    if form.halved == 0 and form.rank > 1:
        kind = TwoDescriptors
    elif form.halved == (0 if form.forward else 1):
        kind = Conjugated
    calls, longest = CALLS, LONGEST
    if len(shape) == 1 and form.rank == 1:
        points = form.points(shape)[0]
        if dtype in REALS and form.halved is None and points >= _LEAST_MIRRORED:
            kind, form = Mirrored, form._replace(mirrored=True)
        # When torch has described them as often as takes as long as to prepare them.
        calls = 2 if points >= 4096 else CALLS
        if points > LONGEST and _table_bytes(points, dtype) <= TABLE_BYTES:
            longest = points
    prepare = partial(kind, library, form, dtype, shape)
    return Kept(form, dtype, shape, prepare, calls, longest)


kept_for = lru_cache(maxsize=KEPT)(kept_anew)
"""What is known of transforms, by the arguments of ``kept_anew``."""
long_kept_for = lru_cache(maxsize=LONG_KEPT)(kept_anew)
"""The same for vectors of more than ``LONGEST`` entries."""


def _reversed(form: Form) -> Form:
    """Return the form of the other direction with the same scale."""
    return form._replace(forward=not form.forward, norm=_REVERSED[form.norm])


def _table_bytes(points: int, dtype: torch.dtype) -> int:
    """Return how much memory a descriptor of a long vector takes, at most."""
    each = 16 if _largest_factor(points) <= _SMOOTH else 80
    return points * each // (2 if dtype in _SINGLE else 1)


def _largest_factor(n: int) -> int:
    """Return the largest prime factor of a positive number, 1 of 1."""
    divisor, largest = 2, 1
    while divisor * divisor <= n:
        if n % divisor == 0:
            n //= divisor
            largest = divisor
        else:
            divisor += 1
    return max(n, largest)


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
        raise KernelError(f"MKL refused a descriptor, status {status}")


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
