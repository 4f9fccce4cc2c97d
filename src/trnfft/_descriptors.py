"""Descriptors of MKL that are kept, where torch prepares a new one for every call.

On x86-64 torch's transforms on a CPU are MKL's. To describe one to MKL and to commit it takes
longer than to compute a short one, and torch does both in every call. MKL's functions can be
reached in torch's library, so a transform that comes again is described once here, as torch
describes it, and from then on only computed.

Its results are torch's, bit for bit: a descriptor is tried against torch's function before it is
used, and where anything differs or fails torch computes. A result therefore does not tell who
computed it, and unlike the choice of SciPy this one may depend on what was called before.

Several threads can compute by one descriptor at a time. It is memory and nothing else, so that it
holds in a forked process too, and is freed when the last call that uses it has returned.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from operator import mul
from typing import Any, NamedTuple
from weakref import finalize

import torch
from torch import Tensor

__all__ = [
    "CALLS",
    "KEPT",
    "LARGEST",
    "LONGEST",
    "MAY_KEEP",
    "Descriptor",
    "Form",
    "Kept",
    "kept_for",
]

_PATH = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")

KEPT = 64
"""Transforms that are remembered, least recently used ones forgotten first."""
MAY_KEEP = torch._C.has_mkl and os.path.exists(_PATH)
"""Whether torch computes by MKL, in the one library in which it can be looked for."""
CALLS = 8
"""Transforms that torch computes before one is prepared, which takes as long as so many."""
LARGEST = 1 << 20
"""Entries of an input above which to describe a transform takes no time beside computing it."""
LONGEST = 1 << 16
"""Points of a dimension above which nothing is kept; the tables of a prime take 80 bytes each."""

# Names and numbers of mkl_dfti.h: what can be set, then values of it.
_FORWARD_SCALE, _BACKWARD_SCALE = 4, 5
_NUMBER_OF_TRANSFORMS, _CONJUGATE_EVEN_STORAGE, _PLACEMENT = 7, 10, 11
_INPUT_STRIDES, _OUTPUT_STRIDES, _INPUT_DISTANCE, _OUTPUT_DISTANCE = 12, 13, 14, 15
_COMPLEX, _REAL, _COMPLEX_COMPLEX, _NOT_INPLACE = 32, 33, 39, 44

_SINGLE = frozenset({torch.float32, torch.complex64})
_empty_like = torch.empty_like
_Long, _Pointer = ctypes.c_long, ctypes.c_void_p


class Form(NamedTuple):
    """A transform over the last dimensions of contiguous tensors, of whatever shape and dtype.

    Attributes:
        name: Torch's function for it.
        forward: The sign of its angles.
        halved: Which side has half a spectrum, and the other reals: 0 for the input, 1 for the
            result, None where both are complex.
        rank: How many dimensions are transformed.
        n: Points of the last one; None for what the function takes by default.
        norm: The normalisation; None for the default.
    """

    name: str
    forward: bool
    halved: int | None
    rank: int
    n: int | None = None
    norm: str | None = None

    def points(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the points along the transformed dimensions of inputs of a shape."""
        *others, last = shape[len(shape) - self.rank :]
        if self.halved == 0:
            last = 2 * (last - 1) if self.n is None else self.n
        return (*others, last)

    def scale(self, points: int) -> float:
        """Return what multiplies the sums over so many points."""
        if self.norm == "ortho":
            return 1.0 / math.sqrt(points)
        return 1.0 / points if self.forward is (self.norm == "forward") else 1.0

    def by_torch(self, x: Tensor) -> Tensor:
        """Return what torch computes."""
        function: Callable[..., Tensor] = getattr(torch.fft, self.name)
        if self.rank == 1 and self.name[-1] not in "2n":
            return function(x, self.n, -1, self.norm)
        return function(x, None, tuple(range(-self.rank, 0)), self.norm)


