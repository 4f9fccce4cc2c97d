"""Plans of cuFFT that are kept, where torch looks for one in every call.

torch's transforms on a CUDA device are cuFFT's. It takes torch 8 to 10 microseconds to begin one:
to look at layouts, to find the plan behind a lock, to set its stream and to ask for a work area,
be it of nothing. cuFFT takes half of that, and its functions can be reached in torch's library. So
a transform that comes often has a plan of its own here, made as torch makes it, which needs only
to be given two addresses.

A plan belongs to a place, which is a device, a stream and a thread: cuFFT allows a plan one thread
at a time, and while it begins a transform others may run. Memory is torch's, that of the work area
too, which the plans of one place share, as they compute one after the other. What a CUDA graph
captures is left to torch: a graph can outlive what is kept here.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache, lru_cache, partial
from threading import get_ident
from typing import Any, NamedTuple
from weakref import WeakValueDictionary, finalize

import torch
from torch import Tensor

from trnfft._kept import KEPT, Form, Kept, Prepared
from trnsci.core.errors import KernelError
from trnsci.core.shortcuts import new_on, outline

__all__ = ["AREA", "AREAS", "MAY_PLAN", "Place", "Plan", "TwoPlans", "place_of", "planned_for"]

_PATH = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cuda.so")

MAY_PLAN = torch.version.cuda is not None and os.path.exists(_PATH)
"""Whether torch computes by cuFFT, which is looked for among what its library is linked with."""
AREA = 1 << 23
"""Bytes of the work area of a place; plans that need more are torch's, most need none."""
AREAS = 4
"""Places that have one, so that threads that are gone hold little; in others torch computes."""

# Of cufft.h: the most dimensions of a plan, the signs of angles. Of library_types.h: dtypes.
_DIMENSIONS = 3
_FORWARD, _BACKWARD = ctypes.c_int(-1), ctypes.c_int(1)
_TYPES = {torch.float32: 0, torch.float64: 1, torch.complex64: 4, torch.complex128: 5}

_Integer, _Long, _Pointer = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p
_new = new_on("cuda")
# torch shows none of these in public, or only behind Python; a torch without CUDA has none.
_current_device: Any = getattr(torch._C, "_cuda_getDevice", None)
_current_stream: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)
_captured: Any = getattr(torch._C, "_cuda_isCurrentStreamCapturing", None)
_waiting_is_watched: Any = torch.cuda.get_sync_debug_mode

Place = tuple[int, int, int]
_AREAS: WeakValueDictionary[Place, Tensor] = WeakValueDictionary()


class Layout(NamedTuple):
    """Where the entries of signals are.

    Attributes:
        embed: Lengths of the dimensions in memory.
        stride: Entries from one point to the next.
        distance: Entries from one signal to the next.
    """

    embed: tuple[int, ...]
    stride: int
    distance: int


class Transforms(NamedTuple):
    """What one plan computes.

    Attributes:
        points: Points of one transform.
        batch: How many there are.
        given: The dtype of inputs.
        result: The dtype of results.
        shape: The shape of results.
        forward: The sign of the angles.
        scale: What multiplies the sums.
        layouts: Of input and result; None where both are contiguous.
        turned: Whether results have their last dimension outermost in memory.
        copied: Whether the input is copied before, as a transform to reals may write into it.
    """

    points: tuple[int, ...]
    batch: int
    given: torch.dtype
    result: torch.dtype
    shape: tuple[int, ...]
    forward: bool
    scale: float = 1.0
    layouts: tuple[Layout, Layout] | None = None
    turned: bool = False
    copied: bool = False


class Plan:
    """A plan of cuFFT in one place.

    Attributes:
        compute: The function that begins it: of the handle, the addresses of input and output and
            the sign of the angles; returns zero where it did.
        handle: What cuFFT knows it by.
    """

    __slots__ = (
        "__weakref__",
        "_area",
        "_copied",
        "_device",
        "_direction",
        "_misaligned",
        "_result",
        "_scale",
        "_stream",
        "_thread",
        "compute",
        "handle",
    )

    def __init__(self, library: Any, transforms: Transforms, place: Place) -> None:
        """Make a plan, on the current device.

        Raises:
            KernelError: cuFFT refuses it, or there is no work area for it.
        """
        points, batch, given, result, shape, forward, scale, layouts, turned, copied = transforms
        self._device, self._stream, self._thread = place
        self.compute = library.cufftXtExec
        self.handle = handle = _Integer()
        _succeeds(library.cufftCreate(ctypes.byref(handle)))
        # At the end of the process its memory goes anyway, and CUDA before it.
        finalize(self, _destroy, library, handle, self._device).atexit = False
        _succeeds(library.cufftSetAutoAllocation(handle, 0))
        sides = [(None, _Long(1), _Long(1))] * 2  # of which cuFFT reads nothing then
        if layouts is not None:
            sides = [(_longs(side.embed), _Long(side[1]), _Long(side[2])) for side in layouts]
        size = ctypes.c_size_t()
        _succeeds(
            library.cufftXtMakePlanMany(
                handle,
                len(points),
                _longs(points),
                *sides[0],
                _TYPES[given],
                *sides[1],
                _TYPES[result],
                _Long(batch),
                ctypes.byref(size),
                _TYPES[given.to_complex()],
            )
        )
        _succeeds(library.cufftSetStream(handle, _Pointer(self._stream)))
        self._area = None
        if size.value > AREA:
            raise KernelError(f"a plan needs a work area of {size.value} bytes")
        if size.value:
            self._area = _area(place)
            _succeeds(library.cufftSetWorkArea(handle, _Pointer(self._area.data_ptr())))
        self._direction = _FORWARD if forward else _BACKWARD
        self._scale = None if scale == 1.0 else scale
        self._copied = copied
        self._misaligned = given.to_complex().itemsize - 1  # cuFFT takes reals by pairs
        self._result = outline(shape, result, turned)

    def of(self, x: Tensor) -> Tensor | None:
        """Return the transforms of a tensor of the layout and dtype.

        None on failure, in another place, and where a graph is captured: not in the default stream.
        """
        stream = self._stream
        if (
            _current_stream(self._device) != stream
            or get_ident() != self._thread
            or (stream and _captured())
            or (_several_devices() and _current_device() != self._device)
        ):
            return None
        if self._copied:
            x = x.clone()
        source = x.data_ptr()
        if source == 0 or source & self._misaligned:
            return None
        result = _new(*self._result)
        if self.compute(self.handle, source, result.data_ptr(), self._direction):
            return None
        return result if self._scale is None else result.mul_(self._scale)


class TwoPlans:
    """A transform of one array between reals and half a spectrum, over several dimensions.

    As torch does it: reals are transformed along their last dimension first, half a spectrum last.
    Between the two, and after them where the result is the spectrum, the last dimension is the
    outermost one in memory.
    """

    __slots__ = ("__weakref__", "_first", "_second")

    def __init__(
        self, library: Any, form: Form, dtype: torch.dtype, shape: Sequence[int], place: Place
    ) -> None:
        """Make both plans.

        Raises:
            KernelError: cuFFT refuses one.
        """
        *others, last = form.points(shape)
        lengths, rows, bins = tuple(others), math.prod(others), last // 2 + 1
        scale, result, wide = form.scale(rows * last), form.result_dtype(dtype), dtype.to_complex()
        half = (*lengths, bins)
        inner = Layout(lengths, bins, 1), Layout(lengths, 1, rows)
        across = Transforms(lengths, bins, wide, wide, half, form.forward, 1.0, inner, turned=True)
        if form.halved == 1:
            along = Transforms((last,), rows, dtype, wide, half, True)
            steps = along, across._replace(scale=scale)
        else:
            outer = Layout((last,), rows, 1), Layout((last,), 1, last)
            steps = (
                across,
                Transforms((last,), rows, wide, result, (*lengths, last), False, scale, outer),
            )
        self._first, self._second = (Plan(library, step, place) for step in steps)

    def of(self, x: Tensor) -> Tensor | None:
        """Return the transform of a contiguous tensor of the shape and dtype, None on failure."""
        between = self._first.of(x)
        return None if between is None else self._second.of(between)