class Descriptor:
    """A transform that is committed to MKL.

    Attributes:
        compute: MKL's function that computes it: of the handle and the addresses of contiguous
            input and output; returns zero where it did.
        handle: What MKL knows it by.
        like: A tensor of the shape, dtype and device of its results.
    """

    __slots__ = ("__weakref__", "compute", "handle", "like")

    def __init__(self, library: Any, form: Form, dtype: torch.dtype, shape: Sequence[int]) -> None:
        """Describe and commit a transform.

        Raises:
            RuntimeError: MKL refuses it.
        """
        self.compute = library.DftiComputeForward if form.forward else library.DftiComputeBackward
        points = form.points(shape)
        batch = shape[: len(shape) - form.rank]
        sides = [points, points]
        if form.halved is not None:
            sides[form.halved] = (*points[:-1], points[-1] // 2 + 1)
        created = _created(library, dtype, form.halved is not None, points)
        self.handle = created.value
        # At the end of the process its memory goes anyway.
        finalize(self, library.DftiFreeDescriptor, ctypes.byref(created)).atexit = False

        def put(what: int, value: Any) -> None:
            _succeeds(library.DftiSetValue(created, what, value))

        # In the order and with the values of torch; what it leaves at its default is left here.
        put(_PLACEMENT, _NOT_INPLACE)
        put(_NUMBER_OF_TRANSFORMS, _Long(math.prod(batch)))
        for side, distance in zip(sides, (_INPUT_DISTANCE, _OUTPUT_DISTANCE), strict=True):
            put(distance, _Long(math.prod(side)))
        for side, strides in zip(sides, (_INPUT_STRIDES, _OUTPUT_STRIDES), strict=True):
            steps = [*accumulate(reversed(side[1:]), mul, initial=1)][::-1]
            put(strides, (_Long * (form.rank + 1))(0, *steps))
        if form.halved is not None:
            put(_CONJUGATE_EVEN_STORAGE, _COMPLEX_COMPLEX)
        scale = form.scale(math.prod(points))
        if scale != 1.0:
            put(_FORWARD_SCALE if form.forward else _BACKWARD_SCALE, ctypes.c_double(scale))
        _succeeds(library.DftiCommitDescriptor(created))

        result = dtype.to_real() if form.halved == 0 else dtype.to_complex()
        # One entry in memory, which results do not inherit.
        self.like = torch.empty((), dtype=result, device="cpu").expand(*batch, *sides[1])

    def of(self, x: Tensor) -> Tensor | None:
        """Return the transform of a contiguous tensor of the shape and dtype, None on failure."""
        result = _empty_like(self.like)
        source = x.data_ptr()
        if source == 0 or self.compute(self.handle, source, result.data_ptr()):
            return None
        return result


class Kept:
    """What is known of the transforms of one form, dtype, shape and number of threads.

    Attributes:
        descriptor: What computes them, once it has been tried; None while torch does.
        open: Whether that may change.
    """

    __slots__ = ("_calls", "_of", "descriptor", "open")

    def __init__(self, form: Form, dtype: torch.dtype, shape: torch.Size) -> None:
        self.descriptor: Descriptor | None = None
        self._of = form, dtype, shape
        self._calls = 0
        self.open = (
            len(shape) >= form.rank >= 1
            and dtype.is_complex is (form.halved != 1)
            and 0 < math.prod(shape) <= LARGEST
            and min(points := form.points(shape)) > 0
            and max(points) <= LONGEST
            and _library() is not None
        )

    def attempt(self) -> None:
        """Prepare and try a descriptor, after so many calls that it cannot have been in vain."""
        self._calls += 1
        if self._calls < CALLS:
            return
        # Two threads may both get here. Then one descriptor is dropped, and freed.
        self.open = False
        form, dtype, shape = self._of
        try:
            descriptor = Descriptor(_library(), form, dtype, shape)
            if _agrees(descriptor, form, dtype, shape):
                self.descriptor = descriptor
        except Exception:  # whatever another MKL or torch makes of it
            return


@lru_cache(maxsize=KEPT)
def kept_for(form: Form, dtype: torch.dtype, shape: torch.Size, threads: int) -> Kept:
    """Return what is known of transforms; ``threads`` are those that MKL is to use.

    MKL decides by their number how to compute when a descriptor is committed.
    """
    return Kept(form, dtype, shape)


def _agrees(descriptor: Descriptor, form: Form, dtype: torch.dtype, shape: Sequence[int]) -> bool:
    """Return whether a descriptor computes what torch computes, and leaves its input as it is."""
    generator = torch.Generator().manual_seed(math.prod(shape))
    drawn = torch.empty(*shape, 2 if dtype.is_complex else 1, dtype=dtype.to_real(), device="cpu")
    drawn.uniform_(-1.0, 1.0, generator=generator)
    x = torch.view_as_complex(drawn) if dtype.is_complex else drawn[..., 0]
    before = x.clone()
    got = descriptor.of(x)
    if got is None or not _same(x, before):
        return False
    want = form.by_torch(x)
    return got.stride() == want.stride() and _same(got, want)


def _same(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors have one shape, one dtype and the same bits."""
    return a.dtype is b.dtype and torch.equal(_bits(a), _bits(b))


def _bits(tensor: Tensor) -> Tensor:
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return real.view(torch.int32 if real.dtype is torch.float32 else torch.int64)


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