def place_of(x: Tensor) -> Place | None:
    """Return where a CUDA tensor is transformed: the device, its current stream and the thread.

    None where torch has to do it: on another device than the current one, and while a graph is
    captured, which the default stream never is.
    """
    device = 0
    if _several_devices():
        device = x.get_device()
        if device != _current_device():
            return None
    stream: int = _current_stream(device)
    return None if stream and _captured() else (device, stream, get_ident())


@lru_cache(maxsize=KEPT)
def planned_for(form: Form, dtype: torch.dtype, shape: torch.Size, place: Place) -> Kept:
    """Return what is known of transforms in a place."""
    library = _library()
    prepare = None
    if library is not None and form.rank <= _DIMENSIONS:
        prepare = partial(_planned, library, form, dtype, shape, place)
    return Kept(form, dtype, shape, prepare)


def _planned(
    library: Any, form: Form, dtype: torch.dtype, shape: Sequence[int], place: Place
) -> Prepared:
    """Return plans for a transform, made as torch makes them.

    Raises:
        KernelError: cuFFT refuses it, or the user watches for who waits for the device.
    """
    if _waiting_is_watched():
        raise KernelError("to try a plan is to wait for the device")
    batch = tuple(shape[: len(shape) - form.rank])
    if form.halved is not None and form.rank > 1 and not batch:
        return TwoPlans(library, form, dtype, shape, place)
    points, result = form.points(shape), form.result_dtype(dtype)
    ends, scale = (*batch, *form.sides(shape)[1]), form.scale(math.prod(points))
    transforms = Transforms(
        points,
        math.prod(batch),
        dtype,
        result,
        ends,
        form.forward,
        scale,
        copied=form.halved == 0,
    )
    return Plan(library, transforms, place)


def _area(place: Place) -> Tensor:
    """Return the work area of a place, which is there as long as a plan needs it.

    Raises:
        KernelError: As many other places have one as may have.
    """
    area = _AREAS.get(place)
    if area is None:
        if len(_AREAS) >= AREAS:
            raise KernelError(f"{AREAS} places have a work area")
        area = _AREAS[place] = torch.empty(AREA, dtype=torch.uint8, device=_on(place[0]))
    return area


def _on(device: int) -> torch.device:
    return torch.device("cuda", device)


def _longs(values: Sequence[int]) -> Any:
    return (_Long * len(values))(*values)


def _succeeds(status: int) -> None:
    if status:
        raise KernelError(f"cuFFT refused a plan, status {status}")


def _destroy(library: Any, handle: Any, device: int) -> None:
    """Free a plan, unless a forked process inherited it, which cannot."""
    if torch.cuda._is_in_bad_fork():
        return
    with torch.cuda.device(device) if _several_devices() else nullcontext():
        library.cufftDestroy(handle)


@cache
def _several_devices() -> bool:
    return torch.cuda.device_count() > 1


@cache
def _library() -> Any:
    """Return torch's library, through which cuFFT's functions are found; None where they are not.

    Two threads do not use one plan, so that others may run meanwhile.
    """
    try:
        found: Any = ctypes.CDLL(_PATH)
        found.cufftXtExec.argtypes = (_Integer, _Pointer, _Pointer, _Integer)
        for rest in ("Create", "Destroy", "SetAutoAllocation", "SetStream", "SetWorkArea"):
            found[f"cufft{rest}"]
        found["cufftXtMakePlanMany"]
    except (OSError, AttributeError):
        return None
    return found
